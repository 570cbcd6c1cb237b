/* SPDX-License-Identifier: MIT
 * linear.c - y = x W^T for every weight format, grouped or not; eight output columns at a time.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Eight rows of a block of 128 columns are decoded once for up to LINEAR_TOKENS activation rows. Each output
 * element is summed as in ref: a block's products in eight lanes and a tree, times (activation scale * weight
 * scale), blocks in rising order. */
#include "plugins/avx2/linear.h"
#include "plugins/avx2/avx2.h"
#include "plugins/avx2/decode.h"
#include "plugins/avx2/round.h"
#include "plugins/avx2/vec.h"

#include <errno.h>

#define LINEAR_TOKENS 64       /* activation rows that share decoded weights */
#define LINEAR_SLICE (1 << 18) /* products per slice, about */

int avx2_weight_ok(const struct dsv4_weight *w, int64_t rows, int64_t cols)
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

int avx2_act_wanted(uint32_t act, const struct dsv4_weight *w)
{
	return act == DSV4_ACT_FP8 && w->fmt != DSV4_W_F32 && w->fmt != DSV4_W_BF16;
}

/* ---- rounding of activations ---- */

int64_t avx2_act_scales(const struct avx2_act *a)
{
	return a->n_group * ((a->cols + AVX2_ACT_BLOCK - 1) / AVX2_ACT_BLOCK);
}

struct linear_round {
	const struct avx2_act *a;
	float *q, *scale;
};

static void linear_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_round *c = arg;
	int64_t width = c->a->n_group * c->a->cols;

	for (int64_t t = begin; t < end; t++) {
		float *scale = c->scale + t * avx2_act_scales(c->a);

		for (int64_t g = 0; g < c->a->n_group; g++)
			for (int64_t k = 0; k < c->a->cols; k += AVX2_ACT_BLOCK)
				*scale++ = avx2_round_split(c->a->x + t * c->a->ldx + g * c->a->cols + k,
							    avx2_min(AVX2_ACT_BLOCK, c->a->cols - k),
							    c->q + t * width + g * c->a->cols + k);
	}
}

void avx2_act_round(struct dsv4_exec *x, const struct dsv4_host *host, struct avx2_act *a, float *q,
		    float *scale)
{
	struct linear_round c = { a, q, scale };

	host->parallel_for(x, a->n, 1, linear_round_slice, &c);
	a->x = q;
	a->ldx = a->n_group * a->cols;
	a->scale = scale;
}

/* ---- products ---- */

/* Eight output columns of one group. At its end there are fewer: the last is computed again, not stored. */
struct linear_tile {
	const struct avx2_product *p;
	int64_t group, r0;
	int n_row;
	int64_t rows[8], line[8];  /* and where their scales begin */
	int64_t n_scale, scale0;   /* activation scales of a row, and the first of this group */
	int64_t i0, n;      /* activation rows */
	__m256 sum[LINEAR_TOKENS];
};

/* Adds columns [k, k + m), block number `block`, to every sum: w are the decoded values, one row per output
 * column. */
static void linear_block(struct linear_tile *t, int64_t block, int64_t k, int64_t m, const float *const w[8])
{
	const struct avx2_act *a = t->p->a;
	const float *scale = a->scale ? a->scale + t->scale0 + k / AVX2_ACT_BLOCK : NULL;
	__m256 ws = avx2_decode_scales(t->p->w, t->line, block);

	for (int64_t i = 0; i < t->n; i++) {
		int64_t row = t->p->from ? t->p->from[t->i0 + i] : t->i0 + i;
		__m256 as = _mm256_set1_ps(scale ? scale[row * t->n_scale] : 1.0f);
		__m256 dot = avx2_dot8_block(a->x + row * a->ldx + t->group * a->cols + k, w, m);

		t->sum[i] = _mm256_add_ps(t->sum[i], _mm256_mul_ps(dot, _mm256_mul_ps(as, ws)));
	}
}

static void linear_store(const struct linear_tile *t)
{
	const struct avx2_product *p = t->p;

	for (int64_t i = 0; i < t->n; i++) {
		float *y = p->y + (p->to ? p->to[t->i0 + i] : t->i0 + i) * p->ldy + t->r0;
		__m256 v = t->sum[i];

		if (p->accumulate)
			v = _mm256_add_ps(avx2_load(y, t->n_row), v);
		avx2_store(y, t->n_row, v);
	}
}

