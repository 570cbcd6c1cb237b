/* SPDX-License-Identifier: MIT
 * case_experts.c - cases of moe_experts: every weight format, shared experts in another, experts nobody chose or that are
 * not here, FP4 of which some is repacked.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case_matrix.h"
#include "engine/base/mem.h"
#include "plugins/dsv4_rows16.h"

#include <math.h>

enum case_experts_who {
	CASE_EXPERTS_ANY,    /* k of all, per token */
	CASE_EXPERTS_FIRST,  /* the same first k for all tokens */
	CASE_EXPERTS_LAST,
	CASE_EXPERTS_TURNS   /* k in a row from another one on per token; some have one token, some none */
};

/* Which matrices have a repacked copy. */
enum case_experts_packed { CASE_EXPERTS_NATIVE, CASE_EXPERTS_ALL, CASE_EXPERTS_SOME };

/* Which experts are here: all; half of the routed ones, the upper or the lower, and of the shared ones all or all but the
 * first; none. */
enum case_experts_here { CASE_EXPERTS_HERE, CASE_EXPERTS_UPPER, CASE_EXPERTS_LOWER, CASE_EXPERTS_NONE };

/* Of the first expert's w2: as random as others, the least there are, or one NaN. */
enum case_experts_scales { CASE_EXPERTS_PLAIN, CASE_EXPERTS_SMALL, CASE_EXPERTS_NAN };

/* n_expert 0: the shape's experts, dim and k; inter is the shape's but no more than given. k -1: all. shared_fmt: of
 * the shared experts, which need not be the routed ones'; DSV4_N_WFMT: theirs. */
