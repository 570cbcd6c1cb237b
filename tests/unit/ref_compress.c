/* SPDX-License-Identifier: MIT
 * ref_compress.c - tests of ref's compressor against doc/format.md 3.5 in double.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct compress_run {
	struct dsv4_compress a; /* inputs of all output rows */
};

static int compress_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	struct dsv4_compress a = ((const struct compress_run *)arg)->a;
	int64_t skip = (int64_t)t0 * a.ratio * a.dim * (a.overlap ? 2 : 1);

	a.size = sizeof a;
	a.n_out = n;
	a.kv += skip;
	a.score += skip;
	a.cs += t0 * a.rot;
	a.out = out + t0 * a.dim;
	a.first_absent = a.first_absent && t0 == 0;
	return ref_compress(x, &refkit_host, &a);
}

/* Channel d of output row e before the norm. */
static double compress_pooled(const struct dsv4_compress *a, int e, int d)
{
	int width = a->dim * (a->overlap ? 2 : 1);
	double num = 0, den = 0;

	for (int half = 0; half <= (int)a->overlap; half++)
		for (int i = 0; i < a->ratio; i++) {
			int at = ((e + half) * a->ratio + i) * width + half * a->dim + d;
			double p = exp((double)a->score[at] + (double)a->ape[i * width + half * a->dim + d]);

			if (a->overlap && a->first_absent && e + half == 0)
				continue;
			num += p * (double)a->kv[at];
			den += p;
		}
	return num / den;
}

static void compress_want(const struct dsv4_compress *a, int e, double *row)
{
	double sum = 0;

	for (int d = 0; d < a->dim; d++) {
		row[d] = compress_pooled(a, e, d);
		sum += row[d] * row[d];
	}
	for (int d = 0; d < a->dim; d++)
		row[d] *= (double)a->norm[d] / sqrt(sum / a->dim + 1e-6);
	for (int i = 0; i < a->rot; i += 2) {
		double *x = row + a->dim - a->rot + i, re = x[0];
		double c = (double)a->cs[e * a->rot + i], s = (double)a->cs[e * a->rot + i + 1];

		x[0] = re * c - x[1] * s;
		x[1] = re * s + x[1] * c;
	}
}

static void compress_check(int n_out, int ratio, int dim, int rot, int overlap, int absent)
{
	size_t width = (size_t)(dim * (1 + overlap)), n = (size_t)((n_out + overlap) * ratio) * width;
	float *kv = refkit_floats(n, 1), *score = refkit_floats(n, 4), *norm = refkit_floats((size_t)dim, 2);
	float *ape = refkit_floats((size_t)ratio * width, 3), *cs = refkit_floats((size_t)(n_out * rot), 1);
	float *out = refkit_floats((size_t)(n_out * dim), 1);
	double *want = calloc((size_t)dim, sizeof *want);
	struct compress_run run = { { .ratio = ratio,
				      .dim = dim,
				      .rot = rot,
				      .overlap = (uint32_t)overlap,
				      .first_absent = (uint32_t)absent,
				      .norm_eps = 1e-6f,
				      .kv = kv,
				      .score = score,
				      .ape = ape,
				      .norm = norm,
				      .cs = cs } };

	assert_non_null(want);
	/* An absent group must not even be read. */
	for (size_t i = 0; overlap && absent && i < (size_t)ratio * width; i++)
		kv[i] = score[i] = NAN;
	refkit_same_bits(compress_run, &run, n_out, (size_t)dim, out);
	for (int e = 0; e < n_out; e++) {
		compress_want(&run.a, e, want);
		assert_true(refkit_error(out + e * dim, want, (size_t)dim) < 2e-6);
	}
	free(kv);
	free(score);
	free(norm);
	free(ape);
	free(cs);
	free(out);
	free(want);
}

