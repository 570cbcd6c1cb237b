/* SPDX-License-Identifier: MIT
 * case_mhc.c - cases of hc_pre, hc_post and hc_head.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case.h"
#include "engine/base/mem.h"

#include <math.h>

#define CASE_MHC_EPS 1e-6f

/* hc 0: the shape's streams and hidden size. */
static const struct case_mhc_row {
	int n_tok, hc, dim, iters;
	enum dsv4_prec prec;
	bool quick;
	enum case_values values;
} case_mhc_table[] = {
	{ 3, 0, 0, 20, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 1, 0, 0, 20, DSV4_PREC_FP32, false, CASE_PLAIN },
	{ 4, 0, 0, 20, DSV4_PREC_BF16, true, CASE_PLAIN },
	{ 5, 0, 0, 20, DSV4_PREC_FP32, false, CASE_MIXED },
	{ 7, 4, 33, 20, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 7, 4, 33, 20, DSV4_PREC_BF16, true, CASE_PLAIN },
	{ 2, 4, 130, 1, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 4, 1, 1, 3, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 3, 2, 5, 20, DSV4_PREC_BF16, false, CASE_PLAIN },
	{ 5, 6, 17, 20, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 67, 4, 40, 20, DSV4_PREC_FP32, false, CASE_PLAIN },
	{ CASE_N_TOK_ANY, 4, 16, 20, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ CASE_N_TOK_ANY, 4, 24, 20, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 0, 4, 128, 20, DSV4_PREC_FP32, true, CASE_PLAIN },
	{ 3, 4, 128, 20, DSV4_PREC_FP32, true, CASE_ZERO },
	{ 3, 4, 128, 20, DSV4_PREC_BF16, false, CASE_SIGNED_ZERO },
	{ 3, 4, 128, 20, DSV4_PREC_FP32, true, CASE_DENORMAL },
	{ 3, 4, 128, 20, DSV4_PREC_FP32, true, CASE_LARGE },
	{ 3, 4, 128, 20, DSV4_PREC_BF16, false, CASE_LARGE },
	{ 3, 4, 65, 20, DSV4_PREC_BF16, true, CASE_MIXED },
	{ 3, 4, 65, 20, DSV4_PREC_FP32, true, CASE_MIXED },
};

/* The dims and tokens of a row, where this spec wants it. */
struct case_mhc_dims { int n_tok, hc, dim; };

static bool case_mhc_dims_of(struct check_case *c, const struct case_spec *s, const struct case_mhc_row *r,
			     struct case_mhc_dims *ret_d)
{
	int n_tok = case_n_tok(c, s, r->n_tok, CASE_MAX_TOK);

	ret_d->hc = r->hc ? r->hc : s->shape->hc;
	ret_d->dim = r->hc ? r->dim : s->shape->hidden;
	ret_d->n_tok = s->phase == DSV4_DECODE && n_tok > CASE_MAX_DECODE ? CASE_MAX_DECODE : n_tok;
	return ret_d->hc > 0 && ret_d->dim > 0 && case_wanted(s, r->hc != 0, r->quick, r->values);
}

static void case_mhc_name(struct check_case *c, const struct case_mhc_row *r, const struct case_mhc_dims *d)
{
	case_name(c, "%d tokens, %d streams of %d, %d iterations, %s, %s", d->n_tok, d->hc, d->dim, r->iters,
		  r->prec == DSV4_PREC_BF16 ? "bf16" : "fp32", case_values_name(r->values));
}

/* Mixes of about 1 for whatever size: they are normed. */
static struct dsv4_hc_weights case_mhc_weights(struct check_case *c, const struct case_mhc_dims *d, int n_mix)
{
	int64_t n = (int64_t)d->hc * d->dim;
	struct dsv4_hc_weights w;

	w.fn = case_floats(c, n_mix * n, CASE_PLAIN, 1.7f / sqrtf((float)n));
	w.base = case_floats(c, n_mix, CASE_PLAIN, 2);
	w.scale = case_floats(c, n_mix > d->hc ? 3 : 1, CASE_PLAIN, 1);
	return w;
}

static const float *case_mhc_streams(struct check_case *c, const struct case_mhc_dims *d, enum case_values v)
{
	return case_floats(c, (int64_t)d->n_tok * d->hc * d->dim, v, 3);
}

/* ---- hc_pre ---- */

static int case_mhc_pre_args(struct check_case *c, const struct case_mhc_row *r, const struct case_mhc_dims *d)
{
	struct dsv4_hc_pre *a = &c->args.hc_pre;

	*a = (struct dsv4_hc_pre){ .size = sizeof *a, .n_tok = d->n_tok, .hc = d->hc, .dim = d->dim,
				   .sinkhorn_iters = r->iters, .prec = r->prec, .norm_eps = CASE_MHC_EPS,
				   .hc_eps = CASE_MHC_EPS };
	a->w = case_mhc_weights(c, d, (2 + d->hc) * d->hc);
	a->streams = case_mhc_streams(c, d, r->values);
	/* A mix on the other side of an edge moves all of its token. */
	c->step = case_step(r->prec == DSV4_PREC_BF16 ? DSV4_ROUND_BF16 : DSV4_ROUND_NONE);
	c->spread = d->dim;
	return c->rc;
}

