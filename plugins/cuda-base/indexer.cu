/* SPDX-License-Identifier: MIT
 * indexer.cu - score every visible compressed row for every token, and keep the best.
 *
 * A lane has one head of every 32: it sums that head's products with a key upwards, then its heads upwards; the lanes are
 * added as a tree. A warp has eight keys at a time, so that a value of q that was read serves eight times. */
#include "plugins/cuda-base/indexer.h"
#include "plugins/cuda/reduce.cuh"
#include "plugins/cuda/rows.cuh"
#include "plugins/cuda/topk.cuh"

/* max(d, 0) that lets NaN through, so that a broken row shows. */
__device__ static float indexer_relu(float d)
{
	return d < 0 ? 0.0f : d;
}

/* One lane's head of q (column `lane` of the tile) with the warp's keys. */
__device__ static void indexer_dots(const float *tile, int lane, int lanes, int dim, const float *const (&key)[INDEXER_KEYS],
				    float (&dot)[INDEXER_KEYS])
{
	for (int i = 0; i < INDEXER_KEYS; i++)
		dot[i] = 0;
	for (int d = 0; d < dim; d++) {
		float q = tile[d * lanes + lane];

		for (int i = 0; i < INDEXER_KEYS; i++)
			dot[i] = fmaf(q, key[i][d], dot[i]);
	}
}

KERNEL(cuda_base_index_score, struct indexer_score_args, INDEXER_WARPS * WARP)
{
	DYNAMIC_SHARED(float, tile);
	int64_t t = blockIdx.x, n0 = (static_cast<int64_t>(blockIdx.y) * INDEXER_WARPS + threadIdx.x / WARP) * INDEXER_KEYS;
	const dsv4_seq *s = rows_seq(a.seq, a.n_seq, t);
	int lane = threadIdx.x % WARP;
	int64_t n = s ? rows_visible(s->key, s->ratio, s->pos0 + t - s->tok0) : 0;
	const float *key[INDEXER_KEYS];
	float sum[INDEXER_KEYS] = { 0 };

	/* Nothing to see in this tile, or all is kept. */
	if (n <= a.k || static_cast<int64_t>(blockIdx.y) * INDEXER_WARPS * INDEXER_KEYS >= n)
		return;
	for (int i = 0; i < INDEXER_KEYS; i++)
		key[i] = rows_at(s->key, n0 + i < n ? n0 + i : n - 1);
	for (int h0 = 0; h0 < a.n_head; h0 += a.lanes) {
		int n_here = a.n_head - h0 < a.lanes ? a.n_head - h0 : a.lanes;
		const float *q = a.q + (t * a.n_head + h0) * a.dim;

		__syncthreads();
		for (int i = threadIdx.x; i < n_here * a.dim; i += blockDim.x)
			tile[i % a.dim * a.lanes + i / a.dim] = q[i];
		__syncthreads();
		if (lane < n_here) {
			float dot[INDEXER_KEYS], w = a.w[t * a.n_head + h0 + lane];

			indexer_dots(tile, lane, a.lanes, a.dim, key, dot);
			for (int i = 0; i < INDEXER_KEYS; i++)
				sum[i] = fmaf(indexer_relu(dot[i]), w, sum[i]);
		}
	}
	for (int i = 0; i < INDEXER_KEYS; i++) {
		float all = warp_sum(sum[i]);

		if (lane == 0 && n0 + i < n)
			a.score[t * a.lds + n0 + i] = all * a.scale;
	}
}

/* Writes the chosen rows in rising order. */
KERNEL(cuda_base_index_topk, struct indexer_topk_args, TOPK_BINS)
{
	__shared__ struct topk_shared m;
	int64_t t = blockIdx.x;
	int n = a.n_vis[t], k = n < a.k ? n : a.k;
	const float *score = a.score + t * a.lds;
	int32_t *rows = a.rows + t * a.ldr;

	if (threadIdx.x == 0)
		a.count[t] = k;
	if (n <= a.k)
		for (int i = threadIdx.x; i < n; i += TOPK_BINS)
			rows[i] = i;
	else if (k > 0)
		topk_pick([=](int i) { return topk_key(score[i]); }, n, k, m, rows);
}
