/* SPDX-License-Identifier: MIT
 * cuda_indexer.c - cuda-indexer: scores by tensor cores where queries and keys are rounded, and exact top-k.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-indexer/indexer.h"
#include "plugins/cuda/cuda_kernels.h"

#include <errno.h>

enum indexer_kernel { INDEXER_KERNEL_SCORE, INDEXER_KERNEL_TOPK, INDEXER_N_KERNEL };

static int indexer_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[INDEXER_N_KERNEL] = { "score", "topk" };

	return cuda_kernels_open(host, "cuda_indexer_", name, INDEXER_N_KERNEL, ret_state);
}

/* The most rows that a token of the batch sees; -EINVAL when those of a sequence have other sizes. */
static int64_t indexer_most(const struct dsv4_index_score *a)
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
	struct cuda_indexer_score_args args = { .n_head = a->n_head, .dim = a->dim, .n_seq = a->n_seq, .k = a->k,
						.scale = a->scale, .q = a->q, .w = a->w, .score = a->score, .lds = a->lds };
	int64_t most;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1)
		return -EINVAL;
	most = indexer_most(a);
	if (most < 0 || most > a->lds)
		return -EINVAL;
	if (most <= a->k || a->n_tok == 0)
		return 0;
	args.ld = (a->dim + 15) / 16 * 16 + INDEXER_PAD;
	args.heads = indexer_heads(a, args.ld);
	args.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.seq)
		return -ENOMEM;
	return cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = INDEXER_KERNEL_SCORE, .x = a->n_tok, .y = cuda_kernels_tiles(most, INDEXER_KEYS), .z = 1,
		.threads = INDEXER_WARPS * 32,
		.shared = args.heads ? (size_t)(INDEXER_KEYS + args.heads) * (size_t)args.ld * sizeof(uint16_t) : 0,
	}, &args, sizeof args);
}

static int indexer_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	struct cuda_indexer_topk_args args = { .k = a->k, .n_vis = a->n_vis, .score = a->score, .lds = a->lds,
						.rows = a->rows, .ldr = a->ldr, .count = a->count };

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 0)
		return -EINVAL;
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
