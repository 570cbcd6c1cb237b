/* SPDX-License-Identifier: MIT
 * ref_norm.c - tests of ref's rms_norm, rope and sum, and of how rows are rounded for storage.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "plugins/ref/round.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rms_norm ---- */

struct norm_run {
	int32_t dim;
	const float *x, *weight;
	int in_place;
};

static int norm_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct norm_run *r = arg;
	int64_t ld = r->dim + 1;
	struct dsv4_rms_norm a = { .size = sizeof a,
				   .dim = r->dim,
				   .n_row = n,
				   .eps = 1e-6f,
				   .weight = r->weight,
				   .x = r->x + t0 * ld,
				   .ldx = ld,
				   .y = out + t0 * ld,
				   .ldy = ld };

	if (r->in_place) {
		for (int32_t t = 0; t < n; t++)
			memcpy(a.y + t * ld, a.x + t * ld, (size_t)r->dim * sizeof(float));
		a.x = a.y;
	}
	return ref_rms_norm(x, &refkit_host, &a);
}

static void norm_check(int32_t dim, int weighted, int in_place)
{
	enum { N = 5 };
	float *x = refkit_floats((size_t)(N * (dim + 1)), 4), *w = refkit_floats((size_t)dim, 2);
	float *out = refkit_floats((size_t)(N * (dim + 1)), 1);
	double *want = calloc((size_t)dim, sizeof *want);
	struct norm_run run = { dim, x, weighted ? w : NULL, in_place };

	assert_non_null(want);
	refkit_same_bits(norm_run, &run, N, (size_t)dim + 1, out);
	for (int t = 0; t < N; t++) {
		const float *row = x + t * (dim + 1);
		double sum = 0;

		for (int d = 0; d < dim; d++)
			sum += (double)row[d] * (double)row[d];
		for (int d = 0; d < dim; d++)
			want[d] = (double)row[d] / sqrt(sum / dim + 1e-6) * (weighted ? (double)w[d] : 1);
		assert_true(refkit_error(out + t * (dim + 1), want, (size_t)dim) < 5e-7);
	}
	free(x);
	free(w);
	free(out);
	free(want);
}

static void test_rms_norm(void **state)
{
	static const int dims[] = { 1, 2, 7, 96, 128, 1001 };

	(void)state;
	for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
		for (int mode = 0; mode < 4; mode++)
			norm_check(dims[i], mode & 1, mode >> 1);
}

/* ---- rope ---- */

struct norm_rope_run {
	struct dsv4_rope a;
	const float *x; /* [n_tok][ldx] */
};

static int norm_rope_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct norm_rope_run *r = arg;
	struct dsv4_rope a = r->a;

	a.size = sizeof a;
	a.n_tok = n;
	a.cs += t0 * a.rot;
	a.x = out + t0 * a.ldx;
	memcpy(a.x, r->x + t0 * a.ldx, (size_t)(n * a.ldx) * sizeof(float));
	return ref_rope(x, &refkit_host, &a);
}

/* Rotation of one row by definition: a complex product per pair. */
static void norm_rotate(double *x, int rot, const float *cs, int inverse)
{
	for (int i = 0; i < rot; i += 2) {
		double c = (double)cs[i], s = (double)cs[i + 1] * (inverse ? -1 : 1), re = x[i],
		       im = x[i + 1];

		x[i] = re * c - im * s;
		x[i + 1] = re * s + im * c;
	}
}

static void test_rope_rotates_the_tail(void **state)
{
	enum { N = 4, HEAD = 3, DIM = 10, ROT = 6, LD = HEAD * DIM + 2 };
	float *x = refkit_floats(N * LD, 2), cs[N * ROT], out[N * LD];
	struct norm_rope_run run = { { .n_head = HEAD, .dim = DIM, .rot = ROT, .cs = cs, .ldx = LD }, x };

	(void)state;
	for (int i = 0; i < N * ROT; i += 2) {
		cs[i] = cosf((float)i);
		cs[i + 1] = sinf((float)i);
	}
	for (int inverse = 0; inverse < 2; inverse++) {
		run.a.inverse = (uint32_t)inverse;
		refkit_same_bits(norm_rope_run, &run, N, LD, out);
		for (int t = 0; t < N; t++)
			for (int h = 0; h < HEAD; h++) {
				double row[DIM];

				for (int d = 0; d < DIM; d++)
					row[d] = (double)x[t * LD + h * DIM + d];
				norm_rotate(row + DIM - ROT, ROT, cs + t * ROT, inverse);
				assert_true(refkit_error(out + t * LD + h * DIM, row, DIM) < 1e-6);
				assert_memory_equal(out + t * LD + h * DIM, x + t * LD + h * DIM,
						    (DIM - ROT) * sizeof(float));
			}
	}
	free(x);
}

