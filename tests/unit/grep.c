/* SPDX-License-Identifier: MIT
 * grep.c - tests of grep.c: which lines match, what is shown of them, and patterns that would never end.
 * Threads: one. Locks: none. */
#include "daemon/verbs/grep.h"
#include "engine/base/rc.h"
#include "engine/base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static struct grep_found test_found(const char *regex, bool ignore_case, const char *text, size_t len)
{
	struct grep_found f = { 0 };
	struct buf why = { 0 };
	struct grep *g = NULL;

	if (grep_new(regex, ignore_case, &g, &why))
		fail_msg("%s", buf_str(&why));
	grep_text(g, text, len, NULL, NULL, &f);
	grep_free(&g);
	return f;
}

static void lines_are_counted_one_by_one(void **state)
{
	static const struct {
		const char *regex, *text;
		bool ignore_case;
		int lines, first;
		const char *excerpt;
	} row[] = {
		{ "kite", "a red kite\nno\nkite kite\n", false, 2, 1, "a red kite" },
		{ "Kite", "a red kite", false, 0, 0, "" },
		{ "Kite", "none\na red kite", true, 1, 2, "a red kite" },
		{ "^b$", "a\nb\nab", false, 1, 2, "b" },
		{ "a.b", "a\nb", false, 0, 0, "" },
		{ "^$", "a\n\nb", false, 1, 2, "" },
		{ "\\bö\\w+", "x öfen", false, 1, 1, "x öfen" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct grep_found f = test_found(row[i].regex, row[i].ignore_case, row[i].text, strlen(row[i].text));

		assert_int_equal(f.lines, row[i].lines);
		assert_int_equal(f.first, row[i].first);
		assert_int_equal(f.unread, 0);
		assert_string_equal(buf_str(&f.excerpt), row[i].excerpt);
		grep_found_fini(&f);
	}
}

static void an_excerpt_of_a_long_line_has_the_match_and_whole_characters(void **state)
{
	struct buf line = { 0 };
	struct grep_found f;

	(void)state;
	for (int i = 0; i < 500; i++)
		buf_adds(&line, "äß€");
	buf_adds(&line, "needle");
	for (int i = 0; i < 500; i++)
		buf_adds(&line, "€ßä");
	f = test_found("needle", false, line.data, line.len);
	assert_non_null(strstr(buf_str(&f.excerpt), "needle"));
	assert_true(f.excerpt.len <= GREP_EXCERPT + 10 && strncmp(f.excerpt.data, "...", 3) == 0);
	assert_int_equal(utf8_valid(f.excerpt.data, f.excerpt.len), f.excerpt.len);
	grep_found_fini(&f);
	buf_fini(&line);
}

/* Each would take longer than there is time; the lines after it are looked at all the same. */
static void patterns_that_backtrack_without_end_are_given_up(void **state)
{
	static const char *const regex[] = { "^(a+)+$", "^(a|a)*$", "^(.*?,){30}b$", "^(\\w+\\s?)*$" };
	const char *text =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"
			   ",,,,,,,,,,,,,,,,,,,,,,,,,,,,!\na\n";
	int unread = 0;

	(void)state;
	for (size_t i = 0; i < sizeof regex / sizeof *regex; i++) {
		struct grep_found f = test_found(regex[i], false, text, strlen(text));

		assert_int_equal(f.looked, 2);
		assert_int_equal(f.lines, i != 2); /* "a" */
		unread += (int)f.unread;
		grep_found_fini(&f);
	}
	assert_true(unread >= 3);
}

static bool test_stop(void *arg)
{
	return (*(int *)arg)-- == 0;
}

static void it_ends_when_it_is_told_to(void **state)
{
	struct grep_found f = { 0 };
	struct grep *g = NULL;
	int left = 3;

	(void)state;
	assert_int_equal(grep_new("x", false, &g, NULL), 0);
	grep_text(g, "x\nx\nx\nx\nx\n", 10, test_stop, &left, &f);
	assert_int_equal(f.looked, 3);
	grep_found_fini(&f);
	grep_free(&g);
}

static void what_is_no_utf8_is_looked_at_too(void **state)
{
	struct grep_found f;

	(void)state;
	f = test_found("kite", false, "\xff\xfe kite \xc3", 9);
	assert_int_equal(f.lines, 1);
	grep_found_fini(&f);
}

static void a_wrong_pattern_is_told_with_its_place(void **state)
{
	static const char *const regex[] = { "", "(", "a{2,1}", "[z-a]", "\\C", "(?<n>a)(?<n>b)" };
	char many[GREP_MAX_REGEX + 2];
	struct grep *g = NULL;
	struct buf why = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof regex / sizeof *regex; i++) {
		assert_int_equal(grep_new(regex[i], false, &g, &why), RC_INVALID);
		assert_non_null(strstr(buf_str(&why), "regex: "));
		assert_null(g);
	}
	memset(many, 'a', sizeof many);
	many[sizeof many - 1] = '\0';
	assert_int_equal(grep_new(many, false, &g, &why), RC_INVALID);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_counted_one_by_one),
		cmocka_unit_test(an_excerpt_of_a_long_line_has_the_match_and_whole_characters),
		cmocka_unit_test(patterns_that_backtrack_without_end_are_given_up),
		cmocka_unit_test(it_ends_when_it_is_told_to),
		cmocka_unit_test(what_is_no_utf8_is_looked_at_too),
		cmocka_unit_test(a_wrong_pattern_is_told_with_its_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
