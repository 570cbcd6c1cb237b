/* SPDX-License-Identifier: MIT
 * utf8.h - checking, repairing and streaming UTF-8; what is invalid becomes U+FFFD, one per maximal subpart.
 * Threads: any. Locks: none. */
#ifndef ENGINE_UTF8_H
#define ENGINE_UTF8_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

enum utf8_kind { UTF8_VALID, UTF8_INVALID, UTF8_CUT };

/* Looks at the start of s (len >= 1). *ret_len is the length of the character, of the invalid part that one
 * U+FFFD stands for (Unicode 16, table 3-8: never more than a prefix of some character), or, with UTF8_CUT,
 * of all that there is: the beginning of a character whose end is missing. */
enum utf8_kind utf8_step(const char *s, size_t len, size_t *ret_len);
/* The length of the longest valid prefix. */
size_t utf8_valid(const char *s, size_t len);
/* Writes code point c (not a surrogate, at most 0x10FFFF) to out; its length. */
int utf8_put(uint32_t c, char out[4]);
/* The code point of a valid character of n bytes. */
uint32_t utf8_get(const char *s, size_t n);
/* Appends s with every invalid part replaced. */
void utf8_repair(const char *s, size_t len, struct buf *out);

/* Streaming: bytes go in, whole characters come out. Start from {0}. However the bytes are cut into calls,
 * the output of all of them and of utf8_stream_end is that of utf8_repair on the whole. */
struct utf8_stream {
	char held[4];
	int n_held;
};
void utf8_stream_put(struct utf8_stream *s, const char *bytes, size_t len, struct buf *out);
void utf8_stream_end(struct utf8_stream *s, struct buf *out);

#endif