static void test_rope_inverse_undoes_it(void **state)
{
	float *x = refkit_floats(64, 1), row[64], cs[32];
	double want[64];

	(void)state;
	for (int i = 0; i < 32; i += 2) {
		cs[i] = cosf((float)i * 0.7f);
		cs[i + 1] = sinf((float)i * 0.7f);
	}
	memcpy(row, x, sizeof row);
	ref_rope_row(row, 32, cs, 0);
	ref_rope_row(row, 32, cs, 1);
	for (int i = 0; i < 64; i++)
		want[i] = (double)x[i];
	assert_true(refkit_error(row, want, 64) < 1e-6);
	free(x);
}

/* ---- rounding ---- */

/* Quarter turns rotate without error, so that the rounding can be compared exactly. */
static void norm_quarter_turns(float *cs, int n)
{
	for (int i = 0; i < n; i += 2) {
		cs[i] = (float)(i / 2 % 2);
		cs[i + 1] = (float)(1 - i / 2 % 2);
	}
}

static void norm_kv_check(int dim, int rot, uint32_t round)
{
	enum { N = 3 };
	float *x = refkit_floats((size_t)(N * dim), 5), *out = refkit_floats((size_t)(N * dim), 1);
	float *cs = refkit_floats((size_t)(N * rot), 1);
	struct norm_rope_run run = {
		{ .n_head = 1, .dim = dim, .rot = rot, .kv = round, .cs = cs, .ldx = dim }, x
	};
	double *row = calloc((size_t)dim, sizeof *row);
	int plain = dim - rot;

	assert_non_null(row);
	norm_quarter_turns(cs, N * rot);
	refkit_same_bits(norm_rope_run, &run, N, (size_t)dim, out);
	for (int t = 0; t < N; t++) {
		for (int d = 0; d < dim; d++)
			row[d] = (double)x[t * dim + d];
		norm_rotate(row + plain, rot, cs + t * rot, 0);
		for (int d = 0; d < plain && round == DSV4_ROUND_FP8; d += 64)
			refkit_round_fp8(row + d, plain - d < 64 ? plain - d : 64);
		for (int d = 0; d < plain && round == DSV4_ROUND_BF16; d++)
			row[d] = refkit_bf16(row[d]);
		for (int d = 0; d < dim; d++)
			assert_true((double)out[t * dim + d] == row[d]);
	}
	free(x);
	free(out);
	free(cs);
	free(row);
}

static void test_kv_rounding(void **state)
{
	(void)state;
	for (uint32_t round = DSV4_ROUND_NONE; round <= DSV4_ROUND_FP8; round++) {
		norm_kv_check(96, 32, round);
		norm_kv_check(512, 64, round);
		norm_kv_check(77, 6, round); /* a block of 64 and one of 7 */
		norm_kv_check(4, 4, round);
		norm_kv_check(5, 0, round);
	}
}

/* H[i][j] = (-1)^popcount(i & j) */
static void norm_hadamard(double *x, int n)
{
	double *y = calloc((size_t)n, sizeof *y);

	assert_non_null(y);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			y[i] += __builtin_popcount((unsigned)(i & j)) % 2 ? -x[j] : x[j];
	for (int i = 0; i < n; i++)
		x[i] = y[i] / sqrt(n);
	free(y);
}

