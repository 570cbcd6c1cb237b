/* SPDX-License-Identifier: MIT
 * numfmt.c - tests of plugins/dsv4_numfmt.h: every code, and rounding against a search over all codes.
 * Threads: one. Locks: none. */
#include "tests/unit/refkit.h"

#include <math.h>

static unsigned numfmt_to_e4m3(float f)
{
	return dsv4_f32_to_e4m3(f);
}

static unsigned numfmt_to_e2m1(float f)
{
	return dsv4_f32_to_e2m1(f);
}

/* One of the two small formats. */
struct numfmt_small {
	unsigned n_code, n_finite; /* codes; finite ones without sign */
	double (*value)(unsigned);
	unsigned (*encode)(float);
};

static const struct numfmt_small numfmt_e4m3 = { 256, 0x7f, refkit_e4m3, numfmt_to_e4m3 };
static const struct numfmt_small numfmt_e2m1 = { 16, 8, refkit_e2m1, numfmt_to_e2m1 };

/* refkit_nearest compares with NaN codes too, but those never win. */
static void numfmt_check(const struct numfmt_small *f, float x)
{
	assert_int_equal(f->encode(x), refkit_nearest((double)x, f->value, f->n_code));
	assert_int_equal(f->encode(-x), refkit_nearest(-(double)x, f->value, f->n_code));
}

static void numfmt_small_rounds(const struct numfmt_small *f)
{
	float top = (float)f->value(f->n_finite - 1);

	for (unsigned c = 0; c < f->n_finite; c++) {
		float v = (float)f->value(c), next = c + 1 < f->n_finite ? (float)f->value(c + 1) : top;
		float tie = (v + next) / 2; /* exact: both have few bits */

		assert_int_equal(f->encode(v), c);
		assert_int_equal(f->encode(-v), c + f->n_code / 2);
		numfmt_check(f, tie);
		numfmt_check(f, nextafterf(tie, 0));
		numfmt_check(f, nextafterf(tie, top));
	}
	for (int i = 0; i < 20000; i++)
		numfmt_check(f, (float)(refkit_rand() * (double)top * ldexp(1, -(int)refkit_below(20))));
}

static void test_e4m3(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 256; c++)
		if ((c & 0x7f) == 0x7f)
			assert_true(isnan(dsv4_e4m3_to_f32((uint8_t)c)));
		else
			assert_true((double)dsv4_e4m3_to_f32((uint8_t)c) == refkit_e4m3(c));
	numfmt_small_rounds(&numfmt_e4m3);
	assert_int_equal(dsv4_f32_to_e4m3(NAN), 0x7f);
	assert_int_equal(dsv4_f32_to_e4m3(1e30f), 0x7e);
	assert_int_equal(dsv4_f32_to_e4m3(-INFINITY), 0xfe);
	assert_int_equal(dsv4_f32_to_e4m3(0x1p-149f), 0);
	assert_int_equal(dsv4_f32_to_e4m3(-0.0f), 0x80);
}

static void test_e2m1(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 16; c++)
		assert_true((double)dsv4_e2m1_to_f32((uint8_t)c) == refkit_e2m1(c));
	numfmt_small_rounds(&numfmt_e2m1);
}

static void test_e8m0(void **state)
{
	(void)state;
	for (int e = 0; e < 255; e++)
		assert_true((double)dsv4_e8m0_to_f32((uint8_t)e) == ldexp(1, e - 127));
	assert_true(isnan(dsv4_e8m0_to_f32(255)));
}

/* Every bf16 value, its neighbours in fp32 and the tie to the next. */
static void test_bf16(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) {
		float f = dsv4_bf16_to_f32((uint16_t)h), tie = dsv4_f32_from_bits(h << 16 | 0x8000);

		if (isnan(f)) {
			assert_true(isnan(dsv4_round_bf16(f)));
			continue;
		}
		assert_int_equal(dsv4_f32_to_bf16(f), h);
		if (isinf(f))
			continue;
		assert_int_equal(dsv4_f32_to_bf16(dsv4_f32_from_bits(h << 16 | 0x7fff)), h);
		assert_int_equal(dsv4_f32_to_bf16(tie), h + (h & 1));
		assert_int_equal(dsv4_f32_to_bf16(dsv4_f32_from_bits(h << 16 | 0x8001)), h + 1);
	}
	/* A NaN whose payload is all in the lower half must not become an infinity. */
	assert_true(isnan(dsv4_round_bf16(dsv4_f32_from_bits(0x7f800001))));
	assert_true(isnan(dsv4_round_bf16(dsv4_f32_from_bits(0xffffffff))));
}

static void test_scales(void **state)
{
	(void)state;
	for (int e = -100; e < 100; e++) {
		float p = ldexpf(1, e);

		assert_true(dsv4_pow2_ceil(p) == p);
		assert_true(dsv4_pow2_ceil(nextafterf(p, INFINITY)) == 2 * p);
		assert_true(dsv4_pow2_ceil(nextafterf(p, 0)) == p);
	}
	assert_true(dsv4_fp8_scale(0) == 0x1p-22f); /* 1e-4 / 448 is just below 2^-22 */
	assert_true(dsv4_fp8_scale(448) == 1);
	assert_true(dsv4_fp8_scale(449) == 2);
	assert_true(dsv4_fp8_scale(NAN) == 0x1p-22f);
	assert_true(dsv4_fp4_scale(0) == 0x1p-126f);
	assert_true(dsv4_fp4_scale(6) == 1);
	assert_true(dsv4_fp4_scale(6.5f) == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_e4m3), cmocka_unit_test(test_e2m1), cmocka_unit_test(test_e8m0),
		cmocka_unit_test(test_bf16), cmocka_unit_test(test_scales),
	};

	return cmocka_run_group_tests_name("numfmt", tests, NULL, NULL);
}
