/* SPDX-License-Identifier: MIT
 * rowdiff.c - how far two arrays of rows are apart: the first that differs, the largest, and what is not a number.
 * Threads: main. Locks: none. */
#include "engine/base/rowdiff.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

static void test_equal(void **state)
{
	const float a[6] = { 1, -2, NAN, INFINITY, 0, 5 };
	struct rowdiff d = { 0 };

	(void)state;
	rowdiff_add(&d, a, a, 0, 2, 3);
	assert_int_equal(d.values, 6);
	assert_int_equal(d.differ, 0);
	assert_true(d.max_abs == 0 && rowdiff_relative(&d) == 0);
}

static void test_first_and_largest(void **state)
{
	const float a[6] = { 3, 4, 0, 0, 0, 0 }, b[6] = { 3, 4, 0, 0, 0.5f, -1 };
	struct rowdiff d = { 0 };

	(void)state;
	rowdiff_add(&d, a, b, 10, 1, 3);
	rowdiff_add(&d, a + 3, b + 3, 11, 1, 3);
	assert_int_equal(d.differ, 2);
	assert_int_equal(d.row, 11);
	assert_int_equal(d.element, 1);
	assert_true(d.a == 0 && d.b == 0.5f && d.max_abs == 1);
	assert_true(fabs(rowdiff_relative(&d) - sqrt(1.25) / 5) < 1e-12);
}

static void test_bits_not_values(void **state)
{
	const float a[3] = { 0.0f, 1, 2 }, b[3] = { -0.0f, 1, NAN };
	struct rowdiff d = { 0 };

	(void)state;
	rowdiff_add(&d, a, b, 0, 1, 2);
	assert_int_equal(d.differ, 1);
	assert_true(d.element == 0 && d.max_abs == 0 && signbit(d.b));
	rowdiff_add(&d, a + 2, b + 2, 1, 1, 1);
	assert_int_equal(d.differ, 2);
	assert_true(isinf(d.max_abs) && isinf(rowdiff_relative(&d)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_first_and_largest),
		cmocka_unit_test(test_bits_not_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
