/* SPDX-License-Identifier: MIT
 * norm.c - rms_norm; rope with the rounding of what is stored; sum.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/norm.h"
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

#define NORM_THREADS 256      /* most */
#define NORM_ROPE_THREADS 128
#define NORM_SUM_BLOCK 128    /* terms that eight threads sum (reduce.cuh) */
#define NORM_ADD_THREADS 256

int cuda_base_rms_norm(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	const struct norm_rms_args args = { .dim = a->dim, .eps = a->eps, .weight = a->weight, .x = a->x,
					    .ldx = a->ldx, .y = a->y, .ldy = a->ldy };
	int64_t threads;

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0)
		return -EINVAL;
	/* whole warps, and no more than have terms: the order is the same for any number */
	threads = 32 * cuda_kernels_tiles(a->dim, 4 * NORM_SUM_BLOCK);
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_rms_norm, .x = a->n_row, .y = 1, .z = 1,
				   .threads = threads < NORM_THREADS ? (int)threads : NORM_THREADS);
}

int cuda_base_round_ok(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index)
{
	if (n_kv < 0 || kv >= DSV4_ROUND_FP4 || index > DSV4_ROUND_FP4)
		return 0;
	return index == DSV4_ROUND_NONE ||
	       (kv == DSV4_ROUND_NONE && n_index > 0 && (n_index & (n_index - 1)) == 0);
}

int cuda_base_rope(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rope *a)
{
	const struct norm_rope_args args = { .dim = a->dim, .rot = a->rot, .inverse = a->inverse, .kv = a->kv,
					     .index = a->index, .cs = a->cs, .x = a->x, .ldx = a->ldx };

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->rot < 0 || a->rot % 2 || a->dim < a->rot ||
	    !cuda_base_round_ok(a->dim - a->rot, a->kv, a->dim, a->index))
		return -EINVAL;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_rope, .x = a->n_tok, .y = a->n_head, .z = 1,
				   .threads = NORM_ROPE_THREADS, .shared = (size_t)a->dim * sizeof(float));
}

int cuda_base_sum(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_sum *a)
{
	const struct norm_sum_args args = { .dim = a->dim, .n_part = a->n_part, .every = a->every, .base = a->base,
					    .ldb = a->ldb, .x = a->x, .ldx = a->ldx, .ldp = a->ldp, .y = a->y,
					    .ldy = a->ldy };

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0 || a->n_part < 1 || a->every < 1)
		return -EINVAL;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_sum, .x = a->n_row,
				   .y = cuda_kernels_tiles(a->dim, NORM_ADD_THREADS), .z = 1,
				   .threads = NORM_ADD_THREADS);
}
