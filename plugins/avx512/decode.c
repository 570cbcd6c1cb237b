/* SPDX-License-Identifier: MIT
 * decode.c - weights of every format to floats, sixteen columns at a time.
 * Threads: any. Locks: none. */
#include "plugins/avx512/decode.h"
#include "plugins/avx512/vec.h"

/* Up to 16 bytes at p, zeroes after them. */
static __m128i decode_bytes(const uint8_t *p, int64_t n)
{
	return _mm_maskz_loadu_epi8(avx512_mask(n), p);
}

/* Sixteen e4m3 codes. In the place of a half's exponent and mantissa they are halves that are 2^8 too small,
 * subnormal ones included; but the largest code is NaN. */
static __m512 decode_e4m3(__m128i codes)
{
	const __m256i sign_mag = _mm256_set1_epi16((short)0xbf80), mag = _mm256_set1_epi16(0x3f80);
	__m256i half = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8), 1),
					sign_mag);
	__mmask16 nan = _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, mag), mag);

	return _mm512_mask_mov_ps(_mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(0x1p8f)), nan,
				  _mm512_set1_ps(NAN));
}

static void decode_fp8(const uint8_t *src, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i += AVX512_LANES)
		_mm512_storeu_ps(out + i, decode_e4m3(decode_bytes(src + i, n - i)));
}

static void decode_bf16(const uint8_t *src, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i += AVX512_LANES) {
		__m256i v = _mm256_maskz_loadu_epi16(avx512_mask(n - i), src + 2 * i);

		_mm512_storeu_ps(out + i, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)));
	}
}

static void decode_f32(const uint8_t *src, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i += AVX512_LANES)
		_mm512_storeu_ps(out + i, _mm512_maskz_loadu_ps(avx512_mask(n - i), src + 4 * i));
}

/* n <= 16 columns, low nibble first; the high nibble past an odd last column means nothing. */
static __m512 decode_e2m1(const uint8_t *src, int64_t n)
{
	const __m512 value = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
	__m128i v = decode_bytes(src, avx512_min(8, (n + 1) / 2)), mask = _mm_set1_epi8(15);
	__m128i codes = _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));

	return _mm512_maskz_permutexvar_ps(avx512_mask(n), _mm512_cvtepu8_epi32(codes), value);
}

/* The factors of FP4 and NVFP4 blocks i to i + n, n <= 8. */
static void decode_scales(const struct dsv4_weight *w, int64_t i, int64_t n, float out[AVX512_LANES])
{
	const uint8_t *scale = (const uint8_t *)w->scale + i;

	if (w->sfmt == DSV4_S_E4M3)
		_mm512_storeu_ps(out, _mm512_mul_ps(decode_e4m3(decode_bytes(scale, n)), _mm512_set1_ps(w->scale2)));
	else
		for (int64_t j = 0; j < n; j++)
			out[j] = dsv4_e8m0_to_f32(scale[j]);
}

/* Blocks of 32 (FP4) or 16 (NVFP4) columns share a scale. */
static void decode_fp4(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out)
{
	const uint8_t *src = (const uint8_t *)w->data + r * ((w->cols + 1) / 2) + k / 2;
	int64_t block = w->fmt == DSV4_W_FP4 ? 32 : 16, scale0 = r * ((w->cols + block - 1) / block) + k / block;
	float scale[AVX512_LANES];

	decode_scales(w, scale0, (n + block - 1) / block, scale);
	for (int64_t i = 0; i < n; i += AVX512_LANES)
		_mm512_storeu_ps(out + i, _mm512_mul_ps(decode_e2m1(src + i / 2, n - i),
							_mm512_set1_ps(scale[i / block])));
}

void avx512_decode(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out)
{
	const uint8_t *data = w->data;
	int64_t at = r * w->cols + k;

	switch (w->fmt) {
	case DSV4_W_F32:
		decode_f32(data + at * 4, n, out);
		return;
	case DSV4_W_BF16:
		decode_bf16(data + at * 2, n, out);
		return;
	case DSV4_W_FP8:
		decode_fp8(data + at, n, out);
		return;
	default:
		decode_fp4(w, r, k, n, out);
	}
}

float avx512_decode_scale(const struct dsv4_weight *w, int64_t r, int64_t k)
{
	int64_t i = r / AVX512_BLOCK * ((w->cols + AVX512_BLOCK - 1) / AVX512_BLOCK) + k / AVX512_BLOCK;
	const uint8_t *scale = w->scale;
	float f;

	if (w->fmt != DSV4_W_FP8)
		return 1.0f;
	if (w->sfmt == DSV4_S_E8M0)
		return dsv4_e8m0_to_f32(scale[i]);
	memcpy(&f, scale + 4 * i, sizeof f);
	return f;
}
