/* SPDX-License-Identifier: MIT
 * case_norm.c - cases of rms_norm and rope.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case.h"
#include "engine/base/mem.h"

/* ---- rms_norm ---- */

enum case_norm_dim { CASE_NORM_HIDDEN, CASE_NORM_Q_RANK, CASE_NORM_HEAD };

/* dim 0: one of the shape's; else odd sizes, which need one shape only. gap: floats between rows. */
static const struct case_norm_row {
	int dim;
	enum case_norm_dim of;
	int n_row, gap;
	bool weight, in_place, quick;
	enum case_values values;
} case_norm_table[] = {
	{ 0, CASE_NORM_HIDDEN, 1, 0, true, false, true, CASE_PLAIN },
	{ 0, CASE_NORM_HIDDEN, 5, 0, true, false, true, CASE_PLAIN },
	{ 0, CASE_NORM_Q_RANK, 3, 7, true, false, false, CASE_PLAIN },
	{ 0, CASE_NORM_HEAD, 64, 0, false, false, true, CASE_PLAIN },
	{ 0, CASE_NORM_HIDDEN, 33, 0, true, false, false, CASE_MIXED },
	{ 1, 0, 9, 0, true, false, false, CASE_PLAIN },
	{ 7, 0, 4, 3, true, false, true, CASE_PLAIN },
	{ 65, 0, 5, 3, true, true, true, CASE_PLAIN },
	{ 33, 0, 9, 1, false, false, true, CASE_PLAIN },
	{ 40, 0, CASE_N_TOK_ANY, 0, true, false, true, CASE_PLAIN },
	{ 17, 0, CASE_N_TOK_ANY, 1, true, false, true, CASE_PLAIN },
	{ 1001, 0, 3, 0, true, false, false, CASE_PLAIN },
	{ 48, 0, 515, 0, true, false, false, CASE_PLAIN },
	{ 96, 0, 0, 0, true, false, true, CASE_PLAIN },
	{ 96, 0, 3, 0, true, false, true, CASE_ZERO },
	{ 65, 0, 3, 0, true, false, false, CASE_SIGNED_ZERO },
	{ 130, 0, 3, 0, true, false, true, CASE_DENORMAL },
	{ 130, 0, 3, 0, false, false, true, CASE_LARGE },
	{ 130, 0, 3, 0, true, false, true, CASE_MIXED },
	{ 130, 0, 5, 0, true, false, true, CASE_HUGE },
};

/* Rows that a norm sees: DECODE has no more than a batch. */
static int case_norm_rows(struct check_case *c, const struct case_spec *s, int n)
{
	n = case_n_tok(c, s, n, CASE_MAX_TOK);
	return s->phase == DSV4_DECODE && n > CASE_MAX_DECODE ? CASE_MAX_DECODE : n;
}

static int case_norm_dim(const struct check_shape *s, enum case_norm_dim of)
{
	return of == CASE_NORM_HIDDEN ? s->hidden : of == CASE_NORM_Q_RANK ? s->q_rank : s->head_dim;
}

static int case_norm_args(struct check_case *c, int dim, int n_row, int gap, bool weight, enum case_values v)
{
	struct dsv4_rms_norm *a = &c->args.rms_norm;

	*a = (struct dsv4_rms_norm){ .size = sizeof *a, .dim = dim, .n_row = n_row, .eps = 1e-6f };
	a->ldx = dim + gap;
	a->ldy = dim + gap;
	a->weight = weight ? case_floats(c, dim, CASE_PLAIN, 2) : NULL;
	a->x = case_floats(c, n_row ? (n_row - 1) * a->ldx + dim : 0, v, 3);
	return c->rc;
}

static int case_norm_make(struct check_case *c, const struct case_spec *s, int i)
{
	const struct case_norm_row *r = &case_norm_table[i];
	int dim = r->dim ? r->dim : case_norm_dim(s->shape, r->of), n_row = case_norm_rows(c, s, r->n_row);

	if (dim < 1 || !case_wanted(s, r->dim != 0, r->quick, r->values))
		return CASE_SKIP;
	case_name(c, "%d rows of %d, %s%s%s", n_row, dim, r->weight ? "weight, " : "",
		  r->in_place ? "in place, " : "", case_values_name(r->values));
	if (case_norm_args(c, dim, n_row, r->gap, r->weight, r->values))
		return c->rc;
	if (r->in_place)
		c->args.rms_norm.y = (float *)c->args.rms_norm.x;
	else
		c->args.rms_norm.ldy += r->gap;
	return 0;
}

