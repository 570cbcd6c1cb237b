/* SPDX-License-Identifier: MIT
 * case_linear.c - cases of linear: every weight format, groups, rows that begin anywhere.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case_matrix.h"
#include "engine/base/mem.h"

#include <math.h>

/* What a matrix of a shape is: rows and cols are 0 in its row of the table. Only so many rows of it are made
 * as the row of the table says, unless that is 0 too. */
enum case_linear_of {
	CASE_LINEAR_Q_A, /* [q_rank][hidden] */
	CASE_LINEAR_Q_B, /* [heads * head_dim][q_rank] */
	CASE_LINEAR_O_A, /* groups of [o_rank][heads * head_dim / o_groups] */
	CASE_LINEAR_O_B  /* [hidden][o_groups * o_rank] */
};

/* What is special about the weights. */
enum case_linear_weights {
	CASE_LINEAR_PLAIN,
	CASE_LINEAR_SMALL, /* the smallest scales that the format has */
	CASE_LINEAR_NAN,   /* one code, value or scale is NaN */
	CASE_LINEAR_BLOCKS /* E8M0 scales far from all others in a block of its own: tiny, huge but of zeroes, NaN */
};

/* What is special about some of the tokens: the others' results must not know. */
enum case_linear_tokens {
	CASE_LINEAR_ALIKE,
	CASE_LINEAR_SOME_NAN, /* NaN or infinite in one column */
	CASE_LINEAR_SOME_HUGE
};

static const char *const case_linear_weights_name[] = {
	[CASE_LINEAR_PLAIN] = "", [CASE_LINEAR_SMALL] = ", smallest scales", [CASE_LINEAR_NAN] = ", a NaN weight",
	[CASE_LINEAR_BLOCKS] = ", blocks of odd scales",
};
static const char *const case_linear_tokens_name[] = {
	[CASE_LINEAR_ALIKE] = "", [CASE_LINEAR_SOME_NAN] = ", some tokens NaN",
	[CASE_LINEAR_SOME_HUGE] = ", some tokens huge",
};

