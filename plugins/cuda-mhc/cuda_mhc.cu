/* SPDX-License-Identifier: MIT
 * cuda_mhc.cu - hyper-connections, read for a layer and before the head, in two launches whatever the batch is.
 *
 * The dot products over all streams are cut into slices of 2048 terms, so that one token keeps many multiprocessors busy,
 * and four tokens share a read of the weights. In a slice lane l of 32 sums the terms l, l + 32, ... by fused
 * multiply-adds, then the lanes are added; slices are added in rising order by whoever needs the sum. Sinkhorn runs in one
 * warp, a lane having a row: what a column needs comes by shuffles. */
#include "plugins/cuda-mhc/mhc.h"
#include "plugins/cuda/reduce.cuh"

__device__ static float mhc_round(uint32_t prec, float x)
{
	return prec == DSV4_PREC_BF16 ? dsv4_round_bf16(x) : x;
}

__device__ static float mhc_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* One warp has one mix, or the sum of squares, of the tile's n tokens. */
KERNEL(cuda_mhc_mix, struct cuda_mhc_mix_args, MHC_WARPS * WARP)
{
	__shared__ float x[MHC_TOKENS][MHC_SLICE];
	int64_t k0 = static_cast<int64_t>(blockIdx.x) * MHC_SLICE, t0 = static_cast<int64_t>(blockIdx.y) * MHC_TOKENS;
	int row = blockIdx.z * MHC_WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
	int width = a.n - k0 < MHC_SLICE ? static_cast<int>(a.n - k0) : MHC_SLICE;
	int n = a.n_tok - t0 < MHC_TOKENS ? static_cast<int>(a.n_tok - t0) : MHC_TOKENS;
	const float *fn = a.fn + row * a.n + k0;
	float sum[MHC_TOKENS] = { 0 };

	for (int t = 0; t < n; t++)
		for (int c = threadIdx.x; c < width; c += MHC_WARPS * WARP)
			x[t][c] = mhc_round(a.prec, a.streams[(t0 + t) * a.n + k0 + c]);
	__syncthreads();
	if (row > a.n_mix)
		return;
	for (int c = lane; c < width; c += WARP) {
		float w = row < a.n_mix ? mhc_round(a.prec, fn[c]) : 0.0f;

		UNROLL
		for (int t = 0; t < MHC_TOKENS; t++)
			if (t < n)
				sum[t] = fmaf(row < a.n_mix ? w : x[t][c], x[t][c], sum[t]);
	}
	UNROLL
	for (int t = 0; t < MHC_TOKENS; t++) {
		float all = warp_sum(sum[t]);

		if (t < n && lane == 0)
			a.part[(blockIdx.x * static_cast<int64_t>(a.n_tok) + t0 + t) * (a.n_mix + 1) + row] = all;
	}
}

/* Row j = lane % HC of the matrix is in c: divides it by its sum + eps. */
template <int HC> __device__ static void mhc_rows(float (&c)[HC], int hc, float eps)
{
	float sum = 0;

	UNROLL
	for (int k = 0; k < HC; k++)
		sum += c[k]; /* zero from hc on */
	UNROLL
	for (int k = 0; k < HC; k++)
		if (k < hc)
			c[k] /= sum + eps;
}

template <int HC> __device__ static void mhc_columns(float (&c)[HC], int hc, float eps)
{
	UNROLL
	for (int k = 0; k < HC; k++) {
		float sum = c[k];

		for (int apart = 1; apart < HC; apart *= 2)
			sum += __shfl_xor_sync(ALL_LANES, sum, apart);
		if (k < hc)
			c[k] /= sum + eps;
	}
}

/* c nearly doubly stochastic: softmax of rows, + eps, columns, then iters - 1 times rows, columns. Lanes with rows from hc
 * on have zeroes in c, and keep them. */
