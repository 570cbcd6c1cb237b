/* SPDX-License-Identifier: MIT
 * indexer.cu - score every visible compressed row for every token, and keep the best.
 *
 * A lane has one head of every 32: it sums that head's products with a key upwards, then its heads upwards; the lanes are
 * added as a tree. A warp has eight keys at a time, so that a value of q that was read serves eight times. */
#include "plugins/cuda-base/indexer.h"
#include "plugins/cuda/indexer.cuh"
#include "plugins/cuda/reduce.cuh"
#include "plugins/cuda/topk.cuh"

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

KERNEL(cuda_base_index_score, struct cuda_base_score_args, INDEXER_WARPS * WARP)
{
	DYNAMIC_SHARED(float, tile);
	int64_t t = blockIdx.x, n0 = (static_cast<int64_t>(blockIdx.y) * INDEXER_WARPS + threadIdx.x / WARP) * INDEXER_KEYS;
	const dsv4_seq *s;
	int64_t n = indexer_rows(a.call, t, &s);
	int lane = threadIdx.x % WARP, dim = a.call.dim;
	const float *key[INDEXER_KEYS];
	float sum[INDEXER_KEYS] = { 0 };

	if (static_cast<int64_t>(blockIdx.y) * INDEXER_WARPS * INDEXER_KEYS >= n)
		return;
	for (int i = 0; i < INDEXER_KEYS; i++)
		key[i] = rows_at(s->key, n0 + i < n ? n0 + i : n - 1);
	for (int h0 = 0; h0 < a.call.n_head; h0 += a.lanes) {
		int n_here = a.call.n_head - h0 < a.lanes ? a.call.n_head - h0 : a.lanes;
		const float *q = a.call.q + (t * a.call.n_head + h0) * dim;

		__syncthreads();
		for (int i = threadIdx.x; i < n_here * dim; i += blockDim.x)
			tile[i % dim * a.lanes + i / dim] = q[i];
		__syncthreads();
		if (lane < n_here) {
			float dot[INDEXER_KEYS], w = a.call.w[t * a.call.n_head + h0 + lane];

			indexer_dots(tile, lane, a.lanes, dim, key, dot);
			for (int i = 0; i < INDEXER_KEYS; i++)
				sum[i] = fmaf(indexer_relu(dot[i]), w, sum[i]);
		}
	}
	for (int i = 0; i < INDEXER_KEYS; i++) {
		float all = warp_sum(sum[i]);

		if (lane == 0 && n0 + i < n)
			a.call.score[t * a.call.lds + n0 + i] = all * a.call.scale;
	}
}

/* Writes the chosen rows in rising order. */
KERNEL(cuda_base_index_topk, struct indexer_topk_args, TOPK_BINS)
{
	__shared__ struct topk_shared m;
	int64_t t = blockIdx.x;
	const float *score = a.score + t * a.lds;
	int32_t *rows = a.rows + t * a.ldr;

	if (!topk_all(a.n_vis[t], a.k, rows, &a.count[t]))
		topk_pick([=](int i) { return topk_key(score[i]); }, a.n_vis[t], a.k, m, rows);
}
