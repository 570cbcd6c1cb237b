/* SPDX-License-Identifier: MIT
 * cuda_attn_splitk.cu - attention split over the row list, so that one token keeps many multiprocessors busy.
 *
 * First the scores of all entries, and the largest of every block of 64. Then chunks of 256 entries side by side: each
 * knows the running maximum that plugins/ref/attn.c has at its blocks, from the largest scores of all before, so that what
 * is rounded to bf16 is the same number. Last the chunks are added upwards, rescaled to the last one's maximum. How a
 * list is cut depends on its length alone. */
#include "plugins/cuda-attn-splitk/attn.h"
#include "plugins/cuda/attn_block.cuh"

/* Where a block stands: a token of the pass, its heads, its list. */
struct attn_place {
	int64_t i, t;        /* token of the pass, of the batch */
	int h0, n_head;
	struct attn_list list;
};

/* False: the token belongs to no sequence. */
__device__ static bool attn_here(const struct cuda_attn_splitk_args &a, struct attn_place *p)
{
	const dsv4_seq *s;

	p->i = blockIdx.x;
	p->t = a.tok0 + p->i;
	p->h0 = blockIdx.y * a.call.heads;
	p->n_head = a.call.n_head - p->h0 < a.call.heads ? a.call.n_head - p->h0 : a.call.heads;
	s = rows_seq(a.call.seq, a.call.n_seq, p->t);
	if (s)
		p->list = attn_list_of(a.call, *s, p->t);
	return s != nullptr;
}

/* Entries of the list from e on, at most n. */
__device__ static int attn_left(const struct attn_place &p, int64_t e, int n)
{
	return p.list.n - e < n ? static_cast<int>(p.list.n - e) : n;
}

/* The largest of a head's n scores of one block, for all lanes. */
__device__ static float attn_top(const float *score, int n)
{
	int lane = threadIdx.x % WARP;

	return warp_max(fmaxf(lane < n ? score[lane] : -INFINITY, lane + WARP < n ? score[lane + WARP] : -INFINITY));
}

/* Scores of one block of 64 entries: a warp has every fourth. */
KERNEL(cuda_attn_splitk_scores, struct cuda_attn_splitk_args, ATTN_THREADS)
{
	DYNAMIC_SHARED(float, q);
	__shared__ float score[ATTN_HEADS][ATTN_BLOCK];
	struct attn_place p;
	int64_t e = static_cast<int64_t>(blockIdx.z) * ATTN_BLOCK;
	int n, lane = threadIdx.x % WARP;

	if (!attn_here(a, &p) || e >= p.list.n)
		return;
	n = attn_left(p, e, ATTN_BLOCK);
	for (int i = threadIdx.x; i < p.n_head * a.call.dim; i += ATTN_THREADS)
		q[i] = a.call.q[(p.t * a.call.n_head + p.h0) * a.call.dim + i];
	__syncthreads();
	for (int i = threadIdx.x / WARP; i < n; i += ATTN_WARPS) {
		float dot[ATTN_HEADS];

		attn_dots(q, attn_row(p.list, e + i, a.call.dim), a.call.dim, p.n_head, dot);
		UNROLL
		for (int h = 0; h < ATTN_HEADS; h++)
			if (h < p.n_head && lane == 0)
				score[h][i] = attn_round(a.call.prec, dot[h] * a.call.scale);
	}
	__syncthreads();
	for (int h = threadIdx.x / WARP; h < p.n_head; h += ATTN_WARPS) {
		int64_t at = (p.i * a.call.n_head + p.h0 + h) * a.n_block + blockIdx.z;
		float top = attn_top(score[h], n);

		for (int i = lane; i < n; i += WARP)
			a.score[at * ATTN_BLOCK + i] = score[h][i];
		if (lane == 0)
			a.top[at] = top;
	}
}

/* The running maximum before a chunk: a warp has every fourth head. */
__device__ static void attn_begin(const struct cuda_attn_splitk_args &a, const struct attn_place &p, int64_t block,
				  struct attn_block &m)
{
	for (int h = threadIdx.x / WARP; h < p.n_head; h += ATTN_WARPS) {
		const float *tops = a.top + (p.i * a.call.n_head + p.h0 + h) * a.n_block;
		float top = -INFINITY;

		for (int64_t b = threadIdx.x % WARP; b < block; b += WARP)
			top = fmaxf(top, tops[b]);
		top = warp_max(top);
		if (threadIdx.x % WARP == 0) {
			m.top[h] = top;
			m.den[h] = 0;
		}
	}
}

