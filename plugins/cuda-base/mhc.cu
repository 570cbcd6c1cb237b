/* SPDX-License-Identifier: MIT
 * mhc.cu - hyper-connections: read (pre), write (post) and the read before the head; as plugins/ref/mhc.c, whose order all
 * sums have, so that post has its bits and the others differ by exp() alone. */
#include "plugins/cuda-base/mhc.h"
#include "plugins/cuda/reduce.cuh"

__device__ static float mhc_round(uint32_t prec, float x)
{
	return prec == DSV4_PREC_BF16 ? dsv4_round_bf16(x) : x;
}

__device__ static float mhc_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* One dot product over all streams of a token. */
KERNEL(cuda_base_mhc_mix, struct mhc_mix_args, SUM_THREADS)
{
	__shared__ float part[SUM_PART];
	int mix = blockIdx.y;
	const float *x = a.streams + blockIdx.x * a.n, *fn = mix < a.n_mix ? a.fn + mix * a.n : x;
	uint32_t prec = a.prec;
	float sum = block_sum(a.n, part, [=](int64_t i) { return mhc_round(prec, fn[i]) * mhc_round(prec, x[i]); });

	if (threadIdx.x == 0)
		a.mix[static_cast<int64_t>(blockIdx.x) * (a.n_mix + 1) + mix] = sum;
}

/* Divides line `line` of c by (its sum + eps): the thread of each of its elements does; step lies between elements. */
__device__ static void mhc_balance(float *c, bool mine, int at, int line, int step, int hc, float eps)
{
	float sum = 0, v = 0;

	if (mine) {
		for (int j = 0; j < hc; j++)
			sum += c[line + j * step];
		v = c[at] / (sum + eps);
	}
	__syncthreads();
	if (mine)
		c[at] = v;
	__syncthreads();
}

/* c [hc][hc] nearly doubly stochastic: softmax of rows, + eps, columns, then iters - 1 times rows, columns. One thread
 * has one element. */
__device__ static void mhc_sinkhorn(float *c, int hc, int iters, float eps)
{
	int at = threadIdx.x, j = at / hc * hc, k = at % hc;
	bool mine = at < hc * hc;
	float top = -INFINITY, sum = 0, v = 0;

	if (mine) {
		for (int i = 0; i < hc; i++)
			top = fmaxf(top, c[j + i]);
		for (int i = 0; i < hc; i++)
			sum += expf(c[j + i] - top);
		v = expf(c[at] - top) / sum + eps;
	}
	__syncthreads();
	if (mine)
		c[at] = v;
	__syncthreads();
	mhc_balance(c, mine, at, k, hc, hc, eps);
	for (int i = 1; i < iters; i++) {
		mhc_balance(c, mine, at, j, 1, hc, eps);
		mhc_balance(c, mine, at, k, hc, hc, eps);
	}
}

KERNEL(cuda_base_mhc_read, struct mhc_read_args, MHC_MAX * MHC_MAX)
{
	__shared__ float pre[MHC_MAX], comb[MHC_MAX * MHC_MAX];
	int64_t t = blockIdx.x, n = static_cast<int64_t>(a.hc) * a.dim;
	int hc = a.hc, i = threadIdx.x, n_mix = a.comb ? (2 + hc) * hc : hc;
	const float *mix = a.mix + t * (n_mix + 1), *x = a.streams + t * n;
	float r = 1.0f / sqrtf(mix[n_mix] / static_cast<float>(n) + a.norm_eps);

	if (i < hc)
		pre[i] = mhc_round(a.prec, mhc_sigmoid(mhc_round(a.prec, mix[i] * r) * a.scale[0] + a.base[i]) + a.hc_eps);
	if (a.comb) {
		if (i < hc)
			a.post[t * hc + i] = mhc_round(a.prec, 2.0f * mhc_sigmoid(
				mhc_round(a.prec, mix[hc + i] * r) * a.scale[1] + a.base[hc + i]));
		if (i < hc * hc)
			comb[i] = mhc_round(a.prec, mix[2 * hc + i] * r) * a.scale[2] + a.base[2 * hc + i];
		__syncthreads();
		mhc_sinkhorn(comb, hc, a.iters, a.hc_eps);
		if (i < hc * hc)
			a.comb[t * hc * hc + i] = mhc_round(a.prec, comb[i]);
	}
	__syncthreads();
	for (int d = i; d < a.dim; d += blockDim.x) {
		float sum = 0;

		for (int j = 0; j < hc; j++)
			sum += pre[j] * mhc_round(a.prec, x[static_cast<int64_t>(j) * a.dim + d]);
		a.y[t * a.dim + d] = mhc_round(a.prec, sum);
	}
}

/* One thread has one column of all streams. */
KERNEL(cuda_base_mhc_post, struct mhc_post_args, 256)
{
	int64_t t = blockIdx.x, d = static_cast<int64_t>(blockIdx.y) * 256 + threadIdx.x;
	const float *post = a.post + t * a.hc, *comb = a.comb + t * a.hc * a.hc;
	float *x = a.streams + t * a.hc * a.dim + d, old[MHC_MAX], y;

	if (d >= a.dim)
		return;
	y = mhc_round(a.prec, a.y[t * a.dim + d]);
	UNROLL
	for (int j = 0; j < MHC_MAX; j++)
		if (j < a.hc)
			old[j] = mhc_round(a.prec, x[static_cast<int64_t>(j) * a.dim]);
	for (int k = 0; k < a.hc; k++) {
		float sum = post[k] * y;

		UNROLL
		for (int j = 0; j < MHC_MAX; j++)
			if (j < a.hc)
				sum += comb[j * a.hc + k] * old[j];
		x[static_cast<int64_t>(k) * a.dim] = mhc_round(a.prec, sum);
	}
}
