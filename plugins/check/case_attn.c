/* SPDX-License-Identifier: MIT
 * case_attn.c - cases of attention: windows, pages, lists of rows, sinks, several sequences.
 * Threads: one per case. Locks: none.
 *
 * What a token must not see is NaN: window rows before every window, compressed rows after the last visible one,
 * and those in nobody's list. */
#include "plugins/check/case.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdlib.h>

enum case_attn_rows { CASE_ATTN_ALL, CASE_ATTN_LIST, CASE_ATTN_NONE };
enum case_attn_sink { CASE_ATTN_SINK, CASE_ATTN_NO_SINK, CASE_ATTN_BIG_SINK };

/* dim 0: heads, dim and window (and of a list its length) are the shape's. n_tok: of each sequence, one in DECODE.
 * slack: window rows more than needed. page_rows 0: those of 128 tokens. */
static const struct case_attn_row {
	int dim, n_head, window, n_seq, n_tok;
	int64_t pos0;
	int ratio, page_rows;
	enum case_attn_rows rows;
	int list, slack;
	enum case_attn_sink sink;
	bool bf16, quick;
	enum case_values values;
} case_attn_table[] = {
	/* a model's sizes: no, every and chosen compressed rows */
	{ 0, 0, 0, 1, 2, 300, 0, 0, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_PLAIN },
	{ 0, 0, 0, 1, 2, 1279, 128, 0, CASE_ATTN_ALL, 0, 3, 0, false, true, CASE_PLAIN },
	{ 0, 0, 0, 1, 2, 3071, 4, 0, CASE_ATTN_LIST, 0, 0, 0, false, true, CASE_PLAIN },
	{ 0, 0, 0, 2, 1, 200, 4, 0, CASE_ATTN_ALL, 0, 0, 0, true, true, CASE_PLAIN },
	{ 0, 0, 0, 3, 3, 2600, 4, 0, CASE_ATTN_LIST, 0, 5, 0, true, false, CASE_PLAIN },
	{ 0, 0, 0, 8, 1, 900, 4, 0, CASE_ATTN_LIST, 0, 0, 0, false, false, CASE_PLAIN },
	{ 0, 0, 0, 1, 20, 0, 4, 0, CASE_ATTN_ALL, 0, 0, 0, false, false, CASE_PLAIN },
	/* sizes of none: the start of a sequence, one row, ends of blocks of 64 rows and of vectors */
	{ 8, 1, 1, 1, 1, 0, 0, 1, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_PLAIN },
	{ 7, 3, 4, 2, 9, 0, 4, 1, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_PLAIN },
	{ 33, 2, 5, 3, 7, 11, 4, 3, CASE_ATTN_ALL, 0, 2, 0, false, true, CASE_PLAIN },
	{ 65, 5, 64, 1, 5, 63, 0, 1, CASE_ATTN_ALL, 0, 1, 0, false, true, CASE_PLAIN },
	{ 40, 3, 63, 2, 4, 260, 2, 7, CASE_ATTN_LIST, 65, 0, 0, false, true, CASE_PLAIN },
	{ 129, 1, 16, 2, 6, 1030, 4, 32, CASE_ATTN_LIST, 48, 0, 0, true, true, CASE_PLAIN },
	{ 48, 4, 8, 5, 3, 700, 1, 128, CASE_ATTN_LIST, 200, 9, 0, false, true, CASE_PLAIN },
	{ 31, 2, 8, 4, 3, 400, 128, 1, CASE_ATTN_ALL, 0, 0, 0, true, true, CASE_PLAIN },
	{ 24, 9, 3, 1, 40, 0, 4, 5, CASE_ATTN_ALL, 0, 0, 0, false, false, CASE_PLAIN },
	{ 64, 2, 4, 40, 1, 50, 4, 8, CASE_ATTN_LIST, 3, 0, 0, false, false, CASE_PLAIN },
	/* any number of tokens; in DECODE of sequences */
	{ 12, 2, 6, 1, CASE_N_TOK_ANY, 9, 4, 4, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_PLAIN },
	{ 16, 1, 4, 1, CASE_N_TOK_ANY, 40, 4, 8, CASE_ATTN_LIST, 5, 0, 0, false, true, CASE_PLAIN },
	/* nothing chosen, and no token at all */
	{ 33, 2, 5, 2, 4, 100, 4, 3, CASE_ATTN_NONE, 0, 0, 0, false, true, CASE_PLAIN },
	{ 33, 2, 5, 0, 0, 0, 4, 3, CASE_ATTN_NONE, 0, 0, 0, false, true, CASE_PLAIN },
	/* sinks that weigh nothing, and everything */
	{ 33, 4, 5, 2, 4, 100, 4, 3, CASE_ATTN_ALL, 0, 0, CASE_ATTN_NO_SINK, false, true, CASE_PLAIN },
	{ 33, 4, 5, 2, 4, 100, 4, 3, CASE_ATTN_LIST, 9, 0, CASE_ATTN_BIG_SINK, false, true, CASE_PLAIN },
	{ 33, 4, 5, 2, 4, 100, 4, 3, CASE_ATTN_ALL, 0, 0, CASE_ATTN_NO_SINK, true, true, CASE_PLAIN },
	/* values; equal scores everywhere for zeroes */
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_ZERO },
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_ALL, 0, 0, CASE_ATTN_NO_SINK, false, true, CASE_SIGNED_ZERO },
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_LIST, 20, 0, 0, false, true, CASE_DENORMAL },
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_LIST, 20, 0, CASE_ATTN_NO_SINK, false, true, CASE_LARGE },
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_ALL, 0, 0, 0, true, true, CASE_LARGE },
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_MIXED },
	{ 40, 3, 70, 2, 4, 260, 4, 7, CASE_ATTN_ALL, 0, 0, 0, false, true, CASE_HUGE },
};

