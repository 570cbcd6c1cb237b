/* SPDX-License-Identifier: MIT
 * round.c - what happens to one row: rounding to a stored format, Hadamard, root-mean-square, rotation.
 * Threads: any. Locks: none. */
#include "plugins/avx2/round.h"
#include "plugins/avx2/vec.h"

#include <errno.h>

static __m256 round_sign(__m256 x)
{
	return _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
}

static __m256 round_abs(__m256 x)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

/* Largest |x|; NaN is passed over: max gives its second operand when one is NaN. */
static float round_amax(const float *x, int64_t n)
{
	__m256 top = _mm256_setzero_ps();
	__m128 m;

	for (int64_t i = 0; i < n; i += AVX2_LANES)
		top = _mm256_max_ps(round_abs(avx2_load(x + i, n - i)), top);
	m = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* The nearest e4m3 value, ties to even, after clamping to +-448; NaN becomes the positive quiet one. */
static __m256 round_e4m3(__m256 x)
{
	__m256 a = _mm256_min_ps(round_abs(x), _mm256_set1_ps(448.0f));
	__m256i b = _mm256_castps_si256(a);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 20), _mm256_set1_epi32(1));
	__m256i up = _mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff)));
	__m256 normal = _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32((int)0xfff00000)));
	__m256 grid = _mm256_mul_ps(a, _mm256_set1_ps(0x1p9f)); /* subnormals: multiples of 2^-9 */
	__m256 tiny = _mm256_mul_ps(_mm256_round_ps(grid, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
				    _mm256_set1_ps(0x1p-9f));
	__m256 r = _mm256_blendv_ps(normal, tiny, _mm256_cmp_ps(a, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ));

	return _mm256_blendv_ps(_mm256_or_ps(r, round_sign(x)), _mm256_set1_ps(NAN),
				_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

float avx2_round_split(const float *x, int64_t n, float *q)
{
	float s = dsv4_fp8_scale(round_amax(x, n));
	__m256 vs = _mm256_set1_ps(s);

	for (int64_t i = 0; i < n; i += AVX2_LANES)
		avx2_store(q + i, n - i, round_e4m3(_mm256_div_ps(avx2_load(x + i, n - i), vs)));
	return s;
}

static void round_fp8(float *x, int64_t n)
{
	__m256 s = _mm256_set1_ps(avx2_round_split(x, n, x));

	for (int64_t i = 0; i < n; i += AVX2_LANES)
		avx2_store(x + i, n - i, _mm256_mul_ps(avx2_load(x + i, n - i), s));
}

/* The nearest e2m1 value of |x| <= 6, ties to the even code: the code is the number of limits passed. */
static __m256 round_e2m1(__m256 x)
{
	const __m256 value = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
	__m256 a = round_abs(x);
	__m256i code = _mm256_setzero_si256();

#define PAST(limit, how) \
	code = _mm256_sub_epi32(code, _mm256_castps_si256(_mm256_cmp_ps(a, _mm256_set1_ps(limit), how)))
	PAST(0.25f, _CMP_NLE_UQ);
	PAST(0.75f, _CMP_NLT_UQ);
	PAST(1.25f, _CMP_NLE_UQ);
	PAST(1.75f, _CMP_NLT_UQ);
	PAST(2.5f, _CMP_NLE_UQ);
	PAST(3.5f, _CMP_NLT_UQ);
	PAST(5.0f, _CMP_NLE_UQ);
#undef PAST
	return _mm256_or_ps(_mm256_permutevar8x32_ps(value, code), round_sign(x));
}

static void round_fp4(float *x, int64_t n)
{
	__m256 s = _mm256_set1_ps(dsv4_fp4_scale(round_amax(x, n)));

	for (int64_t i = 0; i < n; i += AVX2_LANES) {
		__m256 v = avx2_load(x + i, n - i), r = _mm256_mul_ps(round_e2m1(_mm256_div_ps(v, s)), s);

		avx2_store(x + i, n - i, _mm256_blendv_ps(r, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
	}
}

static void round_bf16(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += AVX2_LANES)
		avx2_store(x + i, n - i, avx2_bf16(avx2_load(x + i, n - i)));
}

/* The steps of a Hadamard transform inside one register: partners 1, 2, 4 lanes apart, as far as n goes. */
static __m256 round_butterfly(__m256 x, int64_t n)
{
	__m256 y;

	y = _mm256_permute_ps(x, 0xb1);
	if (n > 1)
		x = _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), 0xaa);
	y = _mm256_permute_ps(x, 0x4e);
	if (n > 2)
		x = _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), 0xcc);
	y = _mm256_permute2f128_ps(x, x, 0x01);
	if (n > 4)
		x = _mm256_blend_ps(_mm256_add_ps(x, y), _mm256_sub_ps(y, x), 0xf0);
	return x;
}

