/* SPDX-License-Identifier: MIT
 * automaton_priv.h - what the files of the automaton share: its frames, ways and states.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_AUTOMATON_PRIV_H
#define ENGINE_AUTOMATON_PRIV_H

#include "engine/constrain/automaton.h"

#include <stddef.h>

/* Ways that a byte is looked up in cost so much less than nodes that are passed. */
#define AUTOMATON_LOOKS_PER_STEP 32

/* Where a rule goes on when the one it called ends. Equal frames are one, so they compare by number. */
struct automaton_frame {
	uint32_t parent, node, count, depth;
};

/* One way: a BYTES node, what called its rule, the rule's counter. */
struct automaton_way {
	uint32_t node, frame, count;
};

struct automaton_passed {
	struct automaton_way way;
	uint32_t round;        /* an older one: empty */
};

struct automaton_state {
	uint32_t first, n;     /* ways */
	uint16_t *next;        /* [256], NULL until asked for; no state has the number AUTOMATON_UNKNOWN */
	uint32_t hash;
	bool may_end;
};

/* An open hash of numbers; 0 is empty, so n stands for n - 1. */
struct automaton_index {
	uint32_t *slot;
	uint32_t mask, n;
};

struct automaton {
	const struct grammar *g;
	struct automaton_frame *frame; /* 0: the root's */
	struct automaton_state *state; /* 0: dead */
	struct automaton_way *way;
	uint32_t n_frame, n_state, n_way, cap_frame, cap_state, cap_way;
	struct automaton_index frames, states;
	/* The state being made. */
	struct automaton_way made[AUTOMATON_MAX_WAYS], *todo;
	uint32_t n_made, n_todo, cap_todo, most_ways;
	bool may_end, over;    /* over: given up, the budget is spent */
	/* What was passed for it, by hash: schemas can name the same alternative again and
	 * again, at each level twice. */
	struct automaton_passed *passed;
	uint32_t n_passed, mask_passed, round;
	uint64_t work, most;   /* nodes passed; where it ends */
};

/* ---- automaton_store.c ---- */

/* The array with room for one more. */
void *automaton_store_room(void *array, uint32_t n, uint32_t *cap, size_t size);
uint32_t automaton_store_hash(const void *data, size_t len, uint32_t h);
/* Empty, of `size` slots, a power of two. */
void automaton_store_index(struct automaton_index *x, uint32_t size);
/* The frame's number. */
uint32_t automaton_store_frame(struct automaton *a, const struct automaton_frame *f);
/* The number of the state that was made: a known one's, or a new one. AUTOMATON_FULL. */
uint32_t automaton_store_made(struct automaton *a);

/* ---- automaton_ways.c ---- */

/* Nothing is made so far. */
void automaton_ways_begin(struct automaton *a);
/* One more way, which may stand at any node. */
void automaton_ways_put(struct automaton *a, uint32_t node, uint32_t frame, uint32_t count);
/* Follows what was put to nodes that wait for a byte, or as far as the budget goes. */
void automaton_ways_close(struct automaton *a);
/* Room to remember what was passed; also at first. */
void automaton_ways_passed_grow(struct automaton *a);

#endif
