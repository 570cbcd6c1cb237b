/* SPDX-License-Identifier: MIT
 * topk.cuh - the k best of n scores, exactly: a block finds the k-th largest by radix selection, then picks in rising
 * order; of equal scores the lower rows. */
#ifndef CUDA_TOPK_CUH
#define CUDA_TOPK_CUH

#include "plugins/cuda/reduce.cuh"
#include "plugins/dsv4_numfmt.h"

#define TOPK_BINS 256 /* and at least as many threads */

struct topk_shared {
	int bin[TOPK_BINS], count[WARP];
	uint32_t byte;
	int want;
};

/* Orders floats as unsigned integers: NaN is 0, below -inf; -0 equals +0. */
__device__ inline uint32_t topk_key(float f)
{
	uint32_t b = dsv4_f32_bits(f + 0.0f);

	if (f != f)
		return 0;
	return b & 0x80000000u ? ~b : b | 0x80000000u;
}

/* Which bin holds the want-th largest of those counted, and how many of that bin belong to the `want`: m.byte, m.want. */
__device__ inline void topk_bin(struct topk_shared &m, int want)
{
	int b = threadIdx.x, mine = b < TOPK_BINS ? m.bin[b] : 0;

	/* bin[b] becomes the sum of all from b on */
	for (int apart = 1; apart < TOPK_BINS; apart *= 2) {
		int more = b + apart < TOPK_BINS ? m.bin[b + apart] : 0;

		__syncthreads();
		if (more)
			m.bin[b] += more;
		__syncthreads();
	}
	if (b < TOPK_BINS && m.bin[b] >= want && m.bin[b] - mine < want) {
		m.byte = b;
		m.want = want - (m.bin[b] - mine);
	}
	__syncthreads();
}

/* The k-th largest of the n > k > 0 keys, found one byte at a time from the top; *ret_equal says how many of those that
 * equal it belong to the k. */
template <class K> __device__ inline uint32_t topk_threshold(K key, int n, int k, struct topk_shared &m, int *ret_equal)
{
	uint32_t prefix = 0, mask = 0;

	for (int shift = 24; shift >= 0; shift -= 8) {
		if (threadIdx.x < TOPK_BINS)
			m.bin[threadIdx.x] = 0;
		__syncthreads();
		for (int i = threadIdx.x; i < n; i += blockDim.x) {
			uint32_t v = key(i);

			if ((v & mask) == prefix)
				atomicAdd(&m.bin[v >> shift & 255], 1);
		}
		__syncthreads();
		topk_bin(m, k);
		k = m.want;
		prefix |= m.byte << shift;
		mask |= 255u << shift;
		__syncthreads();
	}
	*ret_equal = k;
	return prefix;
}

/* Writes the k best of n > k > 0 rows in rising order. */
template <class K> __device__ inline void topk_pick(K key, int n, int k, struct topk_shared &m, int32_t *rows)
{
	int equal, n_equal = 0, n_taken = 0;
	uint32_t threshold = topk_threshold(key, n, k, m, &equal);

	for (int i0 = 0; i0 < n && n_taken < k; i0 += blockDim.x) {
		int i = i0 + threadIdx.x, all, at;
		uint32_t v = i < n ? key(i) : 0;
		bool same = i < n && v == threshold, take = i < n && v > threshold;

		at = n_equal + block_rank(same, m.count, &all);
		n_equal += all;
		take = take || (same && at < equal);
		at = n_taken + block_rank(take, m.count, &all);
		n_taken += all;
		if (take)
			rows[at] = i;
	}
}

/* One token's rows: writes how many are kept, and all when these are all. False: the k best are to be picked. */
__device__ inline bool topk_all(int n, int k, int32_t *rows, int32_t *count)
{
	if (threadIdx.x == 0)
		*count = n < k ? n : k;
	if (n > k)
		return k == 0;
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		rows[i] = i;
	return true;
}

#endif
