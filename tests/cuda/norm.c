/* SPDX-License-Identifier: MIT
 * norm.c - a plugin for GPUs with rms_norm alone, whose kernel is cuda_norm_NORM of norm.cu:
 * right, or wrong in one way.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/norm.h"
#include "plugins/cuda/cuda_kernels.h"

#include <errno.h>

#define NORM_THREADS 256      /* most */
#define NORM_SUM_BLOCK 128    /* terms that eight threads sum (reduce.cuh) */

static int norm_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[] = { NORM };

	return cuda_kernels_open(host, "cuda_norm_", name, 1, ret_state);
}

static int norm_rms(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	const struct norm_rms_args args = { .dim = a->dim, .eps = a->eps, .weight = a->weight, .x = a->x,
					    .ldx = a->ldx, .y = a->y, .ldy = a->ldy };
	int64_t threads = 32 * cuda_kernels_tiles(a->dim, 4 * NORM_SUM_BLOCK);

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0)
		return -EINVAL;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = 0, .x = a->n_row, .y = 1, .z = 1,
				   .threads = threads < NORM_THREADS ? (int)threads : NORM_THREADS);
}

#define NORM_OPS(OP) OP(rms_norm, BOTH, ANY, EXACT, "fp32-gpu", norm_rms)
DSV4_PLUGIN("norm-" NORM, "1.0", "", "sm_80", NORM_OPS, norm_open, NULL, cuda_kernels_close)
