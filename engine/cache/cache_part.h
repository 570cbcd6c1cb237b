/* SPDX-License-Identifier: MIT
 * cache_part.h - what is cached of a prompt as named tensors, one per layer and kind: for dumps and comparisons.
 * Threads: any. Locks: none.
 *
 *   layers.N.rows_kv, .rows_key        compressed KV rows and index keys of all blocks from the start, oldest first
 *   layers.N.window                    KV rows of the last positions before the end
 *   layers.N.overlap_kv, _score        the compressor's inputs of the group that overlaps the next one
 *   layers.N.overlap_index_kv, _score  the indexer's compressor's
 * The last three are there where the last block has a state. A layer has those that its kind needs. */
#ifndef ENGINE_CACHE_PART_H
#define ENGINE_CACHE_PART_H

#include "engine/base/rowdiff.h"
#include "engine/model/sequence.h"

#include <stdbool.h>
#include <stdint.h>

#define CACHE_PART_NAME 48

/* Blocks of one prompt and the state at their end; all borrowed. */
struct cache_view {
	const struct sequence_layout *layout;
	struct sequence_block *const *block; int64_t n_block;
	struct sequence_state *state; /* NULL: none */
};

struct cache_part {
	char name[CACHE_PART_NAME];
	int layer;
	bool tail;        /* of the state; else of the blocks */
	int kind;         /* enum sequence_tail or enum sequence_rows */
	int64_t n_row;
	int width;        /* floats of a row */
};

/* malloc'd, by layer; returns the count. */
int cache_parts(const struct cache_view *v, struct cache_part **ret_p);
/* Rows from `row` on that lie behind one another in memory: *ret_n of them, at least one. */
const float *cache_part_rows(const struct cache_view *v, const struct cache_part *p, int64_t row, int64_t *ret_n);

/* One tensor of a comparison; rows_a or rows_b is 0 when it has no such tensor. Of prompts of different length the rows
 * that both have are compared, and the states, which are of different positions, not at all. */
struct cache_part_diff {
	const char *name;
	int64_t rows_a, rows_b, compared;
	struct rowdiff diff;
};
typedef void cache_part_diff_f(void *arg, const struct cache_part_diff *d);
/* Calls fn for every tensor that a or b has, by layer. The two are of one layout. */
void cache_parts_compare(const struct cache_view *a, const struct cache_view *b, cache_part_diff_f *fn, void *arg);

#endif
