/* SPDX-License-Identifier: MIT
 * ref_linear.c - tests of ref's linear op against a computation in double.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct linear_case {
	enum dsv4_wfmt fmt;
	enum dsv4_sfmt sfmt;
	int64_t rows, cols;
	int32_t n_tok, n_group;
	enum dsv4_act act;
};

struct linear_run {
	const struct dsv4_weight *w;
	const struct linear_case *c;
	const float *x;
	int64_t ldx, ldy;
};

static int linear_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct linear_run *r = arg;
	struct dsv4_linear a = { .size = sizeof a,
				 .n_tok = n,
				 .n_group = r->c->n_group,
				 .act = r->c->act,
				 .w = r->w,
				 .x = r->x + t0 * r->ldx,
				 .ldx = r->ldx,
				 .y = out + t0 * r->ldy,
				 .ldy = r->ldy };

	return ref_linear(x, &refkit_host, &a);
}

/* The activations in double, rounded when the format asks for it. */
static double *linear_activations(const struct linear_case *c, const float *x, int64_t ldx)
{
	int round = c->act == DSV4_ACT_FP8 && c->fmt != DSV4_W_F32 && c->fmt != DSV4_W_BF16;
	int64_t n = c->n_group * c->cols;
	double *d = calloc((size_t)(c->n_tok * n), sizeof *d);

	assert_non_null(d);
	for (int32_t t = 0; t < c->n_tok; t++) {
		for (int64_t k = 0; k < n; k++)
			d[t * n + k] = (double)x[t * ldx + k];
		for (int64_t g = 0; round && g < c->n_group; g++)
			for (int64_t k = 0; k < c->cols; k += 128)
				refkit_round_fp8(d + t * n + g * c->cols + k,
						 c->cols - k < 128 ? c->cols - k : 128);
	}
	return d;
}

static void linear_want(const struct linear_case *c, const double *value, const double *x, double *y)
{
	for (int32_t t = 0; t < c->n_tok; t++)
		for (int64_t r = 0; r < c->rows; r++) {
			int64_t g = r / (c->rows / c->n_group);
			double sum = 0;

			for (int64_t k = 0; k < c->cols; k++)
				sum += x[(t * c->n_group + g) * c->cols + k] * value[r * c->cols + k];
			y[t * c->rows + r] = sum;
		}
}

static void linear_check(const struct linear_case *c)
{
	int64_t ldx = c->n_group * c->cols + 3, ldy = c->rows + 2;
	float *x = refkit_floats((size_t)(c->n_tok * ldx), 3),
	      *out = refkit_floats((size_t)(c->n_tok * ldy), 1);
	double *want = calloc((size_t)(c->n_tok * c->rows), sizeof *want), *act;
	struct refkit_weight k;
	struct linear_run run = { &k.w, c, x, ldx, ldy };

	assert_non_null(want);
	for (int64_t i = 0; i < c->n_tok * ldx; i++)
		x[i] *= ldexpf(1, (int)(i % ldx / 50 % 7)); /* so that blocks differ in scale */
	refkit_weight_init(&k, c->fmt, c->sfmt, c->rows, c->cols);
	act = linear_activations(c, x, ldx);
	linear_want(c, k.value, act, want);
	refkit_same_bits(linear_run, &run, c->n_tok, (size_t)ldy, out);
	for (int32_t t = 0; t < c->n_tok; t++) {
		assert_true(refkit_error(out + t * ldy, want + t * c->rows, (size_t)c->rows) < 1e-6);
		assert_true(isnan(out[t * ldy + c->rows])); /* nothing written past the rows */
	}
	refkit_weight_fini(&k);
	free(x);
	free(out);
	free(act);
	free(want);
}

static void test_formats_and_shapes(void **state)
{
	static const struct linear_case base[] = {
		{ .fmt = DSV4_W_F32, .sfmt = DSV4_S_NONE },   { .fmt = DSV4_W_BF16, .sfmt = DSV4_S_NONE },
		{ .fmt = DSV4_W_FP8, .sfmt = DSV4_S_E8M0 },   { .fmt = DSV4_W_FP8, .sfmt = DSV4_S_F32 },
		{ .fmt = DSV4_W_FP4, .sfmt = DSV4_S_E8M0 },   { .fmt = DSV4_W_NVFP4, .sfmt = DSV4_S_E4M3 },
	};
	static const struct { int rows, cols, n_tok, n_group;
	} shape[] = {
		{ 1, 2, 1, 1 },	   { 3, 128, 5, 1 }, { 130, 258, 4, 1 }, { 6, 70, 7, 2 },
		{ 8, 384, 67, 4 }, { 5, 14, 2, 5 },  { 2, 33, 3, 1 },
	};
	struct linear_case c;

	(void)state;
	for (size_t f = 0; f < sizeof base / sizeof *base; f++)
		for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
			for (int act = 0; act < 2; act++) {
				c = base[f];
				c.rows = shape[s].rows;
				c.cols = shape[s].cols;
				c.n_tok = shape[s].n_tok;
				c.n_group = shape[s].n_group;
				c.act = act ? DSV4_ACT_FP8 : DSV4_ACT_NONE;
				linear_check(&c);
			}
}

