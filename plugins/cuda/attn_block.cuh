/* SPDX-License-Identifier: MIT
 * attn_block.cuh - one block of 64 entries of a list, as threads of a block meet it with up to eight heads of a token.
 *
 * A warp computes the dot products of a row for all heads; a thread has a column of the sums. How many heads there are
 * changes no order. */
#ifndef CUDA_ATTN_BLOCK_CUH
#define CUDA_ATTN_BLOCK_CUH

#include "plugins/cuda/attn_list.cuh"
#include "plugins/cuda/reduce.cuh"

#define ATTN_WARPS (ATTN_THREADS / WARP)

/* In shared memory. */
struct attn_block {
	const float *row[ATTN_BLOCK];
	float weight[ATTN_HEADS][ATTN_BLOCK];
	float top[ATTN_HEADS], den[ATTN_HEADS]; /* the running maximum, and the sum of weights relative to it */
	float shrink[ATTN_HEADS];               /* what the sums so far are multiplied by */
};

/* One row with all heads [n_head][dim], for all lanes of a warp. */
__device__ inline void attn_dots(const float *q, const float *row, int dim, int n_head, float (&dot)[ATTN_HEADS])
{
	UNROLL
	for (int h = 0; h < ATTN_HEADS; h++)
		dot[h] = 0;
	for (int d = threadIdx.x % WARP; d < dim; d += WARP) {
		float v = row[d];

		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < n_head)
				dot[h] = fmaf(q[h * dim + d], v, dot[h]);
	}
	UNROLL
	for (int h = 0; h < ATTN_HEADS; h++)
		if (h < n_head)
			dot[h] = warp_sum(dot[h]);
}

/* Adds the block's n rows, weighted, to the sums [n_head][dim], which are rescaled first. */
__device__ inline void attn_add(const struct attn_block &m, int dim, int n_head, int n, float *sums)
{
	for (int d = threadIdx.x; d < dim; d += ATTN_THREADS) {
		float sum[ATTN_HEADS];

		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < n_head)
				sum[h] = sums[h * dim + d] * m.shrink[h];
		for (int i = 0; i < n; i++) {
			float v = m.row[i][d];

			UNROLL
			for (int h = 0; h < ATTN_HEADS; h++)
				if (h < n_head)
					sum[h] = fmaf(m.weight[h][i], v, sum[h]);
		}
		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < n_head)
				sums[h * dim + d] = sum[h];
	}
}

#endif
