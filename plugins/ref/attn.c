/* SPDX-License-Identifier: MIT
 * attn.c - attention of every head over window rows, then compressed rows, with a sink. doc/format.md 3.3.
 * Threads: engine calls, pool runs slices over (token, head). Locks: none.
 *
 * The list of a token is its window rows by rising position, then its compressed rows by rising number, in
 * blocks of 64. Per block: scores, the new running maximum, sums so far rescaled to it, then weights and rows
 * added one by one. The sink joins the denominator at the end and never the maximum. prec BF16 rounds the
 * scaled scores, and the weights where they meet the rows, not in the denominator. */
#include "plugins/ref/ref.h"
#include "plugins/ref/vec.h"

#include <errno.h>
#include <stdbool.h>

#define ATTN_BLOCK 64

/* What one token attends to. */
struct attn_list {
	const float *window; /* its first window row */
	int64_t n_window, n; /* window rows, all rows */
	const struct dsv4_rows *kv;
	const int32_t *rows; /* compressed rows, or NULL: 0, 1, 2... */
};

static struct attn_list attn_list(const struct dsv4_attn *a, const struct dsv4_seq *s, int64_t t)
{
	int64_t pos = s->pos0 + t - s->tok0, first = pos - a->window + 1;
	struct attn_list l = { .kv = &s->kv };

	if (first < 0)
		first = 0;
	l.window = s->window + (first - s->window_pos0) * a->dim;
	l.n_window = pos + 1 - first;
	l.n = l.n_window;
	if (a->rows) {
		l.rows = a->rows + t * a->ldr;
		l.n += a->count[t];
	} else {
		l.n += ref_visible(&s->kv, s->ratio, pos);
	}
	return l;
}

static const float *attn_row(const struct attn_list *l, int64_t i, int64_t dim)
{
	if (i < l->n_window)
		return l->window + i * dim;
	i -= l->n_window;
	return ref_row(l->kv, l->rows ? l->rows[i] : i);
}

/* One head of one token on its way through the list. */
struct attn_state {
	const float *q;
	float top, den; /* running maximum; sum of exp(score - top) */
	float *out;     /* weighted rows so far */
};

/* Adds entries [i0, i0 + n) of the list to the state. */
static void attn_block(const struct dsv4_attn *a, const struct attn_list *l, int64_t i0, int64_t n,
		       struct attn_state *st)
{
	const float *row[ATTN_BLOCK];
	float score[ATTN_BLOCK], top = st->top, shrink, *out = st->out;

	for (int64_t i = 0; i < n; i++) {
		row[i] = attn_row(l, i0 + i, a->dim);
		score[i] = ref_dot(st->q, row[i], a->dim) * a->scale;
		if (a->prec == DSV4_PREC_BF16)
			score[i] = dsv4_round_bf16(score[i]);
		top = fmaxf(top, score[i]);
	}
	shrink = expf(st->top - top);
	st->top = top;
	st->den *= shrink;
	for (int64_t d = 0; d < a->dim; d++)
		out[d] *= shrink;
	for (int64_t i = 0; i < n; i++) {
		float p = expf(score[i] - top);

		st->den += p;
		ref_axpy(out, a->prec == DSV4_PREC_BF16 ? dsv4_round_bf16(p) : p, row[i], a->dim);
	}
}

/* Slices count rows of out: token-major, then heads. */
static void attn_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_attn *a = arg;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / a->n_head;
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);
		float *out = a->out + i * a->dim;
		struct attn_state st = { .q = a->q + i * a->dim, .top = -INFINITY, .out = out };
		struct attn_list l;

		if (!s)
			continue;
		l = attn_list(a, s, t);
		memset(out, 0, (size_t)a->dim * sizeof *out);
		for (int64_t e = 0; e < l.n; e += ATTN_BLOCK)
			attn_block(a, &l, e, ref_min(ATTN_BLOCK, l.n - e), &st);
		st.den += expf(a->sink[i % a->n_head] - st.top);
		for (int64_t d = 0; d < a->dim; d++)
			out[d] /= st.den;
	}
}

/* Does the window of every token of s lie inside what s holds? */
static bool attn_seq_ok(const struct dsv4_attn *a, const struct dsv4_seq *s)
{
	int64_t first = s->pos0 - a->window + 1;

	return s->pos0 >= 0 && s->window && s->window_pos0 <= (first > 0 ? first : 0) &&
	       (s->kv.n == 0 || (s->kv.dim == (uint32_t)a->dim && s->kv.page_rows > 0));
}

int ref_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct dsv4_attn c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++)
		if (!attn_seq_ok(a, &a->seq[i]))
			return -EINVAL;
	host->parallel_for(x, (int64_t)a->n_tok * a->n_head, 1, attn_slice, &c);
	return 0;
}
