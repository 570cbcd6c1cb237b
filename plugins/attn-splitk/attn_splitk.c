/* SPDX-License-Identifier: MIT
 * attn_splitk.c - plugin attn-splitk: attention split over the row list, so that one token can use every thread.
 * Threads: engine calls, pool runs slices over (token, heads) or (token, heads, chunk). Locks: none.
 *
 * A token's list, window rows and then compressed rows, is cut every 64 entries, wherever that falls. Each chunk
 * has its own maximum, denominator and weighted rows; they are merged upwards from chunk 0, so an element's order
 * depends on its own list alone. Few tokens: chunks are computed side by side, and merged after; many: one after
 * the other. The arithmetic is one and the same.
 *
 * The tag "bf16-scores": scaled scores are rounded to bf16, and the weights where they meet the rows, not in
 * the denominator; weights stand relative to their chunk's maximum, where ref takes the running one.
 * Measured against ref at fp32 on the tiny model's own activations: relative error 2.8e-3 (worst single token
 * 8.2e-3), cosine above 0.99996. kcheck --bench on two busy cores: 1.3 to 1.6 times ref's speed for 32
 * tokens, 0.7 to 1.0 for one, which has no idle threads to win there. */
#include "plugins/dsv4_plugin.h"

#include <errno.h>
#include <stdbool.h>

#define ATTN_SPLITK_CHUNK 64 /* entries of a list; part of what the numbers are */
#define ATTN_SPLITK_HEADS 8  /* heads that share the rows they load */
#define ATTN_SPLITK_SPLIT 4  /* so many tokens or fewer: chunks run side by side */
#define ATTN_SPLITK_WIDE 32  /* channels summed at a time */

/* Four floats at any address: what every CPU that this runs on has registers for. */
typedef float attn_splitk_v4 __attribute__((vector_size(16), aligned(4), may_alias));

static int64_t attn_splitk_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static attn_splitk_v4 attn_splitk_load(const float *p)
{
	return *(const attn_splitk_v4 *)p;
}

/* ---- the list of a token ---- */

struct attn_splitk_list {
	const float *window; /* its first window row */
	int64_t n_window, n; /* window rows, all rows */
	const struct dsv4_rows *kv;
	const int32_t *rows; /* compressed rows, or NULL: 0, 1, 2... */
};

/* The sequence of token t, or NULL. */
static const struct dsv4_seq *attn_splitk_seq(const struct dsv4_attn *a, int64_t t)
{
	for (int32_t i = 0; i < a->n_seq; i++)
		if (t >= a->seq[i].tok0 && t < (int64_t)a->seq[i].tok0 + a->seq[i].n_tok)
			return &a->seq[i];
	return NULL;
}

/* n is 0 when t belongs to no sequence. */
static struct attn_splitk_list attn_splitk_list(const struct dsv4_attn *a, int64_t t)
{
	const struct dsv4_seq *s = attn_splitk_seq(a, t);
	struct attn_splitk_list l = { 0 };
	int64_t pos, first;

	if (!s)
		return l;
	pos = s->pos0 + t - s->tok0;
	first = pos - a->window + 1 > 0 ? pos - a->window + 1 : 0;
	l.window = s->window + (first - s->window_pos0) * a->dim;
	l.n_window = pos + 1 - first;
	l.kv = &s->kv;
	l.rows = a->rows ? a->rows + t * a->ldr : NULL;
	if (a->rows)
		l.n = l.n_window + a->count[t];
	else
		l.n = l.n_window + (s->ratio > 0 ? attn_splitk_min((pos + 1) / s->ratio, s->kv.n) : 0);
	return l;
}

static const float *attn_splitk_row(const struct attn_splitk_list *l, int64_t i, int64_t dim)
{
	if (i < l->n_window)
		return l->window + i * dim;
	i = l->rows ? l->rows[i - l->n_window] : i - l->n_window;
	return l->kv->page[i / l->kv->page_rows] + i % l->kv->page_rows * dim;
}

/* ---- one chunk ---- */

/* What a chunk, or all chunks so far, know of a head besides its weighted rows. */
struct attn_splitk_part {
	float top, den; /* maximum; sum of exp(score - top) */
};

