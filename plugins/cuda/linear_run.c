/* SPDX-License-Identifier: MIT
 * linear_run.c - matrix products of any plugin whose kernels are linear_kernels.cuh's. The order of sums: product.cuh.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda/linear_run.h"
#include "plugins/cuda/linear_args.h"

#define LINEAR_ACT_BLOCK 128 /* columns that share a scale */
#define LINEAR_ACT_WARPS 8   /* such blocks of a block of threads */

_Static_assert(CUDA_K_linear_nvfp4 == CUDA_K_linear_f32 + 2 * DSV4_W_NVFP4, "pairs in the order of formats");

int64_t linear_act_scales(int32_t n_group, int64_t cols)
{
	return n_group * cuda_kernels_tiles(cols, LINEAR_ACT_BLOCK);
}

int linear_act_round(struct dsv4_exec *x, const struct dsv4_host *host, int64_t n, int32_t n_group, int64_t cols,
		     struct linear_act *a, const struct linear_rounded *to)
{
	const struct linear_act_args args = { .cols = cols, .x = a->x, .ldx = a->ldx, .q = to->q, .scale = to->scale,
					      .code = to->code };

	*a = (struct linear_act){ .x = to->q, .ldx = n_group * cols, .scale = to->scale, .code = to->code };
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_K_linear_act, .x = n,
				   .y = cuda_kernels_tiles(cols, LINEAR_ACT_BLOCK * LINEAR_ACT_WARPS), .z = n_group,
				   .threads = LINEAR_ACT_WARPS * 32);
}

int linear_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct linear_product *p)
{
	const struct linear_args args = {
		.w = *p->w, .n_tok = p->n_tok, .n_group = p->n_group, .x = p->a.x, .ldx = p->a.ldx,
		.scale = p->a.scale, .y = p->y, .ldy = p->ldy, .accumulate = p->accumulate,
	};
	int many = p->n_tok > 1;

	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_K_linear_f32 + 2 * p->w->fmt + many,
				   .x = cuda_kernels_tiles(p->n_tok, many ? LINEAR_TILE : 1),
				   .y = cuda_kernels_tiles(p->w->rows / p->n_group,
							   many ? LINEAR_MANY_ROWS : LINEAR_ROWS),
				   .z = p->n_group, .threads = 256);
}
