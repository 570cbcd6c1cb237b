/* SPDX-License-Identifier: MIT
 * rows16.c - tests of plugins/dsv4_rows16.h: every value and scale comes back, and what no row or column has is zero.
 * Threads: one. Locks: none. */
#include "plugins/check/case_matrix.h"
#include "plugins/dsv4_rows16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static uint8_t rows16_native_code(const struct dsv4_weight *w, int64_t row, int64_t col)
{
	const uint8_t *data = w->data;

	return data[row * ((w->cols + 1) / 2) + col / 2] >> (col % 2 * 4) & 15;
}

static uint8_t rows16_native_scale(const struct dsv4_weight *w, int64_t row, int64_t col)
{
	const uint8_t *scale = w->scale;

	return scale[row * ((w->cols + 31) / 32) + col / 32];
}

static void rows16_check(int64_t rows, int64_t cols)
{
	int64_t panels = dsv4_rows16_panels(rows), wide = (cols + 127) / 128 * 128;
	size_t size = dsv4_rows16_panel_size(cols);
	struct dsv4_weight w;
	struct check_case c;
	uint8_t *p;

	assert_int_equal(dsv4_rows16_size(rows, cols), (size_t)panels * size);
	assert_int_equal(size, wide / 128 * DSV4_ROWS16_RECORD);
	case_init(&c, (uint64_t)(rows * 1000 + cols), GUARD_FENCE_END);
	case_weight(&c, &w, DSV4_W_FP4, DSV4_S_E8M0, rows, cols);
	p = case_alloc(&c, (size_t)panels * size, 64);
	assert_int_equal(c.rc, 0);
	for (int64_t i = panels; i-- > 0;) /* in any order */
		dsv4_rows16_pack(&w, i, p + (size_t)i * size);
	for (int64_t row = 0; row < panels * 16; row++)
		for (int64_t col = 0; col < wide; col++) {
			bool in = row < rows && col < cols, scaled = row < rows && col / 32 < (cols + 31) / 32;

			assert_int_equal(dsv4_rows16_code(p, cols, row, col),
					 in ? rows16_native_code(&w, row, col) : 0);
			assert_int_equal(dsv4_rows16_scale(p, cols, row, col),
					 scaled ? rows16_native_scale(&w, row, col) : 127);
		}
	case_fini(&c);
}

static void test_there_and_back(void **state)
{
	(void)state;
	rows16_check(16, 128);
	rows16_check(64, 512);
	rows16_check(1, 1);
	rows16_check(17, 129);
	rows16_check(33, 31);
	rows16_check(15, 255);
	rows16_check(16, 160);
	rows16_check(130, 66);
}

/* The layout itself, as kernels read it: a scale and a word at the address that the header tells. */
static void test_addresses(void **state)
{
	uint8_t data[32 * 128] = { 0 }, scale[32 * 8] = { 0 }, packed[2 * 2 * DSV4_ROWS16_RECORD];
	const struct dsv4_weight w = { .size = sizeof w, .fmt = DSV4_W_FP4, .sfmt = DSV4_S_E8M0, .rows = 32,
				       .cols = 256, .data = data, .scale = scale, .scale2 = 1 };
	const uint8_t *record = packed + (2 + 1) * DSV4_ROWS16_RECORD; /* rows from 16, columns from 128 */

	(void)state;
	data[19 * 128 + 64 + 9] = 0x5a; /* row 19, columns 146 and 147: word 2, byte 1 */
	scale[19 * 8 + 4 + 3] = 99;     /* columns 224 to 255: block 3 */
	for (int64_t i = 0; i < 2; i++)
		dsv4_rows16_pack(&w, i, packed + (size_t)i * dsv4_rows16_panel_size(w.cols));
	assert_int_equal(record[64 + 2 * 64 + 3 * 4 + 1], 0x5a);
	assert_int_equal(record[3 * 16 + 3], 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_addresses) };

	return cmocka_run_group_tests_name("rows16", tests, NULL, NULL);
}
