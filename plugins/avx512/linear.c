/* SPDX-License-Identifier: MIT
 * linear.c - y = x W^T for every weight format, grouped or not; eight output columns at a time.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Eight rows of a block of 128 columns are decoded once for up to LINEAR_TOKENS activation rows. Each output
 * element has sixteen lanes: a block's products are added to zeroes by fused multiply-add, that times (activation
 * scale * weight scale) to the sums so far, and the lanes to each other when all blocks are done. */
#include "plugins/avx512/linear.h"
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/decode.h"
#include "plugins/avx512/round.h"
#include "plugins/avx512/vec.h"

#include <errno.h>

#define LINEAR_ROWS 8          /* output columns of a tile */
#define LINEAR_TOKENS 32       /* activation rows that share decoded weights */
#define LINEAR_SLICE (1 << 18) /* products per slice, about */

int avx512_weight_ok(const struct dsv4_weight *w, int64_t rows, int64_t cols)
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

int avx512_act_wanted(uint32_t act, const struct dsv4_weight *w)
{
	return act == DSV4_ACT_FP8 && w->fmt != DSV4_W_F32 && w->fmt != DSV4_W_BF16;
}

/* ---- rounding of activations ---- */

int64_t avx512_act_scales(const struct avx512_act *a)
{
	return a->n_group * ((a->cols + AVX512_ACT_BLOCK - 1) / AVX512_ACT_BLOCK);
}

struct linear_round {
	const struct avx512_act *a;
	float *q, *scale;
};

static void linear_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_round *c = arg;
	int64_t width = c->a->n_group * c->a->cols;

	for (int64_t t = begin; t < end; t++) {
		float *scale = c->scale + t * avx512_act_scales(c->a);

		for (int64_t g = 0; g < c->a->n_group; g++)
			for (int64_t k = 0; k < c->a->cols; k += AVX512_ACT_BLOCK)
				*scale++ = avx512_round_split(c->a->x + t * c->a->ldx + g * c->a->cols + k,
							    avx512_min(AVX512_ACT_BLOCK, c->a->cols - k),
							    c->q + t * width + g * c->a->cols + k);
	}
}

void avx512_act_round(struct dsv4_exec *x, const struct dsv4_host *host, struct avx512_act *a, float *q,
		    float *scale)
{
	struct linear_round c = { a, q, scale };

	host->parallel_for(x, a->n, 1, linear_round_slice, &c);
	a->x = q;
	a->ldx = a->n_group * a->cols;
	a->scale = scale;
}

/* ---- products ---- */

/* Output columns of one group. At its end there are fewer: the last is computed again, not stored. */
struct linear_tile {
	const struct avx512_product *p;
	int64_t group, r0;
	int n_row;
	int64_t rows[LINEAR_ROWS];
	int64_t i0, n;      /* activation rows */
	__m512 sum[LINEAR_TOKENS][LINEAR_ROWS];
};

/* A block of columns: [k, k + m) of every activation row and of the tile's rows, decoded, with their scales. */
struct linear_block {
	int64_t k, m;
	float w[LINEAR_ROWS][AVX512_BLOCK], scale[LINEAR_ROWS];
};

static int64_t linear_from(const struct linear_tile *t, int64_t i)
{
	return t->p->from ? t->p->from[t->i0 + i] : t->i0 + i;
}

/* Adds the block to the sums of n_tok activation rows from i on, n_row output columns from r on; both counts are
 * constants where this is inlined. */
static inline __attribute__((always_inline)) void linear_add(struct linear_tile *t, const struct linear_block *b,
							     int64_t i, int n_tok, int r, int n_row)
{
	const struct avx512_act *a = t->p->a;
	int64_t n_scale = avx512_act_scales(a), at = t->group * (n_scale / a->n_group) + b->k / AVX512_BLOCK;
	const float *x[4];
	__m512 acc[4][8], v;

#pragma GCC unroll 4
	for (int j = 0; j < n_tok; j++) {
		x[j] = a->x + linear_from(t, i + j) * a->ldx + t->group * a->cols + b->k;
#pragma GCC unroll 8
		for (int l = 0; l < n_row; l++)
			acc[j][l] = _mm512_setzero_ps();
	}
	for (int64_t k = 0; k < b->m; k += AVX512_LANES) {
		__m512 in[4];

#pragma GCC unroll 4
		for (int j = 0; j < n_tok; j++)
			in[j] = avx512_load(x[j] + k, b->m - k);
#pragma GCC unroll 8
		for (int l = 0; l < n_row; l++) {
			v = _mm512_loadu_ps(b->w[r + l] + k);
#pragma GCC unroll 4
			for (int j = 0; j < n_tok; j++)
				acc[j][l] = _mm512_fmadd_ps(in[j], v, acc[j][l]);
		}
	}
#pragma GCC unroll 4
	for (int j = 0; j < n_tok; j++) {
		float as = a->scale ? a->scale[linear_from(t, i + j) * n_scale + at] : 1.0f;

#pragma GCC unroll 8
		for (int l = 0; l < n_row; l++)
			t->sum[i + j][r + l] = _mm512_fmadd_ps(acc[j][l], _mm512_set1_ps(as * b->scale[r + l]),
							       t->sum[i + j][r + l]);
	}
}

