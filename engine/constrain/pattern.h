/* SPDX-License-Identifier: MIT
 * pattern.h - the patterns of strings that are understood, as grammars.
 * Threads: any, one at a time per grammar. Locks: none. */
#ifndef ENGINE_PATTERN_H
#define ENGINE_PATTERN_H

#include "engine/constrain/grammar.h"

#define PATTERN_MAX_LEN 1024
#define PATTERN_MAX_DEPTH 32
#define PATTERN_MAX_NODES 2048
#define PATTERN_MAX_STATES 512
#define PATTERN_MAX_REPEAT 256
#define PATTERN_MAX_COUNTED 16384 /* states times characters to count */

/* Of ECMA-262: characters of ASCII, the escapes \d \D \w \W \s \S \t \n \r \f \v and those of punctuation, ".",
 * classes, groups ( and (?: ), alternatives, the repetitions ? * + {n} {n,} {n,m} also lazy, ^ at the beginning and
 * $ at the end. All that is not ASCII is one character that only ".", negated classes, \D, \W and \S take. Not
 * understood: back references, looking around, anchors elsewhere, \b, \u, \x, \p. Without ^ or $ anything may come
 * before or after. */

/* Of min to max characters (JRULE_NO_MAX: any number). `raw`: the text itself, without quotes and escapes. */
struct pattern_want {
	const char *pattern;
	uint32_t min, max;
	bool raw;
};

/* A rule of strings that match. RC_INVALID for what is no pattern, RC_UNSUPPORTED, RC_TOO_LARGE. */
int pattern_rule(struct grammar *g, const struct pattern_want *x, uint32_t *ret_rule, struct buf *why);

#endif
