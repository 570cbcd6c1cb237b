/* SPDX-License-Identifier: MIT
 * indexer.c - score every visible compressed row for every token, and keep the best. doc/format.md 3.6.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Eight rows are scored at a time, one per lane; a score sums its heads upwards from head 0. */
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/select.h"
#include "plugins/avx512/vec.h"

#include <errno.h>

#define INDEXER_ROWS 64 /* compressed rows per slice item */

struct indexer_call {
	const struct dsv4_index_score *a;
	int64_t n_block; /* blocks of INDEXER_ROWS rows per token */
};

/* Rows [n, stop) of at most eight; lanes past the end score the last row again. */
static void indexer_score8(const struct dsv4_index_score *a, const struct dsv4_rows *keys, int64_t t,
			   int64_t n, int64_t stop)
{
	const float *q = a->q + t * a->n_head * a->dim, *w = a->w + t * a->n_head, *row[8];
	float sum[8] = { 0 }, dot[8];

	for (int i = 0; i < 8; i++)
		row[i] = avx512_row(keys, avx512_min(n + i, stop - 1));
	for (int32_t h = 0; h < a->n_head; h++) {
		avx512_dot8(q + (int64_t)h * a->dim, row, a->dim, dot);
		for (int i = 0; i < 8; i++)
			sum[i] += (dot[i] < 0 ? 0 : dot[i]) * w[h]; /* NaN comes through */
	}
	for (int64_t i = 0; n + i < stop && i < 8; i++)
		a->score[t * a->lds + n + i] = sum[i] * a->scale;
}

/* Slices count (token, block of rows). */
static void indexer_score_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_call *c = arg;
	const struct dsv4_index_score *a = c->a;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / c->n_block, n = i % c->n_block * INDEXER_ROWS, seen;
		const struct dsv4_seq *s = avx512_seq(a->seq, a->n_seq, t);

		if (!s)
			continue;
		seen = avx512_visible(&s->key, s->ratio, s->pos0 + t - s->tok0);
		if (seen <= a->k)
			continue; /* keeps them all, whatever they score */
		for (int64_t stop = avx512_min(n + INDEXER_ROWS, seen); n < stop; n += 8)
			indexer_score8(a, &s->key, t, n, stop);
	}
}

int avx512_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct indexer_call c = { .a = a };
	int64_t most = 0;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++) {
		const struct dsv4_seq *s = &a->seq[i];
		int64_t n = avx512_visible(&s->key, s->ratio, s->pos0 + s->n_tok - 1);

		if (n > 0 && s->key.dim != (uint32_t)a->dim)
			return -EINVAL;
		most = n > most ? n : most;
	}
	if (most > a->lds)
		return -EINVAL;
	c.n_block = (most + INDEXER_ROWS - 1) / INDEXER_ROWS;
	host->parallel_for(x, a->n_tok * c.n_block, 1, indexer_score_slice, &c);
	return 0;
}

static void indexer_topk_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_index_topk *a = arg;

	for (int64_t t = begin; t < end; t++)
		a->count[t] = avx512_select(a->score ? a->score + t * a->lds : NULL, a->n_vis[t], a->k,
					   a->rows + t * a->ldr);
}

int avx512_index_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct dsv4_index_topk c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
	for (int32_t t = 0; t < a->n_tok; t++)
		if (a->n_vis[t] < 0 || avx512_min(a->n_vis[t], a->k) > a->ldr ||
		    (a->n_vis[t] > a->k && !a->score))
			return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, indexer_topk_slice, &c);
	return 0;
}
