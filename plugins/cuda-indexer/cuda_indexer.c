/* SPDX-License-Identifier: MIT
 * cuda_indexer.c - cuda-indexer: scores by tensor cores where queries and keys are rounded, and exact top-k.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-indexer/indexer.h"
#include "plugins/cuda/cuda_kernels.h"
#include "plugins/cuda/indexer_run.h"

#include <errno.h>

enum indexer_kernel { INDEXER_KERNEL_SCORE, INDEXER_KERNEL_TOPK, INDEXER_N_KERNEL };

static int indexer_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[INDEXER_N_KERNEL] = { "score", "topk" };

	return cuda_kernels_open(host, "cuda_indexer_", name, INDEXER_N_KERNEL, ret_state);
}

/* Heads that fit in shared memory beside the keys, by dim alone. */
static int32_t indexer_heads(const struct dsv4_index_score *a, int32_t ld)
{
	int32_t n = (a->n_head + 15) / 16 * 16;

	n = n < INDEXER_HEADS ? n : INDEXER_HEADS;
	while (n > 0 && (size_t)(INDEXER_KEYS + n) * (size_t)ld * sizeof(uint16_t) > CUDA_KERNELS_SHARED)
		n -= 16;
	return n;
}

static int indexer_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	struct cuda_indexer_score_args args = { 0 };
	int64_t most;
	int rc = indexer_run_score_args(a, &args.call, &most);

	if (rc || most == 0)
		return rc;
	args.ld = (a->dim + 15) / 16 * 16 + INDEXER_PAD;
	args.heads = indexer_heads(a, args.ld);
	args.call.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.call.seq)
		return -ENOMEM;
	return cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = INDEXER_KERNEL_SCORE, .x = a->n_tok, .y = cuda_kernels_tiles(most, INDEXER_KEYS), .z = 1,
		.threads = INDEXER_WARPS * 32,
		.shared = args.heads ? (size_t)(INDEXER_KEYS + args.heads) * (size_t)args.ld * sizeof(uint16_t) : 0,
	}, &args, sizeof args);
}

static int indexer_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct cuda_indexer_topk_args args;
	int rc = indexer_run_topk_args(a, &args.call);

	if (rc)
		return rc;
	/* A row of scores has no more than lds. */
	args.cached = a->score && a->lds < INDEXER_CACHED ? (int32_t)a->lds : INDEXER_CACHED;
	return cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = INDEXER_KERNEL_TOPK, .x = a->n_tok, .y = 1, .z = 1, .threads = 1024,
		.shared = (size_t)args.cached * sizeof(uint32_t) }, &args, sizeof args);
}

#define INDEXER_OPS(OP) \
	OP(index_score, BOTH, ANY, ORDER, "fp32-gpu-mma", indexer_score) \
	OP(index_topk, BOTH, ANY, EXACT, "fp32", indexer_topk)
DSV4_PLUGIN("cuda-indexer", "1.0", "", "sm_80", INDEXER_OPS, indexer_open, NULL, cuda_kernels_close)