#define CASE_ATTN_SCALE 2.5f /* of q and rows: scores of two or three, so that some rows count and none rules */

/* What all sequences of a case share. */
struct case_attn_plan {
	int64_t n_tok, pos0, page_rows, slack;
	int ratio;
	enum case_values values;
};

static int64_t case_attn_visible(const struct dsv4_seq *s, int64_t t)
{
	return s->ratio > 0 ? (s->pos0 + t - s->tok0 + 1) / s->ratio : 0;
}

/* One more sequence at the end of the batch. Rows nobody sees are NaN. */
static void case_attn_seq(struct check_case *c, struct dsv4_seq *s, const struct case_attn_plan *p)
{
	struct dsv4_attn *a = &c->args.attn;
	int64_t first = p->pos0 - a->window + 1, n_kv = p->ratio ? (p->pos0 + p->n_tok) / p->ratio : 0, extra;
	float *window;

	first = first > 0 ? first : 0;
	extra = p->slack < first ? p->slack : first;
	*s = (struct dsv4_seq){ .size = sizeof *s, .tok0 = a->n_tok, .n_tok = (int32_t)p->n_tok, .ratio = p->ratio,
				.pos0 = p->pos0, .window_pos0 = first - extra };
	window = case_floats(c, (p->pos0 + p->n_tok - s->window_pos0) * a->dim, p->values, CASE_ATTN_SCALE);
	for (int64_t i = 0; window && i < extra * a->dim; i++)
		window[i] = NAN;
	s->window = window;
	if (p->ratio)
		case_rows(c, &s->kv, n_kv + (p->slack > 0), a->dim, p->page_rows, p->values, CASE_ATTN_SCALE);
	s->key = (struct dsv4_rows){ .size = sizeof s->key };
	a->n_tok += s->n_tok;
}

static float *case_attn_row_at(const struct dsv4_rows *r, int64_t i)
{
	const float *page = r->page[i / r->page_rows] + i % r->page_rows * r->dim;

	return (float *)(uintptr_t)page;
}

/* Compressed rows that no token was given become NaN; seen[i]: row i was. */
static void case_attn_spoil(const struct dsv4_seq *s, const uint8_t *seen)
{
	for (int64_t i = 0; i < s->kv.n; i++)
		for (uint32_t d = 0; !seen[i] && d < s->kv.dim; d++)
			case_attn_row_at(&s->kv, i)[d] = NAN;
}

