/* SPDX-License-Identifier: MIT
 * reduce.cuh - sums, maxima and ranks over a warp and over a block, each in one order that no grid changes. */
#ifndef CUDA_REDUCE_CUH
#define CUDA_REDUCE_CUH

#include "plugins/cuda/kernel.cuh"

/* All lanes get the sum: lanes 16 apart first, neighbours last. */
__device__ inline float warp_sum(float v)
{
	for (int apart = WARP / 2; apart > 0; apart /= 2)
		v += __shfl_xor_sync(ALL_LANES, v, apart);
	return v;
}

/* fmaxf passes NaN over, so that its order does not matter. */
__device__ inline float warp_max(float v)
{
	for (int apart = WARP / 2; apart > 0; apart /= 2)
		v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, apart));
	return v;
}

#define SUM_BLOCK 128  /* terms */
#define SUM_LANES 8    /* threads that sum a block of them */
#define SUM_THREADS 256 /* most threads of a block of block_sum() */
#define SUM_PART (SUM_THREADS / SUM_LANES)

/* term(0) + ... + term(n - 1), in the order of ref's sums (plugins/ref/vec.h): blocks of 128 terms; in one, lane l of
 * eight sums the terms l, l + 8, ..., the lanes are added as a tree; then the blocks in rising order. All threads of the
 * block call it, a multiple of 32 and no more than SUM_THREADS, and get the sum. part: SUM_PART floats of shared memory. */
template <class F> __device__ inline float block_sum(int64_t n, float *part, F term)
{
	int group = threadIdx.x / SUM_LANES, lane = threadIdx.x % SUM_LANES, n_group = blockDim.x / SUM_LANES;
	float sum = 0;

	for (int64_t k0 = 0; k0 < n; k0 += n_group * SUM_BLOCK) {
		int64_t k = k0 + group * SUM_BLOCK, end = k + SUM_BLOCK < n ? k + SUM_BLOCK : n;
		float s = 0;

		for (int64_t i = k + lane; i < end; i += SUM_LANES)
			s += term(i);
		for (int apart = SUM_LANES / 2; apart > 0; apart /= 2)
			s += __shfl_xor_sync(ALL_LANES, s, apart);
		if (lane == 0)
			part[group] = s;
		__syncthreads();
		for (int g = 0; g < n_group && k0 + g * SUM_BLOCK < n; g++)
			sum += part[g];
		__syncthreads();
	}
	return sum;
}

/* How many threads of the block with lower numbers have `flag`; *ret_all: how many have it at all. count: 32 ints of
 * shared memory. All threads call it. */
__device__ inline int block_rank(bool flag, int *count, int *ret_all)
{
	int warp = threadIdx.x / WARP, n_warp = (blockDim.x + WARP - 1) / WARP;
	unsigned votes = __ballot_sync(ALL_LANES, flag);
	int rank = __popc(votes & ((1u << threadIdx.x % WARP) - 1)), all = 0;

	if (threadIdx.x % WARP == 0)
		count[warp] = __popc(votes);
	__syncthreads();
	for (int w = 0; w < n_warp; w++) {
		if (w < warp)
			rank += count[w];
		all += count[w];
	}
	__syncthreads();
	*ret_all = all;
	return rank;
}

#endif
