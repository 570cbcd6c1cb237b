/* SPDX-License-Identifier: MIT
 * dot_fp8_parts.h - what dot_fp8.c's ways for few and for many activation rows share.
 * Threads: any, each on outputs of its own. Locks: none. */
#ifndef AVX512_DOT_FP8_PARTS_H
#define AVX512_DOT_FP8_PARTS_H

#include "plugins/avx512/dot_fp8.h"
#include "plugins/avx512/e4m3.h"

#define DOT_LANES 32             /* bf16 values of a register */
#define DOT_ROWS 16              /* rows that are reduced together */

static inline int64_t dot_n_block(int64_t cols)
{
	return (cols + AVX512_BLOCK - 1) / AVX512_BLOCK;
}

static inline const uint8_t *dot_scales(const struct dsv4_weight *w, int64_t r)
{
	return (const uint8_t *)w->scale + r / AVX512_BLOCK * dot_n_block(w->cols);
}

E4M3_INLINE __m512 dot_add(__m512 sum, __m512i a, __m512i b)
{
	return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* Writes output columns r to r + n of the i-th activation row. */
static inline void dot_store(const struct avx512_product *p, int64_t i, int64_t r, int64_t n, __m512 v)
{
	float *y = p->y + (p->to ? p->to[i] : i) * p->ldy + r;

	avx512_store(y, n, p->accumulate ? _mm512_add_ps(avx512_load(y, n), v) : v);
}

static inline const uint16_t *dot_act(const struct avx512_product *p, int64_t group, int64_t i)
{
	const struct avx512_dot_act *d = p->a->dot;

	return d->half + (p->from ? p->from[i] : i) * d->ld + group * AVX512_DOT_CHAINS * d->pitch * DOT_LANES;
}

/* avx512_dot_fp8() for many activation rows. */
void avx512_dot_fp8_many(const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1, int64_t i0,
			 int64_t n);

#endif