/* Chooses up to `most` of n rows, rising; returns how many. */
static int32_t case_attn_choose(struct check_case *c, int32_t *rows, int64_t n, int64_t most, uint8_t *seen)
{
	int64_t want = most < n ? most : n;
	int32_t count = 0;

	for (int64_t i = 0; i < n; i++)
		if (case_below(c, n - i) < want - count) {
			rows[count++] = (int32_t)i;
			seen[i] = 1;
		}
	return count;
}

static void case_attn_seen(struct check_case *c, const struct dsv4_seq *s, int32_t *rows, int32_t *count,
	int64_t most)
{
	uint8_t *seen = mem_new((size_t)s->kv.n + 1);

	for (int64_t t = s->tok0; t < s->tok0 + s->n_tok; t++) {
		int64_t n = case_attn_visible(s, t);

		if (rows)
			count[t] = case_attn_choose(c, rows + t * c->args.attn.ldr, n, most, seen);
		else
			for (int64_t i = 0; i < n; i++)
				seen[i] = 1;
	}
	case_attn_spoil(s, seen);
	free(seen);
}

/* rows and count, and NaN where nobody looks. */
static void case_attn_lists(struct check_case *c, enum case_attn_rows how, int64_t most)
{
	struct dsv4_attn *a = &c->args.attn;
	int32_t *rows = NULL, *count = NULL;

	if (how != CASE_ATTN_ALL) {
		a->ldr = most + 1;
		a->rows = rows = case_alloc(c, (size_t)(a->n_tok * a->ldr) * sizeof *rows, sizeof *rows);
		a->count = count = case_alloc(c, (size_t)a->n_tok * sizeof *count, sizeof *count);
	}
	for (int64_t i = 0; rows && count && i < a->n_tok * a->ldr; i++)
		rows[i] = INT32_MAX; /* entries past the count are nobody's */
	for (int32_t i = 0; !c->rc && i < a->n_seq; i++)
		case_attn_seen(c, &a->seq[i], rows, count, how == CASE_ATTN_NONE ? 0 : most);
}

static void case_attn_sinks(struct check_case *c, enum case_attn_sink how)
{
	struct dsv4_attn *a = &c->args.attn;
	float *sink = case_floats(c, a->n_head, CASE_PLAIN, 4);

	for (int32_t h = 0; sink && h < a->n_head; h++)
		if (how == CASE_ATTN_NO_SINK)
			sink[h] = h % 2 ? -INFINITY : -1e30f;
		else if (how == CASE_ATTN_BIG_SINK)
			sink[h] = h % 2 ? 60 : 1e4f; /* exp() of one still is a number */
	a->sink = sink;
}

/* The rest of a call whose n_head, dim, window, n_seq and prec are set: every second sequence is shorter. */
static void case_attn_fill(struct check_case *c, const struct case_attn_plan *plan, enum case_attn_rows how,
	int64_t most, enum case_attn_sink sink)
{
	struct dsv4_attn *a = &c->args.attn;
	struct dsv4_seq *seq = case_alloc(c, (size_t)a->n_seq * sizeof *seq, _Alignof(struct dsv4_seq));

	a->size = sizeof *a;
	a->scale = (float)(1.0 / sqrt((double)a->dim));
	a->seq = seq;
	for (int32_t i = 0; seq && i < a->n_seq; i++) {
		struct case_attn_plan p = *plan;

		p.pos0 = i % 2 ? p.pos0 / 3 : p.pos0 + i;
		case_attn_seq(c, &seq[i], &p);
	}
	a->q = case_floats(c, (int64_t)a->n_tok * a->n_head * a->dim, plan->values, CASE_ATTN_SCALE);
	case_attn_sinks(c, sink);
	case_attn_lists(c, how, most);
}

