/* SPDX-License-Identifier: MIT
 * indexer_rounded.c - index scores of rounded queries and keys, with early exit.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Queries are rounded once. Keys are rounded a stretch at a time into memory that stays in the cache, then every
 * token of their sequence is scored against that stretch. The order of a score is ref's: eight lanes and a tree
 * per 128 terms, heads upwards; where rounding changes nothing, neither do the bits. */
#include "plugins/indexer-rounded/indexer_rounded.h"

#include <errno.h>

#define INDEXER_ROUNDED_STRETCH 2048 /* keys rounded at a time */
#define INDEXER_ROUNDED_ROWS 64      /* keys per slice item */
#define INDEXER_ROUNDED_SIDE 4       /* keys multiplied side by side */
#define INDEXER_ROUNDED_BLOCK 128    /* terms summed apart from the rest */

/* Four floats at any address. */
typedef float indexer_rounded_v4 __attribute__((vector_size(16), aligned(4), may_alias));

/* A call, and the stretch of keys that runs. */
struct indexer_rounded {
	const struct dsv4_index_score *a;
	indexer_rounded_f *round;
	float *q;                 /* [n_tok][n_head][dim], rounded */
	float *key;               /* [INDEXER_ROUNDED_STRETCH][dim], rounded */
	const struct dsv4_seq *s;
	int64_t row0, n_row, n_block; /* the stretch, and its blocks of INDEXER_ROUNDED_ROWS */
	int32_t first;            /* first token of s that is scored */
};

static int64_t indexer_rounded_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Keys that token i of s sees. */
static int64_t indexer_rounded_visible(const struct dsv4_seq *s, int64_t i)
{
	return s->ratio > 0 ? indexer_rounded_min((s->pos0 + i + 1) / s->ratio, s->key.n) : 0;
}

static indexer_rounded_v4 indexer_rounded_load(const float *p)
{
	return *(const indexer_rounded_v4 *)p;
}

/* ---- products ---- */

/* Adds to sum[i] the product of q with key i, of n <= INDEXER_ROUNDED_BLOCK terms; keys are dim floats apart. */
static void indexer_rounded_block(const float *q, const float *key, int64_t dim, int64_t n, float *sum)
{
	indexer_rounded_v4 lo[INDEXER_ROUNDED_SIDE] = { 0 }, hi[INDEXER_ROUNDED_SIDE] = { 0 };
	float qt[8] = { 0 }, kt[INDEXER_ROUNDED_SIDE][8] = { 0 };
	int64_t k = 0;

	for (; k + 8 <= n; k += 8) {
		indexer_rounded_v4 q0 = indexer_rounded_load(q + k), q1 = indexer_rounded_load(q + k + 4);

#pragma GCC unroll 4
		for (int i = 0; i < INDEXER_ROUNDED_SIDE; i++) {
			lo[i] += q0 * indexer_rounded_load(key + i * dim + k);
			hi[i] += q1 * indexer_rounded_load(key + i * dim + k + 4);
		}
	}
	if (k < n) /* zeroes behind the last term change no sum */
		memcpy(qt, q + k, (size_t)(n - k) * sizeof *q);
	for (int i = 0; i < INDEXER_ROUNDED_SIDE && k < n; i++)
		memcpy(kt[i], key + i * dim + k, (size_t)(n - k) * sizeof *key);
#pragma GCC unroll 4
	for (int i = 0; i < INDEXER_ROUNDED_SIDE; i++) {
		lo[i] += indexer_rounded_load(qt) * indexer_rounded_load(kt[i]);
		hi[i] += indexer_rounded_load(qt + 4) * indexer_rounded_load(kt[i] + 4);
		lo[i] += hi[i];
		sum[i] += (lo[i][0] + lo[i][2]) + (lo[i][1] + lo[i][3]);
	}
}

/* max(d, 0) that lets NaN through, so that a broken row shows. */
static float indexer_rounded_relu(float d)
{
	return d < 0 ? 0 : d;
}

/* Scores of INDEXER_ROUNDED_SIDE keys for token t. */
static void indexer_rounded_keys(const struct indexer_rounded *c, int64_t t, const float *key, float *score)
{
	const struct dsv4_index_score *a = c->a;
	int64_t dim = a->dim;

	for (int i = 0; i < INDEXER_ROUNDED_SIDE; i++)
		score[i] = 0;
	for (int64_t h = t * a->n_head; h < (t + 1) * a->n_head; h++) {
		float d[INDEXER_ROUNDED_SIDE] = { 0 };

		for (int64_t k = 0; k < dim; k += INDEXER_ROUNDED_BLOCK)
			indexer_rounded_block(c->q + h * dim + k, key + k, dim,
					      indexer_rounded_min(INDEXER_ROUNDED_BLOCK, dim - k), d);
		for (int i = 0; i < INDEXER_ROUNDED_SIDE; i++)
			score[i] += indexer_rounded_relu(d[i]) * a->w[h];
	}
	for (int i = 0; i < INDEXER_ROUNDED_SIDE; i++)
		score[i] *= a->scale;
}

