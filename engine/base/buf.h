/* SPDX-License-Identifier: MIT
 * buf.h - a growable byte buffer, always NUL-terminated after its bytes.
 * Threads: any, one at a time per buffer. Locks: none. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

/* Start from `struct buf b = {0}`. `data` is NULL until the first byte. */
struct buf {
	char *data;
	size_t len, cap;
};

void buf_fini(struct buf *b);             /* frees and zeroes; NULL is fine */
void buf_clear(struct buf *b);            /* keeps the memory */
void buf_reserve(struct buf *b, size_t extra);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Drops the first n bytes. */
void buf_drop(struct buf *b, size_t n);
/* The bytes as a C string, "" when empty. */
const char *buf_str(const struct buf *b);
/* Hands the bytes over (NUL-terminated, caller frees) and leaves the buffer empty. */
char *buf_take(struct buf *b);

/* For functions with a `struct buf *why`: replaces its text and returns rc. `why` may be NULL. */
int buf_why(struct buf *why, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