/* Inputs of few bits and a dim that is a power of four make every step before the rounding exact. */
static void norm_index_check(int dim, uint32_t round)
{
	enum { N = 3, HEAD = 2 };
	int n = N * HEAD * dim, differ = 0;
	float *x = refkit_floats((size_t)n, 1), *out = refkit_floats((size_t)n, 1);
	float *cs = refkit_floats((size_t)(N * dim), 1);
	struct norm_rope_run run = { { .n_head = HEAD, .dim = dim, .rot = dim / 2, .index = round, .cs = cs,
				       .ldx = HEAD * dim }, x };
	double *row = calloc((size_t)dim, sizeof *row);

	assert_non_null(row);
	for (int i = 0; i < n; i++)
		x[i] = truncf(x[i] * 1000);
	norm_quarter_turns(cs, N * dim);
	refkit_same_bits(norm_rope_run, &run, N, (size_t)(HEAD * dim), out);
	for (int i = 0; i < N * HEAD; i++) {
		for (int d = 0; d < dim; d++)
			row[d] = (double)x[i * dim + d];
		norm_rotate(row + dim - dim / 2, dim / 2, cs + i / HEAD * (dim / 2), 0);
		if (round != DSV4_ROUND_NONE)
			norm_hadamard(row, dim);
		if (round == DSV4_ROUND_FP8)
			refkit_round_fp8(row, dim);
		for (int d = 0; d < dim && round == DSV4_ROUND_FP4; d += 32)
			refkit_round_fp4(row + d, dim - d < 32 ? dim - d : 32);
		for (int d = 0; d < dim && round == DSV4_ROUND_BF16; d++)
			row[d] = refkit_bf16(row[d]);
		for (int d = 0; d < dim; d++)
			differ += (double)out[i * dim + d] != row[d];
	}
	/* Without a power of four the scale is not exact, and a value near a tie may fall
	 * to the other side. */
	assert_true(differ <= (__builtin_ctz((unsigned)dim) % 2 ? n / 50 : 0));
	free(x);
	free(out);
	free(cs);
	free(row);
}

static void test_index_rounding(void **state)
{
	(void)state;
	for (uint32_t round = DSV4_ROUND_NONE; round <= DSV4_ROUND_FP4; round++)
		for (int dim = 4; dim <= 256; dim *= 2)
			norm_index_check(dim, round);
}

static void test_hadamard_undoes_itself(void **state)
{
	float *x = refkit_floats(128, 1), y[128];
	double want[128];

	(void)state;
	memcpy(y, x, sizeof y);
	ref_hadamard(y, 128);
	ref_hadamard(y, 128);
	for (int i = 0; i < 128; i++)
		want[i] = (double)x[i];
	assert_true(refkit_error(y, want, 128) < 1e-6);
	free(x);
}

static void test_nan_and_inf_do_not_spread_blocks(void **state)
{
	float x[192];

	(void)state;
	for (int i = 0; i < 192; i++)
		x[i] = 1;
	x[3] = NAN;
	x[70] = INFINITY;
	assert_int_equal(ref_round_kv(x, 192, DSV4_ROUND_FP8), 0);
	for (int i = 0; i < 192; i++)
		if (i == 3)
			assert_true(isnan(x[i]));
		else if (i < 64 || i >= 128)
			assert_true(x[i] == 1);
	x[0] = NAN;
	assert_int_equal(ref_round_index(x, 64, DSV4_ROUND_FP4), 0);
	assert_true(isnan(x[0]) && isnan(x[63]));
}

/* ---- sum ---- */

struct sum_run { const float *base, *x; };
enum { SUM_N = 6, SUM_PARTS = 3, SUM_DIM = 5, SUM_LDX = 7, SUM_LDP = SUM_N * SUM_LDX + 2 };

static int sum_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct sum_run *r = arg;
	struct dsv4_sum a = { .size = sizeof a, .dim = SUM_DIM, .n_row = n, .n_part = SUM_PARTS, .every = 1,
			      .base = r->base ? r->base + t0 * SUM_DIM : NULL, .ldb = SUM_DIM,
			      .x = r->x + t0 * SUM_LDX, .ldx = SUM_LDX, .ldp = SUM_LDP,
			      .y = out + t0 * SUM_DIM, .ldy = SUM_DIM };

	return ref_sum(x, &refkit_host, &a);
}

