/* SPDX-License-Identifier: MIT
 * mem.h - allocation policy: small ones abort, large ones are tried.
 * Threads: any. Locks: none. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* Small objects of fixed size: zeroed, never NULL (abort on failure). */
void *mem_new(size_t size);
/* Like realloc, aborts on failure. For arrays that limits elsewhere keep small. */
void *mem_grow(void *p, size_t n, size_t size);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* n * size bytes, zeroed and 64-byte aligned, for anything sized by a client, a file or the model; in huge pages where
 * it is large and the system has them. NULL on overflow or when memory is short; free with free(). */
void *mem_try(size_t n, size_t size);

#define mem_countof(a) (sizeof(a) / sizeof *(a))

#endif
