/* SPDX-License-Identifier: MIT
 * case_indexer.c - cases of index_score and index_topk.
 * Threads: one per case. Locks: none. */
#include "plugins/check/case.h"
#include "engine/base/mem.h"
#include "plugins/ref/vec.h"

#include <math.h>

/* ---- index_score ---- */

#define CASE_SCORE_RATIO 4

/* n_head 0: the shape's. Sequence i has n_tok + i % 4 tokens (DECODE: one; of any number, so many sequences), and
 * `rows` + 5 i rows before them, in pages of page_rows. */
static const struct case_score_row {
	int n_seq, n_tok, rows, page_rows, n_head, dim, k;
	bool quick;
	enum case_values q, key;
} case_score_table[] = {
	{ 1, 5, 60, 32, 0, 0, 0, true, CASE_PLAIN, CASE_PLAIN },
	{ 3, 2, 33, 32, 0, 0, 0, true, CASE_PLAIN, CASE_PLAIN },
	{ 4, 3, 25, 32, 0, 0, 32, true, CASE_PLAIN, CASE_PLAIN },
	{ 2, 4, 300, 32, 0, 0, 32, false, CASE_PLAIN, CASE_MIXED },
	{ 1, 9, 0, 32, 0, 0, 0, true, CASE_PLAIN, CASE_PLAIN },
	{ 3, 5, 30, 1, 3, 33, 0, true, CASE_PLAIN, CASE_PLAIN },
	{ 2, 3, 131, 64, 1, 7, 0, true, CASE_PLAIN, CASE_PLAIN },
	{ 2, 3, 17, 5, 5, 1, 0, false, CASE_PLAIN, CASE_PLAIN },
	{ 17, 1, 3, 4, 2, 64, 4, true, CASE_PLAIN, CASE_PLAIN },
	{ 60, 1, 0, 32, 4, 64, 0, false, CASE_PLAIN, CASE_PLAIN },
	{ 2, 70, 100, 32, 3, 32, 64, false, CASE_PLAIN, CASE_PLAIN },
	{ 1, CASE_N_TOK_ANY, 30, 8, 2, 16, 0, true, CASE_PLAIN, CASE_PLAIN },
	{ 1, CASE_N_TOK_ANY, 9, 32, 3, 24, 4, true, CASE_PLAIN, CASE_PLAIN },
	{ 0, 0, 0, 32, 4, 64, 0, true, CASE_PLAIN, CASE_PLAIN },
	/* what FP4 makes of keys and queries, which integers can multiply; and rows longer than these go */
	{ 1, 5, 200, 32, 0, 0, 0, true, CASE_FP4, CASE_FP4 },
	{ 3, 40, 133, 32, 5, 64, 0, true, CASE_FP4, CASE_FP4 },
	{ 2, 5, 70, 1, 3, 33, 8, true, CASE_FP4, CASE_FP4 },
	{ 1, CASE_N_TOK_ANY, 90, 8, 2, 16, 0, true, CASE_FP4, CASE_FP4 },
	{ 2, 3, 40, 32, 2, 256, 0, true, CASE_FP4, CASE_FP4 },
	{ 2, 3, 40, 32, 2, 257, 0, true, CASE_FP4, CASE_FP4 },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_PLAIN, CASE_FP4 },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_FP4, CASE_NAN },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_ZERO, CASE_PLAIN },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_SIGNED_ZERO, CASE_PLAIN },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_DENORMAL, CASE_PLAIN },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_PLAIN, CASE_LARGE },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_MIXED, CASE_MIXED },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_PLAIN, CASE_NAN },
	{ 2, 3, 40, 32, 4, 64, 16, false, CASE_NAN, CASE_PLAIN },
	{ 2, 3, 40, 32, 4, 64, 0, true, CASE_PLAIN, CASE_HUGE },
};

struct case_score_dims { int n_seq, n_tok, rows, page_rows, n_head, dim; bool grow; };

