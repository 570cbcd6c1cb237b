/* SPDX-License-Identifier: MIT
 * decode.h - weights of every format to floats in registers, 32 columns at a time; and their scales.
 * Threads: any. Locks: none. */
#ifndef AVX2_DECODE_H
#define AVX2_DECODE_H

#include "plugins/avx2/act.h"
#include "plugins/x86/vec.h"

#include <string.h>

#define AVX2_DECODE_SCALES 8 /* of 128 columns of a row, at most */

/* Weights at p are being read: fetches what comes 4 KiB later. On Zen 5 FP8 gets 0.89 of what a pure read does with
 * this and 0.69 without (two threads); half as far, or into the second cache only, is worth less. Inlined early: a
 * function that does nothing else is one without effect to gcc, which drops its calls. */
static inline __attribute__((always_inline)) void avx2_prefetch(const void *p)
{
	_mm_prefetch((const char *)((uintptr_t)p + 4096), _MM_HINT_T0);
}

/* What weights are decoded from. */
enum avx2_decode { AVX2_DECODE_F32, AVX2_DECODE_BF16, AVX2_DECODE_FP8, AVX2_DECODE_FP4, AVX2_DECODE_NVFP4 };

/* E8M0 bytes to floats: byte 0 is 2^-127, byte 255 is NaN, else the byte is the exponent. */
static inline __m256 avx2_decode_e8m0(__m128i bytes)
{
	__m256i e = _mm256_cvtepu8_epi32(bytes), f = _mm256_slli_epi32(e, 23);

	f = _mm256_max_epi32(f, _mm256_set1_epi32(0x00400000));
	return _mm256_castsi256_ps(_mm256_or_si256(f, _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255))));
}

/* Eight e4m3 bytes to floats, NaN included. */
static inline __m256 avx2_decode_e4m3_scales(__m128i bytes)
{
	const __m256i magnitude = _mm256_set1_epi32(0x7f);
	__m256i v = _mm256_cvtepi8_epi32(bytes);
	__m256i nan = _mm256_cmpeq_epi32(_mm256_and_si256(v, magnitude), magnitude);
	__m256i f = _mm256_and_si256(_mm256_slli_epi32(v, 20), _mm256_set1_epi32((int)0x87f00000));

	return _mm256_or_ps(_mm256_mul_ps(_mm256_castsi256_ps(f), _mm256_set1_ps(0x1p120f)), _mm256_castsi256_ps(nan));
}

/* e4m3 codes to floats, 2^-120 of their values, subnormal ones included: sign, exponent and mantissa are put in the
 * places that a bf16 has for them, of which two are made at a time, then each of these is widened. The largest code,
 * which is NaN, becomes a number: `top` keeps the largest code that was seen, see avx2_decode_end(). */
static inline void avx2_decode_e4m3(const uint8_t *src, __m256 w[4], __m256i *top)
{
	const __m256i place = _mm256_set1_epi16((short)0x87f0), upper = _mm256_set1_epi32((int)0xffff0000);
	__m256i v = _mm256_loadu_si256(x86_at(src, 0));
	__m256i odd = _mm256_and_si256(_mm256_srai_epi16(v, 4), place);
	__m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(v, 8), 4), place);

	*top = _mm256_max_epu8(*top, _mm256_or_si256(v, _mm256_set1_epi8((char)0x80)));
	w[0] = _mm256_castsi256_ps(_mm256_slli_epi32(even, 16));
	w[1] = _mm256_castsi256_ps(_mm256_slli_epi32(odd, 16));
	w[2] = _mm256_castsi256_ps(_mm256_and_si256(even, upper));
	w[3] = _mm256_castsi256_ps(_mm256_and_si256(odd, upper));
}

/* Four bytes, eight columns: each lane shifts its own code to where it is wanted. Bits 0 to 2 choose among
 * the eight magnitudes, bit 3 is the sign. */
static inline __m256 avx2_decode_e2m1(const uint8_t *src)
{
	const __m256i down = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
	const __m256i up = _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0);
	const __m256 value = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
	uint32_t codes;
	__m256i c;
	__m256 sign;

	memcpy(&codes, src, sizeof codes);
	c = _mm256_set1_epi32((int)codes);
	sign = _mm256_and_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(c, up)), _mm256_set1_ps(-0.0f));
	return _mm256_or_ps(_mm256_permutevar8x32_ps(value, _mm256_srlv_epi32(c, down)), sign);
}

/* Columns [32 g, 32 g + 32) of the block at src. FP8's come out as AVX2_FORM_FP8 wants them: dealt, 2^-120 of what they
 * are. */
static inline __attribute__((always_inline)) void avx2_decode32(enum avx2_decode how, const uint8_t *src, int g,
								__m256 w[4], __m256i *top)
{
	if (how == AVX2_DECODE_FP8)
		avx2_decode_e4m3(src + 32 * g, w, top);
	else
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			if (how == AVX2_DECODE_F32)
				w[i] = _mm256_loadu_ps(x86_at(src, 128 * g + 32 * i));
			else if (how == AVX2_DECODE_BF16)
				w[i] = _mm256_castsi256_ps(_mm256_slli_epi32(
					_mm256_cvtepu16_epi32(_mm_loadu_si128(x86_at(src, 64 * g + 16 * i))), 16));
			else
				w[i] = avx2_decode_e2m1(src + 16 * g + 4 * i);
}

/* A row's result of its sums: takes out the powers of two of weights and activations; NaN if one of the codes that went
 * into top was. */
static inline __attribute__((always_inline)) float avx2_decode_end(enum avx2_decode how, __m256 sum, __m256i top)
{
	if (how != AVX2_DECODE_FP8)
		return vec_sum(sum);
	return _mm256_movemask_epi8(_mm256_cmpeq_epi8(top, _mm256_set1_epi8(-1))) ? NAN : 4 * vec_sum(sum);
}

/* Weight scales of block b (128 columns) of a row, as many as there are. */
static inline void avx2_decode_scales(const struct dsv4_weight *w, int64_t row, int64_t b,
				      float ret_s[AVX2_DECODE_SCALES])
{
	const uint8_t *scale = w->scale;
	int64_t per = w->fmt == DSV4_W_FP4 ? 4 : w->fmt == DSV4_W_NVFP4 ? 8 : 1;
	int64_t n = (w->cols * per + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS;
	int64_t at = (per == 1 ? row / AVX2_ACT_COLS : row) * n + b * per;

	for (int64_t j = 0; j < per; j++)
		ret_s[j] = 1;
	if (w->sfmt == DSV4_S_NONE)
		return;
	for (int64_t j = 0; j < per && b * per + j < n; j++)
		if (w->sfmt == DSV4_S_E4M3)
			ret_s[j] = dsv4_e4m3_to_f32(scale[at + j]) * w->scale2;
		else if (w->sfmt == DSV4_S_F32)
			memcpy(ret_s, scale + 4 * at, sizeof *ret_s);
		else
			ret_s[j] = dsv4_e8m0_to_f32(scale[at + j]);
}

#endif
