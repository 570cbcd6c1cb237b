/* SPDX-License-Identifier: MIT
 * products_sm100.cu - the same products on sm_100a, whose tensor cores multiply e2m1 by e4m3 with scales, and keep the
 * sums: nothing is decoded, nothing multiplied elsewhere. Not run on a GPU.
 *
 * A block has 128 rows of the matrix and up to 32 activations, and takes 128 columns at a time, which share an
 * activation's scale. All threads put them into one of two stages of shared memory; one thread tells the tensor cores
 * to multiply them, four products of 32 columns, and meanwhile all put the next ones into the other stage. Before a
 * stage is filled again, its products are waited for. What a thread puts there it asked for four turns before: where
 * activations are few, reading the matrix is what takes time. At the end the sums are read from tensor memory.
 *
 * The order of one output element is the hardware's: products of 32 columns in rising order, each added to a sum in
 * fp32. An activation alone has the same bits as one among 32 if, as doc/gpus.md takes it, a column of a product does
 * not depend on others; so that this is the kernel for one token, too, although 31 columns are zero then.
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

#define MOE_FP4_SM100_AHEAD 4 /* blocks of columns that are on their way, to registers: an even number */

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

/* What a thread brings of them: the step threadIdx.x % 4 of several rows of the matrix, 16 columns of an activation. */
#define MOE_FP4_SM100_PARTS (MOE_FP4_SM100_ROWS * MOE_FP4_SM100_STEPS / MOE_FP4_SM100_THREADS)
struct moe_fp4_brought {
	uint32_t word[MOE_FP4_SM100_PARTS][4], scale[MOE_FP4_SM100_PARTS];
	uint4 act;
	uint32_t act_scale;
};

static_assert(MOE_FP4_SM100_TILE * MOE_FP4_SM100_CORES == MOE_FP4_SM100_THREADS, "16 columns of one for each thread");

__device__ static int moe_fp4_sm100_row(int part)
{
	return (threadIdx.x + part * MOE_FP4_SM100_THREADS) / MOE_FP4_SM100_STEPS;
}

/* Where that lies, from the first column on. Asked once: what fences surround is read from memory again each time. */
struct moe_fp4_source {
	const uint8_t *codes[MOE_FP4_SM100_PARTS], *scale[MOE_FP4_SM100_PARTS];
	const uint4 *act;       /* null: there is no such activation */
	const float *act_scale;
	int64_t cols, n_block;
};

__device__ static moe_fp4_source moe_fp4_sm100_source(const struct moe_product_args &a, const struct product &p)
{
	const uint8_t *data = static_cast<const uint8_t *>(p.w->data);
	const uint8_t *scale = static_cast<const uint8_t *>(p.w->scale);
	int step = threadIdx.x % MOE_FP4_SM100_STEPS;
	int t = threadIdx.x / MOE_FP4_SM100_CORES, core = threadIdx.x % MOE_FP4_SM100_CORES;
	moe_fp4_source from = {};

	from.cols = p.w->cols;
	from.n_block = p.lds;
	UNROLL
	for (int i = 0; i < MOE_FP4_SM100_PARTS; i++) {
		int64_t row = min(p.row + moe_fp4_sm100_row(i), p.row_end - 1);

		from.codes[i] = data + row * ((from.cols + 1) / 2) + step * (TENSOR_COLS / 2);
		from.scale[i] = scale + row * ((from.cols + 31) / 32) + step;
	}
	if (t < p.n) {
		from.act = reinterpret_cast<const uint4 *>(moe_codes(a, p, t)) + core;
		from.act_scale = p.scale + product_from(p, t) * p.lds;
	}
	return from;
}

/* Zero from the last column on. */
__device__ static void moe_fp4_sm100_load(const moe_fp4_source &from, int64_t block, moe_fp4_brought &c)
{
	int64_t left = from.cols - block * MOE_FP4_BLOCK - threadIdx.x % MOE_FP4_SM100_STEPS * TENSOR_COLS;

	UNROLL
	for (int i = 0; i < MOE_FP4_SM100_PARTS; i++) {
		words_load(from.codes[i] + block * (MOE_FP4_BLOCK / 2), left > 0 ? (left + 1) / 2 : 0, c.word[i]);
		c.scale[i] = left > 0 ? from.scale[i][block * MOE_FP4_SM100_STEPS] : MOE_FP4_SM100_ONE;
	}
	c.act = make_uint4(0, 0, 0, 0);
	c.act_scale = MOE_FP4_SM100_ONE;
	if (from.act && block < from.n_block) {
		c.act = from.act[block * MOE_FP4_SM100_CORES];
		c.act_scale = dsv4_f32_bits(from.act_scale[block]) >> 23 & 255;
	}
}

__device__ static void moe_fp4_sm100_put(const moe_fp4_brought &c, moe_fp4_stage &s)
{
	int step = threadIdx.x % MOE_FP4_SM100_STEPS;
	int t = threadIdx.x / MOE_FP4_SM100_CORES, core = threadIdx.x % MOE_FP4_SM100_CORES;

	UNROLL
	for (int i = 0; i < MOE_FP4_SM100_PARTS; i++) {
		int r = moe_fp4_sm100_row(i);

		s.codes[r / 8][2 * step][r % 8][0] = make_uint2(c.word[i][0], c.word[i][1]);
		s.codes[r / 8][2 * step + 1][r % 8][0] = make_uint2(c.word[i][2], c.word[i][3]);
		s.scale[r % 32][r / 32][step] = static_cast<uint8_t>(c.scale[i]);
	}
	s.act[t / 8][core][t % 8] = c.act;
	if (core == 0)
		*reinterpret_cast<uint4 *>(s.act_scale[t]) = make_uint4(c.act_scale * 0x01010101u, 0, 0, 0);
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
	struct moe_fp4_brought ahead[MOE_FP4_SM100_AHEAD];
	struct moe_fp4_source from;

	if (p.n == 0)
		return;
	from = moe_fp4_sm100_source(a, p);
	if (threadIdx.x < WARP)
		tensor_alloc(&memory, MOE_FP4_SM100_COLUMNS);
	if (threadIdx.x < 2)
		tensor_barrier(&done[threadIdx.x]);
	tensor_sync();
	UNROLL
	for (int i = 0; i < MOE_FP4_SM100_AHEAD; i++)
		moe_fp4_sm100_load(from, i, ahead[i]);
	for (int64_t first = 0; first < p.lds; first += MOE_FP4_SM100_AHEAD) {
		UNROLL
		for (int i = 0; i < MOE_FP4_SM100_AHEAD; i++) {
			int64_t b = first + i;

			if (b >= p.lds)
				break;
			if (b >= 2)
				moe_fp4_sm100_wait(done, b - 2);
			moe_fp4_sm100_put(ahead[i], stage[i % 2]);
			tensor_publish(); /* may wait for what was asked for before it */
			moe_fp4_sm100_load(from, b + MOE_FP4_SM100_AHEAD, ahead[i]);
			tensor_sync();
			if (threadIdx.x == 0)
				moe_fp4_sm100_start(stage[i % 2], memory, memory + MOE_FP4_SM100_SCALES(i % 2), b == 0,
						    &done[i % 2]);
		}
	}
	for (int64_t b = p.lds > 1 ? p.lds - 2 : 0; b < p.lds; b++) /* both barriers are shared memory till then */
		moe_fp4_sm100_wait(done, b);
	moe_fp4_sm100_store(p, memory);
	tensor_sync();
	if (threadIdx.x < WARP)
		tensor_free(memory, MOE_FP4_SM100_COLUMNS);
}
