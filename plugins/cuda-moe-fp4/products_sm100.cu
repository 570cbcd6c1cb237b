/* SPDX-License-Identifier: MIT
 * products_sm100.cu - the same products on sm_100a, whose tensor cores multiply e2m1 by e4m3 with scales, and keep the
 * sums: nothing is decoded, nothing multiplied elsewhere. Not run on a GPU.
 *
 * A block has 128 rows of the matrix and up to 32 activations, and takes 128 columns at a time, which share an
 * activation's scale. All threads bring them into one of two stages of shared memory; one thread tells the tensor
 * cores to multiply them, four products of 32 columns, and meanwhile all bring the next ones into the other stage.
 * Before a stage is filled again, its products are waited for. At the end the sums are read from tensor memory.
 *
 * The order of one output element is the hardware's: products of 32 columns in rising order, each added to a sum in
 * fp32. An activation alone has the same bits as one among 32, since its column of the product is its own; so that
 * this is the kernel for one token, too, although 31 columns are zero then: reading the weights takes longer.
 *
 * Scales of activations are powers of two from 2^-22 to 2^120 (act.cuh: of 1e-4 / 448 to the largest float / 448), so
 * that a float's exponent is the e8m0 code. An infinite one becomes e8m0's NaN, as do the products of its block
 * anyway: an infinite activation's code is NaN. */
#include "plugins/cuda/moe_kernels.cuh"
#include "plugins/cuda/tensor.cuh"

#define MOE_FP4_SM100_ONE 127 /* as e8m0 */
#define MOE_FP4_SM100_CORES (MOE_FP4_BLOCK / TENSOR_CORE_COLS)
#define MOE_FP4_SM100_CORE_ROWS (MOE_FP4_SM100_CORES * TENSOR_CORE) /* bytes from 8 rows to the next 8 */
#define MOE_FP4_SM100_STEPS (MOE_FP4_BLOCK / TENSOR_COLS)

/* Tensor memory: the sums, then of each stage the scales of both sides. */
#define MOE_FP4_SM100_COLUMNS 64
#define MOE_FP4_SM100_SCALES(stage) (MOE_FP4_SM100_TILE + 2 * TENSOR_SCALE_COLUMNS * (stage))

static_assert(MOE_FP4_SM100_ROWS == TENSOR_ROWS, "as many as a product has");
static_assert(MOE_FP4_SM100_SCALES(2) <= MOE_FP4_SM100_COLUMNS, "they fit");

/* 128 columns, as tensor cores want them: core matrices of 8 rows, 16 columns in each. */
struct moe_fp4_stage {
	uint2 codes[MOE_FP4_SM100_ROWS / 8][MOE_FP4_SM100_CORES][8][2]; /* the second of two is not read */
	uint4 act[MOE_FP4_SM100_TILE / 8][MOE_FP4_SM100_CORES][8];
	uint8_t scale[32][4][MOE_FP4_SM100_STEPS];                      /* of rows r, r + 32, r + 64, r + 96 */
	uint32_t act_scale[32][4];                                      /* likewise, of which there are 32 */
};

/* 32 columns of a row of the matrix, and their scale. */
__device__ static void moe_fp4_sm100_codes(const struct product &p, int64_t block, int r, int step, moe_fp4_stage &s)
{
	int64_t row = p.row + r < p.row_end ? p.row + r : p.row_end - 1;
	int64_t k = block * MOE_FP4_BLOCK + step * TENSOR_COLS, left = p.w->cols - k;
	const uint8_t *data = static_cast<const uint8_t *>(p.w->data);
	const uint8_t *scale = static_cast<const uint8_t *>(p.w->scale);
	uint32_t word[4];

	words_load(data + row * ((p.w->cols + 1) / 2) + k / 2, left > 0 ? (left + 1) / 2 : 0, word);
	s.codes[r / 8][2 * step][r % 8][0] = make_uint2(word[0], word[1]);
	s.codes[r / 8][2 * step + 1][r % 8][0] = make_uint2(word[2], word[3]);
	s.scale[r % 32][r / 32][step] = left > 0 ? scale[row * ((p.w->cols + 31) / 32) + k / 32] : MOE_FP4_SM100_ONE;
}

/* 16 columns of an activation, zero where there is none; with the first 16 the block's scale, for each 32. */
__device__ static void moe_fp4_sm100_act(const struct moe_product_args &a, const struct product &p, int64_t block,
					 int t, int core, moe_fp4_stage &s)
{
	uint4 codes = make_uint4(0, 0, 0, 0);
	uint32_t scale = MOE_FP4_SM100_ONE;

	if (t < p.n) {
		codes = reinterpret_cast<const uint4 *>(moe_codes(a, p, t))[block * MOE_FP4_SM100_CORES + core];
		scale = dsv4_f32_bits(p.scale[product_from(p, t) * p.lds + block]) >> 23 & 255;
	}
	s.act[t / 8][core][t % 8] = codes;
	if (core == 0)
		*reinterpret_cast<uint4 *>(s.act_scale[t]) = make_uint4(scale * 0x01010101u, 0, 0, 0);
}

