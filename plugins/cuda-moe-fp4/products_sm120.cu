/* SPDX-License-Identifier: MIT
 * products_sm120.cu - the same products on sm_120a, whose tensor cores multiply e2m1 by e4m3: nothing is decoded.
 *
 * The order is cuda_moe_fp4.cu's, but for a block's steps: four of 32 columns, which share the weights' scales. Both
 * sides' scales go into the instruction, so that a sum overflows only where it is too large itself. An activation's is a
 * float, but dsv4_fp8_scale() gives powers of two from 2^-22 to 2^120, whose exponents are e8m0, and infinity, whose
 * exponent is e8m0's NaN: what that multiplies is zero or NaN, and becomes NaN in either way. A step's products are added
 * with 25 bits behind the point of the largest on this architecture (MMA-Sim, arXiv 2511.10909).
 *
 * Lane 4 g + t has the columns [8 t, 8 t + 8) of a step's 32: on both sides the even ones in the first register of four,
 * the odd ones in the second. It has the scales of row 8 t + g of the 32, a byte for each of a block's steps, and of
 * activation g. */
#include "plugins/cuda/mma.cuh"
#include "plugins/cuda/moe_kernels.cuh"

#define MOE_FP4_SM120_STEPS (MOE_FP4_BLOCK / 32)

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

/* The activation that a lane has: codes and scales of its columns, or null. */
struct moe_fp4_sm120_act {
	const uint8_t *code;
	const float *scale;
};

/* One block of columns of the rows with all activations. */
__device__ static void moe_fp4_sm120_block(const struct product &p, int64_t block, const struct moe_fp4_sm120_act &x,
					   float (&dot)[MOE_FP4_HALVES][4])
{
	int g = threadIdx.x % WARP / 4;
	int64_t k = block * MOE_FP4_BLOCK + threadIdx.x % 4 * 8;
	mma_scale scale = moe_fp4_sm120_scales(p, block);
	const mma_scale act_scale = { x.scale ? dsv4_f32_bits(x.scale[block]) >> 23 : 0, 0, 0 };
	uint32_t code[MOE_FP4_SM120_STEPS][MOE_FP4_ROWS / 8];
	uint2 act[MOE_FP4_SM120_STEPS];

	UNROLL
	for (int i = 0; i < MOE_FP4_SM120_STEPS; i++) {
		UNROLL
		for (int r = 0; r < MOE_FP4_ROWS / 8; r++)
			code[i][r] = moe_fp4_sm120_codes(*p.w, moe_fp4_sm120_row(p, 8 * r + g), k + 32 * i);
		act[i] = x.code ? *reinterpret_cast<const uint2 *>(x.code + k + 32 * i) : make_uint2(0, 0);
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
			mma_e2m1_e4m3(dot[m], w, y, scale, act_scale);
		}
	}
}

KERNEL(cuda_moe_fp4_products_sm120, struct moe_product_args, MOE_FP4_CLASSES * WARP)
{
	__shared__ moe_fp4_part part;
	struct product p = moe_product(a, MOE_FP4_ROWS / PRODUCT_WARPS);
	struct moe_fp4_sm120_act x = {};
	float sum[MOE_FP4_HALVES][4] = { { 0 } };
	int g = threadIdx.x % WARP / 4;

	if (p.n == 0)
		return;
	if (g < p.n)
		x = { moe_codes(a, p, g), p.scale + product_from(p, g) * p.lds };
	for (int64_t b = threadIdx.x / WARP; b < p.lds; b += MOE_FP4_CLASSES) {
		float dot[MOE_FP4_HALVES][4] = { { 0 } };

		moe_fp4_sm120_block(p, b, x, dot);
		UNROLL
		for (int m = 0; m < MOE_FP4_HALVES; m++)
			UNROLL
			for (int c = 0; c < 4; c++)
				sum[m][c] += dot[m][c];
	}
	moe_fp4_store(p, sum, part);
}
