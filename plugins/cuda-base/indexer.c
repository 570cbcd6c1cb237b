/* SPDX-License-Identifier: MIT
 * indexer.c - score every visible compressed row for every token, and keep the best.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/indexer.h"
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

#define INDEXER_TILE (INDEXER_WARPS * INDEXER_KEYS)
#define INDEXER_LANES 32

/* Rows that the last token of s sees. */
static int64_t indexer_visible(const struct dsv4_seq *s)
{
	int64_t n = s->ratio > 0 ? (s->pos0 + s->n_tok) / s->ratio : 0;

	return n < s->key.n ? n : s->key.n;
}

int cuda_base_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct indexer_score_args args = { .n_head = a->n_head, .dim = a->dim, .n_seq = a->n_seq, .k = a->k,
					   .scale = a->scale, .q = a->q, .w = a->w, .score = a->score, .lds = a->lds };
	int64_t most = 0, fit;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++) {
		int64_t n = indexer_visible(&a->seq[i]);

		if (n > 0 && a->seq[i].key.dim != (uint32_t)a->dim)
			return -EINVAL;
		most = n > most ? n : most;
	}
	/* As many heads at a time as shared memory holds: a number that depends on dim alone. */
	fit = CUDA_KERNELS_SHARED / ((int64_t)a->dim * (int64_t)sizeof(float));
	args.lanes = fit < INDEXER_LANES ? (int32_t)fit : INDEXER_LANES;
	if (most > a->lds || args.lanes < 1)
		return -EINVAL;
	if (most <= a->k || a->n_tok == 0)
		return 0;
	args.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.seq)
		return -ENOMEM;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_index_score, .x = a->n_tok,
				   .y = cuda_kernels_tiles(most, INDEXER_TILE), .z = 1, .threads = INDEXER_WARPS * 32,
				   .shared = (size_t)a->dim * (size_t)args.lanes * sizeof(float));
}

int cuda_base_index_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	const struct indexer_topk_args args = { .k = a->k, .n_vis = a->n_vis, .score = a->score, .lds = a->lds,
						.rows = a->rows, .ldr = a->ldr, .count = a->count };

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_index_topk, .x = a->n_tok, .y = 1, .z = 1,
				   .threads = 256);
}