static void linear_tile(struct linear_tile *t)
{
	const struct dsv4_weight *w = t->p->w;
	int64_t block = avx2_decode_block(w), n = 0;
	float v[8][AVX2_BLOCK];
	const float *from[8], *at[8];

	for (int64_t i = 0; i < t->n; i++)
		t->sum[i] = _mm256_setzero_ps();
	for (int64_t k = 0; k < w->cols; k += AVX2_BLOCK) {
		int64_t end = avx2_min(k + AVX2_BLOCK, w->cols);

		for (int i = 0; i < 8; i++) {
			from[i] = avx2_decode(w, t->rows[i], k, end - k, v[i]);
			/* Rows a power of two apart fall on the same cache lines: copied when read again. */
			if (from[i] != v[i] && t->n > 1)
				from[i] = memcpy(v[i], from[i], (size_t)(end - k) * sizeof **v);
		}
		for (int64_t b = k; b < end; b += block, n++) {
			for (int i = 0; i < 8; i++)
				at[i] = from[i] + (b - k);
			linear_block(t, n, b, avx2_min(block, end - b), at);
		}
	}
	linear_store(t);
}

/* How a product is cut: an item is eight output columns of n_tok activation rows. */
struct linear_cut {
	const struct avx2_product *p;
	int64_t n_tile;        /* of one group */
	int64_t n_tok, n_part; /* activation rows of an item, items of a tile */
};

static void linear_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_cut *c = arg;
	int64_t rows = c->p->w->rows / c->p->a->n_group;
	struct linear_tile t = { .p = c->p, .n_scale = avx2_act_scales(c->p->a) };

	for (int64_t j = begin; j < end; j++) {
		int64_t tile = j / c->n_part;

		t.group = tile / c->n_tile;
		t.r0 = t.group * rows + tile % c->n_tile * 8;
		t.n_row = (int)avx2_min(8, (t.group + 1) * rows - t.r0);
		for (int i = 0; i < 8; i++)
			t.rows[i] = t.r0 + avx2_min(i, t.n_row - 1);
		avx2_decode_lines(c->p->w, t.rows, t.line);
		t.scale0 = t.group * (t.n_scale / c->p->a->n_group);
		t.i0 = j % c->n_part * c->n_tok;
		t.n = avx2_min(c->n_tok, c->p->n - t.i0);
		linear_tile(&t);
	}
}

void avx2_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx2_product *p)
{
	int64_t n_group = p->a->n_group, n_tile = (p->w->rows / n_group + 7) / 8, products;
	struct linear_cut c = { .p = p, .n_tile = n_tile, .n_tok = LINEAR_TOKENS };

	if (p->n <= 0)
		return;
	/* Few output columns leave threads idle unless the activation rows are cut finer. */
	while (c.n_tok > 8 && n_group * n_tile * (p->n / c.n_tok) < 2 * host->n_threads(x))
		c.n_tok /= 2;
	c.n_part = (p->n + c.n_tok - 1) / c.n_tok;
	products = 8 * avx2_min(p->n, c.n_tok) * p->a->cols;
	host->parallel_for(x, n_group * n_tile * c.n_part, 1 + LINEAR_SLICE / (1 + products), linear_slice,
			   &c);
}

int avx2_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	struct avx2_act act;
	float *q, *scale;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_group < 1 || !a->w ||
	    !avx2_weight_ok(a->w, a->w->rows, a->w->cols) || a->w->rows % a->n_group)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	act = (struct avx2_act){
		.n_group = a->n_group, .n = a->n_tok, .cols = a->w->cols, .x = a->x, .ldx = a->ldx
	};
	if (avx2_act_wanted(a->act, a->w)) {
		q = host->scratch(x, (size_t)(act.n * act.n_group * act.cols) * sizeof *q);
		scale = host->scratch(x, (size_t)(act.n * avx2_act_scales(&act)) * sizeof *scale);
		if (!q || !scale)
			return -ENOMEM;
		avx2_act_round(x, host, &act, q, scale);
	}
	avx2_product_run(x, host, &(struct avx2_product){
		.w = a->w, .a = &act, .n = a->n_tok, .y = a->y, .ldy = a->ldy });
	return 0;
}
