/* SPDX-License-Identifier: MIT
 * selftest_tensor.cu - tensor cores of sm_100: two products of 128 x 32 by 8 x 32, added up, as it is right and as it
 * is wrong in one way each. */
#include "plugins/cuda/tensor.cuh"
#include "tests/cusim/selftest.h"

enum tensor_test_wrong {
	RIGHT, MET, UNFENCED, UNPUBLISHED, UNMET, UNWAITED, COLUMNS, UNFREED, UNWRITTEN, EARLY, BITS, MATRIX, LANES,
	BEYOND, UNSCALED, ADDED, UNCOMMITTED, FREED, TWO, LATE, REUSED
};

#define TEST_N 8
#define TEST_COLUMNS 32
#define TEST_SCALE_A TEST_N
#define TEST_SCALE_B (TEST_N + TENSOR_SCALE_COLUMNS)

struct tensor_test {
	uint64_t done;
	uint32_t at;
	/* by product: core matrices by rows, by columns; [row][byte] */
	__align__(16) uint8_t a[2][TENSOR_ROWS / 8][2][8][16];
	__align__(16) uint8_t b[2][TEST_N / 8][2][8][16];
	__align__(16) uint8_t scale_a[32][4][4], scale_b[32][4][4]; /* rows r, r + 32...; by product */
};

/* Thread r writes row r of a, and of b. */
__device__ static void tensor_test_fill(tensor_test &s, int r)
{
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < TENSOR_COLS; k++) {
			int two = SELFTEST_A(i, r, k & -2) | SELFTEST_A(i, r, k | 1) << 4;

			s.a[i][r / 8][k / 16][r % 8][k % 16 / 2] = static_cast<uint8_t>(two);
			if (r < TEST_N)
				s.b[i][r / 8][k / 16][r % 8][k % 16] = SELFTEST_B(i, r, k);
		}
	for (int i = 0; i < 4; i++) {
		s.scale_a[r % 32][r / 32][i] = SELFTEST_SCALE_A(i, r);
		s.scale_b[r % 32][r / 32][i] = SELFTEST_SCALE_B(i, r);
	}
}

template <int WRONG> __device__ static void tensor_test_start(tensor_test &s)
{
	uint32_t at = s.at, n = WRONG == BEYOND ? 64 : TEST_N;

	if (WRONG != UNSCALED)
		tensor_scales(at + TEST_SCALE_A, tensor_matrix(s.scale_a, 0, TENSOR_CORE));
	tensor_scales(at + TEST_SCALE_B, tensor_matrix(s.scale_b, 0, TENSOR_CORE));
	for (uint32_t i = 0; i < 2; i++)
		tensor_mma(at, tensor_matrix(s.a[i], TENSOR_CORE, 2 * TENSOR_CORE) ^ (WRONG == MATRIX ? 1ull << 46 : 0),
			   tensor_matrix(s.b[i], TENSOR_CORE, 2 * TENSOR_CORE),
			   tensor_how(n, i) | (WRONG == BITS ? 1u << 31 : 0), at + TEST_SCALE_A, at + TEST_SCALE_B,
			   WRONG == ADDED || i > 0);
	if (WRONG == REUSED)
		tensor_scales(at + TEST_SCALE_A, tensor_matrix(s.scale_a, 0, TENSOR_CORE));
	if (WRONG != UNCOMMITTED)
		tensor_commit(&s.done);
}

template <int WRONG> __device__ static void tensor_test_run(const selftest_args &a, tensor_test &s)
{
	uint32_t warp = threadIdx.x / WARP, lane = 32 * (WRONG == LANES ? warp ^ 1 : warp);
	float v[16];

	if (warp == 0)
		tensor_alloc(&s.at, WRONG == COLUMNS ? 48 : TEST_COLUMNS);
	if (threadIdx.x == 0)
		tensor_barrier(&s.done);
	tensor_sync();
	if (WRONG == LATE || WRONG == MET)
		tensor_publish();
	tensor_test_fill(s, threadIdx.x);
	if (WRONG != UNPUBLISHED && WRONG != LATE)
		tensor_publish();
	if (WRONG != UNMET)
		tensor_sync();
	if (threadIdx.x == (WRONG == UNMET ? 127 : 0) || (WRONG == TWO && threadIdx.x == 32))
		tensor_test_start<WRONG>(s);
	if (WRONG == EARLY || WRONG == TWO)
		tensor_sync();
	if (WRONG == EARLY)
		s.a[1][0][0][0][0] = 0;
	if (WRONG == FREED && warp == 0)
		tensor_free(s.at, TEST_COLUMNS);
	if (WRONG != UNWAITED && (threadIdx.x == 0 || (WRONG != MET && WRONG != UNFENCED)))
		tensor_wait(&s.done, 0);
	if (WRONG == MET)
		tensor_sync();
	if (WRONG == UNFENCED)
		__syncthreads();
	tensor_load(v, s.at + (lane << 16) + (WRONG == UNWRITTEN ? 16 : 0));
	for (int j = 0; j < 4; j++)
		a.out[4 * threadIdx.x + j] = v[2 * j];
	tensor_sync();
	if (WRONG != UNFREED && warp == 0)
		tensor_free(s.at, TEST_COLUMNS);
}

#define TENSOR_TEST(name, wrong) \
	KERNEL(name, struct selftest_args, TENSOR_ROWS) \
	{ \
		__shared__ tensor_test s; \
\
		tensor_test_run<wrong>(a, s); \
	}
TENSOR_TEST(right_tensor, RIGHT)
TENSOR_TEST(right_tensor_met, MET)
TENSOR_TEST(tensor_unfenced, UNFENCED)
TENSOR_TEST(tensor_unpublished, UNPUBLISHED)
TENSOR_TEST(tensor_unmet, UNMET)
TENSOR_TEST(tensor_unwaited, UNWAITED)
TENSOR_TEST(tensor_columns, COLUMNS)
TENSOR_TEST(tensor_unfreed, UNFREED)
TENSOR_TEST(tensor_unwritten, UNWRITTEN)
TENSOR_TEST(tensor_early, EARLY)
TENSOR_TEST(tensor_bits, BITS)
TENSOR_TEST(tensor_matrix_bits, MATRIX)
TENSOR_TEST(tensor_lanes, LANES)
TENSOR_TEST(tensor_beyond, BEYOND)
TENSOR_TEST(tensor_unscaled, UNSCALED)
TENSOR_TEST(tensor_added, ADDED)
TENSOR_TEST(tensor_uncommitted, UNCOMMITTED)
TENSOR_TEST(tensor_freed, FREED)
TENSOR_TEST(tensor_two, TWO)
TENSOR_TEST(tensor_late, LATE)
TENSOR_TEST(tensor_reused, REUSED)
