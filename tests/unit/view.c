/* SPDX-License-Identifier: MIT
 * view.c - tables made of replies that nobody checked: whatever number stands there, a line comes of it.
 * Threads: one. Locks: none. */
#include "ctl/view.h"
#include "engine/base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const numbers[] = { "0", "-1", "1e300", "-1e300", "1e18", "253402300800", "9223372036854775807",
				       "-9223372036854775808", "5e-324", "1e15", "0.1" };

/* What dsv4ctl shows of a verb's reply, given as JSON. */
static void show(const char *verb, const char *json, struct buf *out)
{
	const struct verb v = { .id = verb };
	json_t *reply = json_loads(json, 0, NULL);

	assert_non_null(reply);
	view_reply(&v, reply, out);
	json_decref(reply);
}

/* In every format: a time with its day, seconds, a time of day, a rate, none. */
static void any_number_is_a_line_of_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(numbers); i++) {
		const char *n = numbers[i];
		struct buf json = { 0 }, out = { 0 };

		buf_printf(&json, "{\"runs\": [{\"time\": %s, \"result\": {\"name\": \"api\", \"seconds\": %s, "
			   "\"figures\": {\"x\": %s}, \"requests\": [%s]}}]}", n, n, n, n);
		show("probe_history", buf_str(&json), &out);
		buf_clear(&json);
		buf_printf(&json, "{\"requests\": [{\"submit\": %s, \"rate\": %s, \"first_s\": %s}]}", n, n, n);
		show("request_list", buf_str(&json), &out);
		for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"))
			assert_true(strlen(line) < 250);
		buf_fini(&json);
		buf_fini(&out);
	}
}

static void a_time_that_no_calendar_has_is_a_dash(void **state)
{
	static const char *const none[] = { "1e300", "-1", "253402300800", "-9223372036854775808", "null", "{}" };
	struct buf json = { 0 }, out = { 0 };

	(void)state;
	for (size_t i = 0; i < mem_countof(none); i++) {
		buf_printf(&json, "{\"runs\": [{\"time\": %s, \"result\": {\"name\": \"api\"}}]}", none[i]);
		show("probe_history", buf_str(&json), &out);
		if (strcmp(none[i], "{}"))
			assert_non_null(strstr(buf_str(&out), "\n-     api "));
		buf_clear(&json);
		buf_clear(&out);
	}
	show("probe_history", "{\"runs\": [{\"time\": 86400000}]}", &out);
	assert_non_null(strstr(buf_str(&out), "\n1972-09-2"));
	buf_fini(&json);
	buf_fini(&out);
}

/* The reason stood behind 560 columns of figures. */
static void the_reason_stands_before_any_figure(void **state)
{
	struct buf json = { 0 }, out = { 0 };
	const char *why;

	(void)state;
	buf_adds(&json,
		 "{\"results\": [{\"name\": \"numerics\", \"verdict\": \"fail\", \"why\": \"because\", \"figures\": {");
	for (int i = 0; i < 86; i++)
		buf_printf(&json, "%s\"layer_%d\": 0.123456", i ? "," : "", i);
	buf_adds(&json, "}}]}");
	show("probe_run", buf_str(&json), &out);
	why = strstr(buf_str(&out), "because");
	assert_non_null(why);
	assert_true(why < strstr(buf_str(&out), "layer_0=") && strchr(strchr(buf_str(&out), '\n') + 1, '\n') > why);
	assert_non_null(strstr(buf_str(&out), "layer_15=0.123456 and 70 more\n"));
	buf_fini(&json);
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_is_a_line_of_the_table),
		cmocka_unit_test(a_time_that_no_calendar_has_is_a_dash),
		cmocka_unit_test(the_reason_stands_before_any_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