/* Rows that no token sees are no row's business: NaN. */
static void case_score_unseen(const struct dsv4_rows *r, int64_t seen)
{
	for (int64_t i = seen; i < r->n; i++)
		for (uint32_t d = 0; d < r->dim; d++)
			((float *)ref_row(r, i))[d] = NAN;
}

/* Every third sequence but the first has no compressed rows; each has two rows more than its last token sees. */
static int64_t case_score_seqs(struct check_case *c, const struct case_score_dims *d, enum case_values v,
			       struct dsv4_seq *seq, int32_t *ret_n_tok)
{
	int64_t most = 0;
	int32_t tok = 0;

	for (int i = 0; i < d->n_seq && !c->rc; i++) {
		struct dsv4_seq *s = &seq[i];
		int64_t pos0 = (int64_t)(d->rows + 5 * i) * CASE_SCORE_RATIO + case_below(c, CASE_SCORE_RATIO);
		int64_t seen;

		*s = (struct dsv4_seq){ .size = sizeof *s, .tok0 = tok, .pos0 = pos0 };
		s->n_tok = d->n_tok + (d->grow ? i % 4 : 0);
		s->ratio = i % 3 == 2 ? 0 : CASE_SCORE_RATIO;
		seen = s->ratio ? (pos0 + s->n_tok) / s->ratio : 0;
		case_rows(c, &s->key, seen + 2, d->dim, d->page_rows, v, 1);
		if (!c->rc)
			case_score_unseen(&s->key, seen);
		tok += s->n_tok;
		most = seen > most ? seen : most;
	}
	*ret_n_tok = tok;
	return most;
}

/* The root of the mean square of scores of these queries and head weights with keys within -1..1, were a head's sign no
 * more than a coin's: what rounding is in proportion to, where heads of both signs or a relu leave little. */
static float case_score_typical(const struct dsv4_index_score *a)
{
	double sum = 0;

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->n_head; i++)
		for (int64_t d = 0; d < a->dim; d++) {
			double q = (double)a->q[i * a->dim + d] * (double)a->w[i];

			sum += q * q / 6;
		}
	return a->n_tok ? a->scale * sqrtf((float)(sum / a->n_tok)) : 0;
}

static int case_score_args(struct check_case *c, const struct case_score_dims *d, int k, enum case_values q,
			   enum case_values key)
{
	struct dsv4_index_score *a = &c->args.index_score;
	struct dsv4_seq *seq = case_alloc(c, (size_t)d->n_seq * sizeof *seq, sizeof(void *));

	*a = (struct dsv4_index_score){ .size = sizeof *a, .n_head = d->n_head, .dim = d->dim, .n_seq = d->n_seq,
					.k = k, .seq = seq };
	a->lds = case_score_seqs(c, d, key, seq, &a->n_tok) + 3;
	a->scale = 1.0f / sqrtf((float)d->dim * (float)d->n_head);
	a->q = case_floats(c, (int64_t)a->n_tok * d->n_head * d->dim, q, 1);
	a->w = case_floats(c, (int64_t)a->n_tok * d->n_head, CASE_PLAIN, 1);
	if (!c->rc && q == CASE_PLAIN && key == CASE_PLAIN)
		c->typical = case_score_typical(a);
	return c->rc;
}

static int case_score_make(struct check_case *c, const struct case_spec *s, int i)
{
	const struct case_score_row *r = &case_score_table[i];
	struct case_score_dims d = { r->n_seq, case_n_tok(c, s, r->n_tok, CASE_MAX_TOK), r->rows, r->page_rows,
				     r->n_head, r->dim, s->phase == DSV4_PREFILL };
	bool odd = r->n_head != 0;

	if (s->phase == DSV4_DECODE) {
		d.n_seq = r->n_tok == CASE_N_TOK_ANY ? d.n_tok : r->n_seq;
		d.n_tok = 1;
	}
	if (!odd) {
		d.n_head = s->shape->index_heads;
		d.dim = s->shape->index_dim;
	}
	if (d.n_head < 1 || !case_wanted(s, odd, r->quick, r->q) || !case_wanted(s, odd, r->quick, r->key))
		return CASE_SKIP;
	if (s->numerics == DSV4_LOSSY && r->rows == 0)
		return CASE_SKIP; /* a few scores do not average */
	case_name(c, "%d sequences from %d rows, %d heads of %d, pages of %d, k %d, q %s, keys %s", d.n_seq, d.rows,
		  d.n_head, d.dim, d.page_rows, r->k, case_values_name(r->q), case_values_name(r->key));
	return case_score_args(c, &d, r->k, r->q, r->key);
}