static int case_norm_bench(struct check_case *c, const struct case_spec *s)
{
	return case_norm_args(c, s->shape->hidden, s->n_tok, 0, true, CASE_PLAIN);
}

static void case_norm_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_rms_norm *a = &u->rms_norm;

	(void)mem;
	a->x += t0 * a->ldx;
	a->y += t0 * a->ldy;
	a->n_row = n;
}

const struct case_op case_rms_norm = {
	.n = mem_countof(case_norm_table),
	.make = case_norm_make,
	.bench = case_norm_bench,
	.slice = case_norm_slice,
};

/* ---- rope ---- */

enum case_rope_of { CASE_ROPE_Q, CASE_ROPE_KV, CASE_ROPE_INDEX_Q, CASE_ROPE_INDEX_KEY, CASE_ROPE_ODD };

static const struct case_rope_row {
	enum case_rope_of of;
	int n_tok, n_head, dim, rot, gap; /* the shape's, unless ODD */
	enum dsv4_round kv, index;
	bool inverse, quick;
	enum case_values values;
} case_rope_table[] = {
	{ CASE_ROPE_Q, 3, 0, 0, 0, 0, DSV4_ROUND_NONE, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_Q, 5, 0, 0, 0, 0, DSV4_ROUND_NONE, DSV4_ROUND_NONE, true, false, CASE_PLAIN },
	{ CASE_ROPE_KV, 9, 0, 0, 0, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_KV, 4, 0, 0, 0, 5, DSV4_ROUND_BF16, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_KV, 4, 0, 0, 0, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, false, CASE_MIXED },
	{ CASE_ROPE_INDEX_Q, 2, 0, 0, 0, 0, DSV4_ROUND_NONE, DSV4_ROUND_FP4, false, true, CASE_PLAIN },
	{ CASE_ROPE_INDEX_Q, 2, 0, 0, 0, 0, DSV4_ROUND_NONE, DSV4_ROUND_FP8, false, true, CASE_PLAIN },
	{ CASE_ROPE_INDEX_KEY, 7, 0, 0, 0, 0, DSV4_ROUND_NONE, DSV4_ROUND_BF16, false, true, CASE_PLAIN },
	{ CASE_ROPE_INDEX_KEY, 7, 0, 0, 0, 3, DSV4_ROUND_NONE, DSV4_ROUND_FP4, false, false, CASE_MIXED },
	{ CASE_ROPE_INDEX_KEY, 4, 0, 0, 0, 0, DSV4_ROUND_NONE, DSV4_ROUND_NONE, false, false, CASE_PLAIN },
	{ CASE_ROPE_ODD, 4, 3, 10, 6, 2, DSV4_ROUND_NONE, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_ODD, 3, 2, 9, 0, 0, DSV4_ROUND_BF16, DSV4_ROUND_NONE, false, false, CASE_PLAIN },
	{ CASE_ROPE_ODD, 3, 1, 101, 2, 1, DSV4_ROUND_FP8, DSV4_ROUND_NONE, true, true, CASE_PLAIN },
	{ CASE_ROPE_ODD, 5, 3, 4, 2, 0, DSV4_ROUND_NONE, DSV4_ROUND_FP4, false, true, CASE_PLAIN },
	{ CASE_ROPE_ODD, 5, 1, 16, 16, 0, DSV4_ROUND_NONE, DSV4_ROUND_FP8, false, false, CASE_PLAIN },
	{ CASE_ROPE_ODD, 0, 4, 96, 32, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_ODD, CASE_N_TOK_ANY, 2, 24, 8, 0, DSV4_ROUND_NONE, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_ODD, CASE_N_TOK_ANY, 1, 32, 16, 1, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, true, CASE_PLAIN },
	{ CASE_ROPE_ODD, 131, 3, 96, 32, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, false, CASE_PLAIN },
	{ CASE_ROPE_ODD, 3, 1, 96, 32, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, true, CASE_ZERO },
	{ CASE_ROPE_ODD, 3, 1, 64, 32, 0, DSV4_ROUND_NONE, DSV4_ROUND_FP4, false, true, CASE_ZERO },
	{ CASE_ROPE_ODD, 3, 1, 64, 32, 0, DSV4_ROUND_NONE, DSV4_ROUND_FP4, false, true, CASE_DENORMAL },
	{ CASE_ROPE_ODD, 3, 1, 96, 32, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, false, CASE_SIGNED_ZERO },
	{ CASE_ROPE_ODD, 3, 1, 96, 32, 0, DSV4_ROUND_NONE, DSV4_ROUND_NONE, false, true, CASE_DENORMAL },
	{ CASE_ROPE_ODD, 3, 1, 96, 32, 0, DSV4_ROUND_FP8, DSV4_ROUND_NONE, false, true, CASE_LARGE },
	{ CASE_ROPE_ODD, 3, 1, 96, 32, 0, DSV4_ROUND_NONE, DSV4_ROUND_NONE, false, true, CASE_HUGE },
	{ CASE_ROPE_ODD, 3, 2, 96, 32, 0, DSV4_ROUND_BF16, DSV4_ROUND_NONE, false, false, CASE_HUGE },
};

