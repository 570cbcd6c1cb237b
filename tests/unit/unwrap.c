/* SPDX-License-Identifier: MIT
 * unwrap.c - the text of a custom tool's input, out of JSON cut at every place, and tokens that hold reasoning.
 * Threads: main only. Locks: none. */
#include "api/request/opaque.h"
#include "api/responses/unwrap.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct { const char *json, *text; size_t len; } cases[] = {
	{ "{\"input\": \"*** Begin\\n+a\\\"b\\\\\"}", "*** Begin\n+a\"b\\", 15 },
	{ "{\"input\":\"\"}", "", 0 },
	{ " {\n\"input\" : \"ď\\u010f\\ud83d\\ude00x\" }", "ďď\xf0\x9f\x98\x80x", 9 },
	{ "{\"input\": \"a\\u0000b\"}", "a\0b", 3 },
	/* No such object: its one string, or all of it. */
	{ "{\"patch\": \"a\\nb\"}", "a\nb", 3 },
	{ "{\"input\": 3}", "{\"input\": 3}", 12 },
	{ "{\"inputs\": [\"a\"]}", "{\"inputs\": [\"a\"]}", 17 },
	{ "{}", "{}", 2 },
};

/* Each piece that is told is whole characters, and together they are the text. */
static void test_every_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(cases); i++)
		for (size_t n = 1; n <= strlen(cases[i].json); n++) {
			struct unwrap u = { 0 };
			struct buf text = { 0 };
			size_t len = strlen(cases[i].json), told = 0;

			for (size_t at = 0; at < len; at += n) {
				unwrap_put(&u, cases[i].json + at, n < len - at ? n : len - at, &text);
				assert_int_equal(utf8_valid(buf_str(&text) + told, text.len - told), text.len - told);
				told = text.len;
			}
			unwrap_end(&u, &text);
			assert_int_equal(text.len, cases[i].len);
			assert_memory_equal(buf_str(&text), cases[i].text, text.len);
			buf_fini(&text);
		}
}

static void test_a_long_text_is_told_while_it_comes(void **state)
{
	struct unwrap u = { 0 };
	struct buf text = { 0 };

	(void)state;
	unwrap_put(&u, "{\"input\": \"", 11, &text);
	for (int i = 0; i < 1000; i++) {
		unwrap_put(&u, "0123456789", 10, &text);
		assert_int_equal(text.len, 10 * (i + 1));
	}
	unwrap_fini(&u);
	buf_fini(&text);
}

static void test_tokens_that_hold_text(void **state)
{
	struct buf held = { 0 }, mark = { 0 }, text = { 0 };
	static const char *const foreign[] = { "", "EqQBCkYIBxgCKkD", "dsv4.text.?", "dsv4.text.aG", "dsv4.mark.00",
					       "dsv4" };

	(void)state;
	opaque_hold(&held, "h\0m", 3);
	opaque_mark(&mark, "h\0m", 3);
	assert_true(opaque_open(&text, held.data, held.len));
	assert_int_equal(text.len, 3);
	assert_memory_equal(text.data, "h\0m", 3);
	buf_clear(&text);
	assert_false(opaque_open(&text, mark.data, mark.len));
	for (size_t i = 0; i < mem_countof(foreign); i++)
		assert_false(opaque_open(&text, foreign[i], strlen(foreign[i])));
	assert_int_equal(text.len, 0);
	buf_fini(&held);
	buf_fini(&mark);
	buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_a_long_text_is_told_while_it_comes),
		cmocka_unit_test(test_tokens_that_hold_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
