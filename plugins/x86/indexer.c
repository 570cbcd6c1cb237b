/* SPDX-License-Identifier: MIT
 * indexer.c - score every visible compressed row for every token, and keep the best. doc/format.md 3.6.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * A score sums its heads upwards from head 0; q . key has vec_dot's order. Rows of small integers, which FP4 makes,
 * are multiplied as integers: codes.h says why that gives the same bits. An item is a block of rows for some tokens, so
 * that its codes are made once for all of them. */
#include "plugins/x86/codes.h"
#include "plugins/x86/select.h"
#include "plugins/x86/x86.h"

#include <errno.h>
#include <string.h>

#define INDEXER_TOKENS 32 /* of an item */
#define INDEXER_BLOCKS 4  /* one after the other in a slice, where there are many: each asks for the next one's rows */

struct indexer_call {
	const struct dsv4_index_score *a;
	int64_t n_block; /* blocks of CODES_ROWS rows per token */
	bool vnni;
	int64_t size;    /* of a head's codes */
	int8_t *code;    /* [n_tok][n_head][size], or NULL: rows too long */
	float *unit;     /* [n_tok][n_head] */
	bool *coded;     /* [n_tok] are all heads of the token codes? */
};

/* How many rows token t sees, if it is to be scored; *ret_seq is its sequence. */
static int64_t indexer_seen(const struct dsv4_index_score *a, int64_t t, const struct dsv4_seq **ret_seq)
{
	const struct dsv4_seq *s = x86_seq(a->seq, a->n_seq, t);
	int64_t seen = s ? x86_visible(&s->key, s->ratio, s->pos0 + t - s->tok0) : 0;

	*ret_seq = s;
	return seen > a->k ? seen : 0; /* keeps them all, whatever they score */
}

/* ---- floats ---- */

/* Rows [n, stop), at most VEC_ROWS. A tile past the last row or head computes that one again. */
static void indexer_floats4(const struct dsv4_index_score *a, const struct dsv4_rows *keys, int64_t t, int64_t n,
			    int64_t stop)
{
	const float *q = a->q + t * a->n_head * a->dim, *w = a->w + t * a->n_head, *x[VEC_COLS], *row[VEC_ROWS];
	float sum[VEC_ROWS] = { 0 }, tile[VEC_LANES];

	for (int r = 0; r < VEC_ROWS; r++)
		row[r] = x86_row(keys, x86_min(n + r, stop - 1));
	for (int32_t h = 0; h < a->n_head; h += VEC_COLS) {
		for (int c = 0; c < VEC_COLS; c++)
			x[c] = q + x86_min(h + c, a->n_head - 1) * a->dim;
		vec_store(tile, VEC_LANES, vec_dots(x, row, a->dim));
		for (int c = 0; c < VEC_COLS && h + c < a->n_head; c++)
			for (int r = 0; r < VEC_ROWS; r++) {
				float dot = tile[c * VEC_ROWS + r];

				sum[r] += (dot < 0 ? 0 : dot) * w[h + c]; /* NaN comes through */
			}
	}
	for (int64_t r = 0; n + r < stop; r++)
		a->score[t * a->lds + n + r] = sum[r] * a->scale;
}

static void indexer_floats(const struct dsv4_index_score *a, const struct dsv4_rows *keys, int64_t t, int64_t n,
			   int64_t stop)
{
	for (; n < stop; n += VEC_ROWS)
		indexer_floats4(a, keys, t, n, x86_min(n + VEC_ROWS, stop));
}

/* ---- codes ---- */

/* What one token and one block are multiplied from. */
struct indexer_tile {
	const struct codes_block *b;
	const int8_t *code; /* [n_head][size] */
	const float *unit, *w;
	int64_t n_head, size;
};

typedef veci indexer_dot_f(veci sum, veci u, veci s);

