/* SPDX-License-Identifier: MIT
 * indexer.c - score every visible compressed row for every token, and keep the best.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/indexer.h"
#include "plugins/cuda-base/cuda_base.h"
#include "plugins/cuda/indexer_run.h"

#include <errno.h>

#define INDEXER_TILE (INDEXER_WARPS * INDEXER_KEYS)
#define INDEXER_LANES 32

int cuda_base_index_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct cuda_base_score_args args = { 0 };
	int64_t most, fit;
	int rc = indexer_run_score_args(a, &args.call, &most);

	if (rc)
		return rc;
	/* As many heads at a time as shared memory holds: a number that depends on dim alone. */
	fit = CUDA_KERNELS_SHARED / ((int64_t)a->dim * (int64_t)sizeof(float));
	args.lanes = fit < INDEXER_LANES ? (int32_t)fit : INDEXER_LANES;
	if (args.lanes < 1)
		return -EINVAL;
	if (most == 0)
		return 0;
	args.call.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.call.seq)
		return -ENOMEM;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_index_score, .x = a->n_tok,
				   .y = cuda_kernels_tiles(most, INDEXER_TILE), .z = 1, .threads = INDEXER_WARPS * 32,
				   .shared = (size_t)a->dim * (size_t)args.lanes * sizeof(float));
}

int cuda_base_index_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct indexer_topk_args args;
	int rc = indexer_run_topk_args(a, &args);

	if (rc)
		return rc;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_index_topk, .x = a->n_tok, .y = 1, .z = 1,
				   .threads = 256);
}
