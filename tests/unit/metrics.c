/* SPDX-License-Identifier: MIT
 * metrics.c - tests of api/http/metrics.c: the text of samples, and the rules that every row of the table keeps.
 * Threads: one. */
#include "api/http/metrics.h"
#include "engine/base/mem.h"
#include "tests/unit/child.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The lines of one metric, without its HELP. */
static void page_lines(struct metrics *m, const char *name, struct buf *out)
{
	struct buf page = { 0 };
	char *save = NULL, *line;
	size_t n = strlen(name);

	metrics_print(m, &page);
	for (line = strtok_r(page.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!strncmp(line, name, n) || (!strncmp(line, "# TYPE ", 7) && !strncmp(line + 7, name, n)))
			buf_printf(out, "%s\n", line);
	buf_fini(&page);
	metrics_free(&m);
}

static void expect(struct metrics *m, const char *name, const char *want)
{
	struct buf got = { 0 };

	page_lines(m, name, &got);
	assert_string_equal(buf_str(&got), want);
	buf_fini(&got);
}

static void numbers_are_exact(void **state)
{
	static const struct {
		double value;
		const char *text;
	} row[] = {
		{ 0, "0" }, { 1, "1" }, { 9007199254740991.0, "9007199254740991" }, { 0.1, "0.1" },
		{ 1.0 / 3, "0.33333333333333331" }, { -2.5, "-2.5" }, { 1e300, "1e+300" },
		{ INFINITY, "+Inf" }, { -INFINITY, "-Inf" }, { NAN, "NaN" },
	};
	(void)state;
	for (size_t i = 0; i < mem_countof(row); i++) {
		struct metrics *m = metrics_new();
		char want[128];

		metrics_put(m, METRIC_epoch, row[i].value, NULL);
		snprintf(want, sizeof want, "# TYPE dsv4d_epoch gauge\ndsv4d_epoch %s\n", row[i].text);
		expect(m, "dsv4d_epoch", want);
	}
}

static void label_values_are_quoted(void **state)
{
	struct metrics *m = metrics_new();

	(void)state;
	metrics_put(m, METRIC_parameter_info, 1, METRICS_LABELS("a", "say \"no\""));
	metrics_put(m, METRIC_parameter_info, 1, METRICS_LABELS("b", "c:\\d\ne"));
	expect(m, "dsv4d_parameter_info",
	       "# TYPE dsv4d_parameter_info gauge\n"
	       "dsv4d_parameter_info{name=\"a\",value=\"say \\\"no\\\"\"} 1\n"
	       "dsv4d_parameter_info{name=\"b\",value=\"c:\\\\d\\ne\"} 1\n");
}

static void buckets_add_up(void **state)
{
	static const double bound[] = { 0.001, 2, 1000 };
	static const uint64_t n[] = { 1, 0, 4, 2 };
	const struct metrics_hist h = { bound, 3, n, 3456.5 };
	struct metrics *m = metrics_new();

	(void)state;
	metrics_put_hist(m, METRIC_batch_requests, &h, METRICS_LABELS("decode"));
	expect(m, "dsv4d_batch_requests",
	       "# TYPE dsv4d_batch_requests histogram\n"
	       "dsv4d_batch_requests_bucket{phase=\"decode\",le=\"0.001\"} 1\n"
	       "dsv4d_batch_requests_bucket{phase=\"decode\",le=\"2\"} 1\n"
	       "dsv4d_batch_requests_bucket{phase=\"decode\",le=\"1000\"} 5\n"
	       "dsv4d_batch_requests_bucket{phase=\"decode\",le=\"+Inf\"} 7\n"
	       "dsv4d_batch_requests_sum{phase=\"decode\"} 3456.5\n"
	       "dsv4d_batch_requests_count{phase=\"decode\"} 7\n");
}

static void one_state_is_true(void **state)
{
	static const char *const names[] = { "cold", "warm" };
	struct metrics *m = metrics_new();

	(void)state;
	metrics_put_state(m, METRIC_plugin_temperature, names, 2, 1, "avx2");
	metrics_put_state(m, METRIC_state, names, 2, 0, NULL);
	expect(m, "dsv4d_plugin_temperature",
	       "# TYPE dsv4d_plugin_temperature gauge\n"
	       "dsv4d_plugin_temperature{plugin=\"avx2\",state=\"cold\"} 0\n"
	       "dsv4d_plugin_temperature{plugin=\"avx2\",state=\"warm\"} 1\n");
}

/* Readers drop a page where a metric comes twice. */
static void put_apart(void)
{
	struct metrics *m = metrics_new();

	metrics_put(m, METRIC_epoch, 1, NULL);
	metrics_put(m, METRIC_threads, 1, NULL);
	metrics_put(m, METRIC_epoch, 2, NULL);
}

static void put_too_few(void)
{
	metrics_put(metrics_new(), METRIC_parameter_info, 1, METRICS_LABELS("a"));
}

static void put_too_many(void)
{
	metrics_put(metrics_new(), METRIC_epoch, 1, METRICS_LABELS("a"));
}

static void put_wrong_type(void)
{
	metrics_put(metrics_new(), METRIC_step_seconds, 1, NULL);
}

static void misuse_aborts(void **state)
{
	(void)state;
	child_aborts(put_apart, "!m->begun[id]");
	child_aborts(put_too_few, "value && value[n]");
	child_aborts(put_too_many, "!value || !value[n]");
	child_aborts(put_wrong_type, "HISTOGRAM");
}

/* ---- the table ---- */

static const struct row {
	const char *name, *type, *labels, *help;
} rows[] = {
#define METRIC(name, type, labels, help) { #name, #type, labels, help },
#include "api/http/metrics.def"
#undef METRIC
};

static bool ends(const char *s, const char *tail)
{
	size_t n = strlen(s), k = strlen(tail);

	return n > k && !strcmp(s + n - k, tail);
}

static void names_keep_the_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++) {
		const struct row *r = &rows[i];

		if (ends(r->name, "_total") != !strcmp(r->type, "COUNTER"))
			fail_msg("%s: counters end with _total, and nothing else does", r->name);
		if (strspn(r->name, "abcdefghijklmnopqrstuvwxyz_") != strlen(r->name))
			fail_msg("%s: lower-case words", r->name);
		if (strstr(r->name, "_ratio") || strstr(r->name, "percent") || strstr(r->name, "_ms"))
			fail_msg("%s: counters, not ratios; seconds, not milliseconds", r->name);
		if (!r->help[0] || ends(r->help, ".") || strpbrk(r->help, "\\\n"))
			fail_msg("%s: one phrase of help", r->name);
		if (strstr(r->labels, "le") == r->labels)
			fail_msg("%s: le is a histogram's own", r->name);
	}
}

static void an_empty_page_describes_all(void **state)
{
	struct metrics *m = metrics_new();
	struct buf page = { 0 }, want = { 0 };

	(void)state;
	metrics_print(m, &page);
	for (size_t i = 0; i < mem_countof(rows); i++) {
		buf_clear(&want);
		buf_printf(&want, "# HELP dsv4d_%s %s\n# TYPE dsv4d_%s ", rows[i].name, rows[i].help, rows[i].name);
		if (!strstr(buf_str(&page), buf_str(&want)))
			fail_msg("missing: %s", buf_str(&want));
	}
	metrics_free(&m);
	buf_fini(&page);
	buf_fini(&want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_exact),
		cmocka_unit_test(label_values_are_quoted),
		cmocka_unit_test(buckets_add_up),
		cmocka_unit_test(one_state_is_true),
		cmocka_unit_test(misuse_aborts),
		cmocka_unit_test(names_keep_the_rules),
		cmocka_unit_test(an_empty_page_describes_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
