/* SPDX-License-Identifier: MIT
 * case_sum.c - cases of sum.
 * Threads: one per case. Locks: none. */
#include "engine/base/mem.h"
#include "plugins/check/case.h"

/* n: rows of y. dim 0: the shape's hidden size. gap: floats between rows. */
static const struct case_sum_row {
	int dim, n, n_part, every, gap;
	bool base, quick;
	enum case_values values;
} case_sum_table[] = {
	{ 0, 12, 1, 4, 0, true, true, CASE_PLAIN },
	{ 0, 5, 8, 1, 0, false, true, CASE_PLAIN },
	{ 0, 1, 2, 1, 0, true, false, CASE_MIXED },
	{ 1, 9, 3, 1, 0, true, false, CASE_PLAIN },
	{ 7, 4, 1, 1, 3, false, true, CASE_PLAIN },
	{ 33, 10, 4, 3, 1, true, true, CASE_PLAIN },
	{ 257, 6, 2, 2, 5, true, true, CASE_MIXED },
	{ 40, CASE_N_TOK_ANY, 3, 1, 0, false, true, CASE_PLAIN },
	{ 17, CASE_N_TOK_ANY, 2, 4, 1, true, true, CASE_PLAIN },
	{ 1001, 3, 5, 1, 0, true, false, CASE_PLAIN },
	{ 48, 515, 2, 1, 0, false, false, CASE_PLAIN },
	{ 96, 0, 4, 4, 0, true, true, CASE_PLAIN },
	{ 65, 3, 4, 1, 0, true, true, CASE_SIGNED_ZERO },
	{ 65, 3, 1, 1, 0, false, true, CASE_SIGNED_ZERO },
	{ 130, 3, 4, 1, 0, false, true, CASE_DENORMAL },
	{ 130, 3, 8, 1, 0, true, true, CASE_MIXED },
	{ 130, 5, 3, 2, 0, true, true, CASE_HUGE },
	{ 130, 3, 2, 1, 0, true, true, CASE_NAN },
};

/* Where there are gaps, no two strides are the same. */
static int case_sum_args(struct check_case *c, const struct case_sum_row *r, int dim, int n)
{
	struct dsv4_sum *a = &c->args.sum;
	int64_t n_base = (n + r->every - 1) / r->every;

	*a = (struct dsv4_sum){ .size = sizeof *a, .dim = dim, .n_row = n, .n_part = r->n_part, .every = r->every };
	a->ldx = dim + r->gap;
	a->ldb = a->ldx + r->gap;
	a->ldy = a->ldb + r->gap;
	a->ldp = n * a->ldx + r->gap;
	a->base = r->base ? case_floats(c, n ? (n_base - 1) * a->ldb + dim : 0, r->values, 3) : NULL;
	a->x = case_floats(c, n ? (r->n_part - 1) * a->ldp + (n - 1) * a->ldx + dim : 0, r->values, 3);
	c->together = r->every;
	return c->rc;
}

/* DECODE has no more rows than a batch. */
static int case_sum_make(struct check_case *c, const struct case_spec *s, int i)
{
	const struct case_sum_row *r = &case_sum_table[i];
	int dim = r->dim ? r->dim : s->shape->hidden, n = case_n_tok(c, s, r->n, CASE_MAX_TOK);

	if (s->phase == DSV4_DECODE && n > CASE_MAX_DECODE)
		n = CASE_MAX_DECODE;
	if (!case_wanted(s, r->dim != 0, r->quick, r->values))
		return CASE_SKIP;
	case_name(c, "%d rows of %d, %d parts%s, %s", n, dim, r->n_part,
		  !r->base ? "" : r->every > 1 ? " over a base for several rows" : " over a base",
		  case_values_name(r->values));
	return case_sum_args(c, r, dim, n);
}

/* What four GPUs have of a layer's experts. */
static int case_sum_bench(struct check_case *c, const struct case_spec *s)
{
	static const struct case_sum_row r = { .n_part = 4, .every = 1, .values = CASE_PLAIN };

	return case_sum_args(c, &r, s->shape->hidden, s->n_tok);
}

static void case_sum_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_sum *a = &u->sum;

	(void)mem;
	a->base = a->base ? a->base + t0 / a->every * a->ldb : NULL;
	a->x += t0 * a->ldx;
	a->y += t0 * a->ldy;
	a->n_row = n;
}

const struct case_op case_sum = {
	.n = mem_countof(case_sum_table),
	.make = case_sum_make,
	.bench = case_sum_bench,
	.slice = case_sum_slice,
};
