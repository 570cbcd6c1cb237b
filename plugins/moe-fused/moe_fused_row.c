/* SPDX-License-Identifier: MIT
 * moe_fused_row.c - some rows of a weight matrix times some rows of activations, in ref's order.
 * Threads: any. Locks: none.
 *
 * Columns go in blocks of 128 (F32, BF16, FP8), 32 (FP4) or 16 (NVFP4): eight lanes and a tree each, times
 * (activation scale * weight scale), blocks in rising order (doc/format.md 3.2). */
#include "plugins/moe-fused/moe_fused_row.h"
#include "plugins/moe-fused/moe_fused.h"

#define MOE_FUSED_BLOCK 128 /* most columns of a block */

/* Four floats at any address. */
typedef float moe_fused_v4 __attribute__((vector_size(16), aligned(4), may_alias));

static moe_fused_v4 moe_fused_load(const float *p)
{
	return *(const moe_fused_v4 *)p;
}

float moe_fused_split(const float *x, int64_t n, float *q)
{
	float amax = 0, s;

	for (int64_t i = 0; i < n; i++)
		amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax; /* NaN is passed over */
	s = dsv4_fp8_scale(amax);
	for (int64_t i = 0; i < n; i++)
		q[i] = dsv4_e4m3_to_f32(dsv4_f32_to_e4m3(x[i] / s));
	return s;
}

/* ---- decoding ---- */

/* e4m3 code -> value, laid out by exponent; the code's top bit is the sign. */
static const float moe_fused_e4m3[256] = {
#define V(s, e, m) s (float)((e) ? (8 + (m)) << (e) : (m) << 1) * 0x1p-10f
#define ROW(s, e) \
	V(s, e, 0), V(s, e, 1), V(s, e, 2), V(s, e, 3), V(s, e, 4), V(s, e, 5), V(s, e, 6), V(s, e, 7)
#define HALF(s) \
	ROW(s, 0), ROW(s, 1), ROW(s, 2), ROW(s, 3), ROW(s, 4), ROW(s, 5), ROW(s, 6), ROW(s, 7), ROW(s, 8), \
		ROW(s, 9), ROW(s, 10), ROW(s, 11), ROW(s, 12), ROW(s, 13), ROW(s, 14), V(s, 15, 0), \
		V(s, 15, 1), V(s, 15, 2), V(s, 15, 3), V(s, 15, 4), V(s, 15, 5), V(s, 15, 6), NAN
	HALF(+), HALF(-)
#undef HALF
#undef ROW
#undef V
};

static const float moe_fused_e2m1[16] = {
	0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6
};

static int64_t moe_fused_block(const struct dsv4_weight *w)
{
	return w->fmt == DSV4_W_FP4 ? 32 : w->fmt == DSV4_W_NVFP4 ? 16 : MOE_FUSED_BLOCK;
}

/* Values of row r, columns [k, k + n), before scaling; k is even. */
static void moe_fused_decode(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out)
{
	const uint8_t *data = w->data, *four = data + r * ((w->cols + 1) / 2) + k / 2;
	int64_t at = r * w->cols + k;

	switch (w->fmt) {
	case DSV4_W_F32:
		memcpy(out, data + at * 4, (size_t)n * 4);
		return;
	case DSV4_W_BF16:
		for (int64_t i = 0; i < n; i++)
			out[i] = dsv4_bf16_to_f32(
				(uint16_t)(data[2 * (at + i)] | data[2 * (at + i) + 1] << 8));
		return;
	case DSV4_W_FP8:
		for (int64_t i = 0; i < n; i++)
			out[i] = moe_fused_e4m3[data[at + i]];
		return;
	default:
		for (int64_t i = 0; i + 1 < n; i += 2) {
			out[i] = moe_fused_e2m1[four[i / 2] & 15];
			out[i + 1] = moe_fused_e2m1[four[i / 2] >> 4];
		}
		if (n % 2)
			out[n - 1] = moe_fused_e2m1[four[n / 2] & 15];
	}
}

/* The factor of the block of row r that begins at column k. */
static float moe_fused_scale(const struct dsv4_weight *w, int64_t r, int64_t k)
{
	int64_t block = moe_fused_block(w), row = w->fmt == DSV4_W_FP8 ? r / MOE_FUSED_BLOCK : r;
	int64_t i = row * ((w->cols + block - 1) / block) + k / block;
	const uint8_t *scale = w->scale;
	float f;

	switch (w->sfmt) {
	case DSV4_S_NONE:
		return 1.0f;
	case DSV4_S_E8M0:
		return dsv4_e8m0_to_f32(scale[i]);
	case DSV4_S_E4M3:
		return dsv4_e4m3_to_f32(scale[i]) * w->scale2;
	default:
		memcpy(&f, scale + 4 * i, 4);
		return f;
	}
}

/* ---- products ---- */

/* Products of x with MOE_FUSED_SIDE rows v, n <= MOE_FUSED_BLOCK terms each: lane l sums the terms l, l + 8...,
 * then ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). */
static void moe_fused_dot(const float *x, const float (*v)[MOE_FUSED_BLOCK], int64_t n, float *out)
{
	moe_fused_v4 lo[MOE_FUSED_SIDE] = { 0 }, hi[MOE_FUSED_SIDE] = { 0 }, x0, x1;
	float tail[8] = { 0 };

	for (int64_t k = 0; k < n; k += 8) {
		/* behind the last term both have zeroes, which change no sum */
		const float *at = k + 8 > n ? memcpy(tail, x + k, (size_t)(n - k) * sizeof *x) : x + k;

		x0 = moe_fused_load(at);
		x1 = moe_fused_load(at + 4);
#pragma GCC unroll 4
		for (int i = 0; i < MOE_FUSED_SIDE; i++) {
			lo[i] += x0 * moe_fused_load(v[i] + k);
			hi[i] += x1 * moe_fused_load(v[i] + k + 4);
		}
	}
#pragma GCC unroll 4
	for (int i = 0; i < MOE_FUSED_SIDE; i++) {
		lo[i] += hi[i];
		out[i] = (lo[i][0] + lo[i][2]) + (lo[i][1] + lo[i][3]);
	}
}

void moe_fused_rows(const struct dsv4_weight *w, int64_t r, int n_row, const struct moe_fused_act *a,
		    const int32_t *at, int n, float sum[MOE_FUSED_SIDE][MOE_FUSED_TILE])
{
	float v[MOE_FUSED_SIDE][MOE_FUSED_BLOCK] = { 0 }, ws[MOE_FUSED_SIDE] = { 0 }, d[MOE_FUSED_SIDE];
	int64_t block = moe_fused_block(w);

	memset(sum, 0, MOE_FUSED_SIDE * sizeof *sum);
	for (int64_t k = 0; k < w->cols; k += block) {
		int64_t m = moe_fused_min(block, w->cols - k);

		for (int l = 0; l < n_row; l++) {
			moe_fused_decode(w, r + l, k, m, v[l]);
			memset(v[l] + m, 0, (size_t)(MOE_FUSED_BLOCK - m) * sizeof **v);
			ws[l] = moe_fused_scale(w, r + l, k);
		}
		for (int i = 0; i < n; i++) {
			float as = a->scale ? a->scale[at[i] * a->n_scale + k / MOE_FUSED_ACT] : 1.0f;

			moe_fused_dot(a->x + at[i] * a->ldx + k, v, m, d);
			for (int l = 0; l < MOE_FUSED_SIDE; l++)
				sum[l][i] += d[l] * (as * ws[l]);
		}
	}
}
