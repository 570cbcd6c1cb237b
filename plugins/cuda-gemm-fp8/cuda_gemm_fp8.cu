/* SPDX-License-Identifier: MIT
 * cuda_gemm_fp8.cu - products with FP8 weights by tensor cores, for activations rounded to FP8.
 *
 * Both sides are e4m3 values, which bf16 holds exactly: the products are bf16's, with fp32 sums, and e4m3's own on sm_120a
 * alone. What multiplies FP8 on sm_90a is wgmma, which keeps 13 bits of a sum behind the largest product's point, and that
 * is not fp32; mma of e4m3 becomes conversions to f16 there and on sm_100a, which is bf16's work once more. On sm_120a it
 * is FP8's, with 25 bits (MMA-Sim, arXiv 2511.10909): block-scaled, here by 1, since that is said to have twice the rate
 * of plain ones and of bf16.
 *
 * The order of one output element: its blocks of 128 columns are dealt to eight classes, block i to class i % 8; a block's
 * products are summed by eight steps of 16 columns, on sm_120a four of 32, that sum times (activation scale * weight
 * scale) is added to the class; then the classes are added upwards. For few tokens each warp has a class, and weights are
 * read by many warps at once; for many each warp has 16 rows and goes through the classes. The bits are the same.
 *
 * Lane 4 g + t has the rows g and g + 8 of 16. In which columns of a block a step's lie is free, as long as both sides
 * agree: lane t takes those that lie together in memory, [16 t, 16 t + 16) and [64 + 16 t, 64 + 16 t + 16), four or eight
 * a step. */
#include "plugins/cuda-gemm-fp8/gemm.h"
#include "plugins/cuda/linear_kernels.cuh"
#include "plugins/cuda/mma.cuh"

#define GEMM_WORDS 8   /* of a row's codes of a block, in a lane */
#define GEMM_CLASSES GEMM_WARPS

/* A lane's codes of one block: 32 of each of its two rows. */
struct gemm_codes { uint32_t row[2][GEMM_WORDS]; };

/* How both sides meet. A lane has 8 bytes of activations in a step. */
struct gemm_bf16 {
	typedef uint16_t act;

	__device__ static uint16_t act_of(float v, uint8_t) { return static_cast<uint16_t>(dsv4_f32_bits(v) >> 16); }

	/* Step i's operand of the 16 rows. */
	__device__ static void operand(const struct gemm_codes &c, int i, uint32_t (&x)[4])
	{
		uint32_t pair[2];

		mma_bf16_of_e4m3(c.row[0][i], pair);
		x[0] = pair[0];
		x[2] = pair[1];
		mma_bf16_of_e4m3(c.row[1][i], pair);
		x[1] = pair[0];
		x[3] = pair[1];
	}

	__device__ static void multiply(float (&dot)[4], const uint32_t (&x)[4], uint2 v) { mma_bf16(dot, x, { v.x, v.y }); }
};

struct gemm_sm120 {
	typedef uint8_t act;

	__device__ static uint8_t act_of(float, uint8_t code) { return code; }

	__device__ static void operand(const struct gemm_codes &c, int i, uint32_t (&x)[4])
	{
		UNROLL
		for (int r = 0; r < 4; r++)
			x[r] = c.row[r % 2][2 * i + r / 2];
	}

	__device__ static void multiply(float (&dot)[4], const uint32_t (&x)[4], uint2 v)
	{
		const mma_scale one = { 127, 0, 0 };

		mma_e4m3_scaled(dot, x, { v.x, v.y }, one, one);
	}
};

/* Columns of a lane in a step, steps of a block, and 8 bytes of a row of activations. */
template <class HOW> struct gemm_step {
	static const int cols = 8 / sizeof(typename HOW::act), n = 32 / cols, row = GEMM_BLOCK / cols;

	/* Where a lane's 8 bytes of step i are among those. */
	__device__ static int at(int i)
	{
		return (i / (n / 2) * 64 + threadIdx.x % 4 * 16 + i % (n / 2) * cols) / cols;
	}
};

/* The activations of a block of columns, of token t of this group. */
template <class HOW>
__device__ const uint2 *gemm_acts(const struct gemm_args &a, int64_t t, int64_t n_block, int64_t block)
{
	return static_cast<const uint2 *>(a.q) + ((t * a.n_group + blockIdx.z) * n_block + block) * gemm_step<HOW>::row;
}