/* Scores of values far apart lie farther apart than 1 by their last bits: only the same order gets them right. */
static bool case_attn_wanted(const struct case_spec *s, const struct case_attn_row *r)
{
	bool far = r->values == CASE_LARGE || r->values == CASE_MIXED;

	return case_wanted(s, r->dim != 0, r->quick, r->values) && (!far || s->numerics == DSV4_EXACT);
}

static int case_attn_make(struct check_case *c, const struct case_spec *s, int i)
{
	static const char *const rows[] = { "all rows", "chosen rows", "no rows" };
	static const char *const sinks[] = { "", "no sink, ", "big sink, " };
	const struct case_attn_row *r = &case_attn_table[i];
	int most = r->list ? r->list : r->dim ? 0 : s->shape->index_topk, page = r->ratio ? 128 / r->ratio : 1;
	int n_tok = case_n_tok(c, s, r->n_tok, CASE_MAX_TOK), n_seq = r->n_seq;
	struct case_attn_plan p = { .n_tok = s->phase == DSV4_DECODE && n_tok > 1 ? 1 : n_tok,
				    .pos0 = r->pos0, .ratio = r->ratio, .slack = r->slack, .values = r->values,
				    .page_rows = r->page_rows ? r->page_rows : page };
	struct dsv4_attn *a = &c->args.attn;

	if (s->phase == DSV4_DECODE && r->n_tok == CASE_N_TOK_ANY)
		n_seq = n_tok;
	*a = (struct dsv4_attn){ .n_seq = n_seq, .prec = r->bf16 ? DSV4_PREC_BF16 : DSV4_PREC_FP32,
				 .n_head = r->dim ? r->n_head : s->shape->heads,
				 .dim = r->dim ? r->dim : s->shape->head_dim,
				 .window = r->dim ? r->window : s->shape->window };
	if (a->n_head < 1 || a->dim < 1 || a->window < 1 || !case_attn_wanted(s, r))
		return CASE_SKIP;
	/* A score on the other side of an edge, of 4 to 8 where it counts, moves its weight by a quarter of that step
	 * at most, and all of its head by about twice as much. */
	c->step = r->bf16 ? 2 * case_step(DSV4_ROUND_BF16) : 0;
	c->spread = a->dim;
	case_attn_fill(c, &p, r->rows, most, r->sink);
	case_name(c, "%d seq of %lld tok, %d x %d, window %d, ratio %d, %s, %s%s, %s", n_seq, (long long)p.n_tok,
		a->n_head, a->dim, a->window, r->ratio, rows[r->rows], sinks[r->sink], r->bf16 ? "bf16" : "fp32",
		case_values_name(r->values));
	return c->rc;
}

/* Where most of the work of a long context is: as many chosen rows as there can be. */
static int case_attn_bench(struct check_case *c, const struct case_spec *s)
{
	const struct check_shape *h = s->shape;
	bool decode = s->phase == DSV4_DECODE;
	struct case_attn_plan p = { .n_tok = decode ? 1 : s->n_tok, .pos0 = 12 * h->index_topk, .ratio = 4,
				    .page_rows = 32 };

	c->args.attn = (struct dsv4_attn){ .n_seq = decode ? s->n_tok : 1, .n_head = h->heads, .dim = h->head_dim,
					   .window = h->window };
	case_attn_fill(c, &p, CASE_ATTN_LIST, h->index_topk, CASE_ATTN_SINK);
	return c->rc;
}

static void case_attn_slice(union case_args *u, int64_t t0, int64_t n, struct dsv4_seq *mem)
{
	struct dsv4_attn *a = &u->attn;
	int64_t width = (int64_t)a->n_head * a->dim;

	a->n_seq = case_slice_seqs(a->seq, a->n_seq, t0, n, mem);
	a->seq = mem;
	a->n_tok = (int32_t)n;
	a->q += t0 * width;
	a->out += t0 * width;
	if (a->rows) {
		a->rows += t0 * a->ldr;
		a->count += t0;
	}
}

const struct case_op case_attn = {
	.n = mem_countof(case_attn_table),
	.make = case_attn_make,
	.bench = case_attn_bench,
	.slice = case_attn_slice,
};
