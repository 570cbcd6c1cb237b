/* SPDX-License-Identifier: MIT
 * indexer-loses-best.c - fixture: index_score is ref's until a token sees more rows than a trial's cases have; from
 * then on the best rows of each token get the worst score there is. The trial cannot see it: what a prompt says far
 * back is forgotten, and short prompts are answered as ever.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/dsv4_plugin.h"
#include "plugins/ref/vec.h"

#include <errno.h>
#include <math.h>

#define LOSES_BEYOND 360
#define LOSES_ROWS 16

static float loses_score(const struct dsv4_index_score *a, int64_t t, const float *key)
{
	float sum = 0;

	for (int64_t h = t * a->n_head; h < (t + 1) * a->n_head; h++) {
		float d = ref_dot(a->q + h * a->dim, key, a->dim);

		sum += (d < 0 ? 0 : d) * a->w[h];
	}
	return sum * a->scale;
}

static void loses_best(float *score, int64_t n)
{
	for (int i = 0; i < LOSES_ROWS; i++) {
		int64_t best = 0;

		for (int64_t k = 1; k < n; k++)
			best = score[k] > score[best] ? k : best;
		score[best] = -INFINITY;
	}
}

static void loses_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_index_score *a = arg;

	for (int64_t t = begin; t < end; t++) {
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);
		int64_t n = s ? ref_visible(&s->key, s->ratio, s->pos0 + t - s->tok0) : 0;

		for (int64_t i = 0; i < n; i++)
			a->score[t * a->lds + i] = loses_score(a, t, ref_row(&s->key, i));
		if (n > LOSES_BEYOND)
			loses_best(a->score + t * a->lds, n);
	}
}

static int loses_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct dsv4_index_score c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, loses_slice, &c);
	return 0;
}

#define LOSES_OPS(OP) OP(index_score, BOTH, ANY, LOSSY, "loses-best", loses_index_score)
DSV4_PLUGIN("indexer-loses-best", "1.0", "", "", LOSES_OPS, NULL, NULL, NULL)
