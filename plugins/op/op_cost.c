/* SPDX-License-Identifier: MIT
 * op_cost.c - what a call of an op must read at least and compute, worked out from its arguments.
 * Threads: any. Locks: none. */
#include "plugins/op/op_cost.h"
#include "plugins/dsv4_weight.h"
#include "plugins/ref/vec.h"

#include <stdbool.h>
#include <string.h>

#define OP_COST_EXPERTS 4096 /* the most that a config may have */

/* How a format stores a matrix: bits per value; rows and columns that share a scale (0: none). */
static const struct { int bits; int64_t rows, cols; } op_cost_formats[DSV4_N_WFMT] = {
	[DSV4_W_F32] = { 32, 0, 0 }, [DSV4_W_BF16] = { 16, 0, 0 }, [DSV4_W_FP8] = { 8, 128, 128 },
	[DSV4_W_FP4] = { 4, 1, 32 }, [DSV4_W_NVFP4] = { 4, 1, 16 },
};

double op_cost_bytes(const struct op_cost *c)
{
	return c->weights + c->rows + c->inputs;
}

/* ---- matrices ---- */

size_t op_cost_data(enum dsv4_wfmt fmt, int64_t rows, int64_t cols)
{
	return (size_t)rows * (size_t)((cols * op_cost_formats[fmt].bits + 7) / 8);
}

size_t op_cost_scale(enum dsv4_sfmt sfmt, enum dsv4_wfmt fmt, int64_t rows, int64_t cols)
{
	int64_t r = op_cost_formats[fmt].rows, k = op_cost_formats[fmt].cols;

	return r ? (size_t)((rows + r - 1) / r * ((cols + k - 1) / k)) * (sfmt == DSV4_S_F32 ? 4 : 1) : 0;
}

double op_cost_weight(const struct dsv4_weight *w)
{
	enum dsv4_wfmt fmt = (enum dsv4_wfmt)w->fmt;

	return (double)(op_cost_data(fmt, w->rows, w->cols) +
			op_cost_scale((enum dsv4_sfmt)w->sfmt, fmt, w->rows, w->cols));
}

static double op_cost_expert(const struct dsv4_expert *e)
{
	return op_cost_weight(&e->w1) + op_cost_weight(&e->w2) + op_cost_weight(&e->w3);
}

/* ---- ops ---- */

static void op_cost_linear(const struct dsv4_linear *a, struct op_cost *c)
{
	c->weights = op_cost_weight(a->w);
	c->inputs = 4.0 * a->n_tok * a->n_group * (double)a->w->cols;
	c->flops = 2.0 * a->n_tok * (double)a->w->rows * (double)a->w->cols;
}

static void op_cost_rms_norm(const struct dsv4_rms_norm *a, struct op_cost *c)
{
	c->weights = a->weight ? 4.0 * a->dim : 0;
	c->inputs = 4.0 * a->dim * (double)a->n_row;
	c->flops = 4.0 * a->dim * (double)a->n_row;
}

static void op_cost_rope(const struct dsv4_rope *a, struct op_cost *c)
{
	c->inputs = 4.0 * a->n_tok * ((double)a->n_head * a->rot + a->rot);
	c->flops = 3.0 * a->n_tok * a->n_head * a->rot;
}

static void op_cost_hc_pre(const struct dsv4_hc_pre *a, struct op_cost *c)
{
	double n_mix = (2.0 + a->hc) * a->hc, flat = (double)a->hc * a->dim;

	c->weights = 4 * flat * n_mix;
	c->inputs = 4 * flat * a->n_tok;
	c->flops = 2 * flat * a->n_tok * (n_mix + 2);
}

static void op_cost_hc_post(const struct dsv4_hc_post *a, struct op_cost *c)
{
	c->inputs = 4.0 * a->n_tok * a->dim * (1.0 + a->hc);
	c->flops = 2.0 * a->n_tok * a->dim * a->hc * (1.0 + a->hc);
}

static void op_cost_hc_head(const struct dsv4_hc_head *a, struct op_cost *c)
{
	double flat = (double)a->hc * a->dim;

	c->weights = 4 * flat * a->hc;
	c->inputs = 4 * flat * a->n_tok;
	c->flops = 2 * flat * a->n_tok * (a->hc + 2.0);
}