/* Weights of the n entries of a block, relative to the new running maximum. */
__device__ static void attn_weights(const struct cuda_attn_splitk_args &a, const struct attn_place &p, int64_t block, int n,
				    struct attn_block &m)
{
	int lane = threadIdx.x % WARP;

	for (int h = threadIdx.x / WARP; h < p.n_head; h += ATTN_WARPS) {
		int64_t at = (p.i * a.call.n_head + p.h0 + h) * a.n_block + block;
		const float *score = a.score + at * ATTN_BLOCK;
		float was = m.top[h], top = fmaxf(was, a.top[at]), shrink = expf(was - top), sum = 0, den;

		for (int i = lane; i < n; i += WARP) {
			float w = expf(score[i] - top);

			sum += w;
			m.weight[h][i] = attn_round(a.call.prec, w);
		}
		sum = warp_sum(sum);
		den = m.den[h] * shrink + sum;
		__syncwarp();
		if (lane == 0) {
			m.top[h] = top;
			m.den[h] = den;
			m.shrink[h] = shrink;
		}
	}
}

KERNEL(cuda_attn_splitk_chunk, struct cuda_attn_splitk_args, ATTN_THREADS)
{
	DYNAMIC_SHARED(float, sums);
	__shared__ struct attn_block m;
	struct attn_place p;
	int64_t chunk = blockIdx.z, e0 = chunk * ATTN_CHUNK, at;

	if (!attn_here(a, &p) || e0 >= p.list.n)
		return;
	for (int i = threadIdx.x; i < p.n_head * a.call.dim; i += ATTN_THREADS)
		sums[i] = 0;
	attn_begin(a, p, e0 / ATTN_BLOCK, m);
	for (int64_t e = e0; e < e0 + ATTN_CHUNK && e < p.list.n; e += ATTN_BLOCK) {
		int n = attn_left(p, e, ATTN_BLOCK);

		for (int i = threadIdx.x; i < n; i += ATTN_THREADS)
			m.row[i] = attn_row(p.list, e + i, a.call.dim);
		__syncthreads();
		attn_weights(a, p, e / ATTN_BLOCK, n, m);
		__syncthreads();
		attn_add(m, a.call.dim, p.n_head, n, sums);
		__syncthreads();
	}
	at = (p.i * a.call.n_head + p.h0) * a.n_chunk + chunk;
	if (static_cast<int>(threadIdx.x) < p.n_head) {
		a.part_top[at + threadIdx.x * a.n_chunk] = m.top[threadIdx.x];
		a.part_den[at + threadIdx.x * a.n_chunk] = m.den[threadIdx.x];
	}
	for (int i = threadIdx.x; i < p.n_head * a.call.dim; i += ATTN_THREADS)
		a.part[(at + i / a.call.dim * a.n_chunk) * a.call.dim + i % a.call.dim] = sums[i];
}

/* One head: chunks upwards, relative to the last one's maximum, which is the list's; then the sink. */
KERNEL(cuda_attn_splitk_merge, struct cuda_attn_splitk_args, ATTN_THREADS)
{
	struct attn_place p;
	int64_t n, at;
	float top, den = 0;

	if (!attn_here(a, &p))
		return;
	n = (p.list.n + ATTN_CHUNK - 1) / ATTN_CHUNK;
	at = (p.i * a.call.n_head + p.h0) * a.n_chunk;
	top = a.part_top[at + n - 1];
	for (int64_t c = 0; c < n; c++)
		den += a.part_den[at + c] * expf(a.part_top[at + c] - top);
	den += expf(a.call.sink[p.h0] - top);
	for (int d = threadIdx.x; d < a.call.dim; d += ATTN_THREADS) {
		float sum = 0;

		for (int64_t c = 0; c < n; c++)
			sum = fmaf(a.part[(at + c) * a.call.dim + d], expf(a.part_top[at + c] - top), sum);
		a.call.out[(p.t * a.call.n_head + p.h0) * a.call.dim + d] = sum / den;
	}
}
