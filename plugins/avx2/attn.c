/* SPDX-License-Identifier: MIT
 * attn.c - attention of every head over window rows, then compressed rows, with a sink. doc/format.md 3.3.
 * Threads: engine calls, pool runs slices over (token, heads). Locks: none.
 *
 * The order of ref: blocks of 64 rows; per block the scores, the new running maximum, the sums so far
 * rescaled to it, then weights and rows added one by one. All heads read the same rows, so up to eight go
 * through a block together and find it in the first-level cache: eight rows at a time for the scores, 64
 * channels at a time for the sums. */
#include "plugins/avx2/avx2.h"
#include "plugins/avx2/vec.h"

#include <errno.h>
#include <stdbool.h>

#define ATTN_BLOCK 64
#define ATTN_HEADS 8
#define ATTN_WIDTH 64 /* channels summed at a time */

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
		l.n += avx2_visible(&s->kv, s->ratio, pos);
	}
	return l;
}

static const float *attn_row(const struct attn_list *l, int64_t i, int64_t dim)
{
	if (i < l->n_window)
		return l->window + i * dim;
	i -= l->n_window;
	return avx2_row(l->kv, l->rows ? l->rows[i] : i);
}

/* Some heads of one token on their way through the list, and the block they are at. */
struct attn_state {
	const struct dsv4_attn *a;
	int64_t first;       /* row of q and out of the first head */
	int n_head, n;       /* heads, rows of the block */
	const float *row[ATTN_BLOCK];
	float top[ATTN_HEADS], den[ATTN_HEADS], shrink[ATTN_HEADS];
	float score[ATTN_HEADS][ATTN_BLOCK], weight[ATTN_HEADS][ATTN_BLOCK];
	float part[ATTN_BLOCK][ATTN_WIDTH]; /* channels being summed, of every row */
};

/* q . row * scale of every head and row of the block. Past the block's end the last row is taken again. */
static void attn_scores(struct attn_state *st)
{
	const struct dsv4_attn *a = st->a;
	const float *row[8];

	for (int i = 0; i < st->n; i += 8) {
		for (int j = 0; j < 8; j++)
			row[j] = st->row[avx2_min(i + j, st->n - 1)];
		for (int h = 0; h < st->n_head; h++) {
			__m256 s = _mm256_mul_ps(avx2_dot8(a->q + (st->first + h) * a->dim, row, a->dim),
						 _mm256_set1_ps(a->scale));

			_mm256_storeu_ps(st->score[h] + i, a->prec == DSV4_PREC_BF16 ? avx2_bf16(s) : s);
		}
	}
}

/* Weights of the block's rows for one head, with the running maximum and denominator brought up to date. */
static void attn_weights(struct attn_state *st, int h)
{
	float top = st->top[h];

	for (int i = 0; i < st->n; i++)
		top = st->score[h][i] > top ? st->score[h][i] : top; /* NaN is passed over */
	st->shrink[h] = expf(st->top[h] - top);
	st->top[h] = top;
	st->den[h] *= st->shrink[h];
	for (int i = 0; i < st->n; i++) {
		float p = expf(st->score[h][i] - top);

		st->den[h] += p;
		st->weight[h][i] = st->a->prec == DSV4_PREC_BF16 ? dsv4_round_bf16(p) : p;
	}
}

/* Brings ATTN_WIDTH channels of one head's sums up to date. */
static void attn_add_wide(const struct attn_state *st, int h, int64_t d)
{
	float *out = st->a->out + (st->first + h) * st->a->dim + d;
	__m256 shrink = _mm256_set1_ps(st->shrink[h]), acc[ATTN_WIDTH / 8];

#pragma GCC unroll 8
	for (int j = 0; j < ATTN_WIDTH / 8; j++)
		acc[j] = _mm256_mul_ps(_mm256_loadu_ps(out + 8 * j), shrink);
	for (int i = 0; i < st->n; i++) {
		__m256 p = _mm256_set1_ps(st->weight[h][i]);
		const float *row = st->part[i];

#pragma GCC unroll 8
		for (int j = 0; j < ATTN_WIDTH / 8; j++)
			acc[j] = _mm256_add_ps(acc[j], _mm256_mul_ps(p, _mm256_loadu_ps(row + 8 * j)));
	}
#pragma GCC unroll 8
	for (int j = 0; j < ATTN_WIDTH / 8; j++)
		_mm256_storeu_ps(out + 8 * j, acc[j]);
}