static void test_pools(void **state)
{
	(void)state;
	compress_check(3, 128, 96, 32, 0, 0);
	compress_check(5, 4, 96, 32, 1, 1);
	compress_check(5, 4, 64, 32, 1, 0);
	compress_check(1, 4, 7, 2, 1, 1);
	compress_check(1, 1, 1, 0, 0, 0);
	compress_check(4, 3, 130, 6, 1, 1);
	compress_check(2, 5, 65, 64, 0, 1); /* first_absent means nothing without overlap */
}

/* Scores of a size that overflows exp unless the maximum is taken out first. */
static void test_large_scores(void **state)
{
	float kv[4] = { 1, 2, 3, 4 }, score[4] = { 500, -1e30f, 500, -INFINITY };
	float ape[4] = { 0 }, norm[1] = { 1 }, cs[1] = { 0 }, out[1];
	struct compress_run run = { { .ratio = 4,
				      .dim = 1,
				      .norm_eps = 0,
				      .kv = kv,
				      .score = score,
				      .ape = ape,
				      .norm = norm,
				      .cs = cs } };

	(void)state;
	run.a.norm_eps = 12; /* x / sqrt(x^2 + 12) = 1/2 at x = 2 */
	refkit_same_bits(compress_run, &run, 1, 1, out);
	assert_true(fabsf(out[0] - 0.5f) < 1e-6f);
}

/* The stored row is the plain row, rounded as rope rounds. */
static void test_rounding(void **state)
{
	float *kv = refkit_floats(64 * 8, 1), *score = refkit_floats(64 * 8, 1), *norm = refkit_floats(64, 2);
	float *ape = refkit_floats(64 * 4, 1), cs[32], plain[128], rounded[128];
	struct compress_run run = { { .ratio = 4,
				      .dim = 64,
				      .rot = 16,
				      .norm_eps = 1e-6f,
				      .kv = kv,
				      .score = score,
				      .ape = ape,
				      .norm = norm,
				      .cs = cs } };
	struct dsv4_exec x = { .mode = REFKIT_WHOLE };
	struct dsv4_rope r = {
		.size = sizeof r, .n_tok = 2, .n_head = 1, .dim = 64, .cs = cs, .x = plain, .ldx = 64
	};

	(void)state;
	for (int i = 0; i < 32; i += 2) {
		cs[i] = cosf((float)i);
		cs[i + 1] = sinf((float)i);
	}
	for (int i = 0; i < 8; i++) {
		run.a.kv_round = run.a.index_round = DSV4_ROUND_NONE;
		refkit_same_bits(compress_run, &run, 2, 64, plain);
		run.a.kv_round = i < 4 ? (uint32_t)i % 3 : DSV4_ROUND_NONE;
		run.a.index_round = i < 4 ? DSV4_ROUND_NONE : (uint32_t)i - 4;
		refkit_same_bits(compress_run, &run, 2, 64, rounded);
		/* Identity rotation of the same width, then the rounding. */
		float one[32];

		for (int k = 0; k < 32; k++)
			one[k] = k % 2 ? 0.0f : 1.0f;
		r.rot = 16;
		r.cs = one;
		r.kv = run.a.kv_round;
		r.index = run.a.index_round;
		assert_int_equal(ref_rope(&x, &refkit_host, &r), 0);
		for (int k = 0; k < 128; k++)
			assert_true(plain[k] == rounded[k]);
	}
	free(kv);
	free(score);
	free(norm);
	free(ape);
}

static void test_refuses(void **state)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE };
	struct dsv4_compress a = { .size = sizeof a, .n_out = 0, .ratio = 4, .dim = 96 };

	(void)state;
	assert_int_equal(ref_compress(&x, &refkit_host, &a), 0);
	a.index_round = DSV4_ROUND_FP4;
	assert_int_equal(ref_compress(&x, &refkit_host, &a), -EINVAL);
	a.index_round = DSV4_ROUND_NONE;
	a.ratio = 0;
	assert_int_equal(ref_compress(&x, &refkit_host, &a), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_large_scores),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("ref_compress", tests, NULL, NULL);
}
