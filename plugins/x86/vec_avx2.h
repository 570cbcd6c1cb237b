/* SPDX-License-Identifier: MIT
 * vec_avx2.h - a vector of eight floats; ref's sums and libm's exp. Included by vec.h, which says what each name means.
 * Threads: any. Locks: none. */
#ifndef X86_VEC_AVX2_H
#define X86_VEC_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

typedef __m256 vec;
typedef int32_t veci __attribute__((vector_size(32)));
typedef uint32_t vecu __attribute__((vector_size(32)));
typedef __m256 vecm; /* all bits of a lane, or none */

#define VEC_LANES 8
#define VEC_BLOCK 128

static inline vec vec_set(float f)
{
	return _mm256_set1_ps(f);
}

static inline unsigned vec_lanes(int64_t n)
{
	return n >= VEC_LANES ? 0xff : n > 0 ? (1u << n) - 1 : 0;
}

static inline __m256i vec_lanes_mask(int64_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < VEC_LANES ? n : VEC_LANES)),
				  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vecm vec_first(int64_t n)
{
	return _mm256_castsi256_ps(vec_lanes_mask(n));
}

static inline vec vec_load(const float *p, int64_t n)
{
	return n >= VEC_LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, vec_lanes_mask(n));
}

static inline void vec_store(float *p, int64_t n, vec v)
{
	if (n >= VEC_LANES)
		_mm256_storeu_ps(p, v);
	else
		_mm256_maskstore_ps(p, vec_lanes_mask(n), v);
}

/* A product of its own, rounded as ref rounds it. */
static inline vec vec_fma(vec a, vec b, vec c)
{
	return _mm256_add_ps(c, _mm256_mul_ps(a, b));
}

static inline vec vec_min(vec a, vec b)
{
	return _mm256_min_ps(a, b);
}

static inline vec vec_max(vec a, vec b)
{
	return _mm256_max_ps(a, b);
}

static inline vec vec_xor(vec a, vec b)
{
	return _mm256_xor_ps(a, b);
}

static inline vec vec_abs(vec a)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* The nearest integers, ties to even. */
static inline vec vec_rint(vec a)
{
	return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vecm vec_nan(vec a)
{
	return _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
}

static inline vecm vec_less(vec a, vec b)
{
	return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

/* Not a <= b, not a < b: NaN passes. */
static inline vecm vec_over(vec a, vec b)
{
	return _mm256_cmp_ps(a, b, _CMP_NLE_UQ);
}

static inline vecm vec_least(vec a, vec b)
{
	return _mm256_cmp_ps(a, b, _CMP_NLT_UQ);
}

static inline vec vec_pick(vecm m, vec yes, vec no)
{
	return _mm256_blendv_ps(no, yes, m);
}

static inline veci vec_count(veci n, vecm m)
{
	return n - (veci)m;
}

/* table[i], i < 8 */
static inline vec vec_look_up(const float table[8], veci i)
{
	return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
}

/* Each lane's neighbour: of the other parity. */
static inline vec vec_swap(vec a)
{
	return _mm256_permute_ps(a, 0xb1);
}

static inline vec vec_even(vec a)
{
	return _mm256_moveldup_ps(a);
}

static inline vec vec_odd(vec a)
{
	return _mm256_movehdup_ps(a);
}

static inline vec vec_negate_even(vec a)
{
	return (vec)_mm256_xor_si256((__m256i)a, _mm256_set1_epi64x(0x80000000));
}

static inline vec vec_butterfly(vec x, int64_t n)
{
	vec y = _mm256_permute_ps(x, 0xb1);

	if (n > 1)
		x = _mm256_blend_ps(x + y, y - x, 0xaa);
	y = _mm256_permute_ps(x, 0x4e);
	if (n > 2)
		x = _mm256_blend_ps(x + y, y - x, 0xcc);
	y = _mm256_permute2f128_ps(x, x, 0x01);
	if (n > 4)
		x = _mm256_blend_ps(x + y, y - x, 0xf0);
	return x;
}

static inline float vec_top(vec v)
{
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* ref's tree over the lanes: ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). */
static inline float vec_sum(vec v)
{
	__m128 e = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	__m128 f = _mm_add_ps(e, _mm_movehl_ps(e, e));

	return _mm_cvtss_f32(_mm_add_ss(f, _mm_movehdup_ps(f)));
}

/* The first step of two trees: a in the lower half, b in the upper. */
static inline vec vec_fold4(vec a, vec b)
{
	return _mm256_permute2f128_ps(a, b, 0x20) + _mm256_permute2f128_ps(a, b, 0x31);
}

/* The second step of four, the third of eight. */
static inline vec vec_fold2(vec a, vec b)
{
	return _mm256_shuffle_ps(a, b, 0x44) + _mm256_shuffle_ps(a, b, 0xee);
}

static inline vec vec_fold1(vec a, vec b)
{
	return _mm256_shuffle_ps(a, b, 0x88) + _mm256_shuffle_ps(a, b, 0xdd);
}

static inline vec vec_sums(const vec s[VEC_LANES])
{
	return vec_fold1(vec_fold2(vec_fold4(s[0], s[4]), vec_fold4(s[1], s[5])),
			 vec_fold2(vec_fold4(s[2], s[6]), vec_fold4(s[3], s[7])));
}

static inline float vec_total(float start, const float *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		start += p[i];
	return start;
}

/* libm's exp of each lane: no vector version gives its bits. */
static inline vec vec_exp(vec x)
{
	float v[VEC_LANES];

	_mm256_storeu_ps(v, x);
	for (int i = 0; i < VEC_LANES; i++)
		v[i] = expf(v[i]);
	return _mm256_loadu_ps(v);
}

static inline vec vec_bf16(vec f)
{
	vecu b = (vecu)f, up = b + ((b >> 16 & 1) + 0x7fff);
	vec r = vec_pick(vec_nan(f), (vec)(b | 0x400000), (vec)up);

	return (vec)((vecu)r & 0xffff0000);
}

/* Integers. */

static inline veci vec_int_min(veci a, veci b)
{
	return (veci)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

static inline veci vec_int_max(veci a, veci b)
{
	return (veci)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

/* Bit l: lane l is 0; is greater than limit. */
static inline unsigned vec_zeroes(vecu a)
{
	return (unsigned)_mm256_movemask_ps((__m256)(a == 0));
}

static inline unsigned vec_above(veci a, int32_t limit)
{
	return (unsigned)_mm256_movemask_ps((__m256)(a > limit));
}

/* Logical shift right; 0 from 32 on. */
static inline vecu vec_shift(vecu a, int n)
{
	return (vecu)_mm256_srl_epi32((__m256i)a, _mm_cvtsi32_si128(n));
}

static inline veci vec_int_set(int32_t i)
{
	return (veci)_mm256_set1_epi32(i);
}

static inline veci vec_int_load(const void *p)
{
	return (veci)_mm256_loadu_si256(p);
}

static inline vec vec_floats(veci a)
{
	return _mm256_cvtepi32_ps((__m256i)a);
}

static inline void vec_bytes(int8_t *p, vecu a)
{
	__m256i i = (__m256i)(a & 0xff);
	__m128i w = _mm_packus_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));

	_mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(w, w));
}

static inline veci vec_dot4(veci sum, veci u, veci s)
{
	__m256i pairs = _mm256_maddubs_epi16((__m256i)u, (__m256i)s);

	return sum + (veci)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

#define VEC_VNNI "avxvnni"
__attribute__((target(VEC_VNNI))) static inline veci vec_dot4_vnni(veci sum, veci u, veci s)
{
	return (veci)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)u, (__m256i)s);
}

#endif
