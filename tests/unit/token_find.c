/* SPDX-License-Identifier: MIT
 * token_find.c - tests of token_find.c: texts found across the edges of tokens, as often as they are there.
 * Threads: one. Locks: none. */
#include "engine/text/token_find.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct tokenizer *test_tiny;

static int test_setup(void **state)
{
	const char *top = getenv("top_srcdir");
	struct buf why = { 0 };
	char path[4096];

	(void)state;
	snprintf(path, sizeof path, "%s/etc/tiny/tokenizer.json", top ? top : ".");
	return tokenizer_open(path, &test_tiny, &why);
}

static int test_teardown(void **state)
{
	(void)state;
	tokenizer_free(&test_tiny);
	return 0;
}

static const char test_text[] = "<｜User｜>Remember this: my codeword is poppy.\n\nMy  Codeword  is Öl. aaaa";

static int test_find(const char *what, enum token_find_how how, struct token_span *span, int most,
	struct token_ids *ids)
{
	int found = -1;

	assert_int_equal(tokenizer_encode(test_tiny, test_text, strlen(test_text), true, ids), 0);
	assert_int_equal(token_find(test_tiny, ids->id, ids->n, what, strlen(what), how, span, most, &found), 0);
	return found;
}

/* Every piece of the text is found, in tokens that have it, of which neither end could be left out. */
static void every_piece_is_found_in_the_fewest_tokens(void **state)
{
	size_t n = strlen(test_text);

	(void)state;
	for (size_t at = 0; at < n; at++)
		for (size_t len = 1; at + len <= n; len += 5) {
			struct token_ids ids = { 0 };
			struct token_span s = { -1, -1 };
			struct buf text = { 0 };
			char what[sizeof test_text];

			snprintf(what, sizeof what, "%.*s", (int)len, test_text + at);
			assert_true(test_find(what, TOKEN_FIND_BYTES, &s, 1, &ids) >= 1);
			for (int cut = 0; cut < 3; cut++) {
				buf_clear(&text);
				for (int i = s.begin + (cut == 1); i < s.end - (cut == 2); i++) {
					size_t size;
					const char *bytes = tokenizer_bytes(test_tiny, ids.id[i], &size);

					buf_add(&text, bytes, size);
				}
				assert_int_equal(strstr(buf_str(&text), what) != NULL, cut == 0);
			}
			buf_fini(&text);
			token_ids_fini(&ids);
		}
}

static void places_are_counted_beyond_what_there_is_room_for(void **state)
{
	static const struct {
		const char *what;
		enum token_find_how how;
		int found;
	} row[] = {
		{ "codeword", TOKEN_FIND_BYTES, 1 }, { "codeword", TOKEN_FIND_LIKE, 2 },
		{ "my codeword is", TOKEN_FIND_BYTES, 1 }, { "MY\t codeword\nis", TOKEN_FIND_LIKE, 2 },
		{ "öl", TOKEN_FIND_LIKE, 0 }, { "Öl", TOKEN_FIND_BYTES, 1 }, { "aa", TOKEN_FIND_BYTES, 2 },
		{ "a", TOKEN_FIND_BYTES, 4 }, { "nothing", TOKEN_FIND_LIKE, 0 }, { "<｜User｜>", TOKEN_FIND_BYTES, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int most = 0; most < 3; most++) {
			struct token_span span[3] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
			struct token_ids ids = { 0 };

			assert_int_equal(test_find(row[i].what, row[i].how, span, most, &ids), row[i].found);
			for (int k = 0; k < 3; k++)
				assert_int_equal(span[k].end > span[k].begin, k < most && k < row[i].found);
			token_ids_fini(&ids);
		}
}

static void in_no_tokens_nothing_is_found(void **state)
{
	int found = -1;

	(void)state;
	assert_int_equal(token_find(test_tiny, NULL, 0, "a", 1, TOKEN_FIND_BYTES, NULL, 0, &found), 0);
	assert_int_equal(found, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_piece_is_found_in_the_fewest_tokens),
		cmocka_unit_test(places_are_counted_beyond_what_there_is_room_for),
		cmocka_unit_test(in_no_tokens_nothing_is_found),
	};
	return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
