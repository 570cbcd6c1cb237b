/* SPDX-License-Identifier: MIT
 * moe_run.h - routed and shared experts of any plugin whose kernels are linear_kernels.cuh's, then moe_kernels.cuh's,
 * and come first in its list; the products of the routed ones are the plugin's own. Threads: as the plugin's. Locks:
 * none. */
#ifndef CUDA_MOE_RUN_H
#define CUDA_MOE_RUN_H

#include "plugins/cuda/linear_run.h"
#include "plugins/cuda/moe_args.h"

#define MOE_LIST(K) K(moe_group) K(moe_gate) K(moe_sum)
enum moe_kernel { MOE_BEFORE = LINEAR_N_KERNEL - 1, MOE_LIST(CUDA_K) MOE_N_KERNEL };

/* How a plugin computes one matrix of all chosen experts. */
struct moe_how {
	int codes; /* are the codes of rounded activations wanted, too (moe_product_args.code)? */
	/* Pairs of a tile, for n_tok tokens. */
	int32_t (*tile)(const struct dsv4_moe_experts *a, int32_t n_tok);
	/* n_tile tiles at most, of tile_n pairs, and a matrix like w. */
	int (*product)(struct dsv4_exec *x, const struct dsv4_host *host, const struct moe_product_args *args,
		       const struct dsv4_weight *w, int64_t n_tile, int32_t tile_n);
};
int moe_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a,
	    const struct moe_how *how);

#endif