/* x := H x * n^-0.5 in place, H in natural (Sylvester) order; n a power of two. */
static void round_hadamard(float *x, int64_t n)
{
	__m256 scale = _mm256_set1_ps(1.0f / sqrtf((float)n));

	for (int64_t i = 0; i < n; i += AVX2_LANES)
		avx2_store(x + i, n - i, round_butterfly(avx2_load(x + i, n - i), n));
	for (int64_t h = AVX2_LANES; h < n; h *= 2)
		for (int64_t i = 0; i < n; i += 2 * h)
			for (int64_t j = i; j < i + h; j += AVX2_LANES) {
				__m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + h);

				_mm256_storeu_ps(x + j, _mm256_add_ps(a, b));
				_mm256_storeu_ps(x + j + h, _mm256_sub_ps(a, b));
			}
	for (int64_t i = 0; i < n; i += AVX2_LANES)
		avx2_store(x + i, n - i, _mm256_mul_ps(avx2_load(x + i, n - i), scale));
}

void avx2_round_kv(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	if (round == DSV4_ROUND_FP8)
		for (int64_t k = 0; k < n; k += AVX2_KV_BLOCK)
			round_fp8(x + k, avx2_min(AVX2_KV_BLOCK, n - k));
}

void avx2_round_index(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_NONE)
		return;
	round_hadamard(x, n);
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	else if (round == DSV4_ROUND_FP8)
		round_fp8(x, n);
	else
		for (int64_t k = 0; k < n; k += AVX2_FP4_BLOCK)
			round_fp4(x + k, avx2_min(AVX2_FP4_BLOCK, n - k));
}

int avx2_round_check(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index)
{
	if (n_kv < 0 || kv >= DSV4_ROUND_FP4 || index > DSV4_ROUND_FP4)
		return -EINVAL;
	if (index != DSV4_ROUND_NONE && (kv != DSV4_ROUND_NONE || n_index <= 0 || (n_index & (n_index - 1))))
		return -EINVAL;
	return 0;
}

void avx2_rms_row(const float *x, const float *weight, int64_t n, float eps, float *y)
{
	__m256 r = _mm256_set1_ps(1.0f / sqrtf(avx2_dot(x, x, n) / (float)n + eps));

	for (int64_t i = 0; i < n; i += AVX2_LANES) {
		__m256 v = _mm256_mul_ps(avx2_load(x + i, n - i), r);

		avx2_store(y + i, n - i, weight ? _mm256_mul_ps(v, avx2_load(weight + i, n - i)) : v);
	}
}

void avx2_rope_row(float *x, int64_t rot, const float *cs, uint32_t inverse)
{
	__m256 flip = _mm256_set1_ps(inverse ? -0.0f : 0.0f);

	for (int64_t i = 0; i < rot; i += AVX2_LANES) {
		__m256 v = avx2_load(x + i, rot - i), k = avx2_load(cs + i, rot - i);
		__m256 c = _mm256_moveldup_ps(k), s = _mm256_xor_ps(_mm256_movehdup_ps(k), flip);
		__m256 turned = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s);

		avx2_store(x + i, rot - i, _mm256_addsub_ps(_mm256_mul_ps(v, c), turned));
	}
}