/* few: rows of each group made, where the shape gives the sizes. */
static const struct case_linear_row {
	int rows, cols;
	enum case_linear_of of;
	int few, n_group, n_tok, gap_x, gap_y;
	bool act, f32_scale, quick;
	enum case_linear_weights weights;
	enum case_values values;
	enum case_linear_tokens tokens;
} case_linear_table[] = {
	/* sizes of a model */
	{ 0, 0, CASE_LINEAR_Q_A, 40, 1, 1, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_Q_A, 40, 1, 8, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_Q_A, 17, 1, 3, 0, 0, false, true, true, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_Q_A, 0, 1, 2, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_Q_B, 200, 1, 5, 0, 0, true, true, false, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_Q_B, 64, 1, 64, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_Q_B, 40, 1, 67, 0, 0, false, false, false, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_O_A, 5, 0, 2, 0, 0, false, false, true, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_O_A, 24, 0, 9, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_O_B, 24, 1, 7, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	{ 0, 0, CASE_LINEAR_O_B, 24, 1, 33, 0, 0, true, true, false, 0, CASE_MIXED, 0 },
	/* outputs of thousands, which nothing may clamp */
	{ 0, 0, CASE_LINEAR_Q_A, 8, 1, 3, 0, 0, true, false, true, 0, CASE_BIG, 0 },
	/* sizes of none: tails of every kind of block */
	{ 1, 1, 0, 0, 1, 1, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 3, 7, 0, 0, 1, 4, 3, 2, true, false, true, 0, CASE_PLAIN, 0 },
	{ 5, 17, 0, 0, 1, 6, 1, 3, false, false, true, 0, CASE_PLAIN, 0 },
	{ 129, 33, 0, 0, 1, 2, 5, 1, true, true, true, 0, CASE_PLAIN, 0 },
	{ 127, 130, 0, 0, 1, 3, 0, 1, true, false, true, 0, CASE_PLAIN, 0 },
	{ 260, 255, 0, 0, 1, 5, 1, 0, true, true, true, 0, CASE_PLAIN, 0 },
	{ 17, 385, 0, 0, 1, 8, 0, 0, false, false, true, 0, CASE_PLAIN, 0 },
	{ 16, 1023, 0, 0, 1, 7, 0, 7, true, false, false, 0, CASE_PLAIN, 0 },
	{ 33, 257, 0, 0, 1, 65, 2, 2, true, false, true, 0, CASE_PLAIN, 0 },
	{ 9, 100, 0, 0, 1, 131, 0, 0, false, false, false, 0, CASE_PLAIN, 0 },
	{ 24, 64, 0, 0, 1, 0, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	/* full tiles of tokens */
	{ 33, 160, 0, 0, 1, 16, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 17, 64, 0, 0, 1, 32, 0, 1, false, false, true, 0, CASE_PLAIN, 0 },
	{ 16, 128, 0, 0, 1, 64, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 9, 40, 0, 0, 1, 128, 1, 0, true, false, true, 0, CASE_PLAIN, 0 },
	/* any number of tokens */
	{ 17, 72, 0, 0, 1, CASE_N_TOK_ANY, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 8, 40, 0, 0, 2, CASE_N_TOK_ANY, 1, 1, false, false, true, 0, CASE_PLAIN, 0 },
	/* more rows than most tiles of rows, and than a small index counts */
	{ 4100, 16, 0, 0, 1, 2, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 33000, 4, 0, 0, 1, 1, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	/* groups: a scale block may cover rows of several, and a group may end inside a block of columns */
	{ 6, 5, 0, 0, 2, 3, 1, 1, true, false, true, 0, CASE_PLAIN, 0 },
	{ 132, 40, 0, 0, 4, 5, 0, 2, true, true, true, 0, CASE_PLAIN, 0 },
	{ 9, 161, 0, 0, 3, 4, 2, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 8, 128, 0, 0, 8, 9, 0, 0, false, false, true, 0, CASE_PLAIN, 0 },
	{ 96, 160, 0, 0, 3, 5, 1, 2, true, false, true, 0, CASE_PLAIN, 0 },
	/* values */
	{ 20, 200, 0, 0, 1, 3, 0, 0, true, false, true, 0, CASE_ZERO, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, false, false, true, 0, CASE_SIGNED_ZERO, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, true, false, true, 0, CASE_DENORMAL, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, false, true, true, 0, CASE_DENORMAL, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, true, false, true, 0, CASE_LARGE, 0 },
	{ 20, 200, 0, 0, 2, 3, 0, 0, true, true, true, 0, CASE_MIXED, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, false, false, true, 0, CASE_MIXED, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, true, false, true, 0, CASE_HUGE, 0 },
	{ 20, 200, 0, 0, 1, 3, 0, 0, false, true, true, 0, CASE_HUGE, 0 },
	{ 20, 300, 0, 0, 1, 3, 0, 0, true, false, true, CASE_LINEAR_SMALL, CASE_LARGE, 0 },
	{ 20, 300, 0, 0, 1, 3, 0, 0, false, true, true, CASE_LINEAR_SMALL, CASE_LARGE, 0 },
	{ 140, 300, 0, 0, 1, 3, 0, 0, true, false, true, CASE_LINEAR_NAN, CASE_PLAIN, 0 },
	{ 140, 300, 0, 0, 1, 3, 0, 0, false, true, true, CASE_LINEAR_NAN, CASE_PLAIN, 0 },
	{ 390, 300, 0, 0, 1, 3, 0, 0, true, false, true, CASE_LINEAR_BLOCKS, CASE_PLAIN, 0 },
	{ 390, 300, 0, 0, 1, 11, 0, 0, true, false, true, CASE_LINEAR_BLOCKS, CASE_PLAIN, 0 },
	{ 390, 130, 0, 0, 3, 7, 0, 0, true, false, true, CASE_LINEAR_BLOCKS, CASE_PLAIN, 0 },
	{ 140, 300, 0, 0, 1, 13, 0, 0, true, false, true, 0, CASE_PLAIN, CASE_LINEAR_SOME_NAN },
	{ 140, 300, 0, 0, 1, 13, 0, 0, false, false, true, 0, CASE_PLAIN, CASE_LINEAR_SOME_NAN },
	{ 40, 200, 0, 0, 2, 70, 0, 0, true, false, true, 0, CASE_PLAIN, CASE_LINEAR_SOME_NAN },
	{ 140, 300, 0, 0, 1, 4, 0, 0, true, false, true, 0, CASE_PLAIN, CASE_LINEAR_SOME_HUGE },
	{ 140, 300, 0, 0, 1, 13, 0, 0, true, false, true, 0, CASE_PLAIN, CASE_LINEAR_SOME_HUGE },
	/* long rows: as many blocks as a kernel's buffers may count on, and more */
	{ 37, 4100, 0, 0, 1, 7, 0, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 21, 4090, 0, 0, 1, 10, 1, 0, true, false, true, 0, CASE_PLAIN, 0 },
	{ 21, 1100, 0, 0, 1, 12, 1, 1, false, false, true, 0, CASE_PLAIN, 0 },
	{ 21, 8192, 0, 0, 1, 13, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	{ 19, 16384, 0, 0, 1, 6, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
	{ 5, 16500, 0, 0, 1, 6, 0, 0, true, false, false, 0, CASE_PLAIN, 0 },
};

/* Two tokens in three become special. */
static void case_linear_special(float *x, int64_t n_tok, int64_t width, int64_t ld, enum case_linear_tokens tokens)
{
	for (int64_t t = 0; t < n_tok; t++) {
		float *at = x + t * ld + width / 2;

		if (t % 3 == 0)
			continue;
		if (tokens == CASE_LINEAR_SOME_NAN)
			*at = t % 3 == 1 ? NAN : INFINITY;
		else if (tokens == CASE_LINEAR_SOME_HUGE)
			*at = t % 3 == 1 ? 1e17f : -1e25f;
	}
}

/* x, with NaN between its rows. */
static float *case_linear_x(struct check_case *c, int64_t n_tok, int64_t width, int64_t ld,
	const struct case_linear_row *r)
{
	float *x = case_floats(c, n_tok ? (n_tok - 1) * ld + width : 0, r->values, 2);

	if (x)
		case_linear_special(x, n_tok, width, ld, r->tokens);

	for (int64_t t = 0; x && t + 1 < n_tok; t++)
		for (int64_t i = width; i < ld; i++)
			x[t * ld + i] = NAN;
	return x;
}

/* Rows and columns of a row of the table; groups as well. */
static void case_linear_extents(const struct case_linear_row *r, const struct check_shape *s, int64_t *ret_rows,
	int64_t *ret_cols, int *ret_group)
{
	int64_t heads = (int64_t)s->heads * s->head_dim, rows = r->rows, cols = r->cols;
	int n_group = r->n_group ? r->n_group : s->o_groups;

	if (!cols)
		switch (r->of) {
		case CASE_LINEAR_Q_A:
			rows = s->q_rank;
			cols = s->hidden;
			break;
		case CASE_LINEAR_Q_B:
			rows = heads;
			cols = s->q_rank;
			break;
		case CASE_LINEAR_O_A:
			rows = s->o_rank;
			cols = n_group ? heads / n_group : 0;
			break;
		case CASE_LINEAR_O_B:
			rows = s->hidden;
			cols = (int64_t)s->o_groups * s->o_rank;
			break;
		}
	if (r->few && r->few < rows)
		rows = r->few;
	*ret_rows = r->of == CASE_LINEAR_O_A && !r->cols ? rows * n_group : rows;
	*ret_cols = cols;
	*ret_group = n_group;
}

static int case_linear_make(struct check_case *c, const struct case_spec *s, int i)
{
	const struct case_linear_row *r = &case_linear_table[i];
	struct dsv4_linear *a = &c->args.linear;
	struct dsv4_weight *w;
	int64_t rows, cols;
	int n_group, n_tok = case_n_tok(c, s, r->n_tok, CASE_MAX_TOK);

	case_linear_extents(r, s->shape, &rows, &cols, &n_group);
	if (rows < 1 || cols < 1 || n_group < 1 || !case_wanted(s, r->cols != 0, r->quick, r->values) ||
	    (s->phase == DSV4_DECODE && n_tok > CASE_MAX_DECODE) || (r->f32_scale && s->wfmt != DSV4_W_FP8) ||
	    (r->weights == CASE_LINEAR_BLOCKS && s->wfmt != DSV4_W_FP8) ||
	    ((r->weights != CASE_LINEAR_PLAIN || r->tokens != CASE_LINEAR_ALIKE) && s->numerics == DSV4_LOSSY))
		return CASE_SKIP;
	w = case_matrix(c, s->wfmt, r->f32_scale, rows, cols);
	*a = (struct dsv4_linear){ .size = sizeof *a, .n_tok = n_tok, .n_group = n_group, .w = w,
				   .act = r->act ? DSV4_ACT_FP8 : DSV4_ACT_NONE, .ldx = n_group * cols + r->gap_x,
				   .ldy = rows + r->gap_y };
	a->x = case_linear_x(c, n_tok, n_group * cols, a->ldx, r);
	if (c->rc)
		return c->rc;
	if (r->weights == CASE_LINEAR_SMALL)
		case_matrix_small(w);
	else if (r->weights == CASE_LINEAR_NAN)
		case_matrix_nan(w);
	else if (r->weights == CASE_LINEAR_BLOCKS)
		case_matrix_blocks(w);
	case_name(c, "%d tok, %lld x %lld, %d groups, act %s%s%s%s, %s", n_tok, (long long)rows, (long long)cols,
		n_group, r->act ? "fp8" : "none", r->f32_scale ? ", f32 scales" : "",
		case_linear_weights_name[r->weights], case_linear_tokens_name[r->tokens],
		case_values_name(r->values));
	return 0;
}

/* The widest matrix of a layer. */
static int case_linear_bench(struct check_case *c, const struct case_spec *s)
{
	struct dsv4_linear *a = &c->args.linear;
	int64_t rows = s->shape->hidden, cols = (int64_t)s->shape->o_groups * s->shape->o_rank;

	*a = (struct dsv4_linear){ .size = sizeof *a, .n_tok = s->n_tok, .n_group = 1, .act = DSV4_ACT_FP8,
				   .ldx = cols, .ldy = rows };
	a->w = case_matrix(c, s->wfmt, false, rows, cols);
	a->x = case_floats(c, s->n_tok * cols, CASE_PLAIN, 2);
	return c->rc;
}

static void case_linear_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_linear *a = &u->linear;

	(void)mem;
	a->x += t0 * a->ldx;
	a->y += t0 * a->ldy;
	a->n_tok = (int32_t)n;
}

const struct case_op case_linear = {
	.n = mem_countof(case_linear_table),
	.make = case_linear_make,
	.bench = case_linear_bench,
	.slice = case_linear_slice,
	.weighted = true,
};
