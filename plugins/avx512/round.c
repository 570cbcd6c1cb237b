/* SPDX-License-Identifier: MIT
 * round.c - what happens to one row: rounding to a stored format, Hadamard, root-mean-square, rotation.
 * Threads: any. Locks: none. */
#include "plugins/avx512/round.h"
#include "plugins/avx512/vec.h"

#include <errno.h>

static __m512 round_sign(__m512 x)
{
	return _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
}

static __m512 round_abs(__m512 x)
{
	return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x);
}

/* Largest |x|; NaN is passed over: max gives its second operand when one is NaN. */
static float round_amax(const float *x, int64_t n)
{
	__m512 top = _mm512_setzero_ps();

	for (int64_t i = 0; i < n; i += AVX512_LANES)
		top = _mm512_max_ps(round_abs(avx512_load(x + i, n - i)), top);
	return _mm512_reduce_max_ps(top);
}

static __mmask16 round_nan(__m512 x)
{
	return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}

/* The nearest e4m3 value, ties to even, after clamping to +-448; NaN becomes the positive quiet one. */
static __m512 round_e4m3(__m512 x)
{
	__m512 a = _mm512_min_ps(round_abs(x), _mm512_set1_ps(448.0f));
	__m512i b = _mm512_castps_si512(a);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(b, 20), _mm512_set1_epi32(1));
	__m512i up = _mm512_add_epi32(b, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7ffff)));
	__m512 normal = _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32((int)0xfff00000)));
	__m512 grid = _mm512_mul_ps(a, _mm512_set1_ps(0x1p9f)); /* subnormals: multiples of 2^-9 */
	__m512 tiny = _mm512_mul_ps(_mm512_roundscale_ps(grid, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
				    _mm512_set1_ps(0x1p-9f));
	__m512 r = _mm512_mask_mov_ps(normal, _mm512_cmp_ps_mask(a, _mm512_set1_ps(0x1p-6f), _CMP_LT_OQ), tiny);

	return _mm512_mask_mov_ps(_mm512_or_ps(r, round_sign(x)), round_nan(x), _mm512_set1_ps(NAN));
}

float avx512_round_split(const float *x, int64_t n, float *q)
{
	float s = dsv4_fp8_scale(round_amax(x, n));
	__m512 vs = _mm512_set1_ps(s);

	for (int64_t i = 0; i < n; i += AVX512_LANES)
		avx512_store(q + i, n - i, round_e4m3(_mm512_div_ps(avx512_load(x + i, n - i), vs)));
	return s;
}

static void round_fp8(float *x, int64_t n)
{
	__m512 s = _mm512_set1_ps(avx512_round_split(x, n, x));

	for (int64_t i = 0; i < n; i += AVX512_LANES)
		avx512_store(x + i, n - i, _mm512_mul_ps(avx512_load(x + i, n - i), s));
}

/* The nearest e2m1 value of |x| <= 6, ties to the even code: the code is the number of limits passed. */
static __m512 round_e2m1(__m512 x)
{
	const __m512 value = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0);
	__m512i code = _mm512_setzero_si512(), one = _mm512_set1_epi32(1);
	__m512 a = round_abs(x);

#define PAST(limit, how) \
	code = _mm512_mask_add_epi32(code, _mm512_cmp_ps_mask(a, _mm512_set1_ps(limit), how), code, one)
	PAST(0.25f, _CMP_NLE_UQ);
	PAST(0.75f, _CMP_NLT_UQ);
	PAST(1.25f, _CMP_NLE_UQ);
	PAST(1.75f, _CMP_NLT_UQ);
	PAST(2.5f, _CMP_NLE_UQ);
	PAST(3.5f, _CMP_NLT_UQ);
	PAST(5.0f, _CMP_NLE_UQ);
#undef PAST
	return _mm512_or_ps(_mm512_permutexvar_ps(code, value), round_sign(x));
}

static void round_fp4(float *x, int64_t n)
{
	__m512 s = _mm512_set1_ps(dsv4_fp4_scale(round_amax(x, n)));

	for (int64_t i = 0; i < n; i += AVX512_LANES) {
		__m512 v = avx512_load(x + i, n - i), r = _mm512_mul_ps(round_e2m1(_mm512_div_ps(v, s)), s);

		avx512_store(x + i, n - i, _mm512_mask_mov_ps(r, round_nan(v), v));
	}
}

