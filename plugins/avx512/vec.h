/* SPDX-License-Identifier: MIT
 * vec.h - sums in AVX-512 registers with fused multiply-add, exp, and the addresses of stored rows.
 * Threads: any. Locks: none.
 *
 * Every sum runs over lanes k, k + 16, k + 32... of one register per element and ends in avx512_sum, so its order
 * depends on the element alone. */
#ifndef AVX512_VEC_H
#define AVX512_VEC_H

#include "plugins/dsv4_plugin.h"

#include <immintrin.h>

#define AVX512_LANES 16
#define AVX512_BLOCK 128 /* columns that share an activation scale, and an FP8 weight scale */

static inline int64_t avx512_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Bytes at any address: checkpoints align nothing. */
static inline const void *avx512_at(const void *base, int64_t offset)
{
	return (const uint8_t *)base + offset;
}

/* The first n lanes. */
static inline __mmask16 avx512_mask(int64_t n)
{
	return (__mmask16)(n >= AVX512_LANES ? 0xffff : (1u << n) - 1);
}

/* The first n values at p, zeroes in the other lanes, which add nothing to any sum. */
static inline __m512 avx512_load(const float *p, int64_t n)
{
	return _mm512_maskz_loadu_ps(avx512_mask(n), p);
}

static inline void avx512_store(float *p, int64_t n, __m512 v)
{
	_mm512_mask_storeu_ps(p, avx512_mask(n), v);
}

/* Halves onto each other until one lane is left. */
static inline float avx512_sum(__m512 v)
{
	__m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
	__m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

	q = _mm_add_ps(q, _mm_movehl_ps(q, q));
	return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* One row against one other. */
static inline float avx512_dot(const float *a, const float *b, int64_t n)
{
	__m512 s = _mm512_setzero_ps();

	for (int64_t k = 0; k < n; k += AVX512_LANES)
		s = _mm512_fmadd_ps(avx512_load(a + k, n - k), avx512_load(b + k, n - k), s);
	return avx512_sum(s);
}

/* x against eight rows at once; out[i] is avx512_dot(x, row[i], n). */
static inline void avx512_dot8(const float *x, const float *const row[8], int64_t n, float out[8])
{
	__m512 s[8];

#pragma GCC unroll 8
	for (int i = 0; i < 8; i++)
		s[i] = _mm512_setzero_ps();
	for (int64_t k = 0; k < n; k += AVX512_LANES) {
		__mmask16 m = avx512_mask(n - k);
		__m512 v = _mm512_maskz_loadu_ps(m, x + k);

#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			s[i] = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(m, row[i] + k), s[i]);
	}
#pragma GCC unroll 8
	for (int i = 0; i < 8; i++)
		out[i] = avx512_sum(s[i]);
}

/* exp(x) = 2^n * exp(r), |r| <= ln 2 / 2, by Taylor's polynomial of degree 7: within 1 unit in the last place (0.94
 * over all floats that were tried, every third).
 * NaN stays NaN; beyond the clamps the result is 0 or infinite anyway. */
static inline __m512 avx512_exp(__m512 x)
{
	__m512 n, r, p;

	x = _mm512_min_ps(_mm512_set1_ps(90.0f), x); /* in this order NaN comes through */
	x = _mm512_max_ps(_mm512_set1_ps(-110.0f), x);
	n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
				 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
	p = _mm512_set1_ps(1.0f / 5040);
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
	return _mm512_scalef_ps(p, n);
}

static inline __m512 avx512_sigmoid(__m512 x)
{
	__m512 one = _mm512_set1_ps(1.0f);

	return _mm512_div_ps(one, _mm512_add_ps(one, avx512_exp(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f)))));
}

/* Round to nearest even bf16; NaN stays NaN. */
static inline __m512 avx512_bf16(__m512 f)
{
	__m512i b = _mm512_castps_si512(f);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
	__m512i up = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));

	up = _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q), b, _mm512_set1_epi32(0x400000));
	return _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32((int)0xffff0000)));
}

static inline const float *avx512_row(const struct dsv4_rows *r, int64_t i)
{
	return r->page[i / r->page_rows] + i % r->page_rows * r->dim;
}

/* The sequence that token t of the batch belongs to; NULL when none does. */
static inline const struct dsv4_seq *avx512_seq(const struct dsv4_seq *seq, int32_t n_seq, int64_t t)
{
	for (int32_t i = 0; i < n_seq; i++)
		if (t >= seq[i].tok0 && t < (int64_t)seq[i].tok0 + seq[i].n_tok)
			return &seq[i];
	return NULL;
}

/* How many of r's rows the token at position pos sees. */
static inline int64_t avx512_visible(const struct dsv4_rows *r, int32_t ratio, int64_t pos)
{
	return ratio > 0 ? avx512_min((pos + 1) / ratio, r->n) : 0;
}

#endif