/* Products of VEC_COLS heads and the block. Past the last head that one is multiplied again. */
static inline __attribute__((always_inline)) void indexer_dots(const struct indexer_tile *t, int64_t h,
								indexer_dot_f *dot, veci acc[VEC_COLS][4])
{
	const int8_t *q[VEC_COLS];
	veci key[4];

#pragma GCC unroll 4
	for (int c = 0; c < VEC_COLS; c++) {
		q[c] = t->code + x86_min(h + c, t->n_head - 1) * t->size;
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			acc[c][i] = vec_int_load(t->b->bias + i * VEC_LANES);
	}
	for (int64_t j = 0; j < t->size / 4; j++) {
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			key[i] = vec_int_load(t->b->code[j][i * VEC_LANES]);
#pragma GCC unroll 4
		for (int c = 0; c < VEC_COLS; c++) {
			int32_t four;

			memcpy(&four, q[c] + 4 * j, sizeof four);
#pragma GCC unroll 4
			for (int i = 0; i < 4; i++)
				acc[c][i] = dot(acc[c][i], vec_int_set(four), key[i]);
		}
	}
}

static inline __attribute__((always_inline)) void indexer_scores(const struct indexer_tile *t, indexer_dot_f *dot,
								  vec sum[4])
{
	veci acc[VEC_COLS][4];

	for (int64_t h = 0; h < t->n_head; h += VEC_COLS) {
		indexer_dots(t, h, dot, acc);
#pragma GCC unroll 4
		for (int c = 0; c < VEC_COLS; c++) {
			if (h + c >= t->n_head)
				break;
#pragma GCC unroll 4
			for (int i = 0; i < 4; i++) {
				vec unit = vec_load(t->b->unit + i * VEC_LANES, VEC_LANES);
				vec d = vec_floats(acc[c][i]) * vec_set(t->unit[h + c]) * unit;

				sum[i] += vec_max(vec_set(0), d) * vec_set(t->w[h + c]);
			}
		}
	}
}

static void indexer_scores_plain(const struct indexer_tile *t, vec sum[4])
{
	indexer_scores(t, vec_dot4, sum);
}

__attribute__((target(VEC_VNNI))) static void indexer_scores_vnni(const struct indexer_tile *t, vec sum[4])
{
	indexer_scores(t, vec_dot4_vnni, sum);
}

/* Rows [n, stop) of the block. */
static void indexer_codes(const struct indexer_call *c, const struct codes_block *b, int64_t t, int64_t n, int64_t stop)
{
	const struct dsv4_index_score *a = c->a;
	struct indexer_tile tile = { .b = b, .code = c->code + t * a->n_head * c->size, .unit = c->unit + t * a->n_head,
				     .w = a->w + t * a->n_head, .n_head = a->n_head, .size = c->size };
	vec sum[4];

	for (int i = 0; i < 4; i++)
		sum[i] = vec_set(0);
	if (c->vnni)
		indexer_scores_vnni(&tile, sum);
	else
		indexer_scores_plain(&tile, sum);
	for (int i = 0; i < 4; i++)
		vec_store(a->score + t * a->lds + n + i * VEC_LANES, stop - n - i * VEC_LANES,
			  sum[i] * vec_set(a->scale));
}

/* Slices count tokens. */
static void indexer_query_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_call *c = arg;
	const struct dsv4_index_score *a = c->a;
	const struct dsv4_seq *s;

	for (int64_t t = begin; t < end; t++) {
		c->coded[t] = indexer_seen(a, t, &s) > 0;
		for (int64_t i = t * a->n_head; i < (t + 1) * a->n_head && c->coded[t]; i++)
			c->coded[t] = x86_codes_query(a->q + i * a->dim, a->dim, c->code + i * c->size, &c->unit[i]);
	}
}

/* 0 or -ENOMEM */
static int indexer_queries(struct dsv4_exec *x, const struct dsv4_host *host, struct indexer_call *c)
{
	size_t n = (size_t)c->a->n_tok * (size_t)c->a->n_head;

	c->size = codes_size(c->a->dim);
	c->code = host->scratch(x, n * (size_t)c->size);
	c->unit = host->scratch(x, n * sizeof *c->unit);
	c->coded = host->scratch(x, (size_t)c->a->n_tok * sizeof *c->coded);
	if (!c->code || !c->unit || !c->coded)
		return -ENOMEM;
	host->parallel_for(x, c->a->n_tok, INDEXER_TOKENS / 2, indexer_query_slice, c);
	return 0;
}