/* One warp per block of 128 columns. */
template <class HOW> __device__ void gemm_act(const struct gemm_act_args &a)
{
	int64_t n_block = (a.cols + GEMM_BLOCK - 1) / GEMM_BLOCK, block = blockIdx.y * GEMM_WARPS + threadIdx.x / WARP;
	int64_t t = blockIdx.x, at = (t * gridDim.z + blockIdx.z) * n_block + block, left = a.cols - block * GEMM_BLOCK;
	const float *x = a.x + t * a.ldx + blockIdx.z * a.cols + block * GEMM_BLOCK;
	int lane = threadIdx.x % WARP;
	float v[ACT_BLOCK / WARP], s;
	uint8_t code[ACT_BLOCK / WARP];

	if (block >= n_block)
		return;
	UNROLL
	for (int i = 0; i < ACT_BLOCK / WARP; i++)
		v[i] = lane + i * WARP < left ? x[lane + i * WARP] : 0.0f;
	s = act_split(v, code);
	if (lane == 0)
		a.scale[at] = s;
	UNROLL
	for (int i = 0; i < ACT_BLOCK / WARP; i++)
		static_cast<typename HOW::act *>(a.q)[at * GEMM_BLOCK + lane + i * WARP] = HOW::act_of(v[i], code[i]);
}

__device__ static void gemm_load(const dsv4_weight &w, const int64_t (&row)[2], int64_t block, struct gemm_codes *c)
{
	int64_t k = block * GEMM_BLOCK + threadIdx.x % 4 * 16;

	UNROLL
	for (int r = 0; r < 2; r++) {
		const uint8_t *p = static_cast<const uint8_t *>(w.data) + row[r] * w.cols + k;
		uint32_t half[2][4];

		words_load(p, w.cols - k, half[0]);
		words_load(p + 64, w.cols - k - 64, half[1]);
		UNROLL
		for (int i = 0; i < GEMM_WORDS; i++)
			c->row[r][i] = half[i / 4][i % 4];
	}
}

/* The rows g and g + 8 from `first` on; those past the end stand for the last. */
__device__ static void gemm_rows(int64_t first, int64_t end, int64_t (&row)[2])
{
	for (int r = 0; r < 2; r++) {
		row[r] = first + threadIdx.x % WARP / 4 + 8 * r;
		row[r] = row[r] < end ? row[r] : end - 1;
	}
}

typedef float gemm_part[GEMM_CLASSES][GEMM_FEW_ROWS][GEMM_FEW_TOKENS]; /* shared memory */

/* Sixteen rows and eight tokens; warp j has class j. */
template <class HOW> __device__ void gemm_few(const struct gemm_args &a, gemm_part &part)
{
	int64_t group_rows = a.w.rows / a.n_group, end = (blockIdx.z + 1) * group_rows, row[2];
	int64_t first = blockIdx.z * group_rows + static_cast<int64_t>(blockIdx.y) * GEMM_FEW_ROWS;
	int64_t n_block = (a.w.cols + GEMM_BLOCK - 1) / GEMM_BLOCK, t0 = static_cast<int64_t>(blockIdx.x) * GEMM_FEW_TOKENS;
	int n = a.n_tok - t0 < GEMM_FEW_TOKENS ? static_cast<int>(a.n_tok - t0) : GEMM_FEW_TOKENS;
	int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
	float sum[4] = { 0 };

	gemm_rows(first, end, row);
	for (int64_t b = warp; b < n_block; b += GEMM_CLASSES) {
		const uint2 *q = gemm_acts<HOW>(a, t0 + g, n_block, b);
		const float *scale = a.scale + (t0 * a.n_group + blockIdx.z) * n_block + b;
		struct gemm_codes codes;
		float dot[4] = { 0 };

		gemm_load(a.w, row, b, &codes);
		UNROLL
		for (int i = 0; i < gemm_step<HOW>::n; i++) {
			uint2 v = g < n ? q[gemm_step<HOW>::at(i)] : make_uint2(0, 0);
			uint32_t x[4];

			HOW::operand(codes, i, x);
			HOW::multiply(dot, x, v);
		}
		UNROLL
		for (int c = 0; c < 4; c++)
			if (2 * t + c % 2 < n)
				sum[c] = fmaf(dot[c], scale[(2 * t + c % 2) * a.n_group * n_block] *
					      chunk_scale<DSV4_W_FP8>(a.w, row[c / 2], b * GEMM_BLOCK), sum[c]);
	}
	mma_store(part[warp], 0, sum);
	__syncthreads();
	product_classes(part, n, end - first, a.y + t0 * a.ldy + first, a.ldy);
}

/* Activations of a block of columns and their scales, in shared memory. Behind each row is room for 8 bytes: what half a
 * warp's lanes read of bf16 then meets every bank once, of e4m3 some twice. */
template <class HOW> struct gemm_tile {
	uint2 x[GEMM_MANY_TOKENS][gemm_step<HOW>::row + 1];
	float scale[GEMM_MANY_TOKENS];
};

