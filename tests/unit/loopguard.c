/* SPDX-License-Identifier: MIT
 * loopguard.c - loops of words, lines and tokens are seen, and no text of ours is taken for one.
 * Threads: main. Locks: none. */
#include "engine/serve/loopguard.h"
#include "engine/base/cycle.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/sanitized.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct gen_guard unsaid = { .say = GEN_GUARD_UNSAID };
static struct tokenizer *tokenizer;

static const char *source(const char *name, struct buf *path)
{
	buf_clear(path);
	buf_printf(path, "%s/%s", getenv("top_srcdir"), name);
	return buf_str(path);
}

/* Gives the text to the guard as an answer of that part would come, token by token; at most `most` tokens. Returns how
 * many it took until the guard saw a loop; 0: it saw none. */
static int watch(struct loopguard *g, enum gen_part part, const char *text, size_t len)
{
	struct token_ids ids = { 0 };
	int seen = 0;

	assert_int_equal(tokenizer_encode(tokenizer, text, len, false, &ids), 0);
	for (int i = 0; i < ids.n && !seen; i++) {
		size_t n;
		const char *bytes = tokenizer_bytes(tokenizer, ids.id[i], &n);

		loopguard_text(g, part, bytes, n);
		if (loopguard_token(g, ids.id[i], i + 1))
			seen = i + 1;
	}
	token_ids_fini(&ids);
	return seen;
}

static struct gen_loop loop_of(const struct gen_guard *want, enum gen_part part, const char *text, size_t len)
{
	struct loopguard *g = loopguard_new(want, GEN_PART_CONTENT);
	struct gen_loop l;
	int seen = watch(g, part, text, len);

	l = *loopguard_loop(g);
	assert_int_equal(l.token, l.kind ? seen : 0);
	loopguard_free(&g);
	return l;
}

static void repeat(struct buf *t, const char *s, int times)
{
	while (times--)
		buf_adds(t, s);
}

/* ---- circles of tokens ---- */

/* By the definition, looking at all of the list. */
static int circle_of(const int32_t *token, int n, int least)
{
	for (int p = 1; p <= CYCLE_MAX; p++) {
		int same = 0, need = least > CYCLE_TIMES * p ? least : CYCLE_TIMES * p;

		while (same < need && n - 1 - same - p >= 0 && token[n - 1 - same] == token[n - 1 - same - p])
			same++;
		if (same >= need)
			return p;
	}
	return 0;
}

static void a_circle_is_what_its_definition_says(void **state)
{
	enum { N = 9000 };
	int32_t *token = mem_grow(NULL, N, sizeof *token);
	static const int period[] = { 1, 2, 3, 7, 64, 1000 };

	(void)state;
	for (size_t k = 0; k < mem_countof(period); k++) {
		struct cycle *c = cycle_new();
		uint32_t x = 12345;

		for (int i = 0; i < N; i++) {
			int expected = 0, got;

			x = x * 1664525 + 1013904223;
			token[i] = i < 1500 || i % 6000 == 5999 ? (int32_t)(x >> 20) : token[i - period[k]];
			got = cycle_put(c, token[i], 40);
			if (i % 7 == 0 || got)
				expected = circle_of(token, i + 1, 40);
			assert_true(i % 7 || got == expected);
			assert_int_equal(got, got ? expected : 0);
		}
		cycle_free(&c);
	}
	free(token);
}

static void the_longest_circle_is_seen_and_no_longer_one(void **state)
{
	(void)state;
	for (int period = CYCLE_MAX; period <= CYCLE_MAX + 1; period++) {
		struct cycle *c = cycle_new();
		int seen = 0;

		for (int i = 0; i < 6 * CYCLE_MAX && !seen; i++)
			seen = cycle_put(c, i % period, 40) ? i + 1 : 0;
		assert_int_equal(seen, period == CYCLE_MAX ? (CYCLE_TIMES + 1) * CYCLE_MAX : 0);
		cycle_free(&c);
	}
}

/* ---- loops ---- */

