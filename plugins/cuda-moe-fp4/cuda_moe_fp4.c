/* SPDX-License-Identifier: MIT
 * cuda_moe_fp4.c - cuda-moe-fp4: routed experts with FP4 weights, by tensor cores where activations are rounded; shared
 * ones of any format in fp32. Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-moe-fp4/moe_fp4.h"
#include "plugins/cuda/moe_run.h"

#define MOE_FP4_KERNELS(K) LINEAR_LIST(K) MOE_LIST(K) K(products) K(plain)
enum moe_fp4_kernel { MOE_FP4_BEFORE = MOE_N_KERNEL - 1, MOE_FP4_PRODUCTS, MOE_FP4_PLAIN, MOE_FP4_N_KERNEL };

static int moe_fp4_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[] = {
#define KERNEL(name) #name,
		MOE_FP4_KERNELS(KERNEL)
#undef KERNEL
	};

	_Static_assert(sizeof name / sizeof *name == MOE_FP4_N_KERNEL, "a name for every kernel");
	return cuda_kernels_open(host, "cuda_moe_fp4_", name, MOE_FP4_N_KERNEL, ret_state);
}

static int32_t moe_fp4_tile(const struct dsv4_moe_experts *a, int32_t n_tok)
{
	(void)a, (void)n_tok;
	return MOE_FP4_TILE;
}

static int moe_fp4_product(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
			   const struct dsv4_weight *w, int64_t n_tile, int32_t tile_n)
{
	(void)tile_n;
	return CUDA_KERNELS_LAUNCH(x, host, args, .kernel = args->scale ? MOE_FP4_PRODUCTS : MOE_FP4_PLAIN, .x = n_tile,
				   .y = cuda_kernels_tiles(w->rows, args->scale ? MOE_FP4_ROWS : LINEAR_MANY_ROWS), .z = 1,
				   .threads = 256);
}

static int moe_fp4_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	static const struct moe_how how = { .tile = moe_fp4_tile, .product = moe_fp4_product };

	return moe_run(x, host, a, &how);
}

#define MOE_FP4_OPS(OP) OP(moe_experts, BOTH, FP4, ORDER, "fp32-gpu-mma", moe_fp4_experts)
DSV4_PLUGIN("cuda-moe-fp4", "1.0", "", "sm_80", MOE_FP4_OPS, moe_fp4_open, NULL, cuda_kernels_close)