/* A chunk's rows, and the weights of some heads for them. */
struct attn_splitk_chunk {
	int n, n_head;
	const float *row[ATTN_SPLITK_CHUNK];
	float weight[ATTN_SPLITK_HEADS][ATTN_SPLITK_CHUNK];
	struct attn_splitk_part part[ATTN_SPLITK_HEADS];
};

/* Sixteen lanes, then a tree. */
static float attn_splitk_dot(const float *a, const float *b, int64_t n)
{
	attn_splitk_v4 s[4] = { 0 };
	float sum = 0;
	int64_t k = 0;

	for (; k + 16 <= n; k += 16)
#pragma GCC unroll 4
		for (int v = 0; v < 4; v++)
			s[v] += attn_splitk_load(a + k + 4 * v) * attn_splitk_load(b + k + 4 * v);
	for (; k < n; k++)
		sum += a[k] * b[k];
	s[0] = (s[0] + s[2]) + (s[1] + s[3]);
	return ((s[0][0] + s[0][2]) + (s[0][1] + s[0][3])) + sum;
}

/* Scores of one head, turned into weights relative to the chunk's maximum. A chunk of nothing but -inf weighs
 * nothing. */
static void attn_splitk_weigh(const struct dsv4_attn *a, const float *q, struct attn_splitk_chunk *c, int h)
{
	struct attn_splitk_part *p = &c->part[h];
	float *w = c->weight[h], base;

	*p = (struct attn_splitk_part){ .top = -INFINITY };
	for (int i = 0; i < c->n; i++) {
		w[i] = dsv4_round_bf16(attn_splitk_dot(q, c->row[i], a->dim) * a->scale);
		p->top = fmaxf(p->top, w[i]);
	}
	base = p->top == -INFINITY ? 0 : p->top;
	for (int i = 0; i < c->n; i++) {
		float e = expf(w[i] - base);

		p->den += e;
		w[i] = dsv4_round_bf16(e);
	}
}

/* Entries [i0, i0 + ATTN_SPLITK_CHUNK) of the list for heads [h0, h0 + n_head) of token t. */
static void attn_splitk_chunk(const struct dsv4_attn *a, const struct attn_splitk_list *l, int64_t t, int64_t h0,
			      int64_t i0, struct attn_splitk_chunk *c)
{
	c->n = (int)attn_splitk_min(ATTN_SPLITK_CHUNK, l->n - i0);
	c->n_head = (int)attn_splitk_min(ATTN_SPLITK_HEADS, a->n_head - h0);
	for (int i = 0; i < c->n; i++)
		c->row[i] = attn_splitk_row(l, i0 + i, a->dim);
	for (int h = 0; h < c->n_head; h++)
		attn_splitk_weigh(a, a->q + (t * a->n_head + h0 + h) * a->dim, c, h);
}

/* Channels [d, d + n) of the chunk's weighted rows, n <= ATTN_SPLITK_WIDE; rows are added upwards. */
static void attn_splitk_sum(const struct attn_splitk_chunk *c, int h, int64_t d, int64_t n, float *restrict out)
{
	attn_splitk_v4 s[ATTN_SPLITK_WIDE / 4] = { 0 };

	if (n == ATTN_SPLITK_WIDE) {
		for (int i = 0; i < c->n; i++)
#pragma GCC unroll 8
			for (int v = 0; v < ATTN_SPLITK_WIDE / 4; v++)
				s[v] += c->weight[h][i] * attn_splitk_load(c->row[i] + d + 4 * v);
		memcpy(out, s, sizeof s);
		return;
	}
	memset(out, 0, (size_t)n * sizeof *out);
	for (int i = 0; i < c->n; i++)
		for (int64_t k = 0; k < n; k++)
			out[k] += c->weight[h][i] * c->row[i][d + k];
}

/* ---- merging ---- */

