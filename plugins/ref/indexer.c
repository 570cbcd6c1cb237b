/* SPDX-License-Identifier: MIT
 * indexer.c - score every visible compressed row for every token, and keep the best. doc/format.md 3.6.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * A score sums its heads upwards from head 0; q . key is ref_dot's order. */
#include "plugins/ref/ref.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define INDEXER_ROWS 64 /* compressed rows per slice item */

struct indexer_call {
	const struct dsv4_index_score *a;
	int64_t n_block; /* blocks of INDEXER_ROWS rows per token */
};

/* max(d, 0) that lets NaN through, so that a broken row shows. */
static float indexer_relu(float d)
{
	return d < 0 ? 0 : d;
}

static float indexer_score(const struct dsv4_index_score *a, int64_t t, const float *key)
{
	float sum = 0;

	for (int64_t h = t * a->n_head; h < (t + 1) * a->n_head; h++)
		sum += indexer_relu(ref_dot(a->q + h * a->dim, key, a->dim)) * a->w[h];
	return sum * a->scale;
}

/* Slices count (token, block of rows). */
static void indexer_score_slice(void *arg, int64_t begin, int64_t end)
{
	const struct indexer_call *c = arg;
	const struct dsv4_index_score *a = c->a;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / c->n_block, n = i % c->n_block * INDEXER_ROWS, stop;
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);

		if (!s)
			continue;
		stop = ref_min(n + INDEXER_ROWS, ref_visible(&s->key, s->ratio, s->pos0 + t - s->tok0));
		for (; n < stop; n++)
			a->score[t * a->lds + n] = indexer_score(a, t, ref_row(&s->key, n));
	}
}

int ref_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct indexer_call c = { .a = a };
	int64_t most = 0;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++) {
		const struct dsv4_seq *s = &a->seq[i];
		int64_t n = ref_visible(&s->key, s->ratio, s->pos0 + s->n_tok - 1);

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

/* Orders floats as unsigned integers: NaN is 0, below -inf; -0 equals +0. */
static uint32_t indexer_key(float f)
{
	uint32_t b = dsv4_f32_bits(f + 0.0f);

	if (f != f)
		return 0;
	return b & 0x80000000u ? ~b : b | 0x80000000u;
}

/* The k-th largest key of n > k scores, found one byte at a time from the top; *ret_equal says how many of
 * those that equal it belong to the k. */
static uint32_t indexer_threshold(const float *score, int64_t n, int64_t k, int64_t *ret_equal)
{
	uint32_t prefix = 0, mask = 0;

	for (int shift = 24; shift >= 0; shift -= 8) {
		int64_t count[256] = { 0 };
		uint32_t byte = 255;

		for (int64_t i = 0; i < n; i++) {
			uint32_t key = indexer_key(score[i]);

			if ((key & mask) == prefix)
				count[key >> shift & 255]++;
		}
		while (count[byte] < k)
			k -= count[byte--];
		prefix |= byte << shift;
		mask |= 255u << shift;
	}
	*ret_equal = k;
	return prefix;
}

/* Writes the chosen rows in rising order and returns how many. */
static int32_t indexer_pick(const float *score, int32_t n, int32_t k, int32_t *rows)
{
	uint32_t threshold = 0;
	int64_t equal = 0;
	int32_t count = 0;

	if (n > k && k > 0)
		threshold = indexer_threshold(score, n, k, &equal);
	for (int32_t i = 0; i < n && count < k; i++) {
		uint32_t key = n > k ? indexer_key(score[i]) : 1;

		if (key > threshold || (key == threshold && equal-- > 0))
			rows[count++] = i;
	}
	return count;
}

static void indexer_topk_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_index_topk *a = arg;

	for (int64_t t = begin; t < end; t++)
		a->count[t] = indexer_pick(a->score ? a->score + t * a->lds : NULL, a->n_vis[t], a->k,
					   a->rows + t * a->ldr);
}

int ref_index_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct dsv4_index_topk c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
	for (int32_t t = 0; t < a->n_tok; t++)
		if (a->n_vis[t] < 0 || ref_min(a->n_vis[t], a->k) > a->ldr ||
		    (a->n_vis[t] > a->k && !a->score))
			return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, indexer_topk_slice, &c);
	return 0;
}
