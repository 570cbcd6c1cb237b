/* SPDX-License-Identifier: MIT
 * numbers.cuh - weights as a checkpoint holds them, read by one thread in chunks of 16 columns.
 *
 * A chunk never crosses a block that shares a scale (128, 32 or 16 columns), so that it has one factor in every format.
 * Past the last column it is zero. */
#ifndef CUDA_NUMBERS_CUH
#define CUDA_NUMBERS_CUH

#include "plugins/cuda/kernel.cuh"
#include "plugins/dsv4_plugin.h"

#define CHUNK 16      /* columns */
#define ACT_BLOCK 128 /* columns of an activation that share one FP8 scale */

/* 32-bit words of one chunk. */
#define CHUNK_WORDS(fmt) \
	((fmt) == DSV4_W_F32 ? CHUNK : (fmt) == DSV4_W_BF16 ? CHUNK / 2 : (fmt) == DSV4_W_FP8 ? CHUNK / 4 : CHUNK / 8)

/* N words from any address, of which the first n bytes are there; the rest become zero. */
template <int N> __device__ inline void words_load(const uint8_t *p, int64_t n, uint32_t (&word)[N])
{
	uintptr_t at = reinterpret_cast<uintptr_t>(p);

	if (N % 4 == 0 && n >= 4 * N && at % 16 == 0) {
		UNROLL
		for (int i = 0; i + 3 < N; i += 4) {
			uint4 v = reinterpret_cast<const uint4 *>(p)[i / 4];

			word[i] = v.x;
			word[i + 1] = v.y;
			word[i + 2] = v.z;
			word[i + 3] = v.w;
		}
	} else if (n >= 4 * N && at % 4 == 0) {
		UNROLL
		for (int i = 0; i < N; i++)
			word[i] = reinterpret_cast<const uint32_t *>(p)[i];
	} else {
		UNROLL
		for (int i = 0; i < N; i++)
			word[i] = 0;
		UNROLL
		for (int b = 0; b < 4 * N; b++)
			if (b < n)
				word[b / 4] |= static_cast<uint32_t>(p[b]) << b % 4 * 8;
	}
}

/* dsv4_e4m3_to_f32 without its branches: the code's fields where a float has them, times the difference of the biases.
 * Codes below the normal ones become denormal floats, which multiply as well. */
__device__ inline float e4m3_value(uint32_t code)
{
	float f = dsv4_f32_from_bits((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;

	return (code & 0x7f) == 0x7f ? dsv4_f32_from_bits(0x7fc00000u) : f;
}

/* Likewise dsv4_e2m1_to_f32. */
__device__ inline float e2m1_value(uint32_t code)
{
	return dsv4_f32_from_bits((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
}

template <int FMT> __device__ inline void chunk_values(const uint32_t (&word)[CHUNK_WORDS(FMT)], float (&v)[CHUNK])
{
	UNROLL
	for (int i = 0; i < CHUNK; i++) {
		if (FMT == DSV4_W_F32)
			v[i] = dsv4_f32_from_bits(word[i]);
		else if (FMT == DSV4_W_BF16)
			v[i] = dsv4_bf16_to_f32(static_cast<uint16_t>(word[i / 2] >> i % 2 * 16));
		else if (FMT == DSV4_W_FP8)
			v[i] = e4m3_value(word[i / 4] >> i % 4 * 8 & 255);
		else
			v[i] = e2m1_value(word[i / 8] >> i % 8 * 4 & 15);
	}
}

/* Row r, columns [k, k + 16) of w, before scaling; k is a multiple of 16. */
template <int FMT> __device__ inline void chunk_load(const dsv4_weight &w, int64_t r, int64_t k, float (&v)[CHUNK])
{
	const uint8_t *data = static_cast<const uint8_t *>(w.data);
	uint32_t word[CHUNK_WORDS(FMT)];

	if (FMT == DSV4_W_F32)
		words_load(data + (r * w.cols + k) * 4, (w.cols - k) * 4, word);
	else if (FMT == DSV4_W_BF16)
		words_load(data + (r * w.cols + k) * 2, (w.cols - k) * 2, word);
	else if (FMT == DSV4_W_FP8)
		words_load(data + r * w.cols + k, w.cols - k, word);
	else
		words_load(data + r * ((w.cols + 1) / 2) + k / 2, (w.cols - k + 1) / 2, word);
	chunk_values<FMT>(word, v);
}

__device__ inline float unaligned_f32(const uint8_t *p)
{
	uint32_t word[1];

	words_load(p, 4, word);
	return dsv4_f32_from_bits(word[0]);
}

/* The factor of that chunk. */
template <int FMT> __device__ inline float chunk_scale(const dsv4_weight &w, int64_t r, int64_t k)
{
	const uint8_t *scale = static_cast<const uint8_t *>(w.scale);
	const int block = FMT == DSV4_W_FP8 ? 128 : FMT == DSV4_W_FP4 ? 32 : 16;
	int64_t i;

	if (FMT == DSV4_W_F32 || FMT == DSV4_W_BF16)
		return 1.0f;
	i = (FMT == DSV4_W_FP8 ? r / 128 : r) * ((w.cols + block - 1) / block) + k / block;
	if (FMT == DSV4_W_NVFP4)
		return dsv4_e4m3_to_f32(scale[i]) * w.scale2;
	if (FMT == DSV4_W_FP8 && w.sfmt == DSV4_S_F32)
		return unaligned_f32(scale + 4 * i);
	return dsv4_e8m0_to_f32(scale[i]);
}

#endif
