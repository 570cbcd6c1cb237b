/* SPDX-License-Identifier: MIT
 * indexer.cuh - what a score of the indexer is made of, whoever computes the dot products. */
#ifndef CUDA_INDEXER_CUH
#define CUDA_INDEXER_CUH

#include "plugins/cuda/indexer_args.h"
#include "plugins/cuda/rows.cuh"

/* max(d, 0) that lets NaN through, so that a broken row shows. */
__device__ inline float indexer_relu(float d)
{
	return d < 0 ? 0.0f : d;
}

/* How many rows token t sees, of *ret_s; 0 when they are kept without a score. */
__device__ inline int64_t indexer_rows(const struct indexer_score_args &a, int64_t t, const dsv4_seq **ret_s)
{
	const dsv4_seq *s = rows_seq(a.seq, a.n_seq, t);
	int64_t n = s ? rows_visible(s->key, s->ratio, s->pos0 + t - s->tok0) : 0;

	*ret_s = s;
	return n <= a.k ? 0 : n;
}

#endif
