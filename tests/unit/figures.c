/* SPDX-License-Identifier: MIT
 * figures.c - tests of how far kernels are apart, as it is replied and shown: what is infinite must look so.
 * Threads: one. Locks: none. */
#include "ctl/view.h"
#include "daemon/verbs/figures.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* One op in one layer: {1, 2, 3} against {1, 2, last}. */
static json_t *figures_of(float last)
{
	float a[] = { 1, 2, 3 }, b[] = { 1, 2, last };
	const struct op_out out = { .name = "y", .data = a, .n_row = 1, .width = 3, .ld = 3 };
	struct beside_row row = { .op = DSV4_OP_linear, .output = "y", .calls = 1, .worst_pos = 0 };

	op_diff_add(&row.diff, &out, b, 0);
	return json_pack("{s:o, s:[], s:[]}", "ops", figures_ops(&row, 1), "layers", "answers");
}

/* The cell under `title` in the only line of the table. */
static void figures_cell(const char *text, const char *title, char cell[32])
{
	const char *head = strstr(text, title), *line = head, *value;

	assert_non_null(head);
	while (line > text && line[-1] != '\n')
		line--;
	value = strchr(line, '\n') + 1 + (head - line);
	snprintf(cell, 32, "%.*s", (int)strcspn(value, " \n"), value);
}

static void figures_shown(json_t *reply, struct buf *out)
{
	const struct verb *v = verb_find_method("io.dsv4.Kernels.Compare");

	assert_non_null(v);
	view_reply(v, reply, out);
}

static void figures_expect(float last, const char *mean, const char *max, const char *cosine, const char *nans,
	const char *nonfinite)
{
	const char *const titles[] = { "MEAN", "WORST ", "MAX", "COSINE", "NANS", "NONFINITE" };
	const char *const want[] = { mean, mean, max, cosine, nans, nonfinite };
	json_t *reply = figures_of(last);
	struct buf out = { 0 };
	char cell[32];

	figures_shown(reply, &out);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		figures_cell(buf_str(&out), titles[i], cell);
		if (strcmp(cell, want[i]))
			fail_msg("%s is %s, not %s in\n%s", titles[i], cell, want[i], buf_str(&out));
	}
	buf_fini(&out);
	json_decref(reply);
}

static void test_an_infinite_error_is_shown_as_inf(void **state)
{
	(void)state;
	figures_expect(INFINITY, "inf", "inf", "-", "0", "1");
	figures_expect(-INFINITY, "inf", "inf", "-", "0", "1");
	figures_expect(NAN, "inf", "inf", "-", "1", "1");
}

static void test_a_number_is_shown_as_it_is(void **state)
{
	json_t *reply = figures_of(3), *op = json_array_get(json_object_get(reply, "ops"), 0);

	(void)state;
	assert_true(json_number_value(json_object_get(op, "cosine")) <= 1);
	json_decref(reply);
	figures_expect(-3, "1.60357", "6", "-0.285714", "0", "0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_infinite_error_is_shown_as_inf),
		cmocka_unit_test(test_a_number_is_shown_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
