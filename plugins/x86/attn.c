/* SPDX-License-Identifier: MIT
 * attn.c - attention of every head over window rows, then compressed rows, with a sink. doc/format.md 3.3.
 * Threads: engine calls, pool runs slices over (token, heads). Locks: none.
 *
 * As ref, in blocks of 64 rows: per block the scores, the new running maximum, the sums so far rescaled to it, then
 * weights and rows added one by one. All heads read the same rows, so several go through a block together, and
 * registers hold a tile: VEC_COLS heads by four rows of scores, VEC_COLS heads by four vectors of channels of sums. */
#include "plugins/x86/vec.h"
#include "plugins/x86/x86.h"

#include <errno.h>
#include <stdbool.h>

#define ATTN_BLOCK 64
#define ATTN_HEADS 32
#define ATTN_QUERIES 8             /* heads whose queries stay in the first-level cache with four rows */
#define ATTN_WIDTH (4 * VEC_LANES) /* channels summed at a time */

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
		l.n += x86_visible(&s->kv, s->ratio, pos);
	}
	return l;
}

static const float *attn_row(const struct attn_list *l, int64_t i, int64_t dim)
{
	if (i < l->n_window)
		return l->window + i * dim;
	i -= l->n_window;
	return x86_row(l->kv, l->rows ? l->rows[i] : i);
}

/* Some heads of one token on their way through the list, and the block they are at. */
struct attn_state {
	const struct dsv4_attn *a;
	int64_t first;       /* row of q and out of the first head */
	int n_head, n;       /* heads, rows of the block */
	const float *row[ATTN_BLOCK];
	float top[ATTN_HEADS], den[ATTN_HEADS], shrink[ATTN_HEADS];
	float score[ATTN_HEADS][ATTN_BLOCK]; /* then weights */
	float part[ATTN_BLOCK][ATTN_WIDTH];  /* channels being summed, of every row */
};

/* q . rows [i, i + VEC_ROWS) of heads [h, end). A tile past the last head or row takes that one again. */
static void attn_score_rows(struct attn_state *st, int i, int h, int end)
{
	const struct dsv4_attn *a = st->a;
	const float *q[VEC_COLS], *row[VEC_ROWS];
	float tile[VEC_LANES];

	for (int r = 0; r < VEC_ROWS; r++)
		row[r] = st->row[x86_min(i + r, st->n - 1)];
	for (; h < end; h += VEC_COLS) {
		for (int c = 0; c < VEC_COLS; c++)
			q[c] = a->q + (st->first + x86_min(h + c, end - 1)) * a->dim;
		vec_store(tile, VEC_LANES, vec_dots(q, row, a->dim));
		for (int c = 0; c < VEC_COLS && h + c < end; c++)
			memcpy(st->score[h + c] + i, tile + c * VEC_ROWS, VEC_ROWS * sizeof *tile);
	}
}

/* Rows lie anywhere: those of the next block are on their way while this one is computed. */
static void attn_prefetch(const float *row, int64_t dim)
{
	for (int64_t k = 0; k < dim; k += 64 / (int64_t)sizeof *row)
		__builtin_prefetch(row + k, 0, 2);
}

static void attn_scores(struct attn_state *st, const struct attn_list *l, int64_t next)
{
	for (int h = 0; h < st->n_head; h += ATTN_QUERIES)
		for (int i = 0; i < st->n; i += VEC_ROWS) {
			for (int64_t r = next + i; h == 0 && r < next + i + VEC_ROWS && r < l->n; r++)
				attn_prefetch(attn_row(l, r, st->a->dim), st->a->dim);
			attn_score_rows(st, i, h, (int)x86_min(h + ATTN_QUERIES, st->n_head));
		}
}

/* Makes one head's scores weights, and brings its maximum and denominator up to date. NaN takes no part in the
 * maximum. */
static void attn_weights(struct attn_state *st, int h)
{
	vec scale = vec_set(st->a->scale), most = vec_set(st->top[h]);
	bool bf16 = st->a->prec == DSV4_PREC_BF16;
	float *score = st->score[h], top;

	for (int i = 0; i < st->n; i += VEC_LANES) {
		vec s = vec_load(score + i, st->n - i) * scale;

		s = bf16 ? vec_bf16(s) : s;
		vec_store(score + i, st->n - i, s);
		/* lanes past the end take the maximum so far */
		most = vec_max(vec_pick(vec_first(st->n - i), s, most), most);
	}
	top = vec_top(most);
	st->shrink[h] = expf(st->top[h] - top);
	st->top[h] = top;
	for (int i = 0; i < st->n; i += VEC_LANES)
		vec_store(score + i, st->n - i, vec_exp(vec_load(score + i, st->n - i) - vec_set(top)));
	st->den[h] = vec_total(st->den[h] * st->shrink[h], score, st->n);
	for (int i = 0; bf16 && i < st->n; i += VEC_LANES)
		vec_store(score + i, st->n - i, vec_bf16(vec_load(score + i, st->n - i)));
}