static int case_score_bench(struct check_case *c, const struct case_spec *s)
{
	const struct case_score_dims d = { 1, s->n_tok, 2048, 32, s->shape->index_heads, s->shape->index_dim, false };

	return case_score_args(c, &d, 0, CASE_FP4, CASE_FP4); /* the published numerics */
}

static void case_score_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_index_score *a = &u->index_score;

	a->n_seq = case_slice_seqs(a->seq, a->n_seq, t0, n, mem);
	a->seq = mem;
	a->n_tok = (int32_t)n;
	a->q += t0 * a->n_head * a->dim;
	a->w += t0 * a->n_head;
	a->score += t0 * a->lds;
}

static int64_t case_score_seen(const struct dsv4_index_score *a, int64_t t)
{
	const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);

	return s ? ref_visible(&s->key, s->ratio, s->pos0 + t - s->tok0) : 0;
}

/* A token that sees no more than k rows may be scored or not. */
static int64_t case_score_may_write(const union case_args *u, int which, int64_t t)
{
	(void)which;
	return case_score_seen(&u->index_score, t);
}

const struct case_op case_index_score = {
	.n = mem_countof(case_score_table),
	.make = case_score_make,
	.bench = case_score_bench,
	.slice = case_score_slice,
	.may_write = case_score_may_write,
};

/* ---- index_topk ---- */

/* What the scores of a token are like. */
enum case_topk_scores {
	CASE_TOPK_PLAIN,
	CASE_TOPK_TIES,    /* few values */
	CASE_TOPK_EQUAL,   /* one value, and a few lower ones */
	CASE_TOPK_ODD,     /* NaN, infinities, both zeros, denormals */
	CASE_TOPK_NONE,    /* no scores: none is needed */
};

/* k 0: the shape's. Token t sees n_vis - 7 t rows, but at least none. */
static const struct case_topk_row {
	int n_tok, k, n_vis, gap;
	bool quick;
	enum case_topk_scores scores;
} case_topk_table[] = {
	{ 3, 0, 2000, 0, true, CASE_TOPK_PLAIN }, { 4, 0, 1500, 5, true, CASE_TOPK_TIES },
	{ 5, 0, 530, 0, false, CASE_TOPK_ODD },	  { 3, 0, 30, 0, true, CASE_TOPK_NONE },
	{ 7, 1, 40, 0, true, CASE_TOPK_PLAIN },	  { 7, 1, 40, 0, true, CASE_TOPK_EQUAL },
	{ 9, 2, 33, 3, true, CASE_TOPK_ODD },	  { 9, 17, 65, 1, true, CASE_TOPK_TIES },
	{ 9, 17, 65, 1, true, CASE_TOPK_EQUAL },  { 5, 32, 60, 0, true, CASE_TOPK_ODD },
	{ 5, 299, 300, 0, true, CASE_TOPK_TIES }, { 5, 300, 300, 7, false, CASE_TOPK_ODD },
	{ 3, 0, 4096, 0, false, CASE_TOPK_EQUAL }, { 0, 32, 64, 0, true, CASE_TOPK_PLAIN },
	{ CASE_N_TOK_ANY, 3, 900, 0, true, CASE_TOPK_PLAIN },
	{ CASE_N_TOK_ANY, 8, 300, 1, true, CASE_TOPK_TIES },
	{ 9, 3, 20, 0, true, CASE_TOPK_ODD },	  { 5, 32, 4100, 0, false, CASE_TOPK_ODD },
};

