/* SPDX-License-Identifier: MIT
 * linear_kernels.cuh - y = x W^T for every weight format, and the rounding of activations before quantised weights: the
 * kernels of any plugin that has LINEAR_KERNELS(its name). */
#ifndef CUDA_LINEAR_KERNELS_CUH
#define CUDA_LINEAR_KERNELS_CUH

#include "plugins/cuda/act.cuh"
#include "plugins/cuda/linear_args.h"
#include "plugins/cuda/product.cuh"

/* Where this block's tile lies in the product, for tiles of n tokens. */
__device__ inline struct product linear_tile(const struct linear_args &a, int n, int rows)
{
	int64_t t = static_cast<int64_t>(blockIdx.x) * n, group = blockIdx.z, group_rows = a.w.rows / a.n_group;
	int64_t n_scale = (a.w.cols + ACT_BLOCK - 1) / ACT_BLOCK;
	struct product p = {};

	p.w = &a.w;
	p.row = group * group_rows + static_cast<int64_t>(blockIdx.y) * rows * PRODUCT_WARPS;
	p.row_end = (group + 1) * group_rows;
	p.n = n < a.n_tok - t ? n : static_cast<int>(a.n_tok - t);
	p.x = a.x + t * a.ldx + group * a.w.cols;
	p.ldx = a.ldx;
	p.lds = a.n_group * n_scale;
	p.scale = a.scale ? a.scale + t * p.lds + group * n_scale : nullptr;
	p.y = a.y + t * a.ldy;
	p.ldy = a.ldy;
	p.accumulate = a.accumulate != 0;
	return p;
}

#define LINEAR_KERNEL(plugin, name, fmt) \
	KERNEL(plugin##_linear_##name, struct linear_args, PRODUCT_THREADS) \
	{ \
		__shared__ float4 tile[PRODUCT_TILE / 4]; \
		struct product p = linear_tile(a, 1, 1); \
\
		product_run<fmt, PRODUCT_ONE>(p, tile); \
	} \
	KERNEL(plugin##_linear_##name##_many, struct linear_args, PRODUCT_THREADS) \
	{ \
		__shared__ float4 tile[PRODUCT_TILE / 4]; \
		struct product p = linear_tile(a, PRODUCT_MANY_TOKENS, PRODUCT_MANY_ROWS); \
\
		product_run<fmt, PRODUCT_MANY>(p, tile); \
	}

/* One warp per block of 128 columns. */
__device__ inline void linear_act(const struct linear_act_args &a)
{
	int64_t n_block = (a.cols + ACT_BLOCK - 1) / ACT_BLOCK, block = blockIdx.y * (256 / WARP) + threadIdx.x / WARP;
	int64_t t = blockIdx.x, row = t * gridDim.z + blockIdx.z, k = block * ACT_BLOCK, left = a.cols - k;
	int n = left < ACT_BLOCK ? static_cast<int>(left) : ACT_BLOCK;
	float v[ACT_BLOCK / WARP], scale;
	uint8_t code[ACT_BLOCK / WARP];

	if (block >= n_block)
		return;
	for (int i = 0; i < ACT_BLOCK / WARP; i++) {
		int c = threadIdx.x % WARP + i * WARP;

		v[i] = c < n ? a.x[t * a.ldx + blockIdx.z * a.cols + k + c] : 0.0f;
	}
	scale = act_split(v, code);
	if (threadIdx.x % WARP == 0)
		a.scale[row * n_block + block] = scale;
	for (int i = 0; i < ACT_BLOCK / WARP; i++) {
		int c = threadIdx.x % WARP + i * WARP;

		if (c < n)
			a.q[row * a.cols + k + c] = v[i];
		if (a.code)
			a.code[(row * n_block + block) * ACT_BLOCK + c] = code[i];
	}
}

#define LINEAR_KERNELS(plugin) \
	LINEAR_KERNEL(plugin, f32, DSV4_W_F32) \
	LINEAR_KERNEL(plugin, bf16, DSV4_W_BF16) \
	LINEAR_KERNEL(plugin, fp8, DSV4_W_FP8) \
	LINEAR_KERNEL(plugin, fp4, DSV4_W_FP4) \
	LINEAR_KERNEL(plugin, nvfp4, DSV4_W_NVFP4) \
	KERNEL(plugin##_linear_act, struct linear_act_args, 256) { linear_act(a); }

#endif