/* Brings n <= ATTN_WIDTH channels of VEC_COLS heads' sums up to date. */
static inline __attribute__((always_inline)) void attn_add_tile(const struct attn_state *st, const int h[VEC_COLS],
								 float *const out[VEC_COLS], int64_t n)
{
	vec acc[VEC_COLS][4], v[4];

#pragma GCC unroll 4
	for (int c = 0; c < VEC_COLS; c++)
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			acc[c][j] = vec_load(out[c] + j * VEC_LANES, n - j * VEC_LANES) * vec_set(st->shrink[h[c]]);
	for (int i = 0; i < st->n; i++) {
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			v[j] = vec_load(st->part[i] + j * VEC_LANES, VEC_LANES);
#pragma GCC unroll 4
		for (int c = 0; c < VEC_COLS; c++) {
			vec p = vec_set(st->score[h[c]][i]);

#pragma GCC unroll 4
			for (int j = 0; j < 4; j++)
				acc[c][j] = vec_fma(p, v[j], acc[c][j]);
		}
	}
#pragma GCC unroll 4
	for (int c = 0; c < VEC_COLS; c++)
#pragma GCC unroll 4
		for (int j = 0; j < 4; j++)
			vec_store(out[c] + j * VEC_LANES, n - j * VEC_LANES, acc[c][j]);
}

/* Channels [d, d + n) of all heads. Past the last head a tile computes that one again. */
static void attn_add_heads(const struct attn_state *st, int64_t d, int64_t n)
{
	float *out[VEC_COLS];
	int h[VEC_COLS];

	for (int first = 0; first < st->n_head; first += VEC_COLS) {
		for (int c = 0; c < VEC_COLS; c++) {
			h[c] = (int)x86_min(first + c, st->n_head - 1);
			out[c] = st->a->out + (st->first + h[c]) * st->a->dim + d;
		}
		if (n >= ATTN_WIDTH)
			attn_add_tile(st, h, out, ATTN_WIDTH);
		else
			attn_add_tile(st, h, out, n);
	}
}

/* Rows a power of two apart fall on the same cache lines, so all heads read a copy. */
static void attn_add(struct attn_state *st)
{
	for (int64_t d = 0; d < st->a->dim; d += ATTN_WIDTH) {
		int64_t n = x86_min(ATTN_WIDTH, st->a->dim - d);

		for (int i = 0; i < st->n; i++)
			for (int64_t k = 0; k < ATTN_WIDTH; k += VEC_LANES)
				vec_store(st->part[i] + k, VEC_LANES, vec_load(st->row[i] + d + k, n - k));
		attn_add_heads(st, d, n);
	}
}

/* The sink joins the denominator at the end and never the maximum. */
static void attn_finish(const struct attn_state *st, int h, float sink)
{
	float *out = st->a->out + (st->first + h) * st->a->dim;
	vec den = vec_set(st->den[h] + expf(sink - st->top[h]));

	for (int64_t d = 0; d < st->a->dim; d += VEC_LANES)
		vec_store(out + d, st->a->dim - d, vec_load(out + d, st->a->dim - d) / den);
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
		st.n = (int)x86_min(ATTN_BLOCK, l.n - e);
		for (int i = 0; i < st.n; i++)
			st.row[i] = attn_row(&l, e + i, a->dim);
		attn_scores(&st, &l, e + ATTN_BLOCK);
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
		const struct dsv4_seq *s = x86_seq(c->a->seq, c->a->n_seq, t);

		if (s)
			attn_heads(c->a, s, t, h0, (int)x86_min(c->heads, c->a->n_head - h0));
	}
}

/* Does the window of every token of s lie inside what s holds? */
static bool attn_seq_ok(const struct dsv4_attn *a, const struct dsv4_seq *s)
{
	int64_t first = s->pos0 - a->window + 1;

	return s->pos0 >= 0 && s->window && s->window_pos0 <= (first > 0 ? first : 0) &&
	       (s->kv.n == 0 || (s->kv.dim == (uint32_t)a->dim && s->kv.page_rows > 0));
}

int x86_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct attn_call c = { .a = a, .heads = ATTN_HEADS };

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++)
		if (!attn_seq_ok(a, &a->seq[i]))
			return -EINVAL;
	/* A few tokens are spread over the threads by cutting their heads finer. */
	while (c.heads > VEC_COLS && (int64_t)a->n_tok * (a->n_head / c.heads) < 2 * host->n_threads(x))
		c.heads /= 2;
	c.n_part = (a->n_head + c.heads - 1) / c.heads;
	host->parallel_for(x, (int64_t)a->n_tok * c.n_part, 1, attn_slice, &c);
	return 0;
}
