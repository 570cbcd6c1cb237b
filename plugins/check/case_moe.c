/* SPDX-License-Identifier: MIT
 * case_moe.c - cases of moe_route and moe_experts: ties, NaN, hash tables, experts that nobody chose.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case_matrix.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- moe_route ---- */

enum case_route_how {
	CASE_ROUTE_PLAIN,
	CASE_ROUTE_NO_BIAS,    /* all zero */
	CASE_ROUTE_TIES,       /* biases of few values; with x zero, scores of few values */
	CASE_ROUTE_NAN_BIAS,   /* of four biases one is NaN and the next -inf: those come last, and last but those */
	CASE_ROUTE_NAN_TOKEN,  /* every score of the middle token */
	CASE_ROUTE_HASH,
	CASE_ROUTE_HASH_BAD,   /* the table has -1, */
	CASE_ROUTE_HASH_PAST,  /* the number of experts, */
	CASE_ROUTE_HASH_WIDE   /* 2^32: no expert, but one in its lower half */
};

/* n_expert 0: the shape's numbers. k -1: all experts. */
static const struct case_route_row {
	int n_expert, dim, k, n_tok;
	enum case_route_how how;
	bool quick;
	enum case_values values;
} case_route_table[] = {
	{ 0, 0, 0, 3, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 0, 0, 0, 8, CASE_ROUTE_PLAIN, false, CASE_PLAIN },
	{ 0, 0, 0, 70, CASE_ROUTE_PLAIN, false, CASE_PLAIN },
	{ 0, 0, 0, 4, CASE_ROUTE_HASH, true, CASE_PLAIN },
	{ 0, 0, 0, 2, CASE_ROUTE_TIES, true, CASE_ZERO },
	{ 0, 0, 0, 3, CASE_ROUTE_NAN_BIAS, false, CASE_PLAIN },
	{ 1, 1, 1, 2, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 2, 7, 1, 5, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 9, 33, 4, 8, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 17, 130, -1, 3, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 12, 40, 3, 16, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 16, 64, 4, 32, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 8, 32, 2, 64, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 9, 24, 2, CASE_N_TOK_ANY, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 12, 20, 3, CASE_N_TOK_ANY, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 65, 48, 8, 33, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 9, 33, 4, 0, CASE_ROUTE_PLAIN, true, CASE_PLAIN },
	{ 33, 40, 6, 5, CASE_ROUTE_NO_BIAS, true, CASE_PLAIN },
	{ 33, 40, 6, 5, CASE_ROUTE_NO_BIAS, true, CASE_ZERO },
	{ 33, 40, -1, 2, CASE_ROUTE_NO_BIAS, true, CASE_SIGNED_ZERO },
	{ 33, 40, 6, 5, CASE_ROUTE_NO_BIAS, true, CASE_DENORMAL },
	{ 33, 40, 6, 5, CASE_ROUTE_TIES, true, CASE_ZERO },
	{ 33, 40, 6, 5, CASE_ROUTE_NAN_BIAS, true, CASE_PLAIN },
	{ 33, 40, 20, 5, CASE_ROUTE_NAN_BIAS, true, CASE_PLAIN },
	{ 33, 40, 32, 5, CASE_ROUTE_NAN_BIAS, true, CASE_PLAIN },
	{ 33, 40, -1, 5, CASE_ROUTE_NAN_BIAS, true, CASE_PLAIN },
	{ 33, 40, 6, 5, CASE_ROUTE_NAN_TOKEN, true, CASE_PLAIN },
	{ 33, 40, 6, 5, CASE_ROUTE_PLAIN, true, CASE_LARGE },
	{ 33, 40, 6, 5, CASE_ROUTE_PLAIN, true, CASE_MIXED },
	{ 33, 40, 6, 5, CASE_ROUTE_PLAIN, true, CASE_HUGE },
	{ 33, 40, 6, 9, CASE_ROUTE_HASH, true, CASE_PLAIN },
	{ 33, 40, -1, 2, CASE_ROUTE_HASH, true, CASE_MIXED },
	{ 33, 40, 6, 5, CASE_ROUTE_HASH_BAD, true, CASE_PLAIN },
	{ 33, 40, 6, 5, CASE_ROUTE_HASH_PAST, true, CASE_PLAIN },
	{ 33, 40, 6, 5, CASE_ROUTE_HASH_WIDE, true, CASE_PLAIN },
};

#define CASE_ROUTE_VOCAB 37

static float case_route_bias(struct check_case *c, enum case_route_how how, int32_t e)
{
	switch (how) {
	case CASE_ROUTE_NO_BIAS:
		return 0;
	case CASE_ROUTE_TIES:
		return 0.25f * (float)case_below(c, 3);
	case CASE_ROUTE_NAN_BIAS:
		return e % 4 == 1 ? NAN : e % 4 == 2 ? -INFINITY : case_uniform(c, -1, 1);
	default:
		return case_uniform(c, -1, 1);
	}
}

static bool case_route_has(const int64_t *row, int32_t n, int64_t id)
{
	for (int32_t i = 0; i < n; i++)
		if (row[i] == id)
			return true;
	return false;
}

/* k different experts in no order, as in a checkpoint's table. */
static void case_route_ids(struct check_case *c, int64_t *row, int32_t k, int32_t n_expert)
{
	for (int32_t i = 0; i < k; i++)
		do
			row[i] = case_below(c, n_expert);
		while (case_route_has(row, i, row[i]));
}

/* Tokens and the table, at an address that is a multiple of nothing. What is wrong is in every row, so that every
 * part of the batch must be refused. */