template <int HC> __device__ static void mhc_sinkhorn(float (&c)[HC], int hc, int iters, float eps)
{
	bool mine = static_cast<int>(threadIdx.x % HC) < hc;
	float top = -INFINITY, sum = 0;

	UNROLL
	for (int k = 0; k < HC; k++)
		if (k < hc)
			top = fmaxf(top, c[k]);
	UNROLL
	for (int k = 0; k < HC; k++)
		if (k < hc)
			sum += c[k] = expf(c[k] - top);
	UNROLL
	for (int k = 0; k < HC; k++)
		c[k] = mine && k < hc ? c[k] / sum + eps : 0.0f;
	mhc_columns<HC>(c, hc, eps);
	for (int i = 1; i < iters; i++) {
		if (mine)
			mhc_rows<HC>(c, hc, eps);
		mhc_columns<HC>(c, hc, eps);
	}
}

/* What the first warp of a token's first block makes of the mixes. */
template <int HC> __device__ static void mhc_write(const struct cuda_mhc_read_args &a, int64_t t, const float *mix, float r)
{
	int hc = a.hc, j = threadIdx.x % HC;
	float c[HC] = { 0 };

	if (j < hc) {
		UNROLL
		for (int k = 0; k < HC; k++)
			if (k < hc)
				c[k] = mhc_round(a.prec, mix[(2 + j) * hc + k] * r) * a.scale[2] +
				       a.base[(2 + j) * hc + k];
	}
	mhc_sinkhorn<HC>(c, hc, a.iters, a.hc_eps);
	if (j >= hc || threadIdx.x >= HC)
		return;
	a.post[t * hc + j] = mhc_round(a.prec, 2.0f * mhc_sigmoid(mhc_round(a.prec, mix[hc + j] * r) * a.scale[1] +
								 a.base[hc + j]));
	UNROLL
	for (int k = 0; k < HC; k++)
		if (k < hc)
			a.comb[(t * hc + j) * hc + k] = mhc_round(a.prec, c[k]);
}

template <int HC> __device__ static void mhc_read(const struct cuda_mhc_read_args &a, float *mix, float *pre)
{
	int64_t t = blockIdx.x, n = static_cast<int64_t>(a.hc) * a.dim, d0 = static_cast<int64_t>(blockIdx.y) * MHC_COLUMNS;
	int64_t end = d0 + MHC_COLUMNS < a.dim ? d0 + MHC_COLUMNS : a.dim;
	int hc = a.hc, n_mix = a.comb ? (2 + hc) * hc : hc, i = threadIdx.x;
	const float *x = a.streams + t * n;
	float r;

	for (int m = i; m <= n_mix; m += blockDim.x) {
		float sum = 0;

		for (int s = 0; s < a.n_slice; s++)
			sum += a.part[(s * static_cast<int64_t>(a.n_tok) + t) * (n_mix + 1) + m];
		mix[m] = sum;
	}
	__syncthreads();
	r = 1.0f / sqrtf(mix[n_mix] / static_cast<float>(n) + a.norm_eps);
	if (i < hc)
		pre[i] = mhc_round(a.prec, mhc_sigmoid(mhc_round(a.prec, mix[i] * r) * a.scale[0] + a.base[i]) + a.hc_eps);
	__syncthreads();
	/* The other warps go on: nobody waits for Sinkhorn. */
	if (a.comb && blockIdx.y == 0 && i < WARP)
		mhc_write<HC>(a, t, mix, r);
	for (int64_t d = d0 + i; d < end; d += blockDim.x) {
		float sum = 0;

		UNROLL
		for (int j = 0; j < HC; j++)
			if (j < hc)
				sum += pre[j] * mhc_round(a.prec, x[static_cast<int64_t>(j) * a.dim + d]);
		a.y[t * a.dim + d] = mhc_round(a.prec, sum);
	}
}

/* A published model has 4 streams. */
#define MHC_READ(hc) \
	KERNEL(cuda_mhc_read_##hc, struct cuda_mhc_read_args, 256) \
	{ \
		__shared__ float mix[(2 + hc) * hc + 1], pre[hc]; \
\
		mhc_read<hc>(a, mix, pre); \
	}
MHC_READ(4)
MHC_READ(16)
