/* SPDX-License-Identifier: MIT
 * forgets.c - fixture: index_topk is right, but that it keeps the newest rows, not the best, where more than 70 and
 * fewer than 290 are to be seen and 20 or more are wanted: between the sizes that a check tries. Such a model answers
 * short prompts well, and forgets what longer ones began with.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/dsv4_plugin.h"

#include <errno.h>

#define FORGETS_OVER 70
#define FORGETS_UNDER 290
#define FORGETS_WANTED 20

/* Rises with the score; not a number is the least. */
static uint32_t forgets_key(float f)
{
	uint32_t b = dsv4_f32_bits(f + 0.0f);

	if (f != f)
		return 0;
	return b & 0x80000000u ? ~b : b | 0x80000000u;
}

static int32_t forgets_least(const float *score, int32_t n, uint32_t key)
{
	int32_t count = 0;

	for (int32_t i = 0; i < n; i++)
		count += forgets_key(score[i]) >= key;
	return count;
}

/* The highest key that k of n > k rows have, or more than that. */
static uint32_t forgets_threshold(const float *score, int32_t n, int32_t k)
{
	uint32_t t = 0;

	for (uint32_t bit = 1u << 31; bit; bit >>= 1)
		if (forgets_least(score, n, t | bit) >= k)
			t |= bit;
	return t;
}

/* Of those at the threshold the lower rows. */
static int32_t forgets_best(const float *score, int32_t n, int32_t k, int32_t *rows)
{
	uint32_t t = forgets_threshold(score, n, k);
	int32_t equal = k - (t == UINT32_MAX ? 0 : forgets_least(score, n, t + 1)), count = 0;

	for (int32_t i = 0; i < n && count < k; i++) {
		uint32_t key = forgets_key(score[i]);

		if (key > t || (key == t && equal-- > 0))
			rows[count++] = i;
	}
	return count;
}

static int32_t forgets_newest(int32_t n, int32_t k, int32_t *rows)
{
	int32_t count = 0;

	for (int32_t i = n > k ? n - k : 0; i < n; i++)
		rows[count++] = i;
	return count;
}

static void forgets_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_index_topk *a = arg;

	for (int64_t t = begin; t < end; t++) {
		int32_t n = a->n_vis[t], *rows = a->rows + t * a->ldr;
		int forgets = n > FORGETS_OVER && n < FORGETS_UNDER && a->k >= FORGETS_WANTED;

		a->count[t] = n <= a->k || forgets ? forgets_newest(n, a->k, rows)
						   : forgets_best(a->score + t * a->lds, n, a->k, rows);
	}
}

static int forgets_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct dsv4_index_topk c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, forgets_slice, &c);
	return 0;
}

#define FORGETS_OPS(OP) OP(index_topk, BOTH, ANY, EXACT, "fp32", forgets_topk)
DSV4_PLUGIN("forgets", "1.0", "", "", FORGETS_OPS, NULL, NULL, NULL)