static void each_kind_of_loop_is_seen_in_its_part(void **state)
{
	static const struct gen_guard want = { .say = GEN_GUARD_ON, .maxrun = 20, .maxline = 20, .period = 100 };
	struct buf word = { 0 }, line = { 0 }, tokens = { 0 };

	(void)state;
	repeat(&word, "no ", 30);
	for (int i = 0; i < 30; i++)
		buf_printf(&line, "The same line.\nand one of its own, %d\n", i * 7919);
	repeat(&tokens, "天地玄黄宇宙洪荒", 30); /* no white space at all */
	for (int p = 0; p < GEN_N_PART; p++) {
		struct gen_loop l = loop_of(&want, (enum gen_part)p, word.data, word.len);

		assert_true(l.kind == GEN_LOOP_WORD && l.count == 20 && l.part == (enum gen_part)p && l.ended);
		l = loop_of(&want, (enum gen_part)p, line.data, line.len);
		assert_true(l.kind == GEN_LOOP_LINE && l.count == 20 && l.part == (enum gen_part)p);
		l = loop_of(&want, (enum gen_part)p, tokens.data, tokens.len);
		assert_true(l.kind == GEN_LOOP_PERIOD && l.part == (enum gen_part)p);
	}
	buf_fini(&word);
	buf_fini(&line);
	buf_fini(&tokens);
}

static void parts_are_judged_apart(void **state)
{
	static const struct gen_guard want = { .say = GEN_GUARD_ON, .maxrun = 20 };
	struct loopguard *g = loopguard_new(&want, GEN_PART_REASONING);
	struct buf word = { 0 };

	(void)state;
	repeat(&word, "no ", 15);
	assert_int_equal(watch(g, GEN_PART_REASONING, word.data, word.len), 0);
	assert_int_equal(watch(g, GEN_PART_CONTENT, word.data, word.len), 0);
	assert_true(watch(g, GEN_PART_CONTENT, word.data, word.len) > 0);
	loopguard_free(&g);
	buf_fini(&word);
}

static void a_limit_of_nought_is_no_limit(void **state)
{
	static const struct gen_guard want = { .say = GEN_GUARD_ON };
	struct buf word = { 0 };

	(void)state;
	repeat(&word, "no ", 5000);
	assert_int_equal(loop_of(&want, GEN_PART_CONTENT, word.data, word.len).kind, GEN_LOOP_NONE);
	buf_fini(&word);
}

static void without_a_guard_a_loop_is_told_and_not_ended(void **state)
{
	struct buf word = { 0 };
	struct gen_loop l;

	(void)state;
	repeat(&word, "no ", 3000);
	l = loop_of(&unsaid, GEN_PART_REASONING, word.data, word.len);
	assert_true(l.kind != GEN_LOOP_NONE && !l.ended);
	buf_fini(&word);
}

static void a_loop_is_told_once(void **state)
{
	struct loopguard *g = loopguard_new(&unsaid, GEN_PART_CONTENT);
	struct buf word = { 0 };

	(void)state;
	repeat(&word, "no ", 3000);
	assert_true(watch(g, GEN_PART_CONTENT, word.data, word.len) > 0);
	assert_int_equal(watch(g, GEN_PART_CONTENT, word.data, word.len), 0);
	loopguard_free(&g);
	buf_fini(&word);
}

/* ---- what is no loop ---- */

static void expect_sound(const char *what, const char *text, size_t len)
{
	struct gen_loop l = loop_of(&unsaid, GEN_PART_CONTENT, text, len);
	struct buf told = { 0 };

	loopguard_describe(&l, &told);
	if (l.kind)
		fail_msg("%s: %s, at token %d", what, buf_str(&told), l.token);
	buf_fini(&told);
}

