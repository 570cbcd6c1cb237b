/* SPDX-License-Identifier: MIT
 * cuda_indexer.cu - scores of compressed rows by tensor cores, and the best of them.
 *
 * What FP4, FP8 and BF16 make of queries and keys are bf16 values, too: tensor cores multiply them exactly and sum in
 * fp32. A key that has another value, or some heads of a token that do (index rows that are not rounded), goes by fp32
 * multiply-adds instead; which way a head and a key meet depends on these two alone, so that bits do not depend on
 * what else is in the batch. A lane then sums its heads upwards, and lanes are added as a tree. */
#include "plugins/cuda-indexer/indexer.h"
#include "plugins/cuda/indexer.cuh"
#include "plugins/cuda/mma.cuh"
#include "plugins/cuda/reduce.cuh"
#include "plugins/cuda/topk.cuh"

#define INDEXER_TILES (INDEXER_WARP_KEYS / 8) /* products of 8 keys each */

/* One warp copies a row as bf16, zero up to ld - pad; is every value one? */
__device__ static bool indexer_stage(uint16_t *to, const float *from, int dim, int ld)
{
	bool odd = false;

	for (int d = threadIdx.x % WARP; d < ld - INDEXER_PAD; d += WARP) {
		uint32_t bits = d < dim ? dsv4_f32_bits(from[d]) : 0;

		to[d] = static_cast<uint16_t>(bits >> 16);
		odd = odd || (bits & 0xffff) != 0;
	}
	return !__any_sync(ALL_LANES, odd);
}

/* A warp's keys as it meets them. */
struct indexer_keys {
	const uint16_t *bf16;   /* [16][ld] in shared memory */
	const dsv4_rows *rows;
	int64_t first, last;    /* the first of them; none after `last` */
	uint32_t exact;         /* bit i: key i is bf16 */
};

__device__ static const float *indexer_row(const struct indexer_keys &keys, int i)
{
	return rows_at(*keys.rows, keys.first + i < keys.last ? keys.first + i : keys.last);
}

/* 16 heads (q, bf16) with the warp's keys: adds what they give, weighted, to sum [tile][column 2 t, 2 t + 1 of lane]. */
__device__ static void indexer_products(const struct cuda_indexer_score_args &a, const uint16_t *q, const float *w, int n_head,
					const struct indexer_keys &keys, float (&sum)[INDEXER_TILES][2])
{
	int lane = threadIdx.x % WARP, g = lane / 4;
	float dot[INDEXER_TILES][4] = { { 0 } }, w0 = g < n_head ? w[g] : 0.0f, w1 = g + 8 < n_head ? w[g + 8] : 0.0f;

	for (int k = 0; k < a.ld - INDEXER_PAD; k += 16) {
		uint32_t x[4], y[4];

		/* a: rows 0-7 and 8-15, then the same 8 columns on; b: columns 0-7, 8 rows on, then columns 8-15 */
		mma_load_4(x, q + lane % 16 * a.ld + k + lane / 16 * 8);
		mma_load_4(y, keys.bf16 + (lane / 16 * 8 + lane % 8) * a.ld + k + lane / 8 % 2 * 8);
		mma_bf16(dot[0], x, { y[0], y[1] });
		mma_bf16(dot[1], x, { y[2], y[3] });
	}
	UNROLL
	for (int i = 0; i < INDEXER_TILES; i++)
		UNROLL
		for (int c = 0; c < 2; c++) {
			if (!(keys.exact >> (8 * i + 2 * (lane % 4) + c) & 1))
				continue;
			if (g < n_head)
				sum[i][c] = fmaf(indexer_relu(dot[i][c]), w0, sum[i][c]);
			if (g + 8 < n_head)
				sum[i][c] = fmaf(indexer_relu(dot[i][c + 2]), w1, sum[i][c]);
		}
}

/* The same by fp32, for keys that are not bf16, or for all: lane 4 g + t has heads g and g + 8, columns 2 t and 2 t + 1. */
__device__ static void indexer_fmas(const struct cuda_indexer_score_args &a, const float *q, const float *w, int n_head,
				    const struct indexer_keys &keys, bool all, float (&sum)[INDEXER_TILES][2])
{
	int lane = threadIdx.x % WARP, g = lane / 4;

	for (int i = 0; i < INDEXER_TILES; i++)
		for (int c = 0; c < 2; c++) {
			int key = 8 * i + 2 * (lane % 4) + c;
			const float *row = indexer_row(keys, key);

			if (!all && (keys.exact >> key & 1))
				continue;
			for (int h = g; h < 16 && h < n_head; h += 8) {
				float dot = 0;

				for (int d = 0; d < a.call.dim; d++)
					dot = fmaf(q[static_cast<int64_t>(h) * a.call.dim + d], row[d], dot);
				sum[i][c] = fmaf(indexer_relu(dot), w[h], sum[i][c]);
			}
		}
}

