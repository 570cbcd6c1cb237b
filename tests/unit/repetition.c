/* SPDX-License-Identifier: MIT
 * repetition.c - runs of words and frequent lines of texts that grow piece by piece.
 * Threads: main. Locks: none. */
#include "engine/base/repetition.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINES 64

static void figures_of(const char *text, size_t len, size_t piece, struct repetition_figures *ret_f)
{
	struct repetition r;

	repetition_init(&r, LINES);
	for (size_t i = 0; i < len; i += piece)
		repetition_put(&r, text + i, len - i < piece ? len - i : piece);
	repetition_now(&r, ret_f);
	repetition_fini(&r);
}

static const struct {
	const char *text;
	uint64_t words, lines, maxrun, maxline, maxchain;
} texts[] = {
	{ "", 0, 0, 0, 0, 0 },
	{ " \t\r\n\n", 0, 0, 0, 0, 0 },
	{ "a", 1, 1, 1, 1, 1 },
	{ "a a a b", 4, 1, 3, 1, 1 },
	{ "a a a ab", 4, 1, 3, 1, 1 },          /* the last word is another, though it begins like them */
	{ "ab ab a", 3, 1, 2, 1, 1 },
	{ "again\nagain\tagain\fagain", 4, 2, 4, 1, 1 }, /* runs go over lines; their texts differ */
	{ "A a A a", 4, 1, 1, 1, 1 },
	{ "same\n\nsame\n---\n---\n---\nsame", 6, 3, 3, 3, 3 }, /* rules and empty lines do not count */
	{ "x\r\nx\nx\r\n", 3, 3, 3, 2, 2 },     /* a carriage return is part of its line */
	{ "x \nx\n x\n", 3, 3, 3, 1, 1 },       /* and so is any white space, but not of a word */
	{ "\xe5\xa5\xbd\n\xe5\xa5\xbd\n", 2, 2, 2, 2, 2 },
	{ "}\n}\n}\n", 3, 0, 3, 0, 0 },
	{ "a\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\na\n", 17, 17, 1, 2, 2 },
	{ "a\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\na\n", 18, 18, 1, 2, 1 }, /* too far for a chain */
};

static void the_figures_of_texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(texts); i++) {
		struct repetition_figures f;

		figures_of(texts[i].text, strlen(texts[i].text), 1000, &f);
		if (f.words != texts[i].words || f.lines != texts[i].lines || f.maxrun != texts[i].maxrun ||
		    f.maxline != texts[i].maxline || f.maxchain != texts[i].maxchain)
			fail_msg("\"%s\": words %d, lines %d, maxrun %d, maxline %d, maxchain %d", texts[i].text,
				 (int)f.words, (int)f.lines, (int)f.maxrun, (int)f.maxline, (int)f.maxchain);
	}
}

static void cut_anywhere_they_are_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(texts); i++)
		for (size_t piece = 1; piece <= strlen(texts[i].text); piece++) {
			struct repetition_figures whole, cut;

			figures_of(texts[i].text, strlen(texts[i].text), 1000, &whole);
			figures_of(texts[i].text, strlen(texts[i].text), piece, &cut);
			assert_memory_equal(&whole, &cut, sizeof whole);
		}
}

/* Whatever comes next, what has settled stays; what merely looks like a repetition is not settled. */
static void what_has_settled_can_only_grow(void **state)
{
	static const char text[] = "go go go on\ngo go go on\ngo";
	struct repetition r;
	uint64_t run = 0, line = 0;

	(void)state;
	repetition_init(&r, LINES);
	for (size_t i = 0; text[i]; i++) {
		const struct repetition_figures *s = repetition_settled(&r);
		struct repetition_figures now;

		repetition_put(&r, text + i, 1);
		repetition_now(&r, &now);
		assert_true(s->maxrun >= run && s->maxline >= line);
		assert_true(now.maxrun >= s->maxrun && now.maxline >= s->maxline && now.words >= s->words);
		run = s->maxrun;
		line = s->maxline;
	}
	assert_int_equal(run, 3);
	assert_int_equal(line, 2);
	repetition_fini(&r);

	repetition_init(&r, LINES);
	repetition_put(&r, "a a", 3);
	assert_int_equal(repetition_settled(&r)->maxrun, 1); /* it may become "a and" */
	repetition_fini(&r);
}

static void any_number_of_different_lines_takes_bounded_memory(void **state)
{
	struct repetition r;
	struct buf line = { 0 };

	(void)state;
	repetition_init(&r, LINES);
	for (int i = 0; i < 100000; i++) {
		buf_clear(&line);
		buf_printf(&line, "line %d\n", i);
		repetition_put(&r, line.data, line.len);
	}
	assert_true(r.n_slot <= 2 * LINES && r.n_used <= LINES);
	assert_int_equal(repetition_settled(&r)->maxline, 1);
	/* A loop that begins now is seen all the same, with changing lines between its own. */
	for (int i = 0; i < 1000; i++) {
		buf_clear(&line);
		buf_printf(&line, "The same.\nstep %d\n", i);
		repetition_put(&r, line.data, line.len);
	}
	assert_int_equal(repetition_settled(&r)->maxline, 1000);
	assert_int_equal(repetition_settled(&r)->maxchain, 1000);
	buf_fini(&line);
	repetition_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_figures_of_texts),
		cmocka_unit_test(cut_anywhere_they_are_the_same),
		cmocka_unit_test(what_has_settled_can_only_grow),
		cmocka_unit_test(any_number_of_different_lines_takes_bounded_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
