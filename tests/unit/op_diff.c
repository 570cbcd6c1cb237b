/* SPDX-License-Identifier: MIT
 * op_diff.c - tests of how far two results are apart, against figures worked out by hand.
 * Threads: the test's own. Locks: none. */
#include "plugins/op/op_diff.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* Nearly all sums here are of small integers, so exact. */
static void diff_equal(double got, double want)
{
	if (!(got == want))
		fail_msg("%.17g, expected %.17g", got, want);
}

static struct op_out diff_out(void *a, int64_t n_row, int64_t width, int64_t ld)
{
	return (struct op_out){ .name = "y", .data = a, .n_row = n_row, .width = width, .ld = ld };
}

static void diff_add(struct op_diff *d, float *a, float *b, int64_t n_row, int64_t width)
{
	struct op_out o = diff_out(a, n_row, width, width);

	op_diff_add(d, &o, b, 0);
}

static void diff_add_sets(struct op_diff *d, int32_t *a, int32_t *b, int64_t n_row, int64_t width)
{
	struct op_out o = diff_out(a, n_row, width, width);

	o.is_int = o.is_set = true;
	op_diff_add(d, &o, b, 0);
}

static void test_by_hand(void **state)
{
	float a[] = { 3, 4, 0, 0, -12, 5 }, b[] = { 3, 5, 0, 0, -10, 5 };
	struct op_diff d = { 0 };

	(void)state;
	diff_add(&d, a, b, 3, 2);
	assert_int_equal(d.n, 6);
	diff_equal(d.err2, 5);
	diff_equal(d.ref2, 194);
	diff_equal(d.dot, 9 + 20 + 120 + 25);
	diff_equal(d.b2, 9 + 25 + 100 + 25);
	diff_equal(d.max_abs, 2);
	assert_int_equal(d.n_bits, 2);
	assert_int_equal(d.n_nan, 0);
	assert_int_equal(d.n_set, 0);
	diff_equal(op_diff_nmse(&d), 5.0 / 194);
	diff_equal(op_diff_relative(&d), sqrt(5.0 / 194));
	diff_equal(op_diff_cosine(&d), 174 / (sqrt(194) * sqrt(159)));
	diff_equal(op_diff_jaccard(&d), 1);
	diff_equal(d.worst_row, 0.2); /* rows: sqrt(1/25), 0, sqrt(4/169) */
	assert_int_equal(d.worst_at, 0);
}

static void test_worst_row_is_counted_by_the_caller(void **state)
{
	float a[] = { 1, 2, 1 }, b[] = { 1, 3, 1 };
	struct op_out o = diff_out(a, 3, 1, 1);
	struct op_diff d = { 0 };

	(void)state;
	op_diff_add(&d, &o, b, 1000);
	diff_equal(d.worst_row, 0.5);
	assert_int_equal(d.worst_at, 1001);
	b[1] = 2.5f;
	op_diff_add(&d, &o, b, 2000); /* not worse */
	assert_int_equal(d.worst_at, 1001);
	b[2] = 3;
	op_diff_add(&d, &o, b, 3000);
	diff_equal(d.worst_row, 2);
	assert_int_equal(d.worst_at, 3002);
}

static void test_zeros(void **state)
{
	float zero[] = { 0, 0 }, minus[] = { -0.0f, 0 }, one[] = { 0, 1 };
	struct op_diff d = { 0 };

	(void)state;
	diff_equal(op_diff_relative(&d), 0); /* nothing compared */
	diff_equal(op_diff_cosine(&d), 1);
	diff_equal(op_diff_jaccard(&d), 1);
	diff_add(&d, zero, minus, 1, 2);
	diff_equal(op_diff_relative(&d), 0);
	diff_equal(op_diff_cosine(&d), 1);
	assert_int_equal(d.n_bits, 1); /* -0 is another pattern */
	diff_equal(d.worst_row, 0);
	diff_add(&d, zero, one, 1, 2);
	diff_equal(op_diff_relative(&d), (double)INFINITY);
	diff_equal(op_diff_cosine(&d), 0);
	diff_equal(d.worst_row, (double)INFINITY);
	diff_equal(d.max_abs, 1);
}

