/* SPDX-License-Identifier: MIT
 * case_matrix.c - what the matrices of cases hold: sizes, values, and those that no checkpoint should have.
 * Threads: any. Locks: none. */
#include "plugins/check/case_matrix.h"

#include <math.h>
#include <string.h>

/* How a format stores a matrix: bits per value; rows and columns that share a scale (0: none). */
static const struct { int bits; int64_t rows, cols; enum dsv4_sfmt sfmt; } case_matrix_formats[DSV4_N_WFMT] = {
	[DSV4_W_F32] = { 32, 0, 0, DSV4_S_NONE },   [DSV4_W_BF16] = { 16, 0, 0, DSV4_S_NONE },
	[DSV4_W_FP8] = { 8, 128, 128, DSV4_S_E8M0 }, [DSV4_W_FP4] = { 4, 1, 32, DSV4_S_E8M0 },
	[DSV4_W_NVFP4] = { 4, 1, 16, DSV4_S_E4M3 },
};

enum dsv4_sfmt case_matrix_sfmt(enum dsv4_wfmt fmt, bool f32_scale)
{
	return fmt == DSV4_W_FP8 && f32_scale ? DSV4_S_F32 : case_matrix_formats[fmt].sfmt;
}

struct dsv4_weight *case_matrix(struct check_case *c, enum dsv4_wfmt fmt, bool f32_scale, int64_t rows, int64_t cols)
{
	struct dsv4_weight *w = case_alloc(c, sizeof *w, _Alignof(struct dsv4_weight));

	if (w)
		case_weight(c, w, fmt, case_matrix_sfmt(fmt, f32_scale), rows, cols);
	return w;
}

/* Scales of one row of the scale matrix. */
static int64_t case_matrix_scale_cols(const struct dsv4_weight *w)
{
	int64_t block = case_matrix_formats[w->fmt].cols;

	return block ? (w->cols + block - 1) / block : 0;
}

static int64_t case_matrix_n_scale(const struct dsv4_weight *w)
{
	int64_t block = case_matrix_formats[w->fmt].rows;

	return block ? (w->rows + block - 1) / block * case_matrix_scale_cols(w) : 0;
}

static double case_matrix_scale_at(const struct dsv4_weight *w, int64_t r, int64_t k)
{
	const uint8_t *scale = w->scale;
	int64_t i;
	float f;

	if (w->sfmt == DSV4_S_NONE)
		return 1;
	i = r / case_matrix_formats[w->fmt].rows * case_matrix_scale_cols(w) + k / case_matrix_formats[w->fmt].cols;
	if (w->sfmt == DSV4_S_E8M0)
		return (double)dsv4_e8m0_to_f32(scale[i]);
	if (w->sfmt == DSV4_S_E4M3)
		return (double)dsv4_e4m3_to_f32(scale[i]) * (double)w->scale2;
	memcpy(&f, scale + 4 * i, sizeof f);
	return (double)f;
}

double case_matrix_at(const struct dsv4_weight *w, int64_t r, int64_t k)
{
	const uint8_t *data = w->data;
	int64_t i = r * w->cols + k;
	uint16_t half;
	uint8_t pair;
	float f;

	switch (w->fmt) {
	case DSV4_W_F32:
		memcpy(&f, data + 4 * i, sizeof f);
		return (double)f;
	case DSV4_W_BF16:
		memcpy(&half, data + 2 * i, sizeof half);
		return (double)dsv4_bf16_to_f32(half);
	case DSV4_W_FP8:
		return (double)dsv4_e4m3_to_f32(data[i]) * case_matrix_scale_at(w, r, k);
	default:
		pair = data[r * ((w->cols + 1) / 2) + k / 2];
		return (double)dsv4_e2m1_to_f32(k % 2 ? pair >> 4 : pair & 15) * case_matrix_scale_at(w, r, k);
	}
}

/* The inputs of a case are its maker's to write. */
static uint8_t *case_matrix_bytes_of(const void *p)
{
	return (uint8_t *)(uintptr_t)p;
}

void case_matrix_small(const struct dsv4_weight *w)
{
	uint8_t *scale = case_matrix_bytes_of(w->scale);
	const float least = 0x1p-127f;

	for (int64_t i = 0; i < case_matrix_n_scale(w); i++)
		if (w->sfmt == DSV4_S_F32)
			memcpy(scale + 4 * i, &least, sizeof least);
		else
			scale[i] = w->sfmt == DSV4_S_E4M3;
}

void case_matrix_nan(const struct dsv4_weight *w)
{
	uint8_t *data = case_matrix_bytes_of(w->data), *scale = case_matrix_bytes_of(w->scale);
	int64_t at = w->rows / 2 * w->cols + w->cols / 3;
	const float nan = NAN;
	const uint16_t half = dsv4_f32_to_bf16(nan);

	switch (w->fmt) {
	case DSV4_W_F32:
		memcpy(data + 4 * at, &nan, sizeof nan);
		break;
	case DSV4_W_BF16:
		memcpy(data + 2 * at, &half, sizeof half);
		break;
	case DSV4_W_FP8:
		data[at] = 0x7f;
		break;
	default:
		scale[case_matrix_n_scale(w) / 2] = w->sfmt == DSV4_S_E8M0 ? 255 : 0x7f;
	}
}

void case_matrix_blocks(const struct dsv4_weight *w)
{
	uint8_t *data = case_matrix_bytes_of(w->data), *scale = case_matrix_bytes_of(w->scale);
	int64_t row = case_matrix_scale_cols(w);

	scale[0] = 20;
	scale[row] = 250;
	for (int64_t r = 128; r < 256; r++)
		memset(data + r * w->cols, 0, (size_t)(w->cols < 128 ? w->cols : 128));
	scale[case_matrix_n_scale(w) - 1] = 255;
}
