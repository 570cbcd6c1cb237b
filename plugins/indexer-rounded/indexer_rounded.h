/* SPDX-License-Identifier: MIT
 * indexer_rounded.h - what the plugins indexer-bf16 and indexer-fp8 share: all but how a row is rounded.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef INDEXER_ROUNDED_H
#define INDEXER_ROUNDED_H

#include "plugins/dsv4_plugin.h"

/* Rounds a query or key of n values. */
typedef void indexer_rounded_f(const float *x, int64_t n, float *out);

/* index_score of rounded queries and keys, in ref's order. Tokens that see no more than a->k rows are left out,
 * and no key is touched when that is all of them. */
int indexer_rounded_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a,
			  indexer_rounded_f *round);

#endif
