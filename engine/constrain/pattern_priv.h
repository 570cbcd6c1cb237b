/* SPDX-License-Identifier: MIT
 * pattern_priv.h - a pattern as a graph of what may come, between reading it and making it a grammar.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_PATTERN_PRIV_H
#define ENGINE_PATTERN_PRIV_H

#include "engine/constrain/pattern.h"

#include <stdbool.h>
#include <stdint.h>

/* Symbols: the characters of ASCII, and one for all others. */
#define PATTERN_OTHER 128
#define PATTERN_SYMBOLS 129

struct pattern_set {
	uint64_t bits[3];
};

static inline void pattern_add(struct pattern_set *s, int symbol)
{
	s->bits[symbol / 64] |= (uint64_t)1 << (symbol % 64);
}

static inline bool pattern_has(const struct pattern_set *s, int symbol)
{
	return s->bits[symbol / 64] >> (symbol % 64) & 1;
}

/* Takes one symbol of the set and goes on at out[0]; or, without a set, goes on at both. -1: nowhere. */
struct pattern_node {
	bool takes;
	struct pattern_set set;
	int out[2];
};

struct pattern {
	const char *p;         /* what is read next */
	struct pattern_node node[PATTERN_MAX_NODES];
	int n, depth, start, end;
	struct grammar *g;     /* whose work it is */
	int rc;
	struct buf *why;
};

/* pattern_read.c: fills p, whose text is at p->p. */
int pattern_read(struct pattern *p);

#endif
