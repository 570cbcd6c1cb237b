/* SPDX-License-Identifier: MIT
 * moe.cu - choose experts and their weights; the products of the chosen ones for every weight format. */
#include "plugins/cuda/moe_kernels.cuh"

/* ---- routing ---- */

/* log(1 + e^z), which is z to the last bit above 20 */
__device__ static float moe_softplus(float z)
{
	return z > 20.0f ? z : log1pf(expf(z));
}

/* Does v rank above w? NaN is below everything, -inf included. */
__device__ static bool moe_above(float v, float w)
{
	return v > w || (v == v && w != w);
}

__device__ static float moe_ranked(const struct moe_route_args &a, const float *s, int e)
{
	return a.bias ? s[e] + a.bias[e] : s[e];
}

/* chosen[e]: is e among the k best? Ties go to the lower id. */
__device__ static void moe_choose(const struct moe_route_args &a, const float *s, int *chosen)
{
	for (int e = threadIdx.x; e < a.n_expert; e += blockDim.x) {
		float mine = moe_ranked(a, s, e);
		int above = 0;

		for (int f = 0; f < a.n_expert; f++) {
			float v = moe_ranked(a, s, f);

			above += moe_above(v, mine) || (f < e && !moe_above(mine, v));
		}
		chosen[e] = above < a.k;
	}
	__syncthreads();
}

/* The chosen experts' ids, rising. */
__device__ static void moe_list(const struct moe_route_args &a, const int *chosen, int *id)
{
	for (int e = threadIdx.x; e < a.n_expert; e += blockDim.x) {
		int before = 0;

		for (int f = 0; f < e; f++)
			before += chosen[f];
		if (chosen[e])
			id[before] = e;
	}
	__syncthreads();
}

/* Id i of the row of the table that is the token's; -1 when it is no expert. */
__device__ static int moe_table_id(const struct moe_route_args &a, int token, int i)
{
	const uint8_t *p = reinterpret_cast<const uint8_t *>(a.table) + (static_cast<int64_t>(token) * a.k + i) * 8;
	uint32_t word[2];

	if (token < 0)
		return -1;
	words_load(p, 8, word);
	return word[1] == 0 && word[0] < static_cast<uint32_t>(a.n_expert) ? static_cast<int>(word[0]) : -1;
}

/* The ids of the token's row of the table, rising; what is no expert comes first. */
__device__ static void moe_look_up(const struct moe_route_args &a, int token, int *id)
{
	for (int i = threadIdx.x; i < a.k; i += blockDim.x) {
		int mine = moe_table_id(a, token, i), before = 0;

		for (int j = 0; j < a.k; j++) {
			int other = moe_table_id(a, token, j);

			before += other < mine || (other == mine && j < i);
		}
		id[before] = mine;
	}
	__syncthreads();
}

KERNEL(cuda_base_moe_route, struct moe_route_args, 256)
{
	DYNAMIC_SHARED(float, s);
	int *chosen = reinterpret_cast<int *>(s + a.n_expert), *id = chosen + a.n_expert;
	int64_t t = blockIdx.x;
	float sum = 0;

	for (int e = threadIdx.x; e < a.n_expert; e += blockDim.x)
		s[e] = sqrtf(moe_softplus(a.z[t * a.n_expert + e]));
	__syncthreads();
	if (a.table) {
		moe_look_up(a, a.token[t], id);
	} else {
		moe_choose(a, s, chosen);
		moe_list(a, chosen, id);
	}
	for (int i = 0; i < a.k; i++)
		if (id[i] >= 0)
			sum += s[id[i]];
	for (int i = threadIdx.x; i < a.k; i += blockDim.x) {
		a.ids[t * a.k + i] = id[i];
		a.weight[t * a.k + i] = id[i] < 0 ? 0.0f : s[id[i]] / sum * a.scaling;
	}
}

/* ---- experts ---- */

MOE_KERNELS(cuda_base)

#define MOE(name, fmt) \
	KERNEL(cuda_base_moe_##name, struct moe_product_args, PRODUCT_THREADS) \
	{ \
		__shared__ float4 tile[PRODUCT_TILE / 4]; \
		struct product p = moe_product(a, 1); \
\
		if (p.n > 0) \
			product_run<fmt, PRODUCT_ONE>(p, tile); \
	} \
	KERNEL(cuda_base_moe_##name##_many, struct moe_product_args, PRODUCT_THREADS) \
	{ \
		__shared__ float4 tile[PRODUCT_TILE / 4]; \
		struct product p = moe_product(a, PRODUCT_MANY_ROWS); \
\
		if (p.n > 0) \
			product_run<fmt, PRODUCT_MANY>(p, tile); \
	}
MOE(f32, DSV4_W_F32)
MOE(bf16, DSV4_W_BF16)
MOE(fp8, DSV4_W_FP8)
MOE(fp4, DSV4_W_FP4)
MOE(nvfp4, DSV4_W_NVFP4)
