/* SPDX-License-Identifier: MIT
 * linear_run.h - matrix products of any plugin whose kernels are linear_kernels.cuh's, and come first in its list.
 * Threads: as the plugin's. Locks: none. */
#ifndef CUDA_LINEAR_RUN_H
#define CUDA_LINEAR_RUN_H

#include "plugins/cuda/cuda_kernels.h"
#include "plugins/dsv4_weight.h"

/* Pairs in the order of enum dsv4_wfmt: for one token, for tiles of many. */
#define LINEAR_LIST(K) \
	K(linear_f32) K(linear_f32_many) K(linear_bf16) K(linear_bf16_many) K(linear_fp8) K(linear_fp8_many) \
	K(linear_fp4) K(linear_fp4_many) K(linear_nvfp4) K(linear_nvfp4_many) K(linear_act)
#define CUDA_K(name) CUDA_K_##name,
enum linear_kernel { LINEAR_LIST(CUDA_K) LINEAR_N_KERNEL };

/* The tile of the "many" kernels (product.cuh), and the rows of a block of either kind. */
#define LINEAR_TILE 8
#define LINEAR_ROWS 8
#define LINEAR_MANY_ROWS 16

/* Rows of activations, plain, or e4m3 values with a scale per 128 columns of each group. */
struct linear_act {
	const float *x;
	int64_t ldx;
	const float *scale; /* or NULL */
	const uint8_t *code; /* [.][scales * 128] e4m3 codes of x, zero after the last column; or NULL */
};

/* Scales of n_group * cols activations. */
int64_t linear_act_scales(int32_t n_group, int64_t cols);

/* Where rounded rows go: memory for what linear_act has of them. */
struct linear_rounded {
	float *q, *scale;
	uint8_t *code; /* or NULL */
};
/* Rounds n rows and points *a at what came of them. */
int linear_act_round(struct dsv4_exec *x, const struct dsv4_host *host, int64_t n, int32_t n_group, int64_t cols,
		     struct linear_act *a, const struct linear_rounded *to);

/* y[t] = a[t] W^T, or added to y. */
struct linear_product {
	const struct dsv4_weight *w;
	int32_t n_tok, n_group;
	struct linear_act a;
	float *y;
	int64_t ldy;
	int accumulate;
};
int linear_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct linear_product *p);

#endif
