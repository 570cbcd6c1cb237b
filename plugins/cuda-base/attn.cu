/* SPDX-License-Identifier: MIT
 * attn.cu - attention of up to eight heads of one token over window rows, then compressed rows, with a sink.
 *
 * As plugins/ref/attn.c: the list in blocks of 64 rows, per block scores, the new running maximum, sums so far rescaled to
 * it, then weights and rows added one by one. */
#include "plugins/cuda/attn_block.cuh"

/* Scores of the block's n rows, where its weights will be: one warp has every fourth row. */
__device__ static void attn_scores(const struct attn_args &a, struct attn_block &m, const float *q, int n_head, int n)
{
	for (int i = threadIdx.x / WARP; i < n; i += ATTN_WARPS) {
		float dot[ATTN_HEADS];

		attn_dots(q, m.row[i], a.dim, n_head, dot);
		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < n_head && threadIdx.x % WARP == 0)
				m.weight[h][i] = attn_round(a.prec, dot[h] * a.scale);
	}
}

/* Scores become weights: one warp has every fourth head, a lane two rows of it. */
__device__ static void attn_weights(const struct attn_args &a, struct attn_block &m, int n_head, int n)
{
	int lane = threadIdx.x % WARP;

	for (int h = threadIdx.x / WARP; h < n_head; h += ATTN_WARPS) {
		float s0 = lane < n ? m.weight[h][lane] : -INFINITY;
		float s1 = lane + WARP < n ? m.weight[h][lane + WARP] : -INFINITY;
		float was = m.top[h], top = fmaxf(was, warp_max(fmaxf(s0, s1))), shrink = expf(was - top);
		float p0 = lane < n ? expf(s0 - top) : 0.0f, p1 = lane + WARP < n ? expf(s1 - top) : 0.0f;
		float sum = warp_sum(p0 + p1), den = m.den[h] * shrink + sum;

		if (lane < n)
			m.weight[h][lane] = attn_round(a.prec, p0);
		if (lane + WARP < n)
			m.weight[h][lane + WARP] = attn_round(a.prec, p1);
		__syncwarp();
		if (lane == 0) {
			m.top[h] = top;
			m.den[h] = den;
			m.shrink[h] = shrink;
		}
	}
}

KERNEL(cuda_base_attn, struct attn_args, ATTN_THREADS)
{
	DYNAMIC_SHARED(float, floats);
	__shared__ struct attn_block m;
	int64_t t = blockIdx.x, h0 = static_cast<int64_t>(blockIdx.y) * a.heads;
	int n_head = h0 + a.heads <= a.n_head ? a.heads : static_cast<int>(a.n_head - h0);
	int64_t first = (t * a.n_head + h0) * a.dim;
	float *q = floats, *sums = floats + static_cast<int64_t>(a.heads) * a.dim; /* [heads][dim] each */
	const dsv4_seq *s = rows_seq(a.seq, a.n_seq, t);
	struct attn_list l;

	if (!s)
		return;
	l = attn_list_of(a, *s, t);
	if (threadIdx.x < ATTN_HEADS) {
		m.top[threadIdx.x] = -INFINITY;
		m.den[threadIdx.x] = 0;
	}
	for (int i = threadIdx.x; i < n_head * a.dim; i += ATTN_THREADS) {
		q[i] = a.q[first + i];
		sums[i] = 0;
	}
	for (int64_t e = 0; e < l.n; e += ATTN_BLOCK) {
		int n = l.n - e < ATTN_BLOCK ? static_cast<int>(l.n - e) : ATTN_BLOCK;

		for (int i = threadIdx.x; i < n; i += ATTN_THREADS)
			m.row[i] = attn_row(l, e + i, a.dim);
		__syncthreads();
		attn_scores(a, m, q, n_head, n);
		__syncthreads();
		attn_weights(a, m, n_head, n);
		__syncthreads();
		attn_add(m, a.dim, n_head, n, sums);
		__syncthreads();
	}
	for (int i = threadIdx.x; i < n_head * a.dim; i += ATTN_THREADS) {
		int h = i / a.dim;

		a.out[first + i] = sums[i] / (m.den[h] + expf(a.sink[h0 + h] - m.top[h]));
	}
}
