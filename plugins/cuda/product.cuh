/* SPDX-License-Identifier: MIT
 * product.cuh - rows of activations times rows of a weight matrix, in fp32, for every weight format.
 *
 * One warp computes ROWS rows of the matrix for up to TOKENS activations. The order of one output element: the columns
 * in chunks of 16, of which lane l of 32 has the chunks l, l + 32, ...; a chunk's products are summed upwards by fused
 * multiply-adds; that sum times (activation scale * weight scale) is added to the lane, chunks in rising order; then the
 * lanes are added, those 16 apart first. ROWS and TOKENS have no part in it, so that every kernel made of this has the
 * same bits. */
#ifndef CUDA_PRODUCT_CUH
#define CUDA_PRODUCT_CUH

#include "plugins/cuda/numbers.cuh"
#include "plugins/cuda/reduce.cuh"

#define PRODUCT_THREADS 256
#define PRODUCT_WARPS (PRODUCT_THREADS / WARP)
#define PRODUCT_TILE 4096             /* activations in shared memory: TOKENS rows, PRODUCT_TILE / TOKENS columns */
#define PRODUCT_COLS (WARP * CHUNK)   /* columns that a warp takes at a time */

/* One block's work. */
struct product {
	const dsv4_weight *w;
	int64_t row, row_end;  /* the block's first row; rows at or after row_end are none of its business */
	int n;                 /* activations, at most TOKENS */
	const float *x;        /* column 0 of the first of them */
	int64_t ldx;
	const int32_t *from;   /* [n] row of x that each is, or null: 0, 1, 2... */
	const float *scale;    /* [.][lds] one per ACT_BLOCK columns, or null: all 1 */
	int64_t lds;
	float *y;              /* of the first of them */
	int64_t ldy;
	bool accumulate;       /* add to y instead of replacing it */
};

__device__ inline int64_t product_from(const struct product &p, int t)
{
	return p.from ? p.from[t] : t;
}

/* The float4 of a tile that holds columns [4 j, 4 j + 4) of lane's chunk; the lanes of a warp read neighbours. */
template <int TOKENS> __device__ inline int product_at(int t, int part, int j, int lane)
{
	return ((t * (PRODUCT_TILE / TOKENS / PRODUCT_COLS) + part) * (CHUNK / 4) + j) * WARP + lane;
}

/* Brings the columns from k0 on as far as warps read them, zero after the last. */
template <int TOKENS> __device__ inline void product_stage(const struct product &p, int64_t k0, float4 *tile)
{
	const int width = static_cast<int>(min(static_cast<int64_t>(PRODUCT_TILE / TOKENS),
					       (p.w->cols - k0 + PRODUCT_COLS - 1) / PRODUCT_COLS * PRODUCT_COLS));
	float *to = reinterpret_cast<float *>(tile);

	for (int t = 0; t < p.n; t++) {
		const float *x = p.x + product_from(p, t) * p.ldx + k0;

		for (int c = threadIdx.x; c < width; c += blockDim.x) {
			int in = c % PRODUCT_COLS, at = product_at<TOKENS>(t, c / PRODUCT_COLS, in % CHUNK / 4, in / CHUNK);

			to[4 * at + c % 4] = k0 + c < p.w->cols ? x[c] : 0.0f;
		}
	}
}

/* One chunk of ROWS rows with every activation. */
template <int FMT, int TOKENS, int ROWS>
__device__ inline void product_chunk(const struct product &p, int64_t row, int64_t k, int part, const float4 *tile,
				     float (&sum)[ROWS][TOKENS])
{
	float v[ROWS][CHUNK], scale[ROWS];
	int lane = threadIdx.x % WARP;

	UNROLL
	for (int r = 0; r < ROWS; r++) {
		int64_t at = row + r < p.row_end ? row + r : p.row_end - 1;

		chunk_load<FMT>(*p.w, at, k, v[r]);
		scale[r] = chunk_scale<FMT>(*p.w, at, k);
	}
	UNROLL
	for (int t = 0; t < TOKENS; t++) {
		float as, dot[ROWS] = { 0 };

		if (t >= p.n)
			break;
		as = p.scale ? p.scale[product_from(p, t) * p.lds + k / ACT_BLOCK] : 1.0f;
		UNROLL
		for (int j = 0; j < CHUNK / 4; j++) {
			float4 x = tile[product_at<TOKENS>(t, part, j, lane)];

			for (int r = 0; r < ROWS; r++) {
				dot[r] = fmaf(v[r][4 * j], x.x, dot[r]);
				dot[r] = fmaf(v[r][4 * j + 1], x.y, dot[r]);
				dot[r] = fmaf(v[r][4 * j + 2], x.z, dot[r]);
				dot[r] = fmaf(v[r][4 * j + 3], x.w, dot[r]);
			}
		}
		for (int r = 0; r < ROWS; r++)
			sum[r][t] = fmaf(dot[r], as * scale[r], sum[r][t]);
	}
}

template <int TOKENS, int ROWS>
__device__ inline void product_store(const struct product &p, int64_t row, float (&sum)[ROWS][TOKENS])
{
	UNROLL
	for (int t = 0; t < TOKENS; t++) {
		if (t >= p.n)
			break;
		for (int r = 0; r < ROWS; r++) {
			float v = warp_sum(sum[r][t]), *y;

			if (row + r >= p.row_end || threadIdx.x % WARP != 0)
				continue;
			y = p.y + t * p.ldy + row + r;
			*y = p.accumulate ? *y + v : v;
		}
	}
}

/* All threads of the block; tile: PRODUCT_TILE floats of shared memory. */
template <int FMT, int TOKENS, int ROWS> __device__ inline void product_run(const struct product &p, float4 *tile)
{
	const int width = PRODUCT_TILE / TOKENS;
	int64_t row = p.row + threadIdx.x / WARP * ROWS, first = threadIdx.x % WARP * CHUNK;
	float sum[ROWS][TOKENS] = { { 0 } };

	for (int64_t k0 = 0; k0 < p.w->cols; k0 += width) {
		product_stage<TOKENS>(p, k0, tile);
		__syncthreads();
		for (int part = 0; part < width / PRODUCT_COLS; part++) {
			int64_t k = k0 + part * PRODUCT_COLS + first;

			if (row < p.row_end && k < p.w->cols)
				product_chunk<FMT>(p, row, k, part, tile, sum);
		}
		__syncthreads();
	}
	product_store<TOKENS, ROWS>(p, row, sum);
}

/* The end of products whose columns are dealt to classes, one for each warp: the classes of an element are added upwards.
 * n activations, n_row rows; y: of the first of both. */
template <int CLASSES, int ROWS, int TOKENS>
__device__ inline void product_classes(const float (&part)[CLASSES][ROWS][TOKENS], int n, int64_t n_row, float *y,
				       int64_t ldy)
{
	for (int i = threadIdx.x; i < ROWS * TOKENS; i += CLASSES * WARP) {
		int r = i % ROWS, t = i / ROWS;
		float sum = 0;

		for (int j = 0; j < CLASSES; j++)
			sum += part[j][r][t];
		if (t < n && r < n_row)
			y[t * ldy + r] = sum;
	}
}

/* What a kernel is for: one activation at a time, or tiles of several. */
#define PRODUCT_ONE 1, 1
#define PRODUCT_MANY 8, 2
#define PRODUCT_MANY_TOKENS 8
#define PRODUCT_MANY_ROWS 2

#endif