static void test_nan_stays_in_its_row(void **state)
{
	struct linear_case c = { DSV4_W_FP8, DSV4_S_E8M0, 130, 200, 3, 1, DSV4_ACT_FP8 };
	float *x = refkit_floats(600, 1), *clean = refkit_floats(390, 1), *out = refkit_floats(390, 1);
	struct refkit_weight k;
	struct linear_run run = { &k.w, &c, x, 200, 130 };

	(void)state;
	refkit_weight_init(&k, c.fmt, c.sfmt, c.rows, c.cols);
	refkit_same_bits(linear_run, &run, 3, 130, clean);
	x[200 + 7] = NAN;
	x[400 + 7] = INFINITY;
	refkit_same_bits(linear_run, &run, 3, 130, out);
	assert_memory_equal(out, clean, 130 * sizeof *out);
	for (int r = 0; r < 260; r++)
		assert_true(isnan(out[130 + r]));
	x[200 + 7] = x[400 + 7] = 0;
	k.scale[1 + 2] = 255; /* rows 128 and 129, columns 0 to 127 */
	refkit_same_bits(linear_run, &run, 3, 130, out);
	assert_memory_equal(out, clean, 128 * sizeof *out);
	assert_true(isnan(out[128]) && isnan(out[129]));
	k.scale[1 + 2] = 127;
	k.data[1 + 5 * 200] = 0x7f;
	k.data[1 + 7 * 200] = 0xff;
	refkit_same_bits(linear_run, &run, 3, 130, out);
	for (int r = 0; r < 128; r++)
		assert_true(!isnan(out[r]) == (r != 5 && r != 7));
	refkit_weight_fini(&k);
	free(x);
	free(clean);
	free(out);
}

/* Tokens that are huge next to tokens that are tiny: each has its own scales. */
static void test_zero_and_range(void **state)
{
	struct linear_case c = { DSV4_W_FP4, DSV4_S_E8M0, 4, 256, 3, 1, DSV4_ACT_FP8 };
	float *x = refkit_floats(3 * 256, 1), out[12];
	struct refkit_weight k;
	struct linear_run run = { &k.w, &c, x, 256, 4 };

	(void)state;
	refkit_weight_init(&k, c.fmt, c.sfmt, c.rows, c.cols);
	for (int i = 0; i < 256; i++) {
		x[i] = 0;
		x[256 + i] *= 1e30f;
		x[512 + i] = x[256 + i] * 0x1p-100f;
	}
	refkit_same_bits(linear_run, &run, 3, 4, out);
	for (int r = 0; r < 4; r++) {
		assert_true(out[r] == 0);
		assert_true(out[8 + r] == out[4 + r] * 0x1p-100f);
	}
	refkit_weight_fini(&k);
	free(x);
}

static void test_refuses(void **state)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE, .n_scratch = -1 };
	float in[128] = { 0 }, out[4];
	struct refkit_weight k;
	struct dsv4_linear ok, a;

	(void)state;
	refkit_weight_init(&k, DSV4_W_FP8, DSV4_S_E8M0, 4, 128);
	ok = a = (struct dsv4_linear){ .size = sizeof a,
				       .n_tok = 1,
				       .n_group = 1,
				       .act = DSV4_ACT_FP8,
				       .w = &k.w,
				       .x = in,
				       .ldx = 128,
				       .y = out,
				       .ldy = 4 };
	assert_int_equal(ref_linear(&x, &refkit_host, &a), 0);
	a.size = 8;
	assert_int_equal(ref_linear(&x, &refkit_host, &a), -EINVAL);
	a = ok;
	a.n_group = 3;
	assert_int_equal(ref_linear(&x, &refkit_host, &a), -EINVAL);
	k.w.sfmt = DSV4_S_E4M3;
	assert_int_equal(ref_linear(&x, &refkit_host, &ok), -EINVAL);
	k.w.sfmt = DSV4_S_E8M0;
	refkit_release(&x);
	for (int n = 0; n < 2; n++) {
		x.n_scratch = n;
		assert_int_equal(ref_linear(&x, &refkit_host, &ok), -ENOMEM);
		refkit_release(&x);
	}
	refkit_weight_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats_and_shapes), cmocka_unit_test(test_nan_stays_in_its_row),
		cmocka_unit_test(test_zero_and_range), cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("ref_linear", tests, NULL, NULL);
}