static void test_nan_and_infinity_cannot_be_missed(void **state)
{
	static const struct { float a, b; bool bad; uint64_t n_nan; } cases[] = {
		{ NAN, NAN, false, 0 },      { 1, NAN, true, 1 },          { NAN, 1, true, 0 },
		{ INFINITY, NAN, true, 1 },  { INFINITY, 1, true, 0 },     { 1, -INFINITY, true, 0 },
		{ INFINITY, INFINITY, false, 0 }, { INFINITY, -INFINITY, true, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float a[] = { 3, cases[i].a, 4 }, b[] = { 3, cases[i].b, 4 };
		struct op_diff d = { 0 };

		diff_add(&d, a, b, 1, 3);
		assert_int_equal(d.n, 3);
		assert_int_equal(d.n_nan, cases[i].n_nan);
		diff_equal(d.err2, cases[i].bad ? (double)INFINITY : 0);
		diff_equal(d.max_abs, cases[i].bad ? (double)INFINITY : 0);
		diff_equal(d.worst_row, cases[i].bad ? (double)INFINITY : 0);
		diff_equal(d.ref2, 25);
		diff_equal(d.dot, 25);
		assert_int_equal(d.n_nonfinite, cases[i].bad);
		diff_equal(op_diff_cosine(&d), cases[i].bad ? 0 : 1);
	}
}

/* The largest of one side's logits infinite: not a cosine of 1. */
static void test_cosine_of_one_infinite_value_is_not_1(void **state)
{
	float a[] = { 1, 2, 3 }, b[] = { 1, 2, INFINITY };
	struct op_diff d = { 0 }, sum = { 0 };

	(void)state;
	diff_add(&d, a, b, 1, 3);
	op_diff_merge(&sum, &d);
	op_diff_merge(&sum, &d);
	assert_int_equal(sum.n_nonfinite, 2);
	assert_int_equal(sum.n_nan, 0);
	diff_equal(op_diff_cosine(&sum), 0);
}

/* dot^2 is rounded otherwise than ref2 * b2. */
static void test_cosine_stays_within_1(void **state)
{
	(void)state;
	for (int i = 1; i < 2000; i++) {
		struct op_diff d = { .ref2 = i, .b2 = i * 1.1, .dot = i * sqrt(1.1) * (1 + 1e-14) };

		assert_true(op_diff_cosine(&d) <= 1);
		d.dot *= -1;
		assert_true(op_diff_cosine(&d) >= -1);
	}
}

/* A tiny result is not lost to underflow of its square, nor a large one to overflow. */
static void test_extreme_magnitudes(void **state)
{
	float a[] = { 0x1p-140f, 0x1p-140f }, b[] = { 0x1p-140f, 0x1.8p-140f };
	struct op_diff d = { 0 }, e = { 0 };

	(void)state;
	diff_add(&d, a, b, 1, 2);
	diff_equal(op_diff_nmse(&d), 0.125);
	a[0] = a[1] = b[0] = 0x1p120f;
	b[1] = 0x1.8p120f;
	diff_add(&e, a, b, 1, 2);
	diff_equal(op_diff_nmse(&e), 0.125);
}

static void test_only_defined_values_are_compared(void **state)
{
	float a[] = { 1, 2, NAN, 99, 3, NAN, NAN, 99 }, b[] = { 1, 2, 7, 7, 3, 7, 7, 7 };
	int32_t valid[] = { 2, 1 };
	struct op_out o = diff_out(a, 2, 3, 4);
	struct op_diff d = { 0 };

	(void)state;
	o.valid = valid;
	op_diff_add(&d, &o, b, 0);
	assert_int_equal(d.n, 3);
	diff_equal(d.err2, 0);
	diff_equal(d.ref2, 14);
	valid[0] = 9; /* no more than the row is wide */
	op_diff_add(&d, &o, b, 0);
	assert_int_equal(d.n, 3 + 3 + 1);
}

static void test_sets(void **state)
{
	int32_t a[] = { 0, 2, 4, 1, 2, 3 }, b[] = { 0, 3, 4, 1, 2, 3 };
	struct op_diff d = { 0 };

	(void)state;
	diff_add_sets(&d, a, b, 2, 3);
	assert_int_equal(d.n_set, 2);
	assert_int_equal(d.n_set_differ, 1);
	assert_int_equal(d.n_bits, 1);
	diff_equal(d.jaccard, 0.5 + 1);
	diff_equal(op_diff_jaccard(&d), 0.75);
	diff_equal(d.worst_row, 0.5);
	assert_int_equal(d.worst_at, 0);
	diff_equal(d.err2, 0); /* ids are no amounts */
	diff_equal(d.ref2, 0);
}

static void test_sets_of_a_kernel_that_does_not_sort(void **state)
{
	static const struct { int32_t b[3]; double jaccard; int differ; } cases[] = {
		{ { 7, 2, 4 }, 1, 0 },          /* the same in another order */
		{ { 2, 2, 4 }, 2.0 / 3, 1 },    /* one twice */
		{ { 4, 4, 4 }, 1.0 / 3, 1 },
		{ { -1, 1 << 30, 4 }, 0.2, 1 }, /* nonsense */
		{ { 9, 8, 0 }, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int32_t a[] = { 2, 4, 7 }, b[3];
		struct op_diff d = { 0 }, back = { 0 };

		memcpy(b, cases[i].b, sizeof b);
		diff_add_sets(&d, a, b, 1, 3);
		diff_equal(d.jaccard, cases[i].jaccard);
		assert_int_equal(d.n_set_differ, cases[i].differ);
		assert_int_not_equal(d.n_bits, 0);
		diff_add_sets(&back, b, a, 1, 3);
		diff_equal(back.jaccard, cases[i].jaccard);
		assert_int_equal(back.n_set_differ, cases[i].differ);
	}
}

static void test_empty_sets_are_equal(void **state)
{
	int32_t a[] = { 1, 2 }, b[] = { 3, 4 }, valid[] = { 0 };
	struct op_out o = diff_out(a, 1, 2, 2);
	struct op_diff d = { 0 };

	(void)state;
	o.is_int = o.is_set = true;
	o.valid = valid;
	op_diff_add(&d, &o, b, 0);
	assert_int_equal(d.n_set, 1);
	assert_int_equal(d.n_set_differ, 0);
	diff_equal(op_diff_jaccard(&d), 1);
}

/* As another top-k gives them. */
static void test_lists_of_unlike_length(void **state)
{
	static const int32_t a[] = { 2, 3, 5, 8 }, b[] = { 3, 8, 9 };
	struct op_diff d = { 0 };

	(void)state;
	op_diff_add_lists(&d, a, 4, b, 3, 17);
	assert_int_equal(d.n_set, 1);
	assert_int_equal(d.n_set_differ, 1);
	assert_true(op_diff_jaccard(&d) == 2.0 / 5);
	assert_true(d.worst_row == 1 - 2.0 / 5 && d.worst_at == 17);
	op_diff_add_lists(&d, a, 4, a, 4, 18);
	op_diff_add_lists(&d, NULL, 0, NULL, 0, 19); /* both empty: equal */
	assert_int_equal(d.n_set_differ, 1);
	assert_true(op_diff_jaccard(&d) == (2.0 / 5 + 1 + 1) / 3);
	op_diff_add_lists(&d, a, 4, NULL, 0, 20);
	assert_int_equal(d.n_set_differ, 2);
	assert_true(d.worst_row == 1 && d.worst_at == 20);
}

static void test_counts_are_numbers(void **state)
{
	int32_t a[] = { 3, 4 }, b[] = { 3, 5 };
	struct op_out o = diff_out(a, 2, 1, 1);
	struct op_diff d = { 0 };

	(void)state;
	o.is_int = true;
	op_diff_add(&d, &o, b, 0);
	assert_int_equal(d.n_set, 0);
	diff_equal(d.err2, 1);
	diff_equal(d.ref2, 25);
	assert_int_equal(d.n_bits, 1);
}

static void test_merge_equals_one_pass(void **state)
{
	float a[] = { 1, -2, 3, 0, 5, 6 }, b[] = { 1, 2, 3, 1, NAN, 6 };
	int32_t s[] = { 1, 2, 5, 6 }, t[] = { 1, 3, 5, 6 };
	struct op_out rows = diff_out(a, 3, 2, 2), sets = diff_out(s, 2, 2, 2), part;

	(void)state;
	sets.is_int = sets.is_set = true;
	for (int64_t cut = 0; cut <= 3; cut++) {
		struct op_diff one, two, whole;

		memset(&one, 0, sizeof one);
		memset(&two, 0, sizeof two);
		memset(&whole, 0, sizeof whole);
		op_diff_add(&whole, &rows, b, 10);
		op_diff_add(&whole, &sets, t, 10);
		part = rows;
		part.n_row = cut;
		op_diff_add(&one, &part, b, 10);
		part.data = a + 2 * cut;
		part.n_row = 3 - cut;
		op_diff_add(&two, &part, b + 2 * cut, 10 + cut);
		op_diff_add(&two, &sets, t, 10);
		op_diff_merge(&one, &two);
		assert_memory_equal(&one, &whole, sizeof one);
		assert_int_equal(one.worst_at, 12); /* the NaN */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_worst_row_is_counted_by_the_caller),
		cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_nan_and_infinity_cannot_be_missed),
		cmocka_unit_test(test_cosine_of_one_infinite_value_is_not_1),
		cmocka_unit_test(test_cosine_stays_within_1),
		cmocka_unit_test(test_extreme_magnitudes),
		cmocka_unit_test(test_only_defined_values_are_compared),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_sets_of_a_kernel_that_does_not_sort),
		cmocka_unit_test(test_empty_sets_are_equal),
		cmocka_unit_test(test_lists_of_unlike_length),
		cmocka_unit_test(test_counts_are_numbers),
		cmocka_unit_test(test_merge_equals_one_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
