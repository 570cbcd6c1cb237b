/* SPDX-License-Identifier: MIT
 * products_sm120.cu - the same products on sm_120a, whose tensor cores multiply e2m1 by e4m3: nothing is decoded.
 *
 * The order is cuda_moe_fp4.cu's, but for a block's steps: four of 32 columns, which share the weights' scales. Those go into
 * the instruction, so that none is too large for a number format; an activation's, which may be infinite, does not: it
 * multiplies the block's sum, as there.
 *
 * Lane 4 g + t has the columns [8 t, 8 t + 8) of a step's 32: on both sides the even ones in the first register of four, the odd
 * ones in the second. As far as scales go, it has the row 8 t + g of the 32: those of a block's four steps, a byte each. */
#include "plugins/cuda/mma.cuh"
#include "plugins/cuda/moe_kernels.cuh"

#define MOE_FP4_SM120_STEPS (MOE_FP4_BLOCK / 32)
#define MOE_FP4_SM120_ONE 127 /* as e8m0 */

static_assert(MOE_FP4_HALVES == 2, "a lane has the scales of one row: those of two times 16 are in a warp");

/* The row, or the last one where there is none. */
__device__ static int64_t moe_fp4_sm120_row(const struct product &p, int r)
{
	return p.row + r < p.row_end ? p.row + r : p.row_end - 1;
}

/* Codes of 8 columns of a row from k on, zero after the last. */
__device__ static uint32_t moe_fp4_sm120_codes(const dsv4_weight &w, int64_t row, int64_t k)
{
	uint32_t word[1];

	words_load(static_cast<const uint8_t *>(w.data) + row * ((w.cols + 1) / 2) + k / 2, (w.cols - k + 1) / 2, word);
	return word[0];
}

__device__ static mma_scale moe_fp4_sm120_scales(const struct product &p, int64_t block)
{
	const int lane = threadIdx.x % WARP, per_block = MOE_FP4_SM120_STEPS;
	int64_t row = moe_fp4_sm120_row(p, lane % 4 * 8 + lane / 4), n = (p.w->cols + 31) / 32;
	uint32_t word[1];

	words_load(static_cast<const uint8_t *>(p.w->scale) + row * n + block * per_block, n - block * per_block, word);
	return { word[0], 0, 0 };
}

/* One block of columns of the rows with all activations; x: codes of the one that this lane has, or null. */
__device__ static void moe_fp4_sm120_block(const struct product &p, int64_t block, const uint8_t *x,
					   float (&dot)[MOE_FP4_HALVES][4])
{
	int g = threadIdx.x % WARP / 4;
	int64_t k = block * MOE_FP4_BLOCK + threadIdx.x % 4 * 8;
	mma_scale scale = moe_fp4_sm120_scales(p, block);
	uint32_t code[MOE_FP4_SM120_STEPS][MOE_FP4_ROWS / 8];
	uint2 act[MOE_FP4_SM120_STEPS];

	UNROLL
	for (int i = 0; i < MOE_FP4_SM120_STEPS; i++) {
		UNROLL
		for (int r = 0; r < MOE_FP4_ROWS / 8; r++)
			code[i][r] = moe_fp4_sm120_codes(*p.w, moe_fp4_sm120_row(p, 8 * r + g), k + 32 * i);
		act[i] = x ? *reinterpret_cast<const uint2 *>(x + k + 32 * i) : make_uint2(0, 0);
	}
	UNROLL
	for (int i = 0; i < MOE_FP4_SM120_STEPS; i++) {
		const uint32_t y[2] = { __byte_perm(act[i].x, act[i].y, 0x6420), __byte_perm(act[i].x, act[i].y, 0x7531) };

		UNROLL
		for (int m = 0; m < MOE_FP4_HALVES; m++) {
			const uint32_t *c = &code[i][2 * m], nibble = 0x3c3c3c3cu;
			const uint32_t w[4] = { c[0] << 2 & nibble, c[1] << 2 & nibble, c[0] >> 2 & nibble, c[1] >> 2 & nibble };

			scale.byte = static_cast<uint16_t>(i);
			scale.pair = static_cast<uint16_t>(m);
			mma_e2m1_e4m3(dot[m], w, y, scale, { MOE_FP4_SM120_ONE, 0, 0 });
		}
	}
}

KERNEL(cuda_moe_fp4_products_sm120, struct moe_product_args, MOE_FP4_CLASSES * WARP)
{
	__shared__ moe_fp4_part part;
	struct product p = moe_product(a, MOE_FP4_ROWS / PRODUCT_WARPS);
	int g = threadIdx.x % WARP / 4;
	const uint8_t *x = g < p.n ? moe_codes(a, p, g) : nullptr;
	float sum[MOE_FP4_HALVES][4] = { { 0 } };

	if (p.n == 0)
		return;
	for (int64_t b = threadIdx.x / WARP; b < p.lds; b += MOE_FP4_CLASSES) {
		float dot[MOE_FP4_HALVES][4] = { { 0 } };

		moe_fp4_sm120_block(p, b, x, dot);
		moe_fp4_add(p, b, dot, sum);
	}
	moe_fp4_store(p, sum, part);
}
