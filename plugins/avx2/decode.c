/* SPDX-License-Identifier: MIT
 * decode.c - weights of every format to floats, eight columns or eight scales at a time.
 * Threads: any. Locks: none. */
#include "plugins/avx2/decode.h"
#include "plugins/avx2/vec.h"

int64_t avx2_decode_block(const struct dsv4_weight *w)
{
	return w->fmt == DSV4_W_FP4 ? 32 : w->fmt == DSV4_W_NVFP4 ? 16 : AVX2_BLOCK;
}

/* n < 16 bytes at p, zeroes after them. */
static __m128i decode_tail(const uint8_t *p, int64_t n)
{
	uint8_t b[16] = { 0 };

	memcpy(b, p, (size_t)n);
	return _mm_loadu_si128((const __m128i *)(const void *)b);
}

/* Sixteen e4m3 codes, eight to a register. In the place of a half's exponent and mantissa they are halves
 * that are 2^8 too small, subnormal ones included; but the largest code is NaN. */
static void decode_e4m3(__m128i codes, __m256 ret_f[2])
{
	const __m256i sign_mag = _mm256_set1_epi16((short)0xbf80), mag = _mm256_set1_epi16(0x3f80);
	__m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8), nan;
	__m256 up = _mm256_set1_ps(0x1p8f);

	half = _mm256_and_si256(_mm256_srai_epi16(half, 1), sign_mag);
	nan = _mm256_cmpeq_epi16(_mm256_and_si256(half, mag), mag);
	half = _mm256_or_si256(half, _mm256_srli_epi16(nan, 1));
	ret_f[0] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), up);
	ret_f[1] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), up);
}

static void decode_fp8(const uint8_t *src, int64_t n, float *out)
{
	__m256 f[2];

	for (int64_t i = 0; i < n; i += 16) {
		decode_e4m3(n - i >= 16 ? _mm_loadu_si128(avx2_at(src, i)) : decode_tail(src + i, n - i), f);
		_mm256_storeu_ps(out + i, f[0]);
		_mm256_storeu_ps(out + i + 8, f[1]);
	}
}

static __m256 decode_bf16_8(__m128i v)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

static void decode_bf16(const uint8_t *src, int64_t n, float *out)
{
	int64_t i = 0;

	for (; i + AVX2_LANES <= n; i += AVX2_LANES)
		_mm256_storeu_ps(out + i, decode_bf16_8(_mm_loadu_si128(avx2_at(src, 2 * i))));
	if (i < n)
		_mm256_storeu_ps(out + i, decode_bf16_8(decode_tail(src + 2 * i, 2 * (n - i))));
}

/* Four bytes, eight columns: each lane shifts its own code to where it is wanted. Bits 0 to 2 choose among
 * the eight magnitudes, bit 3 is the sign. */
static __m256 decode_e2m1(uint32_t codes)
{
	const __m256i down = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
	const __m256i up = _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0);
	const __m256 value = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
	__m256i c = _mm256_set1_epi32((int)codes);
	__m256 sign = _mm256_and_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(c, up)), _mm256_set1_ps(-0.0f));

	return _mm256_or_ps(_mm256_permutevar8x32_ps(value, _mm256_srlv_epi32(c, down)), sign);
}

static void decode_fp4(const uint8_t *src, int64_t n, float *out)
{
	uint32_t codes;
	int64_t i = 0;

	for (; i + AVX2_LANES <= n; i += AVX2_LANES) {
		memcpy(&codes, src + i / 2, sizeof codes);
		_mm256_storeu_ps(out + i, decode_e2m1(codes));
	}
	if (i == n)
		return;
	codes = 0;
	memcpy(&codes, src + i / 2, (size_t)(n - i + 1) / 2);
	_mm256_storeu_ps(out + i, decode_e2m1(codes));
	if (n % 2)
		out[n] = 0; /* the high nibble past the last column means nothing */
}

const float *avx2_decode(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out)
{
	const uint8_t *data = w->data;

	switch (w->fmt) {
	case DSV4_W_F32:
		return avx2_at(data, (r * w->cols + k) * 4);
	case DSV4_W_BF16:
		decode_bf16(data + (r * w->cols + k) * 2, n, out);
		break;
	case DSV4_W_FP8:
		decode_fp8(data + r * w->cols + k, n, out);
		break;
	default:
		decode_fp4(data + r * ((w->cols + 1) / 2) + k / 2, n, out);
	}
	return out;
}

/* E8M0: byte 0 is 2^-127, byte 255 is NaN, else the byte is the exponent. */
static __m256 decode_e8m0(__m128i bytes)
{
	__m256i e = _mm256_cvtepu8_epi32(bytes), zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
	__m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255)), f = _mm256_slli_epi32(e, 23);

	f = _mm256_or_si256(f, _mm256_and_si256(zero, _mm256_set1_epi32(0x00400000)));
	return _mm256_castsi256_ps(_mm256_or_si256(f, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000))));
}

void avx2_decode_lines(const struct dsv4_weight *w, const int64_t rows[8], int64_t ret_line[8])
{
	int64_t block = avx2_decode_block(w), n_block = (w->cols + block - 1) / block;

	for (int i = 0; i < 8; i++)
		ret_line[i] = (w->fmt == DSV4_W_FP8 ? rows[i] / AVX2_BLOCK : rows[i]) * n_block;
}

__m256 avx2_decode_scales(const struct dsv4_weight *w, const int64_t line[8], int64_t block)
{
	const uint8_t *scale = w->scale;
	uint8_t b[16] = { 0 };
	float f[8];
	__m256 e4m3[2];

	if (w->sfmt == DSV4_S_NONE)
		return _mm256_set1_ps(1.0f);
	if (w->sfmt == DSV4_S_F32) {
		for (int i = 0; i < 8; i++)
			memcpy(f + i, scale + 4 * (line[i] + block), sizeof *f);
		return _mm256_loadu_ps(f);
	}
	for (int i = 0; i < 8; i++)
		b[i] = scale[line[i] + block];
	if (w->sfmt == DSV4_S_E8M0)
		return decode_e8m0(_mm_loadu_si128(avx2_at(b, 0)));
	decode_e4m3(_mm_loadu_si128(avx2_at(b, 0)), e4m3);
	return _mm256_mul_ps(e4m3[0], _mm256_set1_ps(w->scale2));
}
