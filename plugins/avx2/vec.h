/* SPDX-License-Identifier: MIT
 * vec.h - ref's sums in AVX2 registers, and the addresses of stored rows.
 * Threads: any. Locks: none. */
#ifndef AVX2_VEC_H
#define AVX2_VEC_H

#include "plugins/dsv4_plugin.h"

#include <immintrin.h>

#define AVX2_BLOCK 128 /* terms of one partial sum, as in ref */
#define AVX2_LANES 8

static inline int64_t avx2_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Bytes at any address: checkpoints align nothing. */
static inline const void *avx2_at(const void *base, int64_t offset)
{
	return (const uint8_t *)base + offset;
}

/* Mask of the first n lanes. */
static inline __m256i avx2_lanes(int64_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)avx2_min(n, AVX2_LANES)),
				  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first n values at p, zeroes in the other lanes. Zero times zero adds nothing to a sum that began at +0,
 * so the tail of a row needs no other treatment. */
static inline __m256 avx2_load(const float *p, int64_t n)
{
	return n >= AVX2_LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, avx2_lanes(n));
}

static inline void avx2_store(float *p, int64_t n, __m256 v)
{
	if (n >= AVX2_LANES)
		_mm256_storeu_ps(p, v);
	else
		_mm256_maskstore_ps(p, avx2_lanes(n), v);
}

/* ref's tree over the lanes: ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). */
static inline float avx2_tree(__m256 v)
{
	__m128 e = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	__m128 f = _mm_add_ps(e, _mm_movehl_ps(e, e));

	return _mm_cvtss_f32(_mm_add_ss(f, _mm_movehdup_ps(f)));
}

/* The first step of two trees: a in the lower half, b in the upper. */
static inline __m256 avx2_fold4(__m256 a, __m256 b)
{
	return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/* The second step of four. */
static inline __m256 avx2_fold2(__m256 a, __m256 b)
{
	__m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);

	return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
			     _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}

/* The trees of eight registers at once: lane i is avx2_tree(s[i]). */
static inline __m256 avx2_tree8(const __m256 s[8])
{
	__m256 lo = avx2_fold2(avx2_fold4(s[0], s[4]), avx2_fold4(s[1], s[5]));
	__m256 hi = avx2_fold2(avx2_fold4(s[2], s[6]), avx2_fold4(s[3], s[7]));

	return _mm256_add_ps(_mm256_shuffle_ps(lo, hi, 0x88), _mm256_shuffle_ps(lo, hi, 0xdd));
}

/* One block of n <= AVX2_BLOCK terms of x against eight rows at once; lane i of the result is row i's sum. */
static inline __m256 avx2_dot8_block(const float *x, const float *const row[8], int64_t n)
{
	__m256 s[8], v;
	int64_t k = 0;

	for (int i = 0; i < 8; i++)
		s[i] = _mm256_setzero_ps();
	for (; k + AVX2_LANES <= n; k += AVX2_LANES) {
		v = _mm256_loadu_ps(x + k);
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			s[i] = _mm256_add_ps(s[i], _mm256_mul_ps(v, _mm256_loadu_ps(row[i] + k)));
	}
	if (k < n) {
		v = avx2_load(x + k, n - k);
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++)
			s[i] = _mm256_add_ps(s[i], _mm256_mul_ps(v, avx2_load(row[i] + k, n - k)));
	}
	return avx2_tree8(s);
}

/* The same over rows of any length: blocks added in rising order. */
static inline __m256 avx2_dot8(const float *x, const float *const row[8], int64_t n)
{
	__m256 sum = _mm256_setzero_ps();
	const float *at[8];

	for (int64_t k = 0; k < n; k += AVX2_BLOCK) {
		for (int i = 0; i < 8; i++)
			at[i] = row[i] + k;
		sum = _mm256_add_ps(sum, avx2_dot8_block(x + k, at, avx2_min(AVX2_BLOCK, n - k)));
	}
	return sum;
}

/* One row against one other. */
static inline float avx2_dot(const float *a, const float *b, int64_t n)
{
	float sum = 0;

	for (int64_t k = 0; k < n; k += AVX2_BLOCK) {
		int64_t end = k + avx2_min(AVX2_BLOCK, n - k);
		__m256 s = _mm256_setzero_ps();

		for (int64_t i = k; i < end; i += AVX2_LANES)
			s = _mm256_add_ps(s, _mm256_mul_ps(avx2_load(a + i, end - i),
							   avx2_load(b + i, end - i)));
		sum += avx2_tree(s);
	}
	return sum;
}

/* libm's exp of each lane: no vector version gives its bits. */
static inline __m256 avx2_exp(__m256 x)
{
	float v[AVX2_LANES];

	_mm256_storeu_ps(v, x);
	for (int i = 0; i < AVX2_LANES; i++)
		v[i] = expf(v[i]);
	return _mm256_loadu_ps(v);
}

static inline __m256 avx2_sigmoid(__m256 x)
{
	__m256 one = _mm256_set1_ps(1.0f);

	return _mm256_div_ps(one, _mm256_add_ps(one, avx2_exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)))));
}

/* Round to nearest even bf16; NaN stays NaN. */
static inline __m256 avx2_bf16(__m256 f)
{
	__m256i b = _mm256_castps_si256(f);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
	__m256i up = _mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	__m256i nan = _mm256_or_si256(b, _mm256_set1_epi32(0x400000));
	__m256 r = _mm256_blendv_ps(_mm256_castsi256_ps(up), _mm256_castsi256_ps(nan),
				    _mm256_cmp_ps(f, f, _CMP_UNORD_Q));

	return _mm256_and_ps(r, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

static inline const float *avx2_row(const struct dsv4_rows *r, int64_t i)
{
	return r->page[i / r->page_rows] + i % r->page_rows * r->dim;
}

/* The sequence that token t of the batch belongs to; NULL when none does. */
static inline const struct dsv4_seq *avx2_seq(const struct dsv4_seq *seq, int32_t n_seq, int64_t t)
{
	for (int32_t i = 0; i < n_seq; i++)
		if (t >= seq[i].tok0 && t < (int64_t)seq[i].tok0 + seq[i].n_tok)
			return &seq[i];
	return NULL;
}

/* How many of r's rows the token at position pos sees. */
static inline int64_t avx2_visible(const struct dsv4_rows *r, int32_t ratio, int64_t pos)
{
	return ratio > 0 ? avx2_min((pos + 1) / ratio, r->n) : 0;
}

#endif