/* What multiplies the state and the chunk when the chunk joins; updates the state's maximum and denominator. */
static void attn_splitk_factors(struct attn_splitk_part *state, const struct attn_splitk_part *chunk, float f[2])
{
	float top = fmaxf(state->top, chunk->top), base = top == -INFINITY ? 0 : top;

	f[0] = expf(state->top - base);
	f[1] = expf(chunk->top - base);
	state->den = state->den * f[0] + chunk->den * f[1];
	state->top = top;
}

static void attn_splitk_merge(float *restrict out, const float *restrict chunk, int64_t n, const float f[2])
{
	for (int64_t d = 0; d < n; d++)
		out[d] = out[d] * f[0] + chunk[d] * f[1];
}

/* The sink joins the denominator, never the maximum. */
static void attn_splitk_finish(float *out, int64_t dim, const struct attn_splitk_part *state, float sink)
{
	float den = state->den + expf(sink - state->top);

	for (int64_t d = 0; d < dim; d++)
		out[d] /= den;
}

/* ---- many tokens: a slice goes through a list from chunk to chunk ---- */

static int64_t attn_splitk_groups(const struct dsv4_attn *a)
{
	return ((int64_t)a->n_head + ATTN_SPLITK_HEADS - 1) / ATTN_SPLITK_HEADS;
}

/* Adds a chunk to the state of its heads; out is that of the first. */
static void attn_splitk_join(const struct dsv4_attn *a, const struct attn_splitk_chunk *c,
			     struct attn_splitk_part *state, float *out)
{
	float f[ATTN_SPLITK_HEADS][2], sum[ATTN_SPLITK_WIDE];

	for (int h = 0; h < c->n_head; h++)
		attn_splitk_factors(&state[h], &c->part[h], f[h]);
	for (int64_t d = 0; d < a->dim; d += ATTN_SPLITK_WIDE) {
		int64_t n = attn_splitk_min(ATTN_SPLITK_WIDE, a->dim - d);

		for (int h = 0; h < c->n_head; h++) {
			attn_splitk_sum(c, h, d, n, sum);
			attn_splitk_merge(out + h * (int64_t)a->dim + d, sum, n, f[h]);
		}
	}
}

/* Slices count (token, group of heads). */
static void attn_splitk_whole_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_attn *a = arg;
	int64_t n_group = attn_splitk_groups(a);

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / n_group, h0 = i % n_group * ATTN_SPLITK_HEADS;
		struct attn_splitk_list l = attn_splitk_list(a, t);
		struct attn_splitk_part state[ATTN_SPLITK_HEADS];
		struct attn_splitk_chunk c = { 0 };
		float *out = a->out + (t * a->n_head + h0) * a->dim;

		if (l.n == 0)
			continue;
		for (int h = 0; h < ATTN_SPLITK_HEADS; h++)
			state[h] = (struct attn_splitk_part){ .top = -INFINITY };
		memset(out, 0, (size_t)(attn_splitk_min(ATTN_SPLITK_HEADS, a->n_head - h0) * a->dim) * sizeof *out);
		for (int64_t e = 0; e < l.n; e += ATTN_SPLITK_CHUNK) {
			attn_splitk_chunk(a, &l, t, h0, e, &c);
			attn_splitk_join(a, &c, state, out);
		}
		for (int h = 0; h < c.n_head; h++)
			attn_splitk_finish(out + h * (int64_t)a->dim, a->dim, &state[h], a->sink[h0 + h]);
	}
}

/* ---- few tokens: chunks side by side, merged when all are there ---- */

struct attn_splitk_split {
	const struct dsv4_attn *a;
	int64_t n_chunk;               /* of the longest list */
	struct attn_splitk_part *part; /* [n_tok][n_head][n_chunk] */
	float *sum;                    /* [n_tok][n_head][n_chunk][dim] */
};

