/* SPDX-License-Identifier: MIT
 * dot_f32_parts.h - what dot_f32.c's ways for few and for many activation rows share.
 * Threads: any, each on outputs of its own. Locks: none. */
#ifndef AVX512_DOT_F32_PARTS_H
#define AVX512_DOT_F32_PARTS_H

#include "plugins/avx512/dot_f32.h"
#include "plugins/avx512/dot_fp8.h"
#include "plugins/avx512/e4m3.h"

#define F32_ROWS 16       /* rows that are reduced together */
#define F32_VECS (AVX512_BLOCK / AVX512_LANES)


#define F32_INLINE static inline __attribute__((always_inline))

/* What a call works on. */
struct avx512_f32_job {
	const struct avx512_product *p;
	int64_t group, n_scale; /* n_scale: activation scales of a group */
	int bf16, left_over;
};

static inline int64_t f32_from(const struct avx512_f32_job *j, int64_t i)
{
	return j->p->from ? j->p->from[i] : i;
}

static const float *f32_x(const struct avx512_f32_job *j, int64_t i)
{
	const struct avx512_act *a = j->p->a;

	return a->x + f32_from(j, i) * a->ldx + j->group * a->cols;
}

/* The scales of an activation row, one per block, or NULL: all 1. */
static const float *f32_act_scale(const struct avx512_f32_job *j, int64_t i)
{
	const struct avx512_act *a = j->p->a;

	return a->scale ? a->scale + (f32_from(j, i) * a->n_group + j->group) * j->n_scale : NULL;
}

/* Writes n output columns from r on of the i-th activation row. */
static inline void f32_store(const struct avx512_f32_job *j, int64_t i, int64_t r, int64_t n, __m512 v)
{
	const struct avx512_product *p = j->p;
	float *y = p->y + (p->to ? p->to[i] : i) * p->ldy + r;

	if (j->left_over && avx512_dot_act_fits(p, j->group, i))
		return;
	avx512_store(y, n, p->accumulate ? _mm512_add_ps(avx512_load(y, n), v) : v);
}

/* ---- blocks of weights in registers ---- */

/* 128 columns at p, which is somewhere in a row; fetches what is `ahead` bytes further on. */
typedef void f32_block_f(const uint8_t *p, int64_t ahead, __m512 out[F32_VECS]);

F32_INLINE void f32_block_f32(const uint8_t *p, int64_t ahead, __m512 out[F32_VECS])
{
#pragma GCC unroll 8
	for (int i = 0; i < F32_VECS; i++) {
		out[i] = _mm512_loadu_ps(p + 64 * i);
		_mm_prefetch((const char *)p + ahead + 64 * i, _MM_HINT_T0);
	}
}

F32_INLINE void f32_block_bf16(const uint8_t *p, int64_t ahead, __m512 out[F32_VECS])
{
	/* Value i of 32 to the upper half of lane i, of the first sixteen and the others. */
	const __m512i lo = _mm512_setr_epi32(0, 1 << 16, 2 << 16, 3 << 16, 4 << 16, 5 << 16, 6 << 16, 7 << 16, 8 << 16,
					     9 << 16, 10 << 16, 11 << 16, 12 << 16, 13 << 16, 14 << 16, 15 << 16);
	const __m512i hi = _mm512_or_si512(lo, _mm512_set1_epi32(16 << 16));

#pragma GCC unroll 4
	for (int i = 0; i < F32_VECS / 2; i++) {
		__m512i v = _mm512_loadu_si512(p + 64 * i);

		__asm__("" : "+v"(v)); /* loaded once, as in e4m3_load() */
		_mm_prefetch((const char *)p + ahead + 64 * i, _MM_HINT_T0);
		out[2 * i] = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, lo, v));
		out[2 * i + 1] = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, hi, v));
	}
}

E4M3_INLINE void f32_block_fp8(const uint8_t *p, int64_t ahead, __m512 out[F32_VECS])
{
	struct e4m3_table d = e4m3_table(127);
	__m512i codes[2];

	e4m3_load(p, AVX512_BLOCK, ahead, codes);
	e4m3_f32(&d, codes[0], out);
	e4m3_f32(&d, codes[1], out + 4);
}

/* avx512_dot_f32() for many activation rows. */
void avx512_dot_f32_many(const struct avx512_f32_job *j, int64_t r0, int64_t r1, int64_t i0, int64_t n);

#endif
