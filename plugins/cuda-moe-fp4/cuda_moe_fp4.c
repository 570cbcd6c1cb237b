/* SPDX-License-Identifier: MIT
 * cuda_moe_fp4.c - cuda-moe-fp4: routed experts with FP4 weights, by tensor cores where activations are rounded; shared
 * ones of any format in fp32. Threads: the engine's calls. Locks: none.
 *
 * Which tensor cores multiply FP4 themselves goes by the GPU's `sm`, exactly: that code is for one architecture alone,
 * later ones run the PTX, which has it not. */
#include "plugins/cuda-moe-fp4/moe_fp4.h"
#include "plugins/cuda/moe_run.h"

#include <syslog.h>

#define MOE_FP4_KERNELS(K) LINEAR_LIST(K) MOE_LIST(K) K(products) K(products_sm100) K(products_sm120) K(plain)
enum moe_fp4_kernel {
	MOE_FP4_BEFORE = MOE_N_KERNEL - 1, MOE_FP4_PRODUCTS, MOE_FP4_PRODUCTS_SM100, MOE_FP4_PRODUCTS_SM120, MOE_FP4_PLAIN,
	MOE_FP4_N_KERNEL
};

/* How the products with rounded activations are computed. */
struct moe_fp4_way {
	int sm;            /* where; 0: elsewhere */
	struct moe_how how;
	const char *text;  /* for the log */
};
static const struct moe_fp4_way *moe_fp4_way(const struct dsv4_host *host);

static int moe_fp4_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[] = {
#define KERNEL(name) #name,
		MOE_FP4_KERNELS(KERNEL)
#undef KERNEL
	};

	_Static_assert(sizeof name / sizeof *name == MOE_FP4_N_KERNEL, "a name for every kernel");
	if (host->gpu)
		host->log(host, LOG_INFO, moe_fp4_way(host)->text);
	return cuda_kernels_open(host, "cuda_moe_fp4_", name, MOE_FP4_N_KERNEL, ret_state);
}

static int32_t moe_fp4_tile(const struct dsv4_moe_experts *a, int32_t n_tok)
{
	(void)a, (void)n_tok;
	return MOE_FP4_TILE;
}

/* By blocks of MOE_FP4_ROWS, or in fp32 where activations are not rounded. */
static int moe_fp4_launch(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
			  const struct dsv4_weight *w, int64_t n_tile, enum moe_fp4_kernel rounded)
{
	return CUDA_KERNELS_LAUNCH(x, host, args, .kernel = args->scale ? rounded : MOE_FP4_PLAIN, .x = n_tile,
				   .y = cuda_kernels_tiles(w->rows, args->scale ? MOE_FP4_ROWS : LINEAR_MANY_ROWS), .z = 1,
				   .threads = 256);
}

static int moe_fp4_decoded(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
			   const struct dsv4_weight *w, int64_t n_tile, int32_t tile_n)
{
	(void)tile_n;
	return moe_fp4_launch(x, host, args, w, n_tile, MOE_FP4_PRODUCTS);
}

static int moe_fp4_sm120(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
			 const struct dsv4_weight *w, int64_t n_tile, int32_t tile_n)
{
	(void)tile_n;
	return moe_fp4_launch(x, host, args, w, n_tile, MOE_FP4_PRODUCTS_SM120);
}

static int32_t moe_fp4_tile_sm100(const struct dsv4_moe_experts *a, int32_t n_tok)
{
	return a->act == DSV4_ACT_FP8 ? MOE_FP4_SM100_TILE : moe_fp4_tile(a, n_tok);
}

static int moe_fp4_sm100(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
			 const struct dsv4_weight *w, int64_t n_tile, int32_t tile_n)
{
	(void)tile_n;
	if (!args->scale)
		return moe_fp4_launch(x, host, args, w, n_tile, MOE_FP4_PLAIN);
	return CUDA_KERNELS_LAUNCH(x, host, args, .kernel = MOE_FP4_PRODUCTS_SM100, .x = n_tile,
				   .y = cuda_kernels_tiles(w->rows, MOE_FP4_SM100_ROWS), .z = 1,
				   .threads = MOE_FP4_SM100_THREADS);
}

static const struct moe_fp4_way *moe_fp4_way(const struct dsv4_host *host)
{
	static const struct moe_fp4_way ways[] = {
		{ 100, { .codes = 1, .tile = moe_fp4_tile_sm100, .product = moe_fp4_sm100 },
		  "FP4 weights go into sm_100a's tensor cores as they are" },
		{ 120, { .codes = 1, .tile = moe_fp4_tile, .product = moe_fp4_sm120 },
		  "FP4 weights go into sm_120a's tensor cores as they are" },
		{ 0, { .tile = moe_fp4_tile, .product = moe_fp4_decoded },
		  "FP4 weights are decoded to bf16 for the tensor cores" },
	};
	const struct moe_fp4_way *w = ways;

	while (w->sm && w->sm != host->gpu->sm)
		w++;
	return w;
}

static int moe_fp4_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	return moe_run(x, host, a, &moe_fp4_way(host)->how);
}

#define MOE_FP4_OPS(OP) OP(moe_experts, BOTH, FP4, ORDER, "fp32-gpu-mma", moe_fp4_experts)
DSV4_PLUGIN("cuda-moe-fp4", "1.0", "", "sm_80", MOE_FP4_OPS, moe_fp4_open, NULL, cuda_kernels_close)