/* All threads. */
__device__ static void moe_fp4_sm100_fill(const struct moe_product_args &a, const struct product &p, int64_t block,
					  moe_fp4_stage &s)
{
	UNROLL
	for (int i = threadIdx.x; i < MOE_FP4_SM100_ROWS * MOE_FP4_SM100_STEPS; i += MOE_FP4_SM100_THREADS)
		moe_fp4_sm100_codes(p, block, i / MOE_FP4_SM100_STEPS, i % MOE_FP4_SM100_STEPS, s);
	UNROLL
	for (int i = threadIdx.x; i < MOE_FP4_SM100_TILE * MOE_FP4_SM100_CORES; i += MOE_FP4_SM100_THREADS)
		moe_fp4_sm100_act(a, p, block, i / MOE_FP4_SM100_CORES, i % MOE_FP4_SM100_CORES, s);
}

/* One thread: a stage's products, added to the sums at `at`, or the first ones of all; `scale`: where theirs go. */
__device__ static void moe_fp4_sm100_start(const moe_fp4_stage &s, uint32_t at, uint32_t scale, bool first,
					   uint64_t *done)
{
	uint32_t act_scale = scale + TENSOR_SCALE_COLUMNS;

	tensor_scales(scale, tensor_matrix(s.scale, 0, TENSOR_CORE));
	tensor_scales(act_scale, tensor_matrix(s.act_scale, 0, TENSOR_CORE));
	UNROLL
	for (int i = 0; i < MOE_FP4_SM100_STEPS; i++)
		tensor_mma(at, tensor_matrix(s.codes[0][2 * i], TENSOR_CORE, MOE_FP4_SM100_CORE_ROWS),
			   tensor_matrix(s.act[0][2 * i], TENSOR_CORE, MOE_FP4_SM100_CORE_ROWS),
			   tensor_how(MOE_FP4_SM100_TILE, i), scale, act_scale, i > 0 || !first);
	tensor_commit(done);
}

/* Block b is the b / 2 -th in its stage: its products are a phase of the stage's barrier. */
__device__ static void moe_fp4_sm100_wait(uint64_t *done, int64_t b)
{
	tensor_wait(&done[b % 2], static_cast<uint32_t>(b / 2));
}

/* A warp has a quarter of the rows and half of the activations. */
__device__ static void moe_fp4_sm100_store(const struct product &p, uint32_t at)
{
	int warp = threadIdx.x / WARP, first = warp / 4 * 16;
	int64_t row = p.row + warp % 4 * WARP + threadIdx.x % WARP;
	float v[16];

	tensor_load(v, at + (static_cast<uint32_t>(warp % 4 * WARP) << 16) + first);
	UNROLL
	for (int i = 0; i < 16; i++)
		if (first + i < p.n && row < p.row_end)
			p.y[(first + i) * p.ldy + row] = v[i];
}

static_assert(MOE_FP4_SM100_TILE == 2 * 16 && MOE_FP4_SM100_THREADS == 2 * TENSOR_ROWS, "two times four warps");

KERNEL(cuda_moe_fp4_products_sm100, struct moe_product_args, MOE_FP4_SM100_THREADS)
{
	__shared__ __align__(128) struct moe_fp4_stage stage[2];
	__shared__ uint64_t done[2];
	__shared__ uint32_t memory;
	struct product p = moe_product(a, MOE_FP4_SM100_ROWS / PRODUCT_WARPS);

	if (p.n == 0)
		return;
	if (threadIdx.x < WARP)
		tensor_alloc(&memory, MOE_FP4_SM100_COLUMNS);
	if (threadIdx.x < 2)
		tensor_barrier(&done[threadIdx.x]);
	tensor_sync();
	for (int64_t b = 0; b < p.lds; b++) {
		if (b >= 2)
			moe_fp4_sm100_wait(done, b - 2);
		moe_fp4_sm100_fill(a, p, b, stage[b % 2]);
		tensor_publish();
		tensor_sync();
		if (threadIdx.x == 0)
			moe_fp4_sm100_start(stage[b % 2], memory, memory + MOE_FP4_SM100_SCALES(b % 2), b == 0,
					    &done[b % 2]);
	}
	for (int64_t b = p.lds > 1 ? p.lds - 2 : 0; b < p.lds; b++) /* both barriers are shared memory till then */
		moe_fp4_sm100_wait(done, b);
	moe_fp4_sm100_store(p, memory);
	tensor_sync();
	if (threadIdx.x < WARP)
		tensor_free(memory, MOE_FP4_SM100_COLUMNS);
}
