/* SPDX-License-Identifier: MIT
 * attn.cu - attention of up to eight heads of one token over window rows, then compressed rows, with a sink.
 *
 * As plugins/ref/attn.c: the list in blocks of 64 rows, per block scores, the new running maximum, sums so far rescaled to
 * it, then weights and rows added one by one. A warp computes the scores of a row for all heads that the block has; a
 * thread has a column of the sums. How many heads a block has changes no order. */
#include "plugins/cuda-base/attn.h"
#include "plugins/cuda/attn_list.cuh"
#include "plugins/cuda/reduce.cuh"

#define ATTN_THREADS 128
#define ATTN_WARPS (ATTN_THREADS / WARP)

/* Shared memory of a block. */
struct attn_shared {
	const float *row[ATTN_BLOCK];
	float score[ATTN_HEADS][ATTN_BLOCK]; /* then weights */
	float top[ATTN_HEADS], den[ATTN_HEADS], shrink[ATTN_HEADS];
	float *q, *sum;                      /* [heads][dim] each */
};

/* Scores of the block's n rows: one warp has every fourth row. */
__device__ static void attn_scores(const struct attn_args &a, struct attn_shared &m, int n_head, int n)
{
	int lane = threadIdx.x % WARP;

	for (int i = threadIdx.x / WARP; i < n; i += ATTN_WARPS) {
		float dot[ATTN_HEADS] = { 0 };

		for (int d = lane; d < a.dim; d += WARP) {
			float v = m.row[i][d];

			UNROLL
			for (int h = 0; h < ATTN_HEADS; h++)
				if (h < n_head)
					dot[h] = fmaf(m.q[h * a.dim + d], v, dot[h]);
		}
		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++) {
			float s = h < n_head ? warp_sum(dot[h]) : 0.0f;

			if (h < n_head && lane == 0)
				m.score[h][i] = attn_round(a.prec, s * a.scale);
		}
	}
}

/* Scores become weights: one warp has every fourth head, a lane two rows of it. */
__device__ static void attn_weights(const struct attn_args &a, struct attn_shared &m, int n_head, int n)
{
	int lane = threadIdx.x % WARP;

	for (int h = threadIdx.x / WARP; h < n_head; h += ATTN_WARPS) {
		float s0 = lane < n ? m.score[h][lane] : -INFINITY;
		float s1 = lane + WARP < n ? m.score[h][lane + WARP] : -INFINITY;
		float was = m.top[h], top = fmaxf(was, warp_max(fmaxf(s0, s1))), shrink = expf(was - top);
		float p0 = lane < n ? expf(s0 - top) : 0.0f, p1 = lane + WARP < n ? expf(s1 - top) : 0.0f;
		float sum = warp_sum(p0 + p1), den = m.den[h] * shrink + sum;

		if (lane < n)
			m.score[h][lane] = attn_round(a.prec, p0);
		if (lane + WARP < n)
			m.score[h][lane + WARP] = attn_round(a.prec, p1);
		__syncwarp();
		if (lane == 0) {
			m.top[h] = top;
			m.den[h] = den;
			m.shrink[h] = shrink;
		}
	}
}

/* Adds the n rows, weighted, to the sums. */
__device__ static void attn_add(const struct attn_args &a, struct attn_shared &m, int n_head, int n)
{
	for (int d = threadIdx.x; d < a.dim; d += ATTN_THREADS) {
		float sum[ATTN_HEADS];

		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < n_head)
				sum[h] = m.sum[h * a.dim + d] * m.shrink[h];
		for (int i = 0; i < n; i++) {
			float v = m.row[i][d];

			UNROLL
			for (int h = 0; h < ATTN_HEADS; h++)
				if (h < n_head)
					sum[h] = fmaf(m.score[h][i], v, sum[h]);
		}
		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < n_head)
				m.sum[h * a.dim + d] = sum[h];
	}
}

KERNEL(cuda_base_attn, struct attn_args, ATTN_THREADS)
{
	DYNAMIC_SHARED(float, floats);
	__shared__ struct attn_shared m;
	int64_t t = blockIdx.x, h0 = static_cast<int64_t>(blockIdx.y) * a.heads;
	int n_head = h0 + a.heads <= a.n_head ? a.heads : static_cast<int>(a.n_head - h0);
	const float *q = a.q + (t * a.n_head + h0) * a.dim;
	float *out = a.out + (t * a.n_head + h0) * a.dim;
	const dsv4_seq *s = rows_seq(a.seq, a.n_seq, t);
	struct attn_list l;

	if (!s)
		return;
	l = attn_list_of(a, *s, t);
	if (threadIdx.x == 0) {
		m.q = floats;
		m.sum = floats + static_cast<int64_t>(a.heads) * a.dim;
	}
	if (threadIdx.x < ATTN_HEADS) {
		m.top[threadIdx.x] = -INFINITY;
		m.den[threadIdx.x] = 0;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < n_head * a.dim; i += ATTN_THREADS) {
		m.q[i] = q[i];
		m.sum[i] = 0;
	}
	for (int64_t e = 0; e < l.n; e += ATTN_BLOCK) {
		int n = l.n - e < ATTN_BLOCK ? static_cast<int>(l.n - e) : ATTN_BLOCK;

		for (int i = threadIdx.x; i < n; i += ATTN_THREADS)
			m.row[i] = attn_row(l, e + i, a.dim);
		__syncthreads();
		attn_scores(a, m, n_head, n);
		__syncthreads();
		attn_weights(a, m, n_head, n);
		__syncthreads();
		attn_add(a, m, n_head, n);
		__syncthreads();
	}
	for (int i = threadIdx.x; i < n_head * a.dim; i += ATTN_THREADS) {
		int h = i / a.dim;

		out[i] = m.sum[i] / (m.den[h] + expf(a.sink[h0 + h] - m.top[h]));
	}
}
