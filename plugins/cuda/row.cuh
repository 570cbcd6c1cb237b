/* SPDX-License-Identifier: MIT
 * row.cuh - what happens to one row before it is stored: rotation, Hadamard, rounding; as plugins/ref/round.c, to the bit.
 *
 * The row lies in shared memory, and the whole block works on it: each function begins and ends with all of it seen by
 * all threads. */
#ifndef CUDA_ROW_CUH
#define CUDA_ROW_CUH

#include "plugins/cuda/reduce.cuh"
#include "plugins/dsv4_plugin.h"

#define ROW_KV_BLOCK 64  /* values of a KV row that share one FP8 scale */
#define ROW_FP4_BLOCK 32 /* values of an index row that share one FP4 scale */

/* Rotates the pairs of x [rot] by cs [rot/2][2], or by the conjugate. */
__device__ inline void row_rope(float *x, int rot, const float *cs, bool inverse)
{
	for (int i = 2 * threadIdx.x; i < rot; i += 2 * blockDim.x) {
		float c = cs[i], s = inverse ? -cs[i + 1] : cs[i + 1];
		float re = x[i], im = x[i + 1];

		x[i] = re * c - im * s;
		x[i + 1] = re * s + im * c;
	}
	__syncthreads();
}

/* x := H x * n^-0.5, n a power of two. */
__device__ inline void row_hadamard(float *x, int n)
{
	float scale = 1.0f / sqrtf(static_cast<float>(n));

	for (int h = 1; h < n; h *= 2) {
		for (int p = threadIdx.x; p < n / 2; p += blockDim.x) {
			int j = p / h * 2 * h + p % h;
			float a = x[j], b = x[j + h];

			x[j] = a + b;
			x[j + h] = a - b;
		}
		__syncthreads();
	}
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		x[i] *= scale;
	__syncthreads();
}

/* Largest |x| of n values, for all lanes of the warp that asks; NaN is passed over. */
__device__ inline float row_amax(const float *x, int n)
{
	float m = 0;

	for (int i = threadIdx.x % WARP; i < n; i += WARP)
		m = fmaxf(m, fabsf(x[i]));
	return warp_max(m);
}

/* Blocks of `block` values, one warp each: FP8 or FP4 with one scale. */
__device__ inline void row_round_scaled(float *x, int n, int block, uint32_t round)
{
	for (int k = threadIdx.x / WARP * block; k < n; k += blockDim.x / WARP * block) {
		int m = block < n - k ? block : n - k;
		float amax = row_amax(x + k, m), s = round == DSV4_ROUND_FP8 ? dsv4_fp8_scale(amax) : dsv4_fp4_scale(amax);

		for (int i = k + threadIdx.x % WARP; i < k + m; i += WARP) {
			if (round == DSV4_ROUND_FP8)
				x[i] = dsv4_e4m3_to_f32(dsv4_f32_to_e4m3(x[i] / s)) * s;
			else if (x[i] == x[i]) /* e2m1 has no NaN: leave it one */
				x[i] = dsv4_e2m1_to_f32(dsv4_f32_to_e2m1(x[i] / s)) * s;
		}
	}
	__syncthreads();
}

__device__ inline void row_round_bf16(float *x, int n)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		x[i] = dsv4_round_bf16(x[i]);
	__syncthreads();
}

/* Rounds a row of n values, the last `rot` of them just rotated, to what is stored; one of kv and index is NONE. */
__device__ inline void row_round(float *x, int n, int rot, uint32_t kv, uint32_t index)
{
	if (kv == DSV4_ROUND_BF16)
		row_round_bf16(x, n - rot);
	if (kv == DSV4_ROUND_FP8)
		row_round_scaled(x, n - rot, ROW_KV_BLOCK, kv);
	if (index == DSV4_ROUND_NONE)
		return;
	row_hadamard(x, n);
	if (index == DSV4_ROUND_BF16)
		row_round_bf16(x, n);
	else
		row_round_scaled(x, n, index == DSV4_ROUND_FP8 ? n : ROW_FP4_BLOCK, index);
}

#endif