static size_t expect_sound_files(const char *pattern)
{
	struct buf path = { 0 };
	size_t n = 0;
	glob_t found;

	assert_int_equal(glob(source(pattern, &path), 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i += WARM_STEP) {
		static char text[1 << 18];
		FILE *f = fopen(found.gl_pathv[i], "r");
		size_t len;

		must(f != NULL);
		len = fread(text, 1, sizeof text, f);
		fclose(f);
		expect_sound(found.gl_pathv[i], text, len);
		n++;
	}
	buf_fini(&path);
	globfree(&found);
	return n;
}

/* Code, tables, manuals, JSON and number lists, each as one answer. */
static void the_files_of_this_repository_are_no_loops(void **state)
{
	static const char *const pattern[] = { "engine/*/*.c", "engine/*/*.def", "plugins/*/*.c", "api/*/*.c",
					       "daemon/*.c",
					       "tests/unit/*.c", "tests/http/*.py", "man/*.7", "*.md", "tests/*.md",
					       "etc/*.json", "etc/tiny/config.json", "api/page/index.html" };
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < mem_countof(pattern); i++)
		n += expect_sound_files(pattern[i]);
	assert_true(n > 300 / WARM_STEP);
}

static void what_was_asked_to_repeat_itself_is_no_loop(void **state)
{
	struct buf t = { 0 };

	(void)state;
	repeat(&t, "I will not talk in class while the teacher is explaining something.\n", 100);
	expect_sound("a hundred lines", t.data, t.len);
	buf_clear(&t);
	for (int i = 0; i < 3000; i++)
		buf_printf(&t, "%d\n", i);
	expect_sound("numbers", t.data, t.len);
	buf_clear(&t);
	for (int i = 0; i < 256; i++)
		buf_printf(&t, "\tcase 0x%02X:\n\t\tcpu->a = read(cpu, cpu->pc + %d);\n\t\tbreak;\n", i, i % 3);
	expect_sound("an emulator's cases", t.data, t.len);
	buf_clear(&t);
	repeat(&t, "0, 0, 0, 0, 0, 0, 0, 0,\n", 32);
	expect_sound("a table of noughts", t.data, t.len);
	buf_clear(&t);
	for (int i = 0; i < 200; i++)
		buf_printf(&t, "| %d | %d | yes | no | yes |\n| --- | --- | --- | --- | --- |\n", i, i * i);
	expect_sound("tables", t.data, t.len);
	buf_clear(&t);
	repeat(&t, "    }\n", 400);
	expect_sound("closing braces", t.data, t.len);
	buf_fini(&t);
}

/* Printed, not asserted. */
static void what_a_token_costs(void **state)
{
	enum { N = 20000 };
	struct loopguard *g = loopguard_new(&unsaid, GEN_PART_CONTENT);
	long long begun = clock_ns();

	(void)state;
	for (int i = 0; i < N; i++) {
		char word[16];
		int n = snprintf(word, sizeof word, "w%d%c", i * 7919 % 2000, i % 11 ? ' ' : '\n');

		loopguard_text(g, GEN_PART_CONTENT, word, (size_t)n);
		assert_false(loopguard_token(g, i * 7919 % 2000 + i % 3, i + 1));
	}
	printf("%.0f ns a token\n", (double)(clock_ns() - begun) / N);
	loopguard_free(&g);
}

static int setup(void **state)
{
	struct buf path = { 0 }, why = { 0 };
	int rc = tokenizer_open(source("etc/tiny/tokenizer.json", &path), &tokenizer, &why);

	(void)state;
	buf_fini(&path);
	buf_fini(&why);
	return rc;
}

static int teardown(void **state)
{
	(void)state;
	tokenizer_free(&tokenizer);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_circle_is_what_its_definition_says),
		cmocka_unit_test(the_longest_circle_is_seen_and_no_longer_one),
		cmocka_unit_test(each_kind_of_loop_is_seen_in_its_part),
		cmocka_unit_test(parts_are_judged_apart),
		cmocka_unit_test(a_limit_of_nought_is_no_limit),
		cmocka_unit_test(without_a_guard_a_loop_is_told_and_not_ended),
		cmocka_unit_test(a_loop_is_told_once),
		cmocka_unit_test(the_files_of_this_repository_are_no_loops),
		cmocka_unit_test(what_was_asked_to_repeat_itself_is_no_loop),
		cmocka_unit_test(what_a_token_costs),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