static void case_route_hash(struct check_case *c, enum case_route_how how)
{
	struct dsv4_moe_route *a = &c->args.moe_route;
	size_t row_bytes = (size_t)a->k * sizeof(int64_t);
	uint8_t *table = case_alloc(c, CASE_ROUTE_VOCAB * row_bytes, 1);
	int32_t *token = case_alloc(c, (size_t)a->n_tok * sizeof *token, sizeof *token);
	int64_t *row = mem_new(row_bytes);

	a->table = (const int64_t *)(const void *)table;
	a->token = token;
	for (size_t v = 0; !c->rc && v < CASE_ROUTE_VOCAB; v++) {
		case_route_ids(c, row, a->k, a->n_expert);
		if (how != CASE_ROUTE_HASH)
			row[a->k / 2] = how == CASE_ROUTE_HASH_BAD ? -1
				: how == CASE_ROUTE_HASH_PAST	   ? a->n_expert : (int64_t)1 << 32;
		memcpy(table + v * row_bytes, row, row_bytes);
	}
	for (int32_t t = 0; !c->rc && t < a->n_tok; t++)
		token[t] = t == a->n_tok - 1 ? CASE_ROUTE_VOCAB - 1 : (int32_t)case_below(c, CASE_ROUTE_VOCAB);
	free(row);
}

static void case_route_learned(struct check_case *c, enum case_route_how how)
{
	struct dsv4_moe_route *a = &c->args.moe_route;
	float *bias = case_alloc(c, (size_t)a->n_expert * sizeof *bias, sizeof *bias);

	for (int32_t e = 0; bias && e < a->n_expert; e++)
		bias[e] = case_route_bias(c, how, e);
	a->bias = bias;
}

static void case_route_fill(struct check_case *c, enum dsv4_wfmt fmt, enum case_route_how how, enum case_values v)
{
	struct dsv4_moe_route *a = &c->args.moe_route;
	float *x;

	a->size = sizeof *a;
	a->scaling = 1.5f;
	a->gate = case_matrix(c, fmt, false, a->n_expert, a->dim);
	a->x = x = case_floats(c, (int64_t)a->n_tok * a->dim, v, 2);
	if (how >= CASE_ROUTE_HASH)
		case_route_hash(c, how);
	else
		case_route_learned(c, how);
	if (x && how == CASE_ROUTE_NAN_TOKEN)
		x[a->n_tok / 2 * a->dim + a->dim / 3] = NAN;
	c->want_rc = how > CASE_ROUTE_HASH ? -EINVAL : 0;
}

static int case_route_make(struct check_case *c, const struct case_spec *s, int i)
{
	static const char *const how[] = { "learned", "no bias", "ties", "nan bias", "nan token", "hash",
					   "id -1", "id past the end", "id 2^32" };
	const struct case_route_row *r = &case_route_table[i];
	struct dsv4_moe_route *a = &c->args.moe_route;

	*a = (struct dsv4_moe_route){ .n_tok = case_n_tok(c, s, r->n_tok, CASE_MAX_TOK),
				      .n_expert = r->n_expert, .dim = r->dim, .k = r->k };
	if (!r->n_expert) {
		a->n_expert = s->shape->experts;
		a->dim = s->shape->hidden;
		a->k = s->shape->experts_per_tok;
	}
	if (a->k < 0)
		a->k = a->n_expert;
	if (a->n_expert < 1 || a->dim < 1 || a->k < 1 || a->k > a->n_expert ||
	    !case_wanted(s, r->n_expert != 0, r->quick, r->values) ||
	    (s->phase == DSV4_DECODE && a->n_tok > CASE_MAX_DECODE))
		return CASE_SKIP;
	case_route_fill(c, s->wfmt, r->how, r->values);
	case_name(c, "%d tok, %d of %d experts, dim %d, %s, %s", a->n_tok, a->k, a->n_expert, a->dim, how[r->how],
		case_values_name(r->values));
	return c->rc;
}

static int case_route_bench(struct check_case *c, const struct case_spec *s)
{
	c->args.moe_route = (struct dsv4_moe_route){ .n_tok = s->n_tok, .n_expert = s->shape->experts,
						     .dim = s->shape->hidden, .k = s->shape->experts_per_tok };
	case_route_fill(c, s->wfmt, CASE_ROUTE_PLAIN, CASE_PLAIN);
	return c->rc;
}

static void case_route_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_moe_route *a = &u->moe_route;

	(void)mem;
	a->n_tok = (int32_t)n;
	a->x += t0 * a->dim;
	a->ids += t0 * a->k;
	a->weight += t0 * a->k;
	if (a->token)
		a->token += t0;
}

/* A hash layer ranks nothing: an id is in the token's row or it is not. */
static double case_route_in_table(const struct dsv4_moe_route *a, int64_t t, int32_t id)
{
	const char *row = (const char *)a->table + (int64_t)a->token[t] * a->k * (int64_t)sizeof(int64_t);
	int64_t v;

	for (int32_t i = 0; i < a->k; i++) {
		memcpy(&v, row + (size_t)i * sizeof v, sizeof v);
		if (v == id)
			return 1;
	}
	return 0;
}

static double case_route_rank(const union case_args *u, int64_t t, int32_t id)
{
	const struct dsv4_moe_route *a = &u->moe_route;
	double z = 0;

	if (id < 0 || id >= a->n_expert)
		return NAN;
	if (a->table)
		return case_route_in_table(a, t, id);
	for (int32_t d = 0; d < a->dim; d++)
		z += case_matrix_at(a->gate, id, d) * (double)a->x[t * a->dim + d];
	return sqrt(z > 40 ? z : log1p(exp(z))) + (a->bias ? (double)a->bias[id] : 0);
}

const struct case_op case_moe_route = {
	.n = mem_countof(case_route_table),
	.make = case_route_make,
	.bench = case_route_bench,
	.slice = case_route_slice,
	.rank = case_route_rank,
	.weighted = true,
};