KERNEL(cuda_indexer_score, struct cuda_indexer_score_args, INDEXER_WARPS * WARP)
{
	DYNAMIC_SHARED(uint16_t, tile);
	__shared__ int odd[INDEXER_HEADS / 16]; /* have 16 heads a value that is not bf16? */
	int64_t t = blockIdx.x, n0 = static_cast<int64_t>(blockIdx.y) * INDEXER_KEYS;
	int dim = a.call.dim, n_head = a.call.n_head;
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, step = a.heads ? a.heads : INDEXER_HEADS;
	const dsv4_seq *s;
	int64_t n = indexer_rows(a.call, t, &s);
	uint16_t *key_tile = tile + warp * INDEXER_WARP_KEYS * a.ld, *q_tile = tile + INDEXER_KEYS * a.ld;
	struct indexer_keys keys = {};
	float sum[INDEXER_TILES][2] = { { 0 } };

	if (n0 >= n)
		return;
	n0 += warp * INDEXER_WARP_KEYS;
	keys.bf16 = key_tile;
	keys.rows = &s->key;
	keys.first = n0;
	keys.last = n - 1;
	for (int i = 0; i < INDEXER_WARP_KEYS; i++)
		if (a.heads && indexer_stage(key_tile + i * a.ld, indexer_row(keys, i), dim, a.ld))
			keys.exact |= 1u << i;
	for (int h0 = 0; h0 < n_head; h0 += step) {
		const float *q = a.call.q + (t * n_head + h0) * dim, *w = a.call.w + t * n_head + h0;
		int n_here = n_head - h0 < step ? n_head - h0 : step;

		__syncthreads();
		if (threadIdx.x < INDEXER_HEADS / 16)
			odd[threadIdx.x] = a.heads == 0;
		__syncthreads();
		for (int h = warp; a.heads && h < (n_here + 15) / 16 * 16; h += INDEXER_WARPS)
			if (!indexer_stage(q_tile + h * a.ld, q + static_cast<int64_t>(h) * dim, h < n_here ? dim : 0, a.ld) &&
			    lane == 0)
				atomicOr(&odd[h / 16], 1);
		__syncthreads();
		for (int h = 0; h < n_here; h += 16) {
			if (!odd[h / 16])
				indexer_products(a, q_tile + h * a.ld, w + h, n_here - h, keys, sum);
			if (odd[h / 16] || keys.exact != 0xffff)
				indexer_fmas(a, q + static_cast<int64_t>(h) * dim, w + h, n_here - h, keys, odd[h / 16] != 0, sum);
		}
	}
	UNROLL
	for (int i = 0; i < INDEXER_TILES; i++)
		UNROLL
		for (int c = 0; c < 2; c++) {
			int64_t key = n0 + 8 * i + 2 * (lane % 4) + c;

			for (int apart = 16; apart >= 4; apart /= 2)
				sum[i][c] += __shfl_xor_sync(ALL_LANES, sum[i][c], apart);
			if (lane < 4 && key < n)
				a.call.score[t * a.call.lds + key] = sum[i][c] * a.call.scale;
		}
}

KERNEL(cuda_indexer_topk, struct cuda_indexer_topk_args, 1024)
{
	__shared__ struct topk_shared m;
	DYNAMIC_SHARED(uint32_t, kept);
	int64_t t = blockIdx.x;
	int n = a.call.n_vis[t], k = a.call.k;
	const float *score = a.call.score + t * a.call.lds;
	int32_t *rows = a.call.rows + t * a.call.ldr;

	if (topk_all(n, k, rows, &a.call.count[t]))
		return;
	if (n <= a.cached) {
		for (int i = threadIdx.x; i < n; i += blockDim.x)
			kept[i] = topk_key(score[i]);
		__syncthreads();
		topk_pick([=](int i) { return kept[i]; }, n, k, m, rows);
	} else {
		topk_pick([=](int i) { return topk_key(score[i]); }, n, k, m, rows);
	}
}