template <class HOW>
__device__ void gemm_stage(const struct gemm_args &a, int64_t t0, int n, int64_t n_block, int64_t b, gemm_tile<HOW> &m)
{
	const int row = gemm_step<HOW>::row;

	for (int i = threadIdx.x; i < GEMM_MANY_TOKENS * row; i += GEMM_WARPS * WARP) {
		int t = i / row;

		m.x[t][i % row] = t < n ? gemm_acts<HOW>(a, t0 + t, n_block, b)[i % row] : make_uint2(0, 0);
	}
	for (int t = threadIdx.x; t < GEMM_MANY_TOKENS; t += GEMM_WARPS * WARP)
		m.scale[t] = t < n ? a.scale[((t0 + t) * a.n_group + blockIdx.z) * n_block + b] : 0.0f;
}

/* 128 rows, 16 of each warp, and 64 tokens. */
template <class HOW> __device__ void gemm_many(const struct gemm_args &a, gemm_tile<HOW> &m)
{
	const int tiles = GEMM_MANY_TOKENS / 8;
	int64_t group_rows = a.w.rows / a.n_group, end = (blockIdx.z + 1) * group_rows, row[2];
	int64_t first = blockIdx.z * group_rows + static_cast<int64_t>(blockIdx.y) * GEMM_MANY_ROWS + threadIdx.x / WARP * 16;
	int64_t n_block = (a.w.cols + GEMM_BLOCK - 1) / GEMM_BLOCK, t0 = static_cast<int64_t>(blockIdx.x) * GEMM_MANY_TOKENS;
	int n = a.n_tok - t0 < GEMM_MANY_TOKENS ? static_cast<int>(a.n_tok - t0) : GEMM_MANY_TOKENS;
	int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
	float all[tiles][4] = { { 0 } };

	gemm_rows(first, end, row);
	for (int j = 0; j < GEMM_CLASSES; j++) {
		float sum[tiles][4] = { { 0 } };

		for (int64_t b = j; b < n_block; b += GEMM_CLASSES) {
			float dot[tiles][4] = { { 0 } }, ws[2];
			struct gemm_codes codes;

			gemm_load(a.w, row, b, &codes);
			for (int r = 0; r < 2; r++)
				ws[r] = chunk_scale<DSV4_W_FP8>(a.w, row[r], b * GEMM_BLOCK);
			__syncthreads();
			gemm_stage(a, t0, n, n_block, b, m);
			__syncthreads();
			UNROLL
			for (int i = 0; i < gemm_step<HOW>::n; i++) {
				uint32_t x[4];

				HOW::operand(codes, i, x);
				UNROLL
				for (int tile = 0; tile < tiles; tile++)
					HOW::multiply(dot[tile], x, m.x[8 * tile + g][gemm_step<HOW>::at(i)]);
			}
			UNROLL
			for (int tile = 0; tile < tiles; tile++)
				UNROLL
				for (int c = 0; c < 4; c++)
					sum[tile][c] = fmaf(dot[tile][c], m.scale[8 * tile + 2 * t + c % 2] * ws[c / 2],
							    sum[tile][c]);
		}
		UNROLL
		for (int tile = 0; tile < tiles; tile++)
			UNROLL
			for (int c = 0; c < 4; c++)
				all[tile][c] += sum[tile][c];
	}
	UNROLL
	for (int tile = 0; tile < tiles; tile++)
		UNROLL
		for (int c = 0; c < 4; c++) {
			int tok = 8 * tile + 2 * t + c % 2;
			int64_t r = first + g + c / 2 * 8;

			if (tok < n && r < end)
				a.y[(t0 + tok) * a.ldy + r] = all[tile][c];
		}
}

#define GEMM_KERNELS(name, how) \
	KERNEL(cuda_gemm_fp8_act##name, struct gemm_act_args, GEMM_WARPS * WARP) { gemm_act<how>(a); } \
	KERNEL(cuda_gemm_fp8_few##name, struct gemm_args, GEMM_WARPS * WARP) \
	{ \
		__shared__ gemm_part part; \
\
		gemm_few<how>(a, part); \
	} \
	KERNEL(cuda_gemm_fp8_many##name, struct gemm_args, GEMM_WARPS * WARP) \
	{ \
		__shared__ gemm_tile<how> tile; \
\
		gemm_many<how>(a, tile); \
	}
GEMM_KERNELS(, gemm_bf16)
GEMM_KERNELS(_sm120, gemm_sm120)

/* Activations that are not rounded: fp32. */
KERNEL(cuda_gemm_fp8_plain, struct linear_args, PRODUCT_THREADS)
{
	__shared__ float4 tile[PRODUCT_TILE / 4];
	struct product p = linear_tile(a, 1, 1);

	product_run<DSV4_W_FP8, PRODUCT_ONE>(p, tile);
}

KERNEL(cuda_gemm_fp8_plain_many, struct linear_args, PRODUCT_THREADS)
{
	__shared__ float4 tile[PRODUCT_TILE / 4];
	struct product p = linear_tile(a, PRODUCT_MANY_TOKENS, PRODUCT_MANY_ROWS);

	product_run<DSV4_W_FP8, PRODUCT_MANY>(p, tile);
}
