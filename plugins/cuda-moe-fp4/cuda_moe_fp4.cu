/* SPDX-License-Identifier: MIT
 * cuda_moe_fp4.cu - products of routed experts with FP4 weights by tensor cores, for activations rounded to FP8: by bf16
 * here, on any GPU; by FP4 itself where there is a file for it.
 *
 * e2m1 values times their power-of-two scales are bf16 values (up to scales of 2^125), and so are e4m3 values: the
 * products are bf16's and exact, the sums fp32. The order of one output element: its blocks of 128 columns, which share an
 * activation's scale, are dealt to eight classes, block i to class i % 8, one for each warp; a block's products are
 * summed by eight steps of 16 columns, that sum times the activation's scale is added to the class; then the classes are
 * added upwards.
 *
 * Lane 4 g + t has the rows g and g + 8 of 16, and the columns [32 t, 32 t + 32) of a block, four a step, as long as both
 * sides agree on them. */
#include "plugins/cuda-moe-fp4/moe_fp4.h"
#include "plugins/cuda/linear_kernels.cuh"
#include "plugins/cuda/mma.cuh"
#include "plugins/cuda/moe_kernels.cuh"

#define MOE_FP4_BLOCK 128
#define MOE_FP4_STEPS 8
#define MOE_FP4_CLASSES 8 /* warps */
#define MOE_FP4_HALVES (MOE_FP4_ROWS / 16)

LINEAR_KERNELS(cuda_moe_fp4)
MOE_KERNELS(cuda_moe_fp4)

/* A lane's codes of one block of one row, and their scale as a pair of bf16. */
struct moe_fp4_codes { uint32_t word[4], scale; };

__device__ static void moe_fp4_load(const dsv4_weight &w, int64_t row, int64_t k, struct moe_fp4_codes *c)
{
	const uint8_t *data = static_cast<const uint8_t *>(w.data), *scale = static_cast<const uint8_t *>(w.scale);
	uint32_t bits = 0;

	words_load(data + row * ((w.cols + 1) / 2) + k / 2, k < w.cols ? (w.cols - k + 1) / 2 : 0, c->word);
	if (k < w.cols)
		bits = dsv4_f32_bits(dsv4_e8m0_to_f32(scale[row * ((w.cols + 31) / 32) + k / 32])) >> 16;
	c->scale = bits | bits << 16;
}

/* Four activations as two pairs of bf16, which they are; zero past the last column. */
__device__ static void moe_fp4_act(const float *x, int64_t left, uint32_t (&y)[2])
{
	uint32_t bits[4];

	if (left >= 4 && reinterpret_cast<uintptr_t>(x) % 16 == 0) {
		float4 v = *reinterpret_cast<const float4 *>(x);

		bits[0] = dsv4_f32_bits(v.x);
		bits[1] = dsv4_f32_bits(v.y);
		bits[2] = dsv4_f32_bits(v.z);
		bits[3] = dsv4_f32_bits(v.w);
	} else {
		UNROLL
		for (int i = 0; i < 4; i++)
			bits[i] = i < left ? dsv4_f32_bits(x[i]) : 0;
	}
	y[0] = bits[0] >> 16 | (bits[1] & 0xffff0000u);
	y[1] = bits[2] >> 16 | (bits[3] & 0xffff0000u);
}

/* One block of columns of the rows [MOE_FP4_ROWS] with all activations. */
__device__ static void moe_fp4_block(const struct product &p, int64_t block, float (&dot)[MOE_FP4_HALVES][4])
{
	int g = threadIdx.x % WARP / 4;
	int64_t k = block * MOE_FP4_BLOCK + threadIdx.x % 4 * 32;
	const float *x = p.x + (g < p.n ? product_from(p, g) * p.ldx : 0) + k;
	struct moe_fp4_codes c[MOE_FP4_HALVES][2];

	UNROLL
	for (int m = 0; m < MOE_FP4_HALVES; m++)
		UNROLL
		for (int r = 0; r < 2; r++) {
			int64_t row = p.row + 16 * m + 8 * r + g;

			moe_fp4_load(*p.w, row < p.row_end ? row : p.row_end - 1, k, &c[m][r]);
		}
	UNROLL
	for (int i = 0; i < MOE_FP4_STEPS; i++) {
		uint32_t y[2];

		moe_fp4_act(x + 4 * i, g < p.n ? p.w->cols - k - 4 * i : 0, y);
		UNROLL
		for (int m = 0; m < MOE_FP4_HALVES; m++) {
			uint32_t pair[2], a[4];

			UNROLL
			for (int r = 0; r < 2; r++) {
				mma_bf16_of_e2m1(c[m][r].word[i / 2] >> i % 2 * 16, c[m][r].scale, pair);
				a[r] = pair[0];
				a[r + 2] = pair[1];
			}
			mma_bf16(dot[m], a, y);
		}
	}
}

/* A block's products times the activations' scales go to the class. */
__device__ static void moe_fp4_add(const struct product &p, int64_t block, const float (&dot)[MOE_FP4_HALVES][4],
				   float (&sum)[MOE_FP4_HALVES][4])
{
	int t = threadIdx.x % 4;
	float scale[2];

	for (int c = 0; c < 2; c++)
		scale[c] = 2 * t + c < p.n ? p.scale[product_from(p, 2 * t + c) * p.lds + block] : 0.0f;
	UNROLL
	for (int m = 0; m < MOE_FP4_HALVES; m++)
		UNROLL
		for (int c = 0; c < 4; c++)
			sum[m][c] = fmaf(dot[m][c], scale[c % 2], sum[m][c]);
}

typedef float moe_fp4_part[MOE_FP4_CLASSES][MOE_FP4_ROWS][MOE_FP4_TILE]; /* shared memory */

/* Adds the classes up, of which this warp has one. */
__device__ static void moe_fp4_store(const struct product &p, const float (&sum)[MOE_FP4_HALVES][4], moe_fp4_part &part)
{
	UNROLL
	for (int m = 0; m < MOE_FP4_HALVES; m++)
		mma_store(part[threadIdx.x / WARP], 16 * m, sum[m]);
	__syncthreads();
	product_classes(part, p.n, p.row_end - p.row, p.y + p.row, p.ldy);
}

KERNEL(cuda_moe_fp4_products, struct moe_product_args, MOE_FP4_CLASSES * WARP)
{
	__shared__ moe_fp4_part part;
	struct product p = moe_product(a, MOE_FP4_ROWS / PRODUCT_WARPS);
	float sum[MOE_FP4_HALVES][4] = { { 0 } };

	if (p.n == 0)
		return;
	for (int64_t b = threadIdx.x / WARP; b < p.lds; b += MOE_FP4_CLASSES) {
		float dot[MOE_FP4_HALVES][4] = { { 0 } };

		moe_fp4_block(p, b, dot);
		moe_fp4_add(p, b, dot, sum);
	}
	moe_fp4_store(p, sum, part);
}

/* Activations that are not rounded: fp32. */
KERNEL(cuda_moe_fp4_plain, struct moe_product_args, PRODUCT_THREADS)
{
	__shared__ float4 tile[PRODUCT_TILE / 4];
	struct product p = moe_product(a, PRODUCT_MANY_ROWS);

	if (p.n > 0)
		product_run<DSV4_W_FP4, PRODUCT_MANY>(p, tile);
}

#include "plugins/cuda-moe-fp4/products_sm100.cu"
#include "plugins/cuda-moe-fp4/products_sm120.cu"
