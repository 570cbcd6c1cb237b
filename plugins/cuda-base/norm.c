/* SPDX-License-Identifier: MIT
 * norm.c - rms_norm; rope with the rounding of what is stored.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/norm.h"
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

#define NORM_THREADS 256      /* most */
#define NORM_ROPE_THREADS 128
#define NORM_SUM_BLOCK 128    /* terms that eight threads sum (reduce.cuh) */

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