static void op_cost_compress(const struct dsv4_compress *a, struct op_cost *c)
{
	double halves = a->overlap ? 2 : 1, rows = (a->n_out + halves - 1) * a->ratio;

	c->inputs = 8 * rows * halves * a->dim;
	c->flops = 5.0 * a->n_out * halves * a->ratio * a->dim;
}

static void op_cost_index_score(const struct dsv4_index_score *a, struct op_cost *c)
{
	double products = 0;

	for (int i = 0; i < a->n_seq; i++)
		c->rows += 4.0 * a->dim * (double)a->seq[i].key.n;
	for (int64_t t = 0; t < a->n_tok; t++) {
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);

		products += s ? (double)ref_visible(&s->key, s->ratio, s->pos0 + t - s->tok0) : 0;
	}
	c->inputs = 4.0 * a->dim * a->n_tok * a->n_head;
	c->flops = products * a->n_head * (2.0 * a->dim + 3);
}

/* One comparison for each score. */
static void op_cost_index_topk(const struct dsv4_index_topk *a, struct op_cost *c)
{
	for (int t = 0; t < a->n_tok; t++)
		c->flops += a->n_vis[t];
	c->inputs = 4 * c->flops;
}

/* Of one sequence: compressed rows that any of its tokens chose, at least, and the window's. */
static void op_cost_attn_seq(const struct dsv4_attn *a, const struct dsv4_seq *s, double *ret_rows, double *ret_entries)
{
	int64_t chosen = 0, end = s->pos0 + s->n_tok, most = a->window + s->n_tok - 1;

	for (int64_t t = s->tok0; t < s->tok0 + s->n_tok; t++) {
		int64_t pos = s->pos0 + t - s->tok0, n = a->rows ? a->count[t] : s->ratio > 0 ? (pos + 1) / s->ratio :
			0;

		chosen += n;
		*ret_entries += (double)n + (double)(pos + 1 < a->window ? pos + 1 : a->window);
	}
	*ret_rows += (double)(chosen < s->kv.n ? chosen : s->kv.n) + (double)(end < most ? end : most);
}

static void op_cost_attn(const struct dsv4_attn *a, struct op_cost *c)
{
	double rows = 0, entries = 0;

	for (int32_t i = 0; i < a->n_seq; i++)
		op_cost_attn_seq(a, &a->seq[i], &rows, &entries);
	c->rows = 4 * a->dim * rows;
	c->inputs = 4.0 * a->dim * a->n_tok * a->n_head;
	c->flops = 4 * entries * a->n_head * a->dim;
}

static void op_cost_moe_route(const struct dsv4_moe_route *a, struct op_cost *c)
{
	c->weights = op_cost_weight(a->gate);
	c->inputs = 4.0 * a->n_tok * a->dim;
	c->flops = 2.0 * a->n_tok * a->n_expert * a->dim;
}

static void op_cost_moe_experts(const struct dsv4_moe_experts *a, struct op_cost *c)
{
	double runs = (double)a->n_tok * dsv4_shared_here(a); /* of an expert with a token */
	bool seen[OP_COST_EXPERTS] = { false };

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->k; i++) {
		const struct dsv4_expert *e = &a->expert[a->ids[i]];
		bool here = dsv4_expert_here(e), first = !seen[a->ids[i] % OP_COST_EXPERTS];

		seen[a->ids[i] % OP_COST_EXPERTS] = true;
		c->weights += here && first ? op_cost_expert(e) : 0;
		runs += here;
	}
	for (int32_t e = 0; e < a->n_shared; e++)
		c->weights += dsv4_expert_here(&a->shared[e]) ? op_cost_expert(&a->shared[e]) : 0;
	c->inputs = 4.0 * a->n_tok * a->dim;
	c->flops = 6.0 * runs * a->dim * a->inter;
}

static void op_cost_sum(const struct dsv4_sum *a, struct op_cost *c)
{
	double rows = (double)a->n_row, base = a->base ? (double)((a->n_row + a->every - 1) / a->every) : 0;

	c->inputs = 4.0 * a->dim * (rows * a->n_part + base);
	c->flops = a->dim * rows * (a->n_part - !a->base);
}

void op_cost(enum dsv4_op op, const void *args, struct op_cost *ret_c)
{
	memset(ret_c, 0, sizeof *ret_c);
	switch (op) {
#define OP(op, family, args_, text) case DSV4_OP_##op: op_cost_##op(args, ret_c); break;
#include "plugins/ops.def"
#undef OP
	case DSV4_N_OP: break;
	}
}
