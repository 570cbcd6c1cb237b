/* SPDX-License-Identifier: MIT
 * cache_diff.h - the reply of Cache.Diff, tensor by tensor: made by the daemon of blocks, by dsv4ctl of files.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef CTL_CACHE_DIFF_H
#define CTL_CACHE_DIFF_H

#include "engine/base/rowdiff.h"

#include <jansson.h>
#include <stdbool.h>

/* Start from {0}. */
struct cache_diff {
	json_t *tensors, *first;
	int64_t n_equal, n_other; /* tensors, all of whose rows are equal; that one lacks or that differ */
};

/* A tensor of rows_a rows in a, rows_b in b (0: it has none), of which `compared` were held against each other. */
void cache_diff_add(struct cache_diff *x, const char *name, int64_t rows_a, int64_t rows_b, int64_t compared,
	const struct rowdiff *d);
/* Nothing differed so far. */
bool cache_diff_same(const struct cache_diff *x);
/* Moves "first" (if any), "equal" and "tensors" into the reply, and leaves x empty. */
void cache_diff_take(struct cache_diff *x, json_t *reply);
void cache_diff_fini(struct cache_diff *x);

#endif
