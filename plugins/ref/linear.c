/* SPDX-License-Identifier: MIT
 * linear.c - y = x W^T for every weight format, grouped or not.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * The order of one output element: its columns in blocks of 128 (F32, BF16, FP8), 32 (FP4) or 16 (NVFP4); the
 * products of a block are summed by ref_dot_block; that sum times (activation scale * weight scale) is added
 * to the element, blocks in rising order. This is doc/format.md 3.2. */
#include "plugins/ref/linear.h"
#include "plugins/ref/ref.h"
#include "plugins/ref/round.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define LINEAR_TILE 64             /* activation rows that share one decoded block of weights */
#define LINEAR_SLICE (1 << 16)     /* products per slice, about */

/* Columns that share a weight scale, and so a partial sum. */
static int64_t linear_block(const struct dsv4_weight *w)
{
	return w->fmt == DSV4_W_FP4 ? 32 : w->fmt == DSV4_W_NVFP4 ? 16 : REF_BLOCK;
}

static int64_t linear_n_block(int64_t n, int64_t block)
{
	return (n + block - 1) / block;
}

/* e4m3 code -> value, laid out by exponent; the code's top bit is the sign. */
static const float linear_e4m3[256] = {
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

/* e2m1 code -> value; a table, since a branch on the sign is mispredicted every second time. */
static const float linear_e2m1[16] = {
	0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6
};

static void linear_decode_fp4(const uint8_t *src, int64_t n, float *out)
{
	int64_t i;

	for (i = 0; i + 1 < n; i += 2) {
		out[i] = linear_e2m1[src[i / 2] & 15];
		out[i + 1] = linear_e2m1[src[i / 2] >> 4];
	}
	if (i < n)
		out[i] = linear_e2m1[src[i / 2] & 15];
}

static void linear_decode_bf16(const uint8_t *src, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = dsv4_bf16_to_f32((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}

/* Values of row r, columns [k, k + n), before scaling; k is even. */
static void linear_decode(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out)
{
	const uint8_t *data = w->data;

	switch (w->fmt) {
	case DSV4_W_F32:
		memcpy(out, data + (r * w->cols + k) * 4, (size_t)n * 4);
		return;
	case DSV4_W_BF16:
		linear_decode_bf16(data + (r * w->cols + k) * 2, n, out);
		return;
	case DSV4_W_FP8:
		for (int64_t i = 0; i < n; i++)
			out[i] = linear_e4m3[data[r * w->cols + k + i]];
		return;
	default:
		linear_decode_fp4(data + r * linear_n_block(w->cols, 2) + k / 2, n, out);
	}
}

/* The factor of the block of row r that begins at column k. */
static float linear_scale(const struct dsv4_weight *w, int64_t r, int64_t k)
{
	const uint8_t *scale = w->scale;
	int64_t i = k / linear_block(w);
	float f;

	if (w->sfmt == DSV4_S_NONE)
		return 1.0f;
	i += (w->fmt == DSV4_W_FP8 ? r / REF_BLOCK : r) * linear_n_block(w->cols, linear_block(w));
	switch (w->sfmt) {
	case DSV4_S_E8M0:
		return dsv4_e8m0_to_f32(scale[i]);
	case DSV4_S_E4M3:
		return dsv4_e4m3_to_f32(scale[i]) * w->scale2;
	default:
		memcpy(&f, scale + 4 * i, 4);
		return f;
	}
}

int ref_weight_ok(const struct dsv4_weight *w, int64_t rows, int64_t cols)
{
	static const uint8_t scales[DSV4_N_WFMT] = {
		[DSV4_W_F32] = 1 << DSV4_S_NONE,  [DSV4_W_BF16] = 1 << DSV4_S_NONE,
		[DSV4_W_FP8] = 1 << DSV4_S_E8M0 | 1 << DSV4_S_F32,
		[DSV4_W_FP4] = 1 << DSV4_S_E8M0,  [DSV4_W_NVFP4] = 1 << DSV4_S_E4M3,
	};

	return w && w->size >= sizeof *w && w->rows == rows && w->cols == cols && w->fmt < DSV4_N_WFMT &&
	       w->data && w->sfmt <= DSV4_S_E4M3 && (scales[w->fmt] >> w->sfmt & 1) &&
	       (w->sfmt == DSV4_S_NONE || w->scale);
}

int ref_act_wanted(uint32_t act, const struct dsv4_weight *w)
{
	return act == DSV4_ACT_FP8 && w->fmt != DSV4_W_F32 && w->fmt != DSV4_W_BF16;
}

int64_t ref_act_scales(const struct ref_act *a)
{
	return a->n_group * linear_n_block(a->cols, REF_ACT_BLOCK);
}

struct linear_round {
	const struct ref_act *a;
	float *q, *scale;
};

static void linear_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_round *c = arg;
	int64_t width = c->a->n_group * c->a->cols;

	for (int64_t t = begin; t < end; t++) {
		float *scale = c->scale + t * ref_act_scales(c->a);

		for (int64_t g = 0; g < c->a->n_group; g++)
			for (int64_t k = 0; k < c->a->cols; k += REF_ACT_BLOCK)
				*scale++ = ref_round_split(c->a->x + t * c->a->ldx + g * c->a->cols + k,
							   ref_min(REF_ACT_BLOCK, c->a->cols - k),
							   c->q + t * width + g * c->a->cols + k);
	}
}

void ref_act_round(struct dsv4_exec *x, const struct dsv4_host *host, struct ref_act *a, float *q,
		   float *scale)
{
	struct linear_round c = { a, q, scale };

	host->parallel_for(x, a->n, 1, linear_round_slice, &c);
	a->x = q;
	a->ldx = a->n_group * a->cols;
	a->scale = scale;
}

/* Output column r for the n <= LINEAR_TILE rows of the product from i0 on. */
static void linear_tile(const struct ref_product *p, int64_t r, int64_t i0, int64_t n)
{
	const struct ref_act *a = p->a;
	int64_t group = r / (p->w->rows / a->n_group), block = linear_block(p->w);
	int64_t n_scale = ref_act_scales(a), scale0 = group * (n_scale / a->n_group);
	float sum[LINEAR_TILE] = { 0 }, v[REF_BLOCK];

	for (int64_t k = 0; k < a->cols; k += block) {
		int64_t m = ref_min(block, a->cols - k);
		float ws = linear_scale(p->w, r, k);

		linear_decode(p->w, r, k, m, v);
		for (int64_t i = 0; i < n; i++) {
			int64_t t = p->from ? p->from[i0 + i] : i0 + i;
			float as = a->scale ? a->scale[t * n_scale + scale0 + k / REF_ACT_BLOCK] : 1.0f;

			sum[i] += ref_dot_block(a->x + t * a->ldx + group * a->cols + k, v, m) * (as * ws);
		}
	}
	for (int64_t i = 0; i < n; i++) {
		float *y = p->y + (p->to ? p->to[i0 + i] : i0 + i) * p->ldy + r;

		*y = p->accumulate ? *y + sum[i] : sum[i];
	}
}

static void linear_slice(void *arg, int64_t begin, int64_t end)
{
	const struct ref_product *p = arg;

	for (int64_t r = begin; r < end; r++)
		for (int64_t i = 0; i < p->n; i += LINEAR_TILE)
			linear_tile(p, r, i, ref_min(LINEAR_TILE, p->n - i));
}

void ref_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct ref_product *p)
{
	struct ref_product c = *p;

	if (p->n > 0)
		host->parallel_for(x, c.w->rows, 1 + LINEAR_SLICE / (1 + c.n * c.a->cols), linear_slice, &c);
}

int ref_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	struct ref_act act;
	struct ref_product p;
	float *q, *scale;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_group < 1 || !a->w ||
	    !ref_weight_ok(a->w, a->w->rows, a->w->cols) || a->w->rows % a->n_group)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	act = (struct ref_act){
		.n_group = a->n_group, .n = a->n_tok, .cols = a->w->cols, .x = a->x, .ldx = a->ldx
	};
	if (ref_act_wanted(a->act, a->w)) {
		q = host->scratch(x, (size_t)(act.n * act.n_group * act.cols) * sizeof *q);
		scale = host->scratch(x, (size_t)(act.n * ref_act_scales(&act)) * sizeof *scale);
		if (!q || !scale)
			return -ENOMEM;
		ref_act_round(x, host, &act, q, scale);
	}
	p = (struct ref_product){ .w = a->w, .a = &act, .n = a->n_tok, .y = a->y, .ldy = a->ldy };
	ref_product_run(x, host, &p);
	return 0;
}
