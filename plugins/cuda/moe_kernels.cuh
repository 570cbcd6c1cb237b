/* SPDX-License-Identifier: MIT
 * moe_kernels.cuh - what surrounds the products of the chosen experts: the kernels of any plugin that has
 * MOE_KERNELS(its name).
 *
 * Every pair of a token and an expert gets its own row of results; the rows of a token are added in rising id, as in
 * plugins/ref/moe.c. So nothing depends on how pairs share tiles. */
#ifndef CUDA_MOE_KERNELS_CUH
#define CUDA_MOE_KERNELS_CUH

#include "plugins/cuda/act.cuh"
#include "plugins/cuda/moe_args.h"
#include "plugins/cuda/product.cuh"

/* Sorts the pairs of experts that are here by expert and cuts each one's into tiles. A thread has every 256th expert. */
__device__ inline void moe_group(const struct moe_group_args &a, int *count)
{
	int *tiles = count + a.n_expert;

	for (int e = threadIdx.x; e < a.n_expert; e += blockDim.x) {
		int n = 0;

		for (int i = 0; i < a.n_pair; i++)
			n += a.ids[i] == e;
		count[e] = n > 0 && a.expert[e].w1.data ? n : 0;
		tiles[e] = (count[e] + a.tile_n - 1) / a.tile_n;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < a.n_pair; i += blockDim.x)
		if (a.ids[i] < 0 || a.ids[i] >= a.n_expert || count[a.ids[i]] == 0)
			a.at[i] = -1;
	for (int e = threadIdx.x; e < a.n_expert; e += blockDim.x) {
		int first = 0, tile = 0, n = 0;

		for (int f = 0; f < e; f++) {
			first += count[f];
			tile += tiles[f];
		}
		for (int i = 0; i < tiles[e]; i++) {
			int left = count[e] - i * a.tile_n;

			a.tile[tile + i] = { e, first + i * a.tile_n, left < a.tile_n ? left : a.tile_n };
		}
		for (int i = 0; i < a.n_pair && n < count[e]; i++)
			if (a.ids[i] == e) {
				a.at[i] = first + n;
				a.tok[first + n] = i / a.k;
				a.sorted_weight[first + n] = a.weight[i];
				n++;
			}
		if (e == a.n_expert - 1) {
			*a.n_tile = tile + tiles[e];
			*a.n_sorted = first + count[e];
		}
	}
}

__device__ inline const dsv4_weight *moe_weight(const dsv4_expert &e, int which)
{
	return which == MOE_W1 ? &e.w1 : which == MOE_W2 ? &e.w2 : &e.w3;
}

/* What this block computes; it has no activations when there is nothing to do. */
__device__ inline struct product moe_product(const struct moe_product_args &a, int rows)
{
	struct product p = {};
	struct moe_tile tile;
	int i = blockIdx.x;

	if (i >= *a.n_tile)
		return p;
	tile = a.tile[i];
	p.w = moe_weight(a.expert[tile.expert], a.which);
	p.row = static_cast<int64_t>(blockIdx.y) * rows * PRODUCT_WARPS;
	p.row_end = p.w->rows;
	p.n = tile.n;
	p.ldx = p.w->cols;
	p.lds = (p.w->cols + ACT_BLOCK - 1) / ACT_BLOCK;
	p.from = a.from ? a.from + tile.first : nullptr;
	p.x = a.from ? a.x : a.x + tile.first * p.ldx;
	p.scale = a.scale && !a.from ? a.scale + tile.first * p.lds : a.scale;
	p.ldy = p.w->rows;
	p.y = a.y + tile.first * p.ldy;
	return p;
}

/* The codes of activation t of this block. */
__device__ inline const uint8_t *moe_codes(const struct moe_product_args &a, const struct product &p, int t)
{
	int64_t row = p.from ? p.from[t] : a.tile[blockIdx.x].first + t;

	return a.code + row * p.lds * ACT_BLOCK;
}

/* Both clamped first; NaN passes the clamps. */
__device__ inline float moe_gate(float g, float u, float limit)
{
	g = g > limit ? limit : g;
	u = u > limit ? limit : u < -limit ? -limit : u;
	return g * (1.0f / (1.0f + expf(-g))) * u;
}

/* One warp per block of 128 columns. */
__device__ inline void moe_gates(const struct moe_gate_args &a)
{
	int n_block = (a.inter + ACT_BLOCK - 1) / ACT_BLOCK, block = blockIdx.y * (256 / WARP) + threadIdx.x / WARP;
	int64_t row = blockIdx.x, at = row * a.inter + static_cast<int64_t>(block) * ACT_BLOCK;
	int left = a.inter - block * ACT_BLOCK, n = left < ACT_BLOCK ? left : ACT_BLOCK;
	float weight, limit = a.limit > 0 ? a.limit : INFINITY, v[ACT_BLOCK / WARP];
	uint8_t code[ACT_BLOCK / WARP];

	if (block >= n_block || (a.n_row && row >= *a.n_row))
		return;
	weight = a.weight ? a.weight[row] : 1.0f;
	for (int i = 0; i < ACT_BLOCK / WARP; i++) {
		int c = threadIdx.x % WARP + i * WARP;

		v[i] = c < n ? weight * moe_gate(a.g[at + c], a.u[at + c], limit) : 0.0f;
	}
	if (a.scale) {
		float scale = act_split(v, code);

		if (threadIdx.x % WARP == 0)
			a.scale[row * n_block + block] = scale;
	}
	for (int i = 0; i < ACT_BLOCK / WARP; i++) {
		int c = threadIdx.x % WARP + i * WARP;

		if (a.code)
			a.code[(row * n_block + block) * ACT_BLOCK + c] = code[i];
		else if (c < n)
			a.g[at + c] = v[i];
	}
}

/* y = out_scale * the sum of the token's pairs in rising id, + shared. */
__device__ inline void moe_sum(const struct moe_sum_args &a, int *at)
{
	int64_t t = blockIdx.x, d = static_cast<int64_t>(blockIdx.y) * 256 + threadIdx.x;
	const int32_t *mine = a.at + t * a.k;
	float sum = 0;

	for (int i = threadIdx.x; i < a.k; i += blockDim.x) {
		int before = 0;

		for (int j = 0; j < a.k; j++)
			before += mine[j] < mine[i] || (mine[j] == mine[i] && j < i);
		at[before] = mine[i];
	}
	__syncthreads();
	if (d >= a.dim)
		return;
	for (int i = 0; i < a.k; i++)
		if (at[i] >= 0)
			sum += a.part[at[i] * static_cast<int64_t>(a.dim) + d];
	sum *= a.out_scale;
	a.y[t * a.dim + d] = a.shared ? sum + a.shared[t * a.dim + d] : sum;
}

#define MOE_KERNELS(plugin) \
	KERNEL(plugin##_moe_group, struct moe_group_args, 256) \
	{ \
		DYNAMIC_SHARED(int, count); \
\
		moe_group(a, count); \
	} \
	KERNEL(plugin##_moe_gate, struct moe_gate_args, 256) { moe_gates(a); } \
	KERNEL(plugin##_moe_sum, struct moe_sum_args, 256) \
	{ \
		DYNAMIC_SHARED(int, at); \
\
		moe_sum(a, at); \
	}

#endif
