/* SPDX-License-Identifier: MIT
 * jsonscan.h - says of growing text whether it is still the beginning of one JSON value.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_JSONSCAN_H
#define ENGINE_JSONSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSONSCAN_MAX_DEPTH 64

/* Start from {0}. */
struct jsonscan {
	uint64_t objects;   /* one bit per open bracket: is it an object */
	uint8_t depth, state, sub; /* sub: progress inside a word, number or escape */
	const char *word;
	bool key;           /* the string being read is a member's name */
};

/* Strict RFC 8259 over text that is UTF-8 already. False from the first byte that cannot continue any value. */
bool jsonscan_put(struct jsonscan *s, const char *text, size_t len);
/* Was it one whole value? */
bool jsonscan_end(const struct jsonscan *s);

#endif