/* The block for all activation rows of the tile, as many at a time as there are registers for. */
static void linear_add_all(struct linear_tile *t, const struct linear_block *b)
{
	int64_t i = 0;

	for (; i + 4 <= t->n; i += 4) {
		linear_add(t, b, i, 4, 0, 4);
		linear_add(t, b, i, 4, 4, 4);
	}
	for (; i + 2 <= t->n; i += 2)
		linear_add(t, b, i, 2, 0, 8);
	if (i < t->n)
		linear_add(t, b, i, 1, 0, 8);
}

static void linear_store(const struct linear_tile *t)
{
	const struct avx512_product *p = t->p;

	for (int64_t i = 0; i < t->n; i++) {
		float *y = p->y + (p->to ? p->to[t->i0 + i] : t->i0 + i) * p->ldy + t->r0;

		for (int l = 0; l < t->n_row; l++) {
			float sum = avx512_sum(t->sum[i][l]);

			y[l] = p->accumulate ? y[l] + sum : sum;
		}
	}
}

static void linear_tile(struct linear_tile *t)
{
	const struct dsv4_weight *w = t->p->w;
	struct linear_block b;

	memset(t->sum, 0, (size_t)t->n * sizeof *t->sum);
	for (b.k = 0; b.k < w->cols; b.k += AVX512_BLOCK) {
		b.m = avx512_min(AVX512_BLOCK, w->cols - b.k);
		for (int l = 0; l < LINEAR_ROWS; l++) {
			avx512_decode(w, t->rows[l], b.k, b.m, b.w[l]);
			b.scale[l] = avx512_decode_scale(w, t->rows[l], b.k);
		}
		linear_add_all(t, &b);
	}
	linear_store(t);
}

/* How a product is cut: an item is eight output columns of n_tok activation rows. */
struct linear_cut {
	const struct avx512_product *p;
	int64_t n_tile;        /* of one group */
	int64_t n_tok, n_part; /* activation rows of an item, items of a tile */
};

static void linear_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_cut *c = arg;
	int64_t rows = c->p->w->rows / c->p->a->n_group;
	struct linear_tile t; /* large: not cleared */

	t.p = c->p;
	for (int64_t j = begin; j < end; j++) {
		int64_t tile = j / c->n_part;

		t.group = tile / c->n_tile;
		t.r0 = t.group * rows + tile % c->n_tile * 8;
		t.n_row = (int)avx512_min(8, (t.group + 1) * rows - t.r0);
		for (int i = 0; i < 8; i++)
			t.rows[i] = t.r0 + avx512_min(i, t.n_row - 1);
		t.i0 = j % c->n_part * c->n_tok;
		t.n = avx512_min(c->n_tok, c->p->n - t.i0);
		linear_tile(&t);
	}
}

void avx512_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx512_product *p)
{
	int64_t n_group = p->a->n_group, n_tile = (p->w->rows / n_group + 7) / 8, products;
	struct linear_cut c = { .p = p, .n_tile = n_tile, .n_tok = LINEAR_TOKENS };

	if (p->n <= 0)
		return;
	/* Few output columns leave threads idle unless the activation rows are cut finer. */
	while (c.n_tok > 8 && n_group * n_tile * (p->n / c.n_tok) < 2 * host->n_threads(x))
		c.n_tok /= 2;
	c.n_part = (p->n + c.n_tok - 1) / c.n_tok;
	products = 8 * avx512_min(p->n, c.n_tok) * p->a->cols;
	host->parallel_for(x, n_group * n_tile * c.n_part, 1 + LINEAR_SLICE / (1 + products), linear_slice,
			   &c);
}

int avx512_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	struct avx512_act act;
	float *q, *scale;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_group < 1 || !a->w ||
	    !avx512_weight_ok(a->w, a->w->rows, a->w->cols) || a->w->rows % a->n_group)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	act = (struct avx512_act){
		.n_group = a->n_group, .n = a->n_tok, .cols = a->w->cols, .x = a->x, .ldx = a->ldx
	};
	if (avx512_act_wanted(a->act, a->w)) {
		q = host->scratch(x, (size_t)(act.n * act.n_group * act.cols) * sizeof *q);
		scale = host->scratch(x, (size_t)(act.n * avx512_act_scales(&act)) * sizeof *scale);
		if (!q || !scale)
			return -ENOMEM;
		avx512_act_round(x, host, &act, q, scale);
	}
	avx512_product_run(x, host, &(struct avx512_product){
		.w = a->w, .a = &act, .n = a->n_tok, .y = a->y, .ldy = a->ldy });
	return 0;
}