static void round_bf16(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += AVX512_LANES)
		avx512_store(x + i, n - i, avx512_bf16(avx512_load(x + i, n - i)));
}

/* One step of a Hadamard transform inside a register: y has the partner of each lane, `second` the lanes that
 * get the difference. */
static __m512 round_step(__m512 x, __m512 y, __mmask16 second)
{
	return _mm512_mask_sub_ps(_mm512_add_ps(x, y), second, y, x);
}

/* Partners 1, 2, 4, 8 lanes apart, as far as n goes. */
static __m512 round_butterfly(__m512 x, int64_t n)
{
	if (n > 1)
		x = round_step(x, _mm512_permute_ps(x, 0xb1), 0xaaaa);
	if (n > 2)
		x = round_step(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
	if (n > 4)
		x = round_step(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
	if (n > 8)
		x = round_step(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00);
	return x;
}

/* x := H x * n^-0.5 in place, H in natural (Sylvester) order; n a power of two. */
static void round_hadamard(float *x, int64_t n)
{
	__m512 scale = _mm512_set1_ps(1.0f / sqrtf((float)n));

	for (int64_t i = 0; i < n; i += AVX512_LANES)
		avx512_store(x + i, n - i, round_butterfly(avx512_load(x + i, n - i), n));
	for (int64_t h = AVX512_LANES; h < n; h *= 2)
		for (int64_t i = 0; i < n; i += 2 * h)
			for (int64_t j = i; j < i + h; j += AVX512_LANES) {
				__m512 a = _mm512_loadu_ps(x + j), b = _mm512_loadu_ps(x + j + h);

				_mm512_storeu_ps(x + j, _mm512_add_ps(a, b));
				_mm512_storeu_ps(x + j + h, _mm512_sub_ps(a, b));
			}
	for (int64_t i = 0; i < n; i += AVX512_LANES)
		avx512_store(x + i, n - i, _mm512_mul_ps(avx512_load(x + i, n - i), scale));
}

void avx512_round_kv(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	if (round == DSV4_ROUND_FP8)
		for (int64_t k = 0; k < n; k += AVX512_KV_BLOCK)
			round_fp8(x + k, avx512_min(AVX512_KV_BLOCK, n - k));
}

void avx512_round_index(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_NONE)
		return;
	round_hadamard(x, n);
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	else if (round == DSV4_ROUND_FP8)
		round_fp8(x, n);
	else
		for (int64_t k = 0; k < n; k += AVX512_FP4_BLOCK)
			round_fp4(x + k, avx512_min(AVX512_FP4_BLOCK, n - k));
}

int avx512_round_check(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index)
{
	if (n_kv < 0 || kv >= DSV4_ROUND_FP4 || index > DSV4_ROUND_FP4)
		return -EINVAL;
	if (index != DSV4_ROUND_NONE && (kv != DSV4_ROUND_NONE || n_index <= 0 || (n_index & (n_index - 1))))
		return -EINVAL;
	return 0;
}

void avx512_rms_row(const float *x, const float *weight, int64_t n, float eps, float *y)
{
	__m512 r = _mm512_set1_ps(1.0f / sqrtf(avx512_dot(x, x, n) / (float)n + eps));

	for (int64_t i = 0; i < n; i += AVX512_LANES) {
		__m512 v = _mm512_mul_ps(avx512_load(x + i, n - i), r);

		avx512_store(y + i, n - i, weight ? _mm512_mul_ps(v, avx512_load(weight + i, n - i)) : v);
	}
}

void avx512_rope_row(float *x, int64_t rot, const float *cs, uint32_t inverse)
{
	__m512 flip = _mm512_set1_ps(inverse ? -0.0f : 0.0f);
	/* re * c - im * s and im * c + re * s, as two products and a sum: this op keeps ref's bits */
	__m512 minus = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000));

	for (int64_t i = 0; i < rot; i += AVX512_LANES) {
		__m512 v = avx512_load(x + i, rot - i), k = avx512_load(cs + i, rot - i);
		__m512 c = _mm512_moveldup_ps(k), s = _mm512_xor_ps(_mm512_movehdup_ps(k), flip);
		__m512 turned = _mm512_xor_ps(_mm512_mul_ps(_mm512_permute_ps(v, 0xb1), s), minus);

		avx512_store(x + i, rot - i, _mm512_add_ps(_mm512_mul_ps(v, c), turned));
	}
}
