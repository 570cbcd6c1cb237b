/* SPDX-License-Identifier: MIT
 * jsonprefix.h - says of growing text whether it is still the beginning of one JSON value.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_JSONPREFIX_H
#define ENGINE_JSONPREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSONPREFIX_MAX_DEPTH 64

/* Start from {0}. */
struct jsonprefix {
	uint64_t objects;   /* one bit per open bracket: is it an object */
	uint8_t depth, state, sub; /* sub: progress inside a word, number or escape */
	const char *word;
	bool key;           /* the string being read is a member's name */
};

/* Strict RFC 8259 over text that is UTF-8 already. False from the first byte that no value could have. */
bool jsonprefix_put(struct jsonprefix *s, const char *text, size_t len);
/* Was it one whole value? */
bool jsonprefix_end(const struct jsonprefix *s);

#endif
