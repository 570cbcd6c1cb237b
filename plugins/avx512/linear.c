/* SPDX-License-Identifier: MIT
 * linear.c - y = x W^T for every weight format, grouped or not: rounding of x, and how a product is cut.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Which of two orders an output element is summed in depends on its weights' format, its row's scales and its
 * activation row's: dot_fp8.h's where it can, else dot_f32.h's. */
#include "plugins/avx512/linear.h"
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/dot_f32.h"
#include "plugins/avx512/dot_fp8.h"
#include "plugins/avx512/vec.h"
#include "plugins/x86/round.h"

#include <errno.h>

#define LINEAR_ITEMS 4         /* per thread, at least, where there are rows enough */
#define LINEAR_SLICE (1 << 18) /* products per slice, about */

/* ---- rounding of activations ---- */

int64_t avx512_act_scales(const struct avx512_act *a)
{
	return a->n_group * ((a->cols + X86_ACT_BLOCK - 1) / X86_ACT_BLOCK);
}

struct linear_round {
	const struct avx512_act *a;
	float *q, *scale;
};

void avx512_act_round_row(const struct avx512_act *a, int64_t t, float *all_q, float *all_scale)
{
	int64_t width = a->n_group * a->cols, n_scale = avx512_act_scales(a) / a->n_group;

	for (int64_t g = 0; g < a->n_group; g++) {
		float *q = all_q + t * width + g * a->cols, *scale = all_scale + (t * a->n_group + g) * n_scale;

		for (int64_t i = 0, k = 0; i < n_scale; i++, k += X86_ACT_BLOCK)
			scale[i] = x86_round_split(a->x + t * a->ldx + g * a->cols + k,
						      avx512_min(X86_ACT_BLOCK, a->cols - k), q + k);
		if (a->dot)
			avx512_dot_act_row(a->dot, a, t, g, q, scale);
	}
}

void avx512_act_rounded(struct avx512_act *a, const float *q, const float *scale)
{
	a->x = q;
	a->ldx = a->n_group * a->cols;
	a->scale = scale;
}

static void linear_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_round *c = arg;

	for (int64_t t = begin; t < end; t++)
		avx512_act_round_row(c->a, t, c->q, c->scale);
}

void avx512_act_round(struct dsv4_exec *x, const struct dsv4_host *host, struct avx512_act *a, float *q,
		    float *scale)
{
	struct linear_round c = { a, q, scale };

	host->parallel_for(x, a->n, 1, linear_round_slice, &c);
	avx512_act_rounded(a, q, scale);
}

/* ---- products ---- */

/* Output columns [r0, r1) of a group for activation rows [i0, i0 + n), where dot_fp8.h takes what fits it. */
static void linear_dot(const struct dsv4_host *host, const struct avx512_product *p, int64_t group, int64_t r0,
		       int64_t r1, int64_t i0, int64_t n)
{
	int all = 1;

	for (int64_t i = i0; i < i0 + n; i++)
		all &= avx512_dot_act_fits(p, group, i);
	for (int64_t r = r0, end; r < r1; r = end) {
		int fits = avx512_dot_fp8_row_fits(p->w, r);

		end = avx512_min(r1, (r / AVX512_BLOCK + 1) * AVX512_BLOCK);
		if (fits)
			avx512_dot_fp8(p, group, r, end, i0, n);
		if (!fits || !all)
			avx512_dot_f32(host, p, group, r, end, i0, n, fits);
	}
}

/* How a product is cut: an item is some output columns of a group, of some activation rows. */
struct linear_cut {
	const struct dsv4_host *host;
	const struct avx512_product *p;
	int dot;
	int64_t n_row, n_rows; /* output columns of an item, items of a group */
	int64_t n_parts;       /* items of all groups */
	int64_t n_tok;         /* activation rows of an item; the next has the same ones, which stay in a cache */
};

