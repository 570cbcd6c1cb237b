/* SPDX-License-Identifier: MIT
 * indexer_run.c - what every plugin that has kernels of the indexer does first.
 * Threads: as the plugin's. Locks: none. */
#include "plugins/cuda/indexer_run.h"

#include <errno.h>

/* The most rows that a token of the batch sees; -EINVAL when those of a sequence have other sizes. */
static int64_t indexer_run_most(const struct dsv4_index_score *a)
{
	int64_t most = 0;

	for (int32_t i = 0; i < a->n_seq; i++) {
		const struct dsv4_seq *s = &a->seq[i];
		int64_t n = s->ratio > 0 ? (s->pos0 + s->n_tok) / s->ratio : 0;

		n = n < s->key.n ? n : s->key.n;
		if (n > 0 && s->key.dim != (uint32_t)a->dim)
			return -EINVAL;
		most = n > most ? n : most;
	}
	return most;
}

int indexer_run_score_args(const struct dsv4_index_score *a, struct indexer_score_args *ret_args, int64_t *ret_most)
{
	int64_t most;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	most = indexer_run_most(a);
	if (most < 0 || most > a->lds)
		return -EINVAL;
	*ret_args = (struct indexer_score_args){ .n_head = a->n_head, .dim = a->dim, .n_seq = a->n_seq, .k = a->k,
						 .scale = a->scale, .q = a->q, .w = a->w, .score = a->score,
						 .lds = a->lds };
	*ret_most = most <= a->k || a->n_tok == 0 ? 0 : most; /* all are kept */
	return 0;
}

int indexer_run_topk_args(const struct dsv4_index_topk *a, struct indexer_topk_args *ret_args)
{
	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
	*ret_args = (struct indexer_topk_args){ .k = a->k, .n_vis = a->n_vis, .score = a->score, .lds = a->lds,
						.rows = a->rows, .ldr = a->ldr, .count = a->count };
	return 0;
}
