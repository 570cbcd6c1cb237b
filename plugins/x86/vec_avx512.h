/* SPDX-License-Identifier: MIT
 * vec_avx512.h - a vector of sixteen floats; sums fused. Included by vec.h, which says what each name means.
 * Threads: any. Locks: none. */
#ifndef X86_VEC_AVX512_H
#define X86_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

typedef __m512 vec;
typedef int32_t veci __attribute__((vector_size(64)));
typedef uint32_t vecu __attribute__((vector_size(64)));
typedef __mmask16 vecm;

#define VEC_LANES 16
#define VEC_BLOCK 512

static inline vec vec_set(float f)
{
	return _mm512_set1_ps(f);
}

static inline unsigned vec_lanes(int64_t n)
{
	return n >= VEC_LANES ? 0xffff : n > 0 ? (1u << n) - 1 : 0;
}

static inline vecm vec_first(int64_t n)
{
	return (vecm)vec_lanes(n);
}

static inline vec vec_load(const float *p, int64_t n)
{
	return n >= VEC_LANES ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps((__mmask16)vec_lanes(n), p);
}

static inline void vec_store(float *p, int64_t n, vec v)
{
	if (n >= VEC_LANES)
		_mm512_storeu_ps(p, v);
	else
		_mm512_mask_storeu_ps(p, (__mmask16)vec_lanes(n), v);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
	return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_min(vec a, vec b)
{
	return _mm512_min_ps(a, b);
}

static inline vec vec_max(vec a, vec b)
{
	return _mm512_max_ps(a, b);
}

static inline vec vec_xor(vec a, vec b)
{
	return _mm512_xor_ps(a, b);
}

static inline vec vec_abs(vec a)
{
	return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}

/* The nearest integers, ties to even. */
static inline vec vec_rint(vec a)
{
	return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vecm vec_nan(vec a)
{
	return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}

static inline vecm vec_less(vec a, vec b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

/* Not a <= b, not a < b: NaN passes. */
static inline vecm vec_over(vec a, vec b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ);
}

static inline vecm vec_least(vec a, vec b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}

static inline vec vec_pick(vecm m, vec yes, vec no)
{
	return _mm512_mask_mov_ps(no, m, yes);
}

static inline veci vec_count(veci n, vecm m)
{
	return (veci)_mm512_mask_add_epi32((__m512i)n, m, (__m512i)n, _mm512_set1_epi32(1));
}

/* table[i], i < 8 */
static inline vec vec_look_up(const float table[8], veci i)
{
	return _mm512_permutexvar_ps((__m512i)i, _mm512_castps256_ps512(_mm256_loadu_ps(table)));
}

/* Each lane's neighbour: of the other parity. */
static inline vec vec_swap(vec a)
{
	return _mm512_permute_ps(a, 0xb1);
}

static inline vec vec_even(vec a)
{
	return _mm512_moveldup_ps(a);
}

static inline vec vec_odd(vec a)
{
	return _mm512_movehdup_ps(a);
}

static inline vec vec_negate_even(vec a)
{
	return (vec)_mm512_xor_si512((__m512i)a, _mm512_set1_epi64(0x80000000));
}

/* One step of a Hadamard transform inside a register: y has the partner of each lane, `second` the lanes that
 * get the difference. */
static inline vec vec_butterfly_step(vec x, vec y, __mmask16 second)
{
	return _mm512_mask_sub_ps(_mm512_add_ps(x, y), second, y, x);
}

static inline vec vec_butterfly(vec x, int64_t n)
{
	if (n > 1)
		x = vec_butterfly_step(x, _mm512_permute_ps(x, 0xb1), 0xaaaa);
	if (n > 2)
		x = vec_butterfly_step(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
	if (n > 4)
		x = vec_butterfly_step(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
	if (n > 8)
		x = vec_butterfly_step(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00);
	return x;
}

static inline float vec_top(vec v)
{
	return _mm512_reduce_max_ps(v);
}

/* Halves onto each other until one lane is left. */
static inline float vec_sum(vec v)
{
	__m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
	__m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));

	q = _mm_add_ps(q, _mm_movehl_ps(q, q));
	return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* The first step of vec_sum() of two registers, the second, third and fourth of two that have come so far. */
static inline vec vec_fold8(vec a, vec b)
{
	return _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
}

static inline vec vec_fold4(vec a, vec b)
{
	return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
}

static inline vec vec_fold2(vec a, vec b)
{
	return _mm512_shuffle_ps(a, b, 0x44) + _mm512_shuffle_ps(a, b, 0xee);
}

static inline vec vec_fold1(vec a, vec b)
{
	return _mm512_shuffle_ps(a, b, 0x88) + _mm512_shuffle_ps(a, b, 0xdd);
}

/* Four that end up in the same place of each quarter. */
static inline vec vec_fold_quarters(vec a, vec b, vec c, vec d)
{
	return vec_fold4(vec_fold8(a, b), vec_fold8(c, d));
}

static inline vec vec_sums(const vec s[VEC_LANES])
{
	vec a = vec_fold_quarters(s[0], s[4], s[8], s[12]), b = vec_fold_quarters(s[1], s[5], s[9], s[13]);
	vec c = vec_fold_quarters(s[2], s[6], s[10], s[14]), d = vec_fold_quarters(s[3], s[7], s[11], s[15]);

	return vec_fold1(vec_fold2(a, b), vec_fold2(c, d));
}

static inline float vec_total(float start, const float *p, int64_t n)
{
	vec sum = _mm512_setzero_ps();

	for (int64_t i = 0; i < n; i += VEC_LANES)
		sum += vec_load(p + i, n - i);
	return start + vec_sum(sum);
}

/* exp(x) = 2^n * exp(r), |r| <= ln 2 / 2, by Taylor's polynomial of degree 7: within 1 unit in the last place (0.94
 * over all floats that were tried, every third).
 * NaN stays NaN; beyond the clamps the result is 0 or infinite anyway. */
static inline vec vec_exp(vec x)
{
	vec n, r, p;

	x = _mm512_min_ps(_mm512_set1_ps(90.0f), x); /* in this order NaN comes through */
	x = _mm512_max_ps(_mm512_set1_ps(-110.0f), x);
	n = vec_rint(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)));
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

static inline vec vec_bf16(vec f)
{
	vecu b = (vecu)f, up = b + ((b >> 16 & 1) + 0x7fff);
	__m512i r = _mm512_mask_mov_epi32((__m512i)up, vec_nan(f), (__m512i)(b | 0x400000));

	return (vec)((vecu)r & 0xffff0000);
}

/* Integers. */

static inline veci vec_int_min(veci a, veci b)
{
	return (veci)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

static inline veci vec_int_max(veci a, veci b)
{
	return (veci)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

/* Bit l: lane l is 0; is greater than limit. */
static inline unsigned vec_zeroes(vecu a)
{
	return _mm512_testn_epi32_mask((__m512i)a, (__m512i)a);
}

static inline unsigned vec_above(veci a, int32_t limit)
{
	return _mm512_cmpgt_epi32_mask((__m512i)a, _mm512_set1_epi32(limit));
}

/* Logical shift right; 0 from 32 on. */
static inline vecu vec_shift(vecu a, int n)
{
	return (vecu)_mm512_srl_epi32((__m512i)a, _mm_cvtsi32_si128(n));
}

static inline veci vec_int_set(int32_t i)
{
	return (veci)_mm512_set1_epi32(i);
}

static inline veci vec_int_load(const void *p)
{
	return (veci)_mm512_loadu_si512(p);
}

static inline vec vec_floats(veci a)
{
	return _mm512_cvtepi32_ps((__m512i)a);
}

static inline void vec_bytes(int8_t *p, vecu a)
{
	_mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8((__m512i)a));
}

static inline veci vec_dot4(veci sum, veci u, veci s)
{
	__m512i pairs = _mm512_maddubs_epi16((__m512i)u, (__m512i)s);

	return sum + (veci)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}

#define VEC_VNNI "avx512vnni"
__attribute__((target(VEC_VNNI))) static inline veci vec_dot4_vnni(veci sum, veci u, veci s)
{
	return (veci)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u, (__m512i)s);
}

#endif