static void linear_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_cut *c = arg;
	int64_t rows = c->p->w->rows / c->p->a->n_group;

	for (int64_t j = begin; j < end; j++) {
		int64_t part = j % c->n_parts, i0 = j / c->n_parts * c->n_tok, group = part / c->n_rows;
		int64_t r0 = group * rows + part % c->n_rows * c->n_row;
		int64_t r1 = avx512_min(r0 + c->n_row, (group + 1) * rows), n = avx512_min(c->n_tok, c->p->n - i0);

		if (c->dot)
			linear_dot(c->host, c->p, group, r0, r1, i0, n);
		else
			avx512_dot_f32(c->host, c->p, group, r0, r1, i0, n, 0);
	}
}

/* Rows of an item, so that each thread gets some: `least` or a multiple of it, at most `most`. */
static int64_t linear_rows(int64_t rows, int64_t least, int64_t most, int64_t items)
{
	int64_t n = rows / (items * least) * least;

	return n < least ? least : avx512_min(n, most);
}

void avx512_product_part(const struct dsv4_host *host, const struct avx512_product *p, int64_t r0, int64_t r1)
{
	int dot = p->a->dot && avx512_dot_fp8_wanted(host, p->w);

	int64_t most = dot ? AVX512_DOT_TOKENS : AVX512_F32_TOKENS;

	for (int64_t i = 0; i < p->n; i += most)
		if (dot)
			linear_dot(host, p, 0, r0, r1, i, avx512_min(most, p->n - i));
		else
			avx512_dot_f32(host, p, 0, r0, r1, i, avx512_min(most, p->n - i), 0);
}

void avx512_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx512_product *p)
{
	int64_t n_group = p->a->n_group, rows = p->w->rows / n_group, items = LINEAR_ITEMS * host->n_threads(x),
		products;
	struct linear_cut c = { .host = host, .p = p, .dot = p->a->dot && avx512_dot_fp8_wanted(host, p->w) };

	if (p->n <= 0)
		return;
	c.n_tok = avx512_min(p->n, c.dot ? AVX512_DOT_TOKENS : AVX512_F32_TOKENS);
	/* Few output columns leave threads idle unless the activation rows are cut finer. */
	while (c.n_tok > 8 && rows * n_group / 16 * (p->n / c.n_tok) < items)
		c.n_tok = (c.n_tok + 1) / 2;
	c.n_row = linear_rows(rows * n_group, 16, AVX512_BLOCK, items);
	c.n_rows = (rows + c.n_row - 1) / c.n_row;
	c.n_parts = n_group * c.n_rows;
	products = c.n_row * c.n_tok * p->a->cols;
	host->parallel_for(x, c.n_parts * ((p->n + c.n_tok - 1) / c.n_tok), 1 + LINEAR_SLICE / (1 + products),
			   linear_slice, &c);
}

int avx512_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	struct avx512_dot_act dot;
	struct avx512_act act;
	float *q, *scale;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_group < 1 || !a->w ||
	    !dsv4_weight_ok(a->w, a->w->rows, a->w->cols) || a->w->rows % a->n_group)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	if (avx512_linear_fp4_wanted(host, a))
		return avx512_linear_fp4(x, host, a);
	act = (struct avx512_act){
		.n_group = a->n_group, .n = a->n_tok, .cols = a->w->cols, .x = a->x, .ldx = a->ldx
	};
	if (dsv4_weight_rounds(a->w, a->act)) {
		q = host->scratch(x, (size_t)(act.n * act.n_group * act.cols) * sizeof *q);
		scale = host->scratch(x, (size_t)(act.n * avx512_act_scales(&act)) * sizeof *scale);
		if (!q || !scale)
			return -ENOMEM;
		if (avx512_dot_fp8_wanted(host, a->w)) {
			if (avx512_dot_act_take(x, host, &act, &dot))
				return -ENOMEM;
			act.dot = &dot;
		}
		avx512_act_round(x, host, &act, q, scale);
	}
	avx512_product_run(x, host, &(struct avx512_product){
		.w = a->w, .a = &act, .n = a->n_tok, .y = a->y, .ldy = a->ldy });
	return 0;
}