/* The same for n <= 8 channels. */
static void attn_add_narrow(const struct attn_state *st, int h, int64_t d, int64_t n)
{
	float *out = st->a->out + (st->first + h) * st->a->dim + d;
	__m256 acc = _mm256_mul_ps(avx2_load(out, n), _mm256_set1_ps(st->shrink[h]));

	for (int i = 0; i < st->n; i++)
		acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_set1_ps(st->weight[h][i]),
						       avx2_load(st->row[i] + d, n)));
	avx2_store(out, n, acc);
}

static void attn_add(struct attn_state *st)
{
	int64_t d = 0;

	for (; d + ATTN_WIDTH <= st->a->dim; d += ATTN_WIDTH) {
		/* Rows a power of two apart fall on the same cache lines, so all heads read a copy. */
		for (int i = 0; i < st->n; i++)
			memcpy(st->part[i], st->row[i] + d, sizeof st->part[i]);
		for (int h = 0; h < st->n_head; h++)
			attn_add_wide(st, h, d);
	}
	for (; d < st->a->dim; d += 8)
		for (int h = 0; h < st->n_head; h++)
			attn_add_narrow(st, h, d, st->a->dim - d);
}

/* The sink joins the denominator at the end and never the maximum. */
static void attn_finish(const struct attn_state *st, int h, float sink)
{
	float *out = st->a->out + (st->first + h) * st->a->dim;
	__m256 den = _mm256_set1_ps(st->den[h] + expf(sink - st->top[h]));

	for (int64_t d = 0; d < st->a->dim; d += 8)
		avx2_store(out + d, st->a->dim - d, _mm256_div_ps(avx2_load(out + d, st->a->dim - d), den));
}

/* Heads [h0, h0 + n_head) of token t. */
static void attn_heads(const struct dsv4_attn *a, const struct dsv4_seq *s, int64_t t, int h0, int n_head)
{
	struct attn_list l = attn_list(a, s, t);
	struct attn_state st; /* large: not cleared */

	st.a = a;
	st.first = t * a->n_head + h0;
	st.n_head = n_head;
	for (int h = 0; h < n_head; h++) {
		st.top[h] = -INFINITY;
		st.den[h] = 0;
	}
	memset(a->out + st.first * a->dim, 0, (size_t)n_head * (size_t)a->dim * sizeof *a->out);
	for (int64_t e = 0; e < l.n; e += ATTN_BLOCK) {
		st.n = (int)avx2_min(ATTN_BLOCK, l.n - e);
		for (int i = 0; i < st.n; i++)
			st.row[i] = attn_row(&l, e + i, a->dim);
		attn_scores(&st);
		for (int h = 0; h < n_head; h++)
			attn_weights(&st, h);
		attn_add(&st);
	}
	for (int h = 0; h < n_head; h++)
		attn_finish(&st, h, a->sink[h0 + h]);
}

struct attn_call {
	const struct dsv4_attn *a;
	int heads, n_part; /* heads of an item, items of a token */
};

static void attn_slice(void *arg, int64_t begin, int64_t end)
{
	const struct attn_call *c = arg;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / c->n_part;
		int h0 = (int)(i % c->n_part) * c->heads;
		const struct dsv4_seq *s = avx2_seq(c->a->seq, c->a->n_seq, t);

		if (s)
			attn_heads(c->a, s, t, h0, (int)avx2_min(c->heads, c->a->n_head - h0));
	}
}

/* Does the window of every token of s lie inside what s holds? */
static bool attn_seq_ok(const struct dsv4_attn *a, const struct dsv4_seq *s)
{
	int64_t first = s->pos0 - a->window + 1;

	return s->pos0 >= 0 && s->window && s->window_pos0 <= (first > 0 ? first : 0) &&
	       (s->kv.n == 0 || (s->kv.dim == (uint32_t)a->dim && s->kv.page_rows > 0));
}

int avx2_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct attn_call c = { .a = a, .heads = ATTN_HEADS };

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++)
		if (!attn_seq_ok(a, &a->seq[i]))
			return -EINVAL;
	/* A few tokens are spread over the threads by cutting their heads finer. */
	while (c.heads > 1 && (int64_t)a->n_tok * (a->n_head / c.heads) < 2 * host->n_threads(x))
		c.heads /= 2;
	c.n_part = (a->n_head + c.heads - 1) / c.heads;
	host->parallel_for(x, (int64_t)a->n_tok * c.n_part, 1, attn_slice, &c);
	return 0;
}