/* 1, 2^24 and -2^24 have another sum in every order. */
static void test_sum_adds_in_order(void **state)
{
	static const float part[SUM_PARTS] = { 1, 0x1p24f, -0x1p24f };
	static const float want[] = { 0, 2, 4, 4 }; /* above 2^24 there are even numbers only */
	float *x = refkit_floats(SUM_PARTS * SUM_LDP, 1), base[SUM_N * SUM_DIM], out[SUM_N * SUM_DIM];
	struct sum_run run = { base, x };

	(void)state;
	for (int p = 0; p < SUM_PARTS; p++)
		for (int i = 0; i < SUM_N * SUM_LDX; i++)
			x[p * SUM_LDP + i] = part[p];
	for (int i = 0; i < SUM_N * SUM_DIM; i++)
		base[i] = (float)(i % 4);
	refkit_same_bits(sum_run, &run, SUM_N, SUM_DIM, out);
	for (int i = 0; i < SUM_N * SUM_DIM; i++)
		assert_true(out[i] == want[i % 4]);
	run.base = NULL;
	refkit_same_bits(sum_run, &run, SUM_N, SUM_DIM, out);
	for (int i = 0; i < SUM_N * SUM_DIM; i++)
		assert_true(out[i] == 0);
	free(x);
}

/* The last row of base is for fewer rows where their number is no multiple. */
static void test_sum_has_a_row_of_base_for_several(void **state)
{
	static const float base[] = { 10, 20, 30 }, x[] = { 1, 2, 3, 4, 5, 6, 7 };
	static const float want[] = { 11, 12, 13, 24, 25, 26, 37 };
	struct dsv4_exec e = { .mode = REFKIT_WHOLE };
	float y[7];
	struct dsv4_sum a = { .size = sizeof a, .dim = 1, .n_row = 7, .n_part = 1, .every = 3, .base = base, .ldb = 1,
			      .x = x, .ldx = 1, .y = y, .ldy = 1 };

	(void)state;
	assert_int_equal(ref_sum(&e, &refkit_host, &a), 0);
	assert_memory_equal(y, want, sizeof y);
	a.every = 0;
	assert_int_equal(ref_sum(&e, &refkit_host, &a), -EINVAL);
	a.every = 1;
	a.n_part = 0;
	assert_int_equal(ref_sum(&e, &refkit_host, &a), -EINVAL);
	a.n_part = 1;
	a.size--;
	assert_int_equal(ref_sum(&e, &refkit_host, &a), -EINVAL);
}

static void test_refuses(void **state)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE };
	float row[96] = { 0 }, cs[32] = { 0 };
	struct dsv4_rope a, ok = {
		.size = sizeof a, .n_tok = 1, .n_head = 1, .dim = 96, .rot = 32, .cs = cs, .x = row, .ldx = 96
	};

	(void)state;
	assert_int_equal(ref_rope(&x, &refkit_host, &ok), 0);
	a = ok;
	a.index = DSV4_ROUND_FP4; /* 96 is no power of two */
	assert_int_equal(ref_rope(&x, &refkit_host, &a), -EINVAL);
	a = ok;
	a.kv = DSV4_ROUND_FP4;
	assert_int_equal(ref_rope(&x, &refkit_host, &a), -EINVAL);
	a = ok;
	a.rot = 98;
	assert_int_equal(ref_rope(&x, &refkit_host, &a), -EINVAL);
	a = ok;
	a.rot = 3;
	assert_int_equal(ref_rope(&x, &refkit_host, &a), -EINVAL);
	a = ok;
	a.size--;
	assert_int_equal(ref_rope(&x, &refkit_host, &a), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rms_norm),
		cmocka_unit_test(test_rope_rotates_the_tail),
		cmocka_unit_test(test_rope_inverse_undoes_it),
		cmocka_unit_test(test_kv_rounding),
		cmocka_unit_test(test_index_rounding),
		cmocka_unit_test(test_hadamard_undoes_itself),
		cmocka_unit_test(test_nan_and_inf_do_not_spread_blocks),
		cmocka_unit_test(test_sum_adds_in_order),
		cmocka_unit_test(test_sum_has_a_row_of_base_for_several),
		cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("ref_norm", tests, NULL, NULL);
}
