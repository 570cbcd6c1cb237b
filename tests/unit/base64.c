/* SPDX-License-Identifier: MIT
 * base64.c - bytes as text and back: RFC 4648's own vectors, every length and byte, and what is no base64.
 * Threads: main. Locks: none. */
#include "engine/base/base64.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_vectors(void **state)
{
	static const struct { const char *bytes, *text; } rows[] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\xff\xfe\xfb", "//77" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++) {
		struct buf text = { 0 }, bytes = { 0 };

		base64_put(&text, rows[i].bytes, strlen(rows[i].bytes));
		assert_string_equal(buf_str(&text), rows[i].text);
		assert_int_equal(base64_get(&bytes, rows[i].text, strlen(rows[i].text)), 0);
		assert_string_equal(buf_str(&bytes), rows[i].bytes);
		buf_fini(&text);
		buf_fini(&bytes);
	}
}

static void test_there_and_back(void **state)
{
	char all[256];

	(void)state;
	for (int i = 0; i < 256; i++)
		all[i] = (char)(i * 37);
	for (size_t n = 0; n <= sizeof all; n++) {
		struct buf text = { 0 }, bytes = { 0 };

		base64_put(&text, all, n);
		assert_int_equal(text.len, (n + 2) / 3 * 4);
		assert_int_equal(base64_get(&bytes, buf_str(&text), text.len), 0);
		assert_int_equal(bytes.len, n);
		if (n)
			assert_memory_equal(bytes.data, all, n);
		buf_fini(&text);
		buf_fini(&bytes);
	}
}

static void test_no_base64(void **state)
{
	static const char *const rows[] = { "Z", "Zg", "Zg=", "====", "Z===", "Zg=v", "Zm9v====", "Zg==Zm9v", "Zm9*",
					    "Zm 9", "=Zm9" };
	struct buf bytes = { 0 };

	(void)state;
	buf_adds(&bytes, "kept");
	for (size_t i = 0; i < mem_countof(rows); i++) {
		assert_int_equal(base64_get(&bytes, rows[i], strlen(rows[i])), RC_INVALID);
		assert_int_equal(bytes.len, 4);
	}
	assert_int_equal(base64_get(&bytes, "Zm\0v", 4), RC_INVALID);
	buf_fini(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_no_base64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