/* ---- index_score ---- */

/* Up to CODES_ROWS rows from n on are on their way while the block before them is computed. */
static void indexer_prefetch(const struct dsv4_rows *keys, int64_t n, int64_t stop)
{
	for (stop = x86_min(n + CODES_ROWS, stop); n < stop; n++)
		for (uint32_t k = 0; k < keys->dim; k += 64 / sizeof(float))
			__builtin_prefetch(x86_row(keys, n) + k, 0, 2);
}

/* Tokens [t0, t1) of one sequence and the block of rows that begins at n. */
static void indexer_block(const struct indexer_call *c, const struct dsv4_seq *s, int64_t t0, int64_t t1, int64_t n)
{
	const struct dsv4_index_score *a = c->a;
	const struct dsv4_seq *same;
	const float *row[CODES_ROWS];
	struct codes_block b; /* large: not cleared */
	int n_row = (int)x86_min(CODES_ROWS, indexer_seen(a, t1 - 1, &same) - n);
	bool coded = false;

	for (int64_t t = t0; t < t1 && c->code; t++)
		coded |= c->coded[t];
	if (n_row <= 0)
		return; /* nor do those before the last */
	for (int i = 0; i < n_row; i++)
		row[i] = x86_row(&s->key, n + i);
	coded = coded && x86_codes_keys(row, n_row, a->dim, &b);
	indexer_prefetch(&s->key, n + CODES_ROWS, indexer_seen(a, t1 - 1, &same));
	for (int64_t t = t0; t < t1; t++) {
		int64_t stop = x86_min(n + CODES_ROWS, indexer_seen(a, t, &same));

		if (stop > n && coded && c->coded[t])
			indexer_codes(c, &b, t, n, stop);
		else if (stop > n)
			indexer_floats(a, &s->key, t, n, stop);
	}
}

/* Slices count (tokens, block of rows). */
static void indexer_score_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_call *c = arg;
	const struct dsv4_index_score *a = c->a;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / c->n_block * INDEXER_TOKENS, stop = x86_min(t + INDEXER_TOKENS, a->n_tok);

		while (t < stop) {
			const struct dsv4_seq *s = x86_seq(a->seq, a->n_seq, t);
			int64_t t1 = s ? x86_min((int64_t)s->tok0 + s->n_tok, stop) : t + 1;

			if (s)
				indexer_block(c, s, t, t1, i % c->n_block * CODES_ROWS);
			t = t1;
		}
	}
}

int x86_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct indexer_call c = { .a = a, .vnni = x86_has_vnni(host) };
	int64_t most = 0, n;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++) {
		const struct dsv4_seq *s = &a->seq[i];

		n = x86_visible(&s->key, s->ratio, s->pos0 + s->n_tok - 1);
		if (n > 0 && s->key.dim != (uint32_t)a->dim)
			return -EINVAL;
		most = n > most ? n : most;
	}
	if (most > a->lds)
		return -EINVAL;
	if (most > a->k && a->dim <= CODES_DIM && indexer_queries(x, host, &c))
		return -ENOMEM;
	c.n_block = (most + CODES_ROWS - 1) / CODES_ROWS;
	n = (a->n_tok + INDEXER_TOKENS - 1) / INDEXER_TOKENS * c.n_block;
	host->parallel_for(x, n, n >= 4 * INDEXER_BLOCKS * host->n_threads(x) ? INDEXER_BLOCKS : 1, indexer_score_slice,
			   &c);
	return 0;
}

static void indexer_topk_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_index_topk *a = arg;

	for (int64_t t = begin; t < end; t++)
		a->count[t] = x86_select(a->score ? a->score + t * a->lds : NULL, a->n_vis[t], a->k,
					   a->rows + t * a->ldr);
}

int x86_index_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct dsv4_index_topk c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
	for (int32_t t = 0; t < a->n_tok; t++)
		if (a->n_vis[t] < 0 || x86_min(a->n_vis[t], a->k) > a->ldr ||
		    (a->n_vis[t] > a->k && !a->score))
			return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, indexer_topk_slice, &c);
	return 0;
}
