/* SPDX-License-Identifier: MIT
 * moe.c - choose experts and their weights; run the chosen and the shared ones.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

_Static_assert((int)CUDA_BASE_linear_f32 == (int)CUDA_K_linear_f32 && (int)CUDA_BASE_moe_sum == (int)CUDA_K_moe_sum,
	       "what cuda/ launches comes first");
_Static_assert(CUDA_BASE_moe_nvfp4 == CUDA_BASE_moe_f32 + 2 * DSV4_W_NVFP4, "pairs in the order of formats");

int cuda_base_moe_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct moe_route_args args = { .n_expert = a->n_expert, .k = a->k, .scaling = a->scaling, .bias = a->bias,
				       .table = a->table, .token = a->token, .ids = a->ids, .weight = a->weight };
	struct linear_product p = { .w = a->gate, .n_tok = a->n_tok, .n_group = 1,
				    .a = { .x = a->x, .ldx = a->dim }, .ldy = a->n_expert };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 1 || a->k > a->n_expert ||
	    !dsv4_weight_ok(a->gate, a->n_expert, a->dim))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	args.z = p.y = host->scratch(x, (size_t)a->n_tok * (size_t)a->n_expert * sizeof *p.y);
	if (!p.y)
		return -ENOMEM;
	rc = linear_product_run(x, host, &p);
	if (rc)
		return rc;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_moe_route, .x = a->n_tok, .y = 1, .z = 1,
				   .threads = 256, .shared = ((size_t)a->n_expert * 2 + (size_t)a->k) * sizeof(float));
}

/* One pair per tile where most experts have no more. */
static int32_t moe_tile(const struct dsv4_moe_experts *a, int32_t n_tok)
{
	return n_tok > 1 && (int64_t)n_tok * a->k > a->n_expert ? LINEAR_TILE : 1;
}

static int moe_product(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
		       const struct dsv4_weight *w, int64_t n_tile, int32_t tile_n)
{
	int many = tile_n > 1;

	return CUDA_KERNELS_LAUNCH(x, host, args, .kernel = CUDA_BASE_moe_f32 + 2 * w->fmt + many, .x = n_tile,
				   .y = cuda_kernels_tiles(w->rows, many ? LINEAR_MANY_ROWS : LINEAR_ROWS), .z = 1,
				   .threads = 256);
}

int cuda_base_moe_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	static const struct moe_how how = { .tile = moe_tile, .product = moe_product };

	return moe_run(x, host, a, &how);
}