static const struct case_experts_row {
	int n_expert, dim, inter, k, n_tok;
	enum case_experts_who who;
	int n_shared;
	enum dsv4_wfmt shared_fmt;
	bool act, f32_scale;
	float limit, out_scale;
	bool quick;
	enum case_values values;
	enum case_experts_here here;
	enum case_experts_scales scales;
} case_experts_table[] = {
#define SAME DSV4_N_WFMT
	/* a model's */
	{ 0, 0, 64, 0, 1, 0, 1, DSV4_W_FP8, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 0, 0, 128, 0, 3, 0, 1, SAME, false, false, 10, 1.5f, false, CASE_PLAIN, 0, 0 },
	{ 0, 0, 160, 0, 8, CASE_EXPERTS_FIRST, 1, DSV4_W_BF16, true, false, 10, 1, false, CASE_PLAIN, 0, 0 },
	{ 0, 0, 96, 0, 20, CASE_EXPERTS_TURNS, 1, DSV4_W_FP8, true, false, 10, 1, false, CASE_PLAIN, 0, 0 },
	/* sizes of none */
	{ 1, 1, 1, 1, 1, 0, 0, SAME, true, false, 0, 1, true, CASE_PLAIN, 0, 0 },
	{ 3, 7, 5, 1, 4, CASE_EXPERTS_LAST, 0, SAME, false, false, 0, 1, true, CASE_PLAIN, 0, 0 },
	{ 5, 33, 17, 2, 7, CASE_EXPERTS_TURNS, 1, SAME, true, false, 10, 1.5f, true, CASE_PLAIN, 0, 0 },
	{ 4, 130, 65, 3, 5, 0, 2, DSV4_W_F32, false, true, 10, 0.5f, true, CASE_PLAIN, 0, 0 },
	{ 4, 64, 130, -1, 6, 0, 1, DSV4_W_FP8, true, true, 0, 2.5f, true, CASE_PLAIN, 0, 0 },
	{ 9, 129, 31, 4, 33, 0, 2, DSV4_W_FP4, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 6, 48, 96, 2, 130, CASE_EXPERTS_FIRST, 1, DSV4_W_NVFP4, false, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 4, 40, 48, 2, 16, CASE_EXPERTS_TURNS, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 3, 48, 33, 1, 32, 0, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 3, 32, 16, 1, 64, CASE_EXPERTS_FIRST, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 3, 24, 16, 1, CASE_N_TOK_ANY, 0, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 5, 16, 16, 2, CASE_N_TOK_ANY, CASE_EXPERTS_TURNS, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 40, 32, 24, 6, 3, CASE_EXPERTS_LAST, 0, SAME, true, false, 10, 1.5f, true, CASE_PLAIN, 0, 0 },
	{ 4, 64, 32, 2, 0, 0, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
	{ 4, 255, 257, 2, 9, 0, 1, DSV4_W_FP8, true, false, 10, 1, false, CASE_PLAIN, 0, 0 },
	/* a limit that most gates and all but small ups reach; an output that is not scaled, or all away */
	{ 5, 40, 48, 2, 6, 0, 1, SAME, false, false, 0.3f, 1, true, CASE_PLAIN, 0, 0 },
	{ 5, 40, 48, 2, 6, 0, 2, SAME, true, false, 0.3f, 0, true, CASE_PLAIN, 0, 0 },
	/* values */
	{ 5, 140, 48, 2, 5, 0, 1, SAME, true, false, 10, 1.5f, true, CASE_ZERO, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, false, false, 0, 1.5f, true, CASE_SIGNED_ZERO, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, true, false, 10, 1, true, CASE_DENORMAL, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, false, false, 0, 1, true, CASE_DENORMAL, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, false, false, 0, 1, true, CASE_LARGE, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, true, false, 10, 1, true, CASE_LARGE, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, false, false, 10, 1.5f, true, CASE_MIXED, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 1, SAME, true, false, 0, 1, true, CASE_HUGE, 0, 0 },
	{ 5, 140, 48, 2, 5, 0, 0, SAME, false, false, 10, 1, true, CASE_NAN, 0, 0 },
	/* scales of weights */
	{ 5, 140, 48, 2, 5, 0, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, CASE_EXPERTS_SMALL },
	{ 5, 140, 48, 2, 5, CASE_EXPERTS_TURNS, 1, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, CASE_EXPERTS_NAN },
	{ 5, 48, 140, 2, 9, CASE_EXPERTS_TURNS, 0, SAME, false, false, 10, 1, true, CASE_PLAIN, 0, CASE_EXPERTS_NAN },
	/* experts that are not here, so that some tokens have none at all */
	{ 8, 130, 65, 2, 9, CASE_EXPERTS_TURNS, 1, SAME, true, false, 10, 1.5f, true, CASE_PLAIN, CASE_EXPERTS_UPPER, 0 },
	{ 8, 130, 65, 2, 9, CASE_EXPERTS_TURNS, 1, SAME, true, false, 10, 1.5f, true, CASE_PLAIN, CASE_EXPERTS_LOWER, 0 },
	{ 7, 48, 40, 3, 40, 0, 2, DSV4_W_FP8, true, false, 10, 1, true, CASE_PLAIN, CASE_EXPERTS_LOWER, 0 },
	{ 40, 40, 24, 6, CASE_N_TOK_ANY, 0, 0, SAME, true, false, 10, 1, true, CASE_PLAIN, CASE_EXPERTS_UPPER, 0 },
	{ 7, 48, 40, 2, 6, CASE_EXPERTS_FIRST, 2, SAME, false, false, 10, 0.5f, true, CASE_PLAIN, CASE_EXPERTS_UPPER, 0 },
	{ 5, 40, 48, 2, 6, 0, 1, DSV4_W_FP8, true, false, 10, 1, true, CASE_PLAIN, CASE_EXPERTS_NONE, 0 },
	{ 9, 33, 17, 3, 70, CASE_EXPERTS_TURNS, 2, SAME, false, false, 10, 1, false, CASE_MIXED, CASE_EXPERTS_LOWER, 0 },
	{ 0, 0, 64, 0, 8, 0, 1, DSV4_W_FP8, true, false, 10, 1, false, CASE_PLAIN, CASE_EXPERTS_UPPER, 0 },
	/* several blocks of 128 rows, and more of columns than a kernel has stages of memory for, some twice */
	{ 3, 700, 40, 2, 5, 0, 0, SAME, true, false, 10, 1, true, CASE_PLAIN, 0, 0 },
#undef SAME
};

#define CASE_EXPERTS_DISTINCT 7 /* experts with weights of their own; of more, every so many are the same */

/* n experts. Where they are many, some share their memory, which no op can see but by its speed. */
static const struct dsv4_expert *case_experts_array(struct check_case *c, enum dsv4_wfmt fmt, bool f32_scale, int n,
	int n_distinct)
{
	struct dsv4_expert *e = case_alloc(c, (size_t)n * sizeof *e, _Alignof(struct dsv4_expert));
	enum dsv4_sfmt sfmt = case_matrix_sfmt(fmt, f32_scale);
	const struct dsv4_moe_experts *a = &c->args.moe_experts;

	for (int i = 0; e && i < n; i++) {
		if (i >= n_distinct) {
			e[i] = e[i % n_distinct];
			continue;
		}
		case_weight(c, &e[i].w1, fmt, sfmt, a->inter, a->dim);
		case_weight(c, &e[i].w2, fmt, sfmt, a->dim, a->inter);
		case_weight(c, &e[i].w3, fmt, sfmt, a->inter, a->dim);
	}
	return e;
}

static const void *case_experts_pack_one(struct check_case *c, const struct dsv4_weight *w)
{
	size_t panel = dsv4_rows16_panel_size(w->cols);
	uint8_t *p = case_alloc(c, dsv4_rows16_size(w->rows, w->cols), 64);

	for (int64_t i = 0; !c->rc && i < dsv4_rows16_panels(w->rows); i++)
		dsv4_rows16_pack(w, i, p + (size_t)i * panel);
	return p;
}

/* Repacked copies of the experts of case_experts_array(), if they are FP4. */
static void case_experts_pack(struct check_case *c, enum case_experts_packed how, int n_distinct)
{
	struct dsv4_moe_experts *a = &c->args.moe_experts;
	struct dsv4_packed *p;

	if (how == CASE_EXPERTS_NATIVE || c->rc || a->expert[0].w1.fmt != DSV4_W_FP4)
		return;
	p = case_alloc(c, (size_t)a->n_expert * sizeof *p, _Alignof(struct dsv4_packed));
	for (int32_t i = 0; p && i < a->n_expert; i++) {
		int64_t which = how == CASE_EXPERTS_ALL ? 7 : case_below(c, 8);

		p[i] = (struct dsv4_packed){ 0 };
		if (i >= n_distinct) {
			p[i] = p[i % n_distinct];
			continue;
		}
		if (which & 1)
			p[i].w1 = case_experts_pack_one(c, &a->expert[i].w1);
		if (which & 2)
			p[i].w2 = case_experts_pack_one(c, &a->expert[i].w2);
		if (which & 4)
			p[i].w3 = case_experts_pack_one(c, &a->expert[i].w3);
	}
	a->packed = p;
}

static bool case_experts_is_here(enum case_experts_here here, int32_t e, int32_t n)
{
	return here == CASE_EXPERTS_HERE || (here != CASE_EXPERTS_NONE && (e >= n / 2) == (here == CASE_EXPERTS_UPPER));
}

/* Takes the w1 of those that are not here, and leaves the rest, which is nobody's to read, as it was. */
static void case_experts_leave(struct check_case *c, enum case_experts_here here)
{
	struct dsv4_moe_experts *a = &c->args.moe_experts;
	struct dsv4_expert *e = (struct dsv4_expert *)(uintptr_t)a->expert;
	struct dsv4_expert *shared = (struct dsv4_expert *)(uintptr_t)a->shared;

	for (int32_t i = 0; e && i < a->n_expert; i++)
		if (!case_experts_is_here(here, i, a->n_expert))
			e[i].w1.data = NULL;
	for (int32_t i = 0; shared && i < a->n_shared; i++)
		if (here == CASE_EXPERTS_NONE || (here == CASE_EXPERTS_LOWER && i == 0))
			shared[i].w1.data = NULL;
}

static void case_experts_scale(const struct check_case *c, enum case_experts_scales scales)
{
	const struct dsv4_weight *w = &c->args.moe_experts.expert[0].w2;

	if (scales == CASE_EXPERTS_SMALL && w->scale)
		case_matrix_small(w);
	else if (scales == CASE_EXPERTS_NAN)
		case_matrix_nan(w);
}

static bool case_experts_native(union case_args *u)
{
	bool was = u->moe_experts.packed;

	u->moe_experts.packed = NULL;
	return was;
}

/* k rising ids of token t. */
static void case_experts_choose(struct check_case *c, enum case_experts_who who, int32_t t, int32_t *ids)
{
	const struct dsv4_moe_experts *a = &c->args.moe_experts;
	int32_t n = 0, n_expert = a->n_expert, first = (int32_t)((int64_t)t * 3 % (n_expert - a->k + 1));

	for (int32_t e = 0; e < n_expert; e++) {
		bool in = who == CASE_EXPERTS_ANY ? case_below(c, n_expert - e) < a->k - n
			: who == CASE_EXPERTS_FIRST ? e < a->k
			: who == CASE_EXPERTS_LAST ? e >= n_expert - a->k : e >= first && e < first + a->k;

		if (in)
			ids[n++] = e;
	}
}

static void case_experts_tokens(struct check_case *c, enum case_experts_who who, enum case_values v)
{
	struct dsv4_moe_experts *a = &c->args.moe_experts;
	int64_t n_pair = (int64_t)a->n_tok * a->k;
	int32_t *ids = case_alloc(c, (size_t)n_pair * sizeof *ids, sizeof *ids);
	float *weight = case_alloc(c, (size_t)n_pair * sizeof *weight, sizeof *weight);

	for (int32_t t = 0; ids && t < a->n_tok; t++)
		case_experts_choose(c, who, t, ids + t * a->k);
	for (int64_t i = 0; weight && i < n_pair; i++)
		weight[i] = case_uniform(c, 0.02f, 1);
	a->ids = ids;
	a->weight = weight;
	a->x = case_floats(c, (int64_t)a->n_tok * a->dim, v, 2);
}

static bool case_experts_wanted(const struct case_spec *s, const struct case_experts_row *r)
{
	return case_wanted(s, r->n_expert != 0, r->quick, r->values) &&
	       (s->abi_minor >= 3 || r->here == CASE_EXPERTS_HERE) &&
	       (s->numerics != DSV4_LOSSY || r->scales == CASE_EXPERTS_PLAIN) &&
	       (s->phase != DSV4_DECODE || r->n_tok <= CASE_MAX_DECODE) &&
	       (!r->f32_scale || s->wfmt == DSV4_W_FP8);
}

static int case_experts_make(struct check_case *c, const struct case_spec *s, int i)
{
	static const char *const here[] = { "", ", upper half here", ", lower half here", ", none here" };
	static const char *const scales[] = { "", ", least scales", ", a NaN" };
	const struct case_experts_row *r = &case_experts_table[i];
	/* of four rows one has none, one all: what kind a row is otherwise does not matter to that */
	enum case_experts_packed packed = i % 4 < 2 ? CASE_EXPERTS_SOME : i % 4 == 2 ? CASE_EXPERTS_ALL : CASE_EXPERTS_NATIVE;
	enum dsv4_wfmt shared = r->shared_fmt == DSV4_N_WFMT ? s->wfmt : r->shared_fmt;
	struct dsv4_moe_experts *a = &c->args.moe_experts;

	*a = (struct dsv4_moe_experts){ .size = sizeof *a, .n_tok = case_n_tok(c, s, r->n_tok, CASE_MAX_TOK),
					.n_expert = r->n_expert, .dim = r->dim, .inter = r->inter, .k = r->k,
					.n_shared = r->n_shared,
					.act = r->act ? DSV4_ACT_FP8 : DSV4_ACT_NONE, .limit = r->limit,
					.out_scale = r->out_scale };
	if (!r->n_expert) {
		a->n_expert = s->shape->experts;
		a->dim = s->shape->hidden;
		a->inter = r->inter < s->shape->inter ? r->inter : s->shape->inter;
		a->k = s->shape->experts_per_tok;
	}
	if (a->k < 0)
		a->k = a->n_expert;
	if (a->k < 1 || a->k > a->n_expert || a->dim < 1 || a->inter < 1 || !case_experts_wanted(s, r))
		return CASE_SKIP;
	c->step = r->act ? case_step(DSV4_ROUND_FP8) : 0;
	a->expert = case_experts_array(c, s->wfmt, r->f32_scale, a->n_expert, CASE_EXPERTS_DISTINCT);
	a->shared = case_experts_array(c, shared, r->f32_scale, a->n_shared, a->n_shared);
	if (!c->rc)
		case_experts_scale(c, r->scales);
	case_experts_pack(c, packed, CASE_EXPERTS_DISTINCT);
	case_experts_leave(c, r->here);
	case_experts_tokens(c, r->who, r->values);
	case_name(c, "%d tok, %d of %d experts%s, %d shared, %d x %d, act %s%s%s%s, limit %g, %s", a->n_tok, a->k,
		a->n_expert, here[r->here], a->n_shared, a->dim, a->inter, r->act ? "fp8" : "none",
		r->f32_scale ? ", f32 scales" : "", scales[r->scales],
		a->packed ? packed == CASE_EXPERTS_ALL ? ", repacked" : ", some repacked" : "", (double)a->limit,
		case_values_name(r->values));
	return c->rc;
}

#define CASE_EXPERTS_BENCH_BYTES 2.5e8

/* As many experts of their own as fit: more than any cache holds, fewer than the model has. */
static int case_experts_bench(struct check_case *c, const struct case_spec *s)
{
	static const double bytes_of[DSV4_N_WFMT] = { 4, 2, 1, 0.5, 0.5 };
	const struct check_shape *h = s->shape;
	double bytes = 3 * bytes_of[s->wfmt] * h->inter * h->hidden;
	int fit = bytes > 0 ? (int)fmin(CASE_EXPERTS_BENCH_BYTES / bytes, 1e6) : 0;
	struct dsv4_moe_experts *a = &c->args.moe_experts;

	*a = (struct dsv4_moe_experts){ .size = sizeof *a, .n_tok = s->n_tok, .n_expert = h->experts,
					.dim = h->hidden, .inter = h->inter, .k = h->experts_per_tok,
					.n_shared = h->shared, .act = DSV4_ACT_FP8, .limit = 10, .out_scale = 1 };
	a->expert = case_experts_array(c, s->wfmt, false, a->n_expert, fit < 2 ? 2 : fit);
	a->shared = case_experts_array(c, s->wfmt, false, a->n_shared, a->n_shared);
	if (s->packed)
		case_experts_pack(c, CASE_EXPERTS_ALL, fit < 2 ? 2 : fit);
	case_experts_tokens(c, CASE_EXPERTS_ANY, CASE_PLAIN);
	return c->rc;
}

static void case_experts_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_moe_experts *a = &u->moe_experts;

	(void)mem;
	a->n_tok = (int32_t)n;
	a->x += t0 * a->dim;
	a->y += t0 * a->dim;
	a->ids += t0 * a->k;
	a->weight += t0 * a->k;
}

const struct case_op case_moe_experts = {
	.n = mem_countof(case_experts_table),
	.make = case_experts_make,
	.bench = case_experts_bench,
	.slice = case_experts_slice,
	.native = case_experts_native,
	.weighted = true,
};
