/* SPDX-License-Identifier: MIT
 * mkmodel_fill.c - random values of a tensor, any part of it by itself.
 * Threads: any, after mkmodel_fill_init(). Locks: none. */
#include "plugins/dsv4_numfmt.h"
#include "tests/bench/mkmodel.h"

#include <math.h>

/* The standard deviation of E4M3 codes: with 16384 of them the largest is near 448, as quantisers make it. */
#define MKMODEL_E4M3_SIGMA 100.0

static uint8_t mkmodel_e4m3[256]; /* quantiles of the normal distribution */
static double mkmodel_e4m3_rms, mkmodel_fp4_rms;

/* ---- which values ---- */

/* The x below which a share p of a standard normal distribution lies. */
static double mkmodel_quantile(double p)
{
	double low = -8, high = 8;

	while (high - low > 1e-9) {
		double mid = (low + high) / 2;

		if (0.5 * erfc(-mid / M_SQRT2) < p)
			low = mid;
		else
			high = mid;
	}
	return low;
}

void mkmodel_fill_init(void)
{
	double square = 0, fp4 = 0;

	for (int i = 0; i < 256; i++) {
		double v = MKMODEL_E4M3_SIGMA * mkmodel_quantile((i + 0.5) / 256);

		mkmodel_e4m3[i] = dsv4_f32_to_e4m3((float)v);
		square += pow(dsv4_e4m3_to_f32(mkmodel_e4m3[i]), 2);
	}
	for (uint8_t i = 0; i < 16; i++)
		fp4 += pow(dsv4_e2m1_to_f32(i), 2);
	mkmodel_e4m3_rms = sqrt(square / 256);
	mkmodel_fp4_rms = sqrt(fp4 / 16);
}

struct mkmodel_values mkmodel_even(bool bf16, double sigma)
{
	return (struct mkmodel_values){ .fill = bf16 ? MKMODEL_FILL_EVEN_BF16 : MKMODEL_FILL_EVEN_F32,
					.value = (float)(sigma * sqrt(3)) };
}

/* Two neighbouring powers of two, in the shares that give the mean square. */
struct mkmodel_values mkmodel_scale_e8m0(bool fp4, double sigma)
{
	double scale = sigma / (fp4 ? mkmodel_fp4_rms : mkmodel_e4m3_rms), e = floor(log2(scale));
	double share = (pow(scale / exp2(e), 2) - 1) / 3;

	return (struct mkmodel_values){ .fill = MKMODEL_FILL_CODES, .code = { (uint8_t)(127 + e), (uint8_t)(128 + e) },
					.share = (uint8_t)(share * 255) };
}

/* 1 and 1.5, as often; the rest is in scale2. */
struct mkmodel_values mkmodel_scale_e4m3(void)
{
	return (struct mkmodel_values){ .fill = MKMODEL_FILL_CODES,
					.code = { dsv4_f32_to_e4m3(1), dsv4_f32_to_e4m3(1.5f) }, .share = 128 };
}

float mkmodel_scale2(double sigma)
{
	return (float)(sigma / mkmodel_fp4_rms / sqrt((1 + 1.5 * 1.5) / 2));
}

/* ---- the values ---- */

/* Number i of a key (splitmix64, Steele et al. 2014). */
static inline uint64_t mkmodel_random(uint64_t key, uint64_t i)
{
	uint64_t z = key + i * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Rows are evenly spaced ids from a random one on, so that they are distinct. */
static int64_t mkmodel_id(const struct mkmodel_values *v, uint64_t i)
{
	uint64_t r = mkmodel_random(v->key, i / (uint64_t)v->ids), below = (uint64_t)v->below;
	uint64_t step = 1 + (r >> 32) % (below / (uint64_t)v->ids);

	return (int64_t)(((r & 0xffffffffu) + i % (uint64_t)v->ids * step) % below);
}

static inline void mkmodel_even_bf16(float largest, uint64_t r, uint8_t *out)
{
	uint16_t h[4];

	for (int i = 0; i < 4; i++)
		h[i] = dsv4_f32_to_bf16((float)(int16_t)(r >> 16 * i) * (largest * 0x1p-15f));
	memcpy(out, h, sizeof h);
}

static inline void mkmodel_even_f32(float largest, uint64_t r, uint8_t *out)
{
	float f[2];

	for (int i = 0; i < 2; i++)
		f[i] = (float)(int32_t)(r >> 32 * i) * (largest * 0x1p-31f);
	memcpy(out, f, sizeof f);
}

/* Eight bytes of the tensor, number `word`; inlined for each kind of values. */
static inline void mkmodel_word(const struct mkmodel_values *v, enum mkmodel_fill fill, uint64_t word, uint8_t *out)
{
	uint64_t r = fill < MKMODEL_FILL_SAME_BF16 ? mkmodel_random(v->key, word) : 0;

	switch (fill) {
	case MKMODEL_FILL_BYTES: memcpy(out, &r, 8); return;
	case MKMODEL_FILL_E4M3:
		for (int i = 0; i < 8; i++)
			out[i] = mkmodel_e4m3[r >> 8 * i & 0xff];
		return;
	case MKMODEL_FILL_CODES:
		for (int i = 0; i < 8; i++)
			out[i] = v->code[(r >> 8 * i & 0xff) < v->share];
		return;
	case MKMODEL_FILL_EVEN_BF16: mkmodel_even_bf16(v->value, r, out); return;
	case MKMODEL_FILL_EVEN_F32: mkmodel_even_f32(v->value, r, out); return;
	case MKMODEL_FILL_SAME_BF16: r = dsv4_f32_to_bf16(v->value) * 0x0001000100010001u; break;
	case MKMODEL_FILL_SAME_F32: r = dsv4_f32_bits(v->value) * 0x0000000100000001u; break;
	case MKMODEL_FILL_IDS: r = (uint64_t)mkmodel_id(v, word); break;
	}
	memcpy(out, &r, 8);
}

#define MKMODEL_WORDS(kind) \
	case kind: \
		for (i = 0; i + 8 <= n; i += 8) \
			mkmodel_word(v, kind, (at + i) / 8, out + i); \
		break

void mkmodel_fill(const struct mkmodel_values *v, uint64_t at, uint8_t *out, size_t n)
{
	uint8_t last[8];
	size_t i = 0;

	switch (v->fill) {
	MKMODEL_WORDS(MKMODEL_FILL_BYTES);
	MKMODEL_WORDS(MKMODEL_FILL_E4M3);
	MKMODEL_WORDS(MKMODEL_FILL_CODES);
	MKMODEL_WORDS(MKMODEL_FILL_EVEN_BF16);
	MKMODEL_WORDS(MKMODEL_FILL_EVEN_F32);
	MKMODEL_WORDS(MKMODEL_FILL_SAME_BF16);
	MKMODEL_WORDS(MKMODEL_FILL_SAME_F32);
	MKMODEL_WORDS(MKMODEL_FILL_IDS);
	}
	if (i < n) {
		mkmodel_word(v, v->fill, (at + i) / 8, last);
		memcpy(out + i, last, n - i);
	}
}
