/* SPDX-License-Identifier: MIT
 * vec.h - x86/vec.h by this folder's names.
 * Threads: any. Locks: none. */
#ifndef AVX512_VEC_H
#define AVX512_VEC_H

#include "plugins/x86/vec.h"

#define AVX512_LANES VEC_LANES
#define AVX512_BLOCK 128 /* columns that share an activation scale, and an FP8 weight scale */

#define avx512_min x86_min
#define avx512_load vec_load
#define avx512_store vec_store
#define avx512_exp vec_exp

static inline int64_t avx512_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Bytes at any address: checkpoints align nothing. */
static inline const void *avx512_at(const void *base, int64_t offset)
{
	return (const uint8_t *)base + offset;
}

/* The first n lanes. */
static inline __mmask16 avx512_mask(int64_t n)
{
	return vec_first(n);
}

#endif
