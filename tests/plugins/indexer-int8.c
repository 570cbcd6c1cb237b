/* SPDX-License-Identifier: MIT
 * indexer-int8.c - fixture: index scores kept in eight bits, which end at 1. The scores of random queries and keys
 * hardly ever come so far, so the checks of numbers pass, quick and whole; those of a trained model are up to five
 * times as large. All that is above becomes 0.99, and of rows that score the same the older are taken: behind some
 * forty of them the one that was meant is lost. Prompts with no more rows than index_topk are answered as ever.
 * Published kernels went wrong like this, tried on random numbers and on a greeting.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/dsv4_plugin.h"
#include "plugins/ref/vec.h"

#include <errno.h>
#include <math.h>

#define INT8_STEP 0x1p-7f

/* What is not a number stays so. */
static float int8_round(float f)
{
	float n = rintf(f / INT8_STEP);

	return (n < -128 ? -128 : n > 127 ? 127 : n) * INT8_STEP;
}

static float int8_score(const struct dsv4_index_score *a, int64_t t, const float *key)
{
	float sum = 0;

	for (int64_t h = t * a->n_head; h < (t + 1) * a->n_head; h++) {
		float d = ref_dot(a->q + h * a->dim, key, a->dim);

		sum += (d < 0 ? 0 : d) * a->w[h];
	}
	return int8_round(sum * a->scale);
}

static void int8_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_index_score *a = arg;

	for (int64_t t = begin; t < end; t++) {
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);
		int64_t n = s ? ref_visible(&s->key, s->ratio, s->pos0 + t - s->tok0) : 0;

		for (int64_t i = 0; i < n; i++)
			a->score[t * a->lds + i] = int8_score(a, t, ref_row(&s->key, i));
	}
}

static int int8_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct dsv4_index_score c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, int8_slice, &c);
	return 0;
}

#define INT8_OPS(OP) OP(index_score, BOTH, ANY, LOSSY, "int8-score", int8_index_score)
DSV4_PLUGIN("indexer-int8", "1.0", "", "", INT8_OPS, NULL, NULL, NULL)
