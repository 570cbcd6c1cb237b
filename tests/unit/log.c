/* SPDX-License-Identifier: MIT
 * log.c - tests of engine/base/log: levels, quoting, lines, the limit per call site.
 * Threads: one. Locks: none. */
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_levels(void **state)
{
	enum log_level level = LOG_LV_DEBUG, before = log_get_level();

	(void)state;
	assert_int_equal(log_parse_level("err", &level), 0);
	assert_int_equal(level, LOG_LV_ERR);
	assert_int_equal(log_parse_level("Notice", &level), 0);
	assert_int_equal(level, LOG_LV_NOTICE);
	assert_int_equal(log_parse_level("7", &level), 0);
	assert_int_equal(level, LOG_LV_DEBUG);
	assert_int_equal(log_parse_level("", &level), RC_INVALID);
	assert_int_equal(log_parse_level("33", &level), RC_INVALID);
	assert_int_equal(log_parse_level("2", &level), RC_INVALID);
	assert_int_equal(level, LOG_LV_DEBUG); /* untouched by failures */
	assert_string_equal(log_level_name(LOG_LV_WARN), "warn");
	log_set_level(LOG_LV_WARN);
	assert_true(log_wants(LOG_LV_ERR) && log_wants(LOG_LV_WARN) && !log_wants(LOG_LV_INFO));
	log_set_level(before);
}

static void test_quotes(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "plain-1.2/x", "plain-1.2/x" },
		{ "", "\"\"" },
		{ "two words", "\"two words\"" },
		{ "a=b", "\"a=b\"" },
		{ "say \"hi\"", "\"say \\\"hi\\\"\"" },
		{ "back\\slash", "\"back\\\\slash\"" },
		{ "line\nlevel=err", "\"line\\x0alevel=err\"" },
		{ "\x1b[31m\x7f", "\"\\x1b[31m\\x7f\"" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "/v1/\xe6\xbc\xa2\xf0\x9f\x98\x80", "/v1/\xe6\xbc\xa2\xf0\x9f\x98\x80" },
		/* A journal keeps a line that is no UTF-8 as a blob; a terminal obeys U+009B as it does ESC [. */
		{ "/\xff\xfe", "\"/\\xff\\xfe\"" },
		{ "\xe6\xbc", "\"\\xe6\\xbc\"" },
		{ "\xc3(", "\"\\xc3(\"" },
		{ "\xed\xa0\x80", "\"\\xed\\xa0\\x80\"" },
		{ "\xc2\x9b" "31m\xc2\xa0", "\"\\xc2\\x9b31m\xc2\xa0\"" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		assert_string_equal(LOGQ(rows[i].in), rows[i].out);
}

/* Whatever the text, the result fits, is terminated and has no control characters. */
static void test_quote_cuts(void **state)
{
	char out[LOG_QUOTE_MAX + 1], in[2000];

	(void)state;
	for (size_t n = 480; n < sizeof in; n += n < 530 ? 1 : 200)
		for (int kind = 0; kind < 3; kind++) {
			memset(in, "a\n\""[kind], n);
			in[n] = '\0';
			memset(out, 'X', sizeof out);
			log_quote(out, in);
			assert_int_equal(out[LOG_QUOTE_MAX], 'X');
			assert_true(strlen(out) < LOG_QUOTE_MAX);
			assert_null(strchr(out, '\n'));
			assert_true(kind == 0 || out[strlen(out) - 1] == '"');
			assert_true(n < LOG_QUOTE_MAX || strstr(out, "..."));
		}
}

static void log_child_lines(void)
{
	char big[10000];

	memset(big, 'z', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	log_set_level(LOG_LV_INFO);
	log_event(LOG_LV_DEBUG, "unseen", "x=1");
	log_event(LOG_LV_ERR, "first", "n=%d who=%s", 3, LOGQ("a b"));
	log_event(LOG_LV_INFO, "big", "v=%s", big);
}

static void test_lines(void **state)
{
	struct buf err = { 0 };
	char *second;

	(void)state;
	assert_int_equal(child_run(log_child_lines, &err), 0);
	assert_true(strncmp(err.data, "<3>first n=3 who=\"a b\"\n", 23) == 0);
	second = strchr(err.data, '\n') + 1;
	assert_true(strncmp(second, "<6>big v=zzz", 12) == 0);
	assert_true(strchr(second, '\n') == err.data + err.len - 1); /* one line, cut */
	assert_true(strlen(second) <= 4096 && strlen(second) > 4000);
	buf_fini(&err);
}

static void log_child_much(void)
{
	struct log_site site = { 0 };

	for (int i = 0; i < 5 * LOG_BURST; i++)
		log_write(&site, LOG_LV_INFO, "much", "i=%d", i);
	site.second = 0; /* as if the second were over */
	log_write(&site, LOG_LV_INFO, "much", "i=last");
}

/* The burst gets out, the rest is counted by the next line that does. A second may end between two lines. */
static void test_rate_limit(void **state)
{
	struct buf err = { 0 };
	int lines = 0, lost = 0;
	char *p;

	(void)state;
	assert_int_equal(child_run(log_child_much, &err), 0);
	for (p = err.data; (p = strchr(p, '\n')); p++)
		lines++;
	for (p = err.data; (p = strstr(p, " suppressed=")); p++)
		lost += atoi(p + 12);
	assert_int_equal(lines + lost, 5 * LOG_BURST + 1);
	assert_true(lines >= LOG_BURST + 1 && lines <= 2 * LOG_BURST + 1);
	assert_non_null(strstr(err.data, "i=last suppressed="));
	buf_fini(&err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_quote_cuts),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_rate_limit),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
