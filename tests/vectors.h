/* SPDX-License-Identifier: MIT
 * vectors.h - what the subcommands of tests/vectors share.
 * Threads: main only. Locks: none. */
#ifndef TESTS_VECTORS_H
#define TESTS_VECTORS_H

#include "engine/base/buf.h"

#include <jansson.h>

/* Each subcommand prints the names of failing cases and "N passed, N failed", and returns the exit status:
 * 0 when none failed, 1 when some did, 2 when a file could not be used. */
int vectors_tokenizer(const char *tokenizer, const char *file);
int vectors_encoding(const char *file);

/* Reads a whole file, through gunzip when it is compressed; 0, or -1 after a message on stderr. */
int vectors_read(const char *path, struct buf *ret_data);
/* The same, parsed; NULL after a message on stderr. The caller owns the reference. */
json_t *vectors_load(const char *path);
/* Prints "N passed, N failed"; the subcommand's exit status. A file without a case is an error: it proves
 * nothing. */
int vectors_verdict(const char *file, int n_passed, int n_failed);

#endif