/* Heads, dim and rot of the row, from the shape where it says so. */
static void case_rope_dims(struct dsv4_rope *a, const struct check_shape *s, const struct case_rope_row *r)
{
	bool index = r->of == CASE_ROPE_INDEX_Q || r->of == CASE_ROPE_INDEX_KEY, odd = r->of == CASE_ROPE_ODD;

	a->n_head = odd ? r->n_head : r->of == CASE_ROPE_Q ? s->heads : 1;
	if (r->of == CASE_ROPE_INDEX_Q)
		a->n_head = s->index_heads;
	a->dim = odd ? r->dim : index ? s->index_dim : s->head_dim;
	a->rot = odd ? r->rot : s->rope;
}

static int case_rope_args(struct check_case *c, const struct check_shape *s, const struct case_rope_row *r,
			  int n_tok)
{
	struct dsv4_rope *a = &c->args.rope;

	*a = (struct dsv4_rope){ .size = sizeof *a, .n_tok = n_tok, .inverse = r->inverse, .kv = r->kv,
				 .index = r->index };
	case_rope_dims(a, s, r);
	if (a->n_head < 1 || a->dim < 1)
		return CASE_SKIP;
	a->ldx = (int64_t)a->n_head * a->dim + r->gap;
	a->cs = case_rotations(c, n_tok, a->rot);
	a->x = case_floats(c, n_tok ? n_tok * a->ldx - r->gap : 0, r->values, 3);
	c->step = case_step(r->kv > r->index ? r->kv : r->index);
	return c->rc;
}

static int case_rope_make(struct check_case *c, const struct case_spec *s, int i)
{
	const struct case_rope_row *r = &case_rope_table[i];
	int n_tok = case_norm_rows(c, s, r->n_tok), rc;

	if (!case_wanted(s, r->of == CASE_ROPE_ODD, r->quick, r->values))
		return CASE_SKIP;
	rc = case_rope_args(c, s->shape, r, n_tok);
	case_name(c, "%d tokens, %d heads of %d, rot %d, kv round %d, index round %d, %s%s", n_tok,
		  c->args.rope.n_head, c->args.rope.dim, c->args.rope.rot, (int)r->kv, (int)r->index,
		  r->inverse ? "inverse, " : "", case_values_name(r->values));
	return rc;
}

static int case_rope_bench(struct check_case *c, const struct case_spec *s)
{
	return case_rope_args(c, s->shape, &case_rope_table[0], s->n_tok);
}

static void case_rope_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_rope *a = &u->rope;

	(void)mem;
	a->x += t0 * a->ldx;
	a->cs += t0 * a->rot;
	a->n_tok = (int32_t)n;
}

const struct case_op case_rope = {
	.n = mem_countof(case_rope_table),
	.make = case_rope_make,
	.bench = case_rope_bench,
	.slice = case_rope_slice,
};
