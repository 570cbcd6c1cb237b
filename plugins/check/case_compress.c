/* SPDX-License-Identifier: MIT
 * case_compress.c - cases of compress.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case.h"
#include "engine/base/mem.h"

#include <math.h>

enum case_compress_of { CASE_COMPRESS_KV, CASE_COMPRESS_KEY, CASE_COMPRESS_ODD };

static const struct case_compress_row {
	enum case_compress_of of;
	int n_out, ratio, dim, rot; /* dim and rot are the shape's, unless ODD */
	bool overlap, absent, quick;
	enum dsv4_round round;      /* of a KEY the index round, else the KV round */
	enum case_values values, scores;
} case_compress_table[] = {
	{ CASE_COMPRESS_KV, 3, 4, 0, 0, true, true, true, DSV4_ROUND_FP8, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_KV, 5, 4, 0, 0, true, false, false, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_KV, 2, 128, 0, 0, false, false, true, DSV4_ROUND_FP8, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_KV, 3, 4, 0, 0, true, true, false, DSV4_ROUND_BF16, CASE_PLAIN, CASE_MIXED },
	{ CASE_COMPRESS_KEY, 5, 4, 0, 0, true, true, true, DSV4_ROUND_FP4, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_KEY, 4, 4, 0, 0, true, false, true, DSV4_ROUND_FP8, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_KEY, 4, 4, 0, 0, true, false, false, DSV4_ROUND_BF16, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_KEY, 4, 4, 0, 0, true, false, false, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 1, 4, 7, 2, true, true, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 1, 1, 1, 0, false, false, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 4, 3, 130, 6, true, true, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, CASE_N_TOK_ANY, 4, 12, 4, true, true, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, CASE_N_TOK_ANY, 4, 16, 8, false, false, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 2, 5, 65, 64, false, true, false, DSV4_ROUND_BF16, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 33, 4, 64, 32, true, true, false, DSV4_ROUND_FP8, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 0, 4, 96, 32, true, false, true, DSV4_ROUND_FP8, CASE_PLAIN, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 3, 4, 96, 32, true, false, true, DSV4_ROUND_FP8, CASE_ZERO, CASE_PLAIN },
	{ CASE_COMPRESS_ODD, 3, 4, 96, 32, true, true, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_ZERO },
	{ CASE_COMPRESS_ODD, 3, 4, 96, 32, true, false, true, DSV4_ROUND_NONE, CASE_PLAIN, CASE_LARGE },
	{ CASE_COMPRESS_ODD, 3, 4, 96, 32, false, false, false, DSV4_ROUND_NONE, CASE_DENORMAL, CASE_DENORMAL },
	{ CASE_COMPRESS_ODD, 3, 4, 96, 32, true, true, true, DSV4_ROUND_NONE, CASE_LARGE, CASE_MIXED },
};

struct case_compress_dims { int n_out, dim, rot; };

/* A group that is absent must not even be read. */
static void case_compress_absent(const struct dsv4_compress *a, float *kv, float *score)
{
	for (int64_t i = 0; kv && score && i < (int64_t)a->ratio * 2 * a->dim; i++)
		kv[i] = score[i] = NAN;
}

static int case_compress_args(struct check_case *c, const struct case_compress_row *r,
			      const struct case_compress_dims *d)
{
	struct dsv4_compress *a = &c->args.compress;
	int64_t width = (int64_t)d->dim * (r->overlap ? 2 : 1);
	int64_t n = (d->n_out + (int64_t)r->overlap) * r->ratio * width;
	float *kv = case_floats(c, n, r->values, 2), *score = case_floats(c, n, r->scores, 4);

	*a = (struct dsv4_compress){ .size = sizeof *a, .n_out = d->n_out, .ratio = r->ratio, .dim = d->dim,
				     .rot = d->rot, .overlap = r->overlap, .first_absent = r->absent,
				     .norm_eps = 1e-6f };
	if (r->of == CASE_COMPRESS_KEY)
		a->index_round = r->round;
	else
		a->kv_round = r->round;
	if (r->overlap && r->absent)
		case_compress_absent(a, kv, score);
	a->kv = kv;
	a->score = score;
	a->ape = case_floats(c, r->ratio * width, CASE_PLAIN, 3);
	a->norm = case_floats(c, d->dim, CASE_PLAIN, 2);
	a->cs = case_rotations(c, d->n_out, d->rot);
	c->step = case_step(r->round);
	return c->rc;
}

static int case_compress_make(struct check_case *c, const struct case_spec *s, int i)
{
	const struct case_compress_row *r = &case_compress_table[i];
	bool odd = r->of == CASE_COMPRESS_ODD;
	struct case_compress_dims d = { case_n_tok(c, s, r->n_out, 64), r->dim, r->rot };

	if (!odd) {
		d.dim = r->of == CASE_COMPRESS_KEY ? s->shape->index_dim : s->shape->head_dim;
		d.rot = s->shape->rope;
	}
	if (s->phase == DSV4_DECODE && d.n_out > 1)
		d.n_out = 1;
	if (d.dim < 1 || !case_wanted(s, odd, r->quick, r->values) || !case_wanted(s, odd, r->quick, r->scores))
		return CASE_SKIP;
	case_name(c, "%d rows of %d, ratio %d, %s%sround %d, %s, scores %s", d.n_out, d.dim, r->ratio,
		  r->overlap ? "overlap, " : "", r->absent ? "first absent, " : "", (int)r->round,
		  case_values_name(r->values), case_values_name(r->scores));
	return case_compress_args(c, r, &d);
}

static int case_compress_bench(struct check_case *c, const struct case_spec *s)
{
	return case_compress_args(c, &case_compress_table[0],
				  &(struct case_compress_dims){ s->n_tok, s->shape->head_dim, s->shape->rope });
}

static void case_compress_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_compress *a = &u->compress;
	int64_t skip = t0 * a->ratio * a->dim * (a->overlap ? 2 : 1);

	(void)mem;
	a->n_out = (int32_t)n;
	a->kv += skip;
	a->score += skip;
	a->cs += t0 * a->rot;
	a->out += t0 * a->dim;
	a->first_absent = a->first_absent && t0 == 0;
}

const struct case_op case_compress = {
	.n = mem_countof(case_compress_table),
	.make = case_compress_make,
	.bench = case_compress_bench,
	.slice = case_compress_slice,
};