static int case_mhc_pre_make(struct check_case *c, const struct case_spec *s, int i)
{
	struct case_mhc_dims d;

	if (!case_mhc_dims_of(c, s, &case_mhc_table[i], &d))
		return CASE_SKIP;
	case_mhc_name(c, &case_mhc_table[i], &d);
	return case_mhc_pre_args(c, &case_mhc_table[i], &d);
}

static int case_mhc_pre_bench(struct check_case *c, const struct case_spec *s)
{
	return case_mhc_pre_args(c, &case_mhc_table[0],
				 &(struct case_mhc_dims){ s->n_tok, s->shape->hc, s->shape->hidden });
}

static void case_mhc_pre_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_hc_pre *a = &u->hc_pre;
	int64_t hc = a->hc;

	(void)mem;
	a->n_tok = (int32_t)n;
	a->streams += t0 * hc * a->dim;
	a->y += t0 * a->dim;
	a->post += t0 * hc;
	a->comb += t0 * hc * hc;
}

const struct case_op case_hc_pre = {
	.n = mem_countof(case_mhc_table),
	.make = case_mhc_pre_make,
	.bench = case_mhc_pre_bench,
	.slice = case_mhc_pre_slice,
};

/* ---- hc_post ---- */

static int case_mhc_post_args(struct check_case *c, const struct case_mhc_row *r, const struct case_mhc_dims *d)
{
	struct dsv4_hc_post *a = &c->args.hc_post;
	int64_t n_comb = (int64_t)d->n_tok * d->hc * d->hc;
	float *comb;

	*a = (struct dsv4_hc_post){ .size = sizeof *a, .n_tok = d->n_tok, .hc = d->hc, .dim = d->dim,
				    .prec = r->prec };
	a->y = case_floats(c, (int64_t)d->n_tok * d->dim, r->values, 3);
	a->post = case_floats(c, (int64_t)d->n_tok * d->hc, CASE_PLAIN, 2);
	a->comb = comb = case_floats(c, n_comb, CASE_PLAIN, 0.5f);
	for (int64_t i = 0; comb && i < n_comb; i++)
		comb[i] = fabsf(comb[i]);
	a->streams = (float *)case_mhc_streams(c, d, r->values);
	c->step = case_step(r->prec == DSV4_PREC_BF16 ? DSV4_ROUND_BF16 : DSV4_ROUND_NONE);
	return c->rc;
}

static int case_mhc_post_make(struct check_case *c, const struct case_spec *s, int i)
{
	struct case_mhc_dims d;

	if (!case_mhc_dims_of(c, s, &case_mhc_table[i], &d))
		return CASE_SKIP;
	case_mhc_name(c, &case_mhc_table[i], &d);
	return case_mhc_post_args(c, &case_mhc_table[i], &d);
}

static int case_mhc_post_bench(struct check_case *c, const struct case_spec *s)
{
	return case_mhc_post_args(c, &case_mhc_table[0],
				  &(struct case_mhc_dims){ s->n_tok, s->shape->hc, s->shape->hidden });
}

static void case_mhc_post_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_hc_post *a = &u->hc_post;
	int64_t hc = a->hc;

	(void)mem;
	a->n_tok = (int32_t)n;
	a->y += t0 * a->dim;
	a->post += t0 * hc;
	a->comb += t0 * hc * hc;
	a->streams += t0 * hc * a->dim;
}

const struct case_op case_hc_post = {
	.n = mem_countof(case_mhc_table),
	.make = case_mhc_post_make,
	.bench = case_mhc_post_bench,
	.slice = case_mhc_post_slice,
};

/* ---- hc_head ---- */

static int case_mhc_head_args(struct check_case *c, const struct case_mhc_row *r, const struct case_mhc_dims *d)
{
	struct dsv4_hc_head *a = &c->args.hc_head;

	*a = (struct dsv4_hc_head){ .size = sizeof *a, .n_tok = d->n_tok, .hc = d->hc, .dim = d->dim,
				    .prec = r->prec, .norm_eps = CASE_MHC_EPS, .hc_eps = CASE_MHC_EPS };
	a->w = case_mhc_weights(c, d, d->hc);
	a->streams = case_mhc_streams(c, d, r->values);
	c->step = case_step(r->prec == DSV4_PREC_BF16 ? DSV4_ROUND_BF16 : DSV4_ROUND_NONE);
	c->spread = d->dim;
	return c->rc;
}

static int case_mhc_head_make(struct check_case *c, const struct case_spec *s, int i)
{
	struct case_mhc_dims d;

	if (!case_mhc_dims_of(c, s, &case_mhc_table[i], &d))
		return CASE_SKIP;
	case_mhc_name(c, &case_mhc_table[i], &d);
	return case_mhc_head_args(c, &case_mhc_table[i], &d);
}

static int case_mhc_head_bench(struct check_case *c, const struct case_spec *s)
{
	return case_mhc_head_args(c, &case_mhc_table[0],
				  &(struct case_mhc_dims){ s->n_tok, s->shape->hc, s->shape->hidden });
}

static void case_mhc_head_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_hc_head *a = &u->hc_head;

	(void)mem;
	a->n_tok = (int32_t)n;
	a->streams += t0 * a->hc * a->dim;
	a->y += t0 * a->dim;
}

const struct case_op case_hc_head = {
	.n = mem_countof(case_mhc_table),
	.make = case_mhc_head_make,
	.bench = case_mhc_head_bench,
	.slice = case_mhc_head_slice,
};