/* ---- slices ---- */

/* Slices count (token, head). */
static void indexer_rounded_query_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_rounded *c = arg;

	for (int64_t i = begin; i < end; i++)
		c->round(c->a->q + i * c->a->dim, c->a->dim, c->q + i * c->a->dim);
}

/* Slices count keys of the stretch. */
static void indexer_rounded_key_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_rounded *c = arg;
	const struct dsv4_rows *r = &c->s->key;

	for (int64_t i = begin; i < end; i++) {
		int64_t n = c->row0 + i;

		c->round(r->page[n / r->page_rows] + n % r->page_rows * r->dim, c->a->dim,
			 c->key + i * c->a->dim);
	}
}

/* Slices count (token from `first` on, block of keys of the stretch). */
static void indexer_rounded_score_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_rounded *c = arg;
	const struct dsv4_index_score *a = c->a;

	for (int64_t i = begin; i < end; i++) {
		int64_t in_seq = c->first + i / c->n_block, t = c->s->tok0 + in_seq;
		int64_t n = i % c->n_block * INDEXER_ROUNDED_ROWS;
		int64_t stop = indexer_rounded_min(indexer_rounded_visible(c->s, in_seq) - c->row0,
						   indexer_rounded_min(n + INDEXER_ROUNDED_ROWS, c->n_row));
		float *to = a->score + t * a->lds + c->row0;

		for (; n < stop; n += INDEXER_ROUNDED_SIDE) {
			float score[INDEXER_ROUNDED_SIDE];

			indexer_rounded_keys(c, t, c->key + n * a->dim, score);
			memcpy(to + n, score,
			       (size_t)indexer_rounded_min(INDEXER_ROUNDED_SIDE, stop - n) * sizeof *score);
		}
	}
}

/* ---- the op ---- */

/* All keys of sequence s for its tokens from `first` on. */
static void indexer_rounded_seq(struct dsv4_exec *x, const struct dsv4_host *host, struct indexer_rounded *c)
{
	int64_t most = indexer_rounded_visible(c->s, c->s->n_tok - 1);

	for (c->row0 = 0; c->row0 < most; c->row0 += INDEXER_ROUNDED_STRETCH) {
		c->n_row = indexer_rounded_min(INDEXER_ROUNDED_STRETCH, most - c->row0);
		c->n_block = (c->n_row + INDEXER_ROUNDED_ROWS - 1) / INDEXER_ROUNDED_ROWS;
		host->parallel_for(x, c->n_row, INDEXER_ROUNDED_ROWS, indexer_rounded_key_slice, c);
		host->parallel_for(x, (c->s->n_tok - c->first) * c->n_block, 1, indexer_rounded_score_slice, c);
	}
}

/* The first token of s that is to be scored; s->n_tok when none is. */
static int32_t indexer_rounded_first(const struct dsv4_seq *s, int32_t k)
{
	int32_t i = 0;

	while (i < s->n_tok && indexer_rounded_visible(s, i) <= k)
		i++;
	return i;
}

/* The most keys that any scored token sees, 0 for none; -EINVAL for arguments that do not fit. */
static int64_t indexer_rounded_most(const struct dsv4_index_score *a)
{
	int64_t most = 0;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->k < 0)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++) {
		int64_t n = indexer_rounded_visible(&a->seq[i], a->seq[i].n_tok - 1);

		if (n > 0 && a->seq[i].key.dim != (uint32_t)a->dim)
			return -EINVAL;
		if (n > a->lds)
			return -EINVAL;
		most = n > most ? n : most;
	}
	return most > a->k ? most : 0;
}

int indexer_rounded_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a,
			  indexer_rounded_f *round)
{
	struct indexer_rounded c = { .a = a, .round = round };
	int64_t most = indexer_rounded_most(a), n_query = (int64_t)a->n_tok * a->n_head;

	if (most <= 0)
		return (int)most;
	/* Keys are multiplied four at a time, so up to three rows behind the last are read. */
	c.q = host->scratch(x, (size_t)(n_query * a->dim) * sizeof *c.q);
	most = indexer_rounded_min(most, INDEXER_ROUNDED_STRETCH) + INDEXER_ROUNDED_SIDE - 1;
	c.key = host->scratch(x, (size_t)(most * a->dim) * sizeof *c.key);
	if (!c.q || !c.key)
		return -ENOMEM;
	memset(c.key, 0, (size_t)(most * a->dim) * sizeof *c.key);
	host->parallel_for(x, n_query, INDEXER_ROUNDED_ROWS, indexer_rounded_query_slice, &c);
	for (int32_t i = 0; i < a->n_seq; i++) {
		c.s = &a->seq[i];
		c.first = indexer_rounded_first(c.s, a->k);
		if (c.first < c.s->n_tok)
			indexer_rounded_seq(x, host, &c);
	}
	return 0;
}