/* Slices count (token, group of heads, chunk). */
static void attn_splitk_chunk_slice(void *arg, int64_t begin, int64_t end)
{
	const struct attn_splitk_split *s = arg;
	const struct dsv4_attn *a = s->a;
	int64_t n_group = attn_splitk_groups(a);

	for (int64_t i = begin; i < end; i++) {
		int64_t e = i % s->n_chunk, t = i / s->n_chunk / n_group;
		int64_t h0 = i / s->n_chunk % n_group * ATTN_SPLITK_HEADS;
		struct attn_splitk_list l = attn_splitk_list(a, t);
		struct attn_splitk_chunk c;

		if (e * ATTN_SPLITK_CHUNK >= l.n)
			continue;
		attn_splitk_chunk(a, &l, t, h0, e * ATTN_SPLITK_CHUNK, &c);
		for (int h = 0; h < c.n_head; h++) {
			int64_t at = (t * a->n_head + h0 + h) * s->n_chunk + e;

			s->part[at] = c.part[h];
			for (int64_t d = 0; d < a->dim; d += ATTN_SPLITK_WIDE)
				attn_splitk_sum(&c, h, d, attn_splitk_min(ATTN_SPLITK_WIDE, a->dim - d),
						s->sum + at * a->dim + d);
		}
	}
}

/* Slices count (token, head). */
static void attn_splitk_merge_slice(void *arg, int64_t begin, int64_t end)
{
	const struct attn_splitk_split *s = arg;
	const struct dsv4_attn *a = s->a;

	for (int64_t i = begin; i < end; i++) {
		struct attn_splitk_list l = attn_splitk_list(a, i / a->n_head);
		struct attn_splitk_part state = { .top = -INFINITY };
		float *out = a->out + i * a->dim, f[2];

		if (l.n == 0)
			continue;
		memset(out, 0, (size_t)a->dim * sizeof *out);
		for (int64_t e = 0; e * ATTN_SPLITK_CHUNK < l.n; e++) {
			int64_t at = i * s->n_chunk + e;

			attn_splitk_factors(&state, &s->part[at], f);
			attn_splitk_merge(out, s->sum + at * a->dim, a->dim, f);
		}
		attn_splitk_finish(out, a->dim, &state, a->sink[i % a->n_head]);
	}
}

/* False when there is no memory for it; nothing was computed then. */
static bool attn_splitk_run_split(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct attn_splitk_split s = { .a = a };
	size_t n;

	for (int64_t t = 0; t < a->n_tok; t++) {
		int64_t c = (attn_splitk_list(a, t).n + ATTN_SPLITK_CHUNK - 1) / ATTN_SPLITK_CHUNK;

		s.n_chunk = c > s.n_chunk ? c : s.n_chunk;
	}
	n = (size_t)a->n_tok * (size_t)a->n_head * (size_t)s.n_chunk;
	s.part = host->scratch(x, n * sizeof *s.part);
	s.sum = host->scratch(x, n * (size_t)a->dim * sizeof *s.sum);
	if (!s.part || !s.sum)
		return false;
	host->parallel_for(x, a->n_tok * attn_splitk_groups(a) * s.n_chunk, 1, attn_splitk_chunk_slice, &s);
	host->parallel_for(x, (int64_t)a->n_tok * a->n_head, ATTN_SPLITK_HEADS, attn_splitk_merge_slice, &s);
	return true;
}

/* ---- the op ---- */

/* Does the window of every token of s lie inside what s holds? */
static bool attn_splitk_seq_ok(const struct dsv4_attn *a, const struct dsv4_seq *s)
{
	int64_t first = s->pos0 - a->window + 1;

	return s->pos0 >= 0 && s->window && s->window_pos0 <= (first > 0 ? first : 0) &&
	       (s->kv.n == 0 || (s->kv.dim == (uint32_t)a->dim && s->kv.page_rows > 0));
}

static int attn_splitk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct dsv4_attn c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++)
		if (!attn_splitk_seq_ok(a, &a->seq[i]))
			return -EINVAL;
	if (a->n_tok <= ATTN_SPLITK_SPLIT && attn_splitk_run_split(x, host, a))
		return 0;
	host->parallel_for(x, a->n_tok * attn_splitk_groups(a), 1, attn_splitk_whole_slice, &c);
	return 0;
}

#define ATTN_SPLITK_OPS(OP) OP(attn, BOTH, ANY, LOSSY, "bf16-scores", attn_splitk)
DSV4_PLUGIN("attn-splitk", "1.0", "", "", ATTN_SPLITK_OPS, NULL, NULL, NULL)