static float case_topk_score(struct check_case *c, enum case_topk_scores s)
{
	static const float odd[] = { NAN,    INFINITY, -INFINITY, 0.0f,	 -0.0f, 1e-45f,
				     -1e-45f, 3e38f,	-3e38f,	   1.0f };

	switch (s) {
	case CASE_TOPK_TIES:
		return truncf(case_uniform(c, -6, 6));
	case CASE_TOPK_EQUAL:
		return case_below(c, 5) ? 0.25f : -1.0f;
	case CASE_TOPK_ODD:
		return odd[case_below(c, (int64_t)mem_countof(odd))];
	default:
		return case_uniform(c, -10, 10);
	}
}

static int case_topk_args(struct check_case *c, const struct case_topk_row *r, int n_tok, int k)
{
	struct dsv4_index_topk *a = &c->args.index_topk;
	int32_t *n_vis = case_alloc(c, (size_t)n_tok * sizeof *n_vis, sizeof *n_vis);
	float *score;

	*a = (struct dsv4_index_topk){ .size = sizeof *a, .n_tok = n_tok, .k = k, .n_vis = n_vis };
	a->lds = r->n_vis + r->gap;
	a->ldr = k + r->gap;
	for (int t = 0; n_vis && t < n_tok; t++)
		n_vis[t] = r->n_vis > 7 * t ? r->n_vis - 7 * t : 0;
	if (r->scores == CASE_TOPK_NONE)
		return c->rc;
	a->score = score = case_alloc(c, (size_t)n_tok * (size_t)a->lds * sizeof *score, sizeof *score);
	for (int64_t i = 0; score && i < n_tok * a->lds; i++)
		score[i] = i % a->lds < n_vis[i / a->lds] ? case_topk_score(c, r->scores) : INFINITY;
	return c->rc;
}

static int case_topk_make(struct check_case *c, const struct case_spec *s, int i)
{
	static const char *const names[] = { "plain", "ties", "equal", "odd", "no" };
	const struct case_topk_row *r = &case_topk_table[i];
	int k = r->k ? r->k : s->shape->index_topk, n_tok = case_n_tok(c, s, r->n_tok, CASE_MAX_TOK);

	if (k < 1 || !case_wanted(s, r->k != 0, r->quick, CASE_PLAIN))
		return CASE_SKIP;
	if (s->numerics == DSV4_LOSSY && (r->scores == CASE_TOPK_ODD || r->scores == CASE_TOPK_EQUAL))
		return CASE_SKIP;
	case_name(c, "%d tokens, %d of %d rows, %s scores", n_tok, k, r->n_vis, names[r->scores]);
	return case_topk_args(c, r, n_tok, k);
}

static int case_topk_bench(struct check_case *c, const struct case_spec *s)
{
	const struct case_topk_row r = { .n_vis = 4096 + 7 * s->n_tok };

	return s->shape->index_topk < 1 ? CASE_SKIP : case_topk_args(c, &r, s->n_tok, s->shape->index_topk);
}

static void case_topk_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_index_topk *a = &u->index_topk;

	(void)mem;
	a->n_tok = (int32_t)n;
	a->n_vis += t0;
	a->score = a->score ? a->score + t0 * a->lds : NULL;
	a->rows += t0 * a->ldr;
	a->count += t0;
}

static double case_topk_rank(const union case_args *u, int64_t t, int32_t id)
{
	const struct dsv4_index_topk *a = &u->index_topk;

	return id >= 0 && id < a->n_vis[t] && a->score ? (double)a->score[t * a->lds + id] : NAN;
}

const struct case_op case_index_topk = {
	.n = mem_countof(case_topk_table),
	.make = case_topk_make,
	.bench = case_topk_bench,
	.slice = case_topk_slice,
	.rank = case_topk_rank,
};
