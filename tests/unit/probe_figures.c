/* SPDX-License-Identifier: MIT
 * probe_figures.c - the probes' figures of texts of every kind are those that gzip and awk give of the same text.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe_text.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/utf8.h"
#include "tests/unit/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS (6 / WARM_STEP) /* texts of each kind and size */

static char path[] = "/tmp/probe_figures.XXXXXX";
static uint64_t seed = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16) % below;
}

/* ---- texts ---- */

static void add_word(struct buf *t, uint32_t letters, uint32_t longest)
{
	for (uint32_t n = 1 + draw(longest); n; n--)
		buf_addc(t, (char)('a' + draw(letters)));
}

/* Few words of few letters: runs, and lines that come again; every kind of white space, and words that are numbers. */
static void words(struct buf *t, size_t n)
{
	static const char *const space[] = { " ", " ", " ", "  ", "\t", "\n", "\n", "\r\n", "\n\n", "\v", "\f",
					     "\n---\n" };
	static const char *const number[] = { "1", "1.0", "01", "+1", "1e0", "0x1", "nan", "-0", "0" };

	while (t->len < n) {
		if (draw(4))
			add_word(t, 2, 2);
		else
			buf_adds(t, number[draw(mem_countof(number))]);
		buf_adds(t, space[draw(mem_countof(space))]);
	}
}

static void prose(struct buf *t, size_t n)
{
	struct buf vocabulary[64] = { 0 };

	for (size_t i = 0; i < mem_countof(vocabulary); i++)
		add_word(&vocabulary[i], 26, 9);
	while (t->len < n) {
		buf_adds(t, buf_str(&vocabulary[draw(draw(2) ? 8 : 64)]));
		buf_adds(t, draw(12) ? " " : ".\n");
	}
	for (size_t i = 0; i < mem_countof(vocabulary); i++)
		buf_fini(&vocabulary[i]);
}

/* Prose that falls into a loop. */
static void loop(struct buf *t, size_t n)
{
	struct buf passage = { 0 };

	prose(t, n / 3);
	prose(&passage, 1 + draw(400));
	while (t->len < n)
		buf_add(t, passage.data, passage.len);
	buf_fini(&passage);
}

/* Any characters but NUL. */
static void characters(struct buf *t, size_t n)
{
	uint32_t range = (uint32_t[]){ 0x7F, 0x7FF, 0xFFFF, 0x10FFFF }[draw(4)];
	char c[4];

	while (t->len < n) {
		uint32_t code = 1 + draw(range);

		if (code >= 0xD800 && code < 0xE000)
			code = '\n';
		buf_add(t, c, (size_t)utf8_put(code, c));
	}
}

static void long_words(struct buf *t, size_t n)
{
	while (t->len < n) {
		add_word(t, 3, 20000);
		buf_addc(t, draw(2) ? ' ' : '\n');
	}
}

/* ---- what gzip and awk say ---- */

static void run(const char *command, struct buf *out)
{
	char got[256];
	FILE *f = popen(command, "r");

	must(f != NULL);
	while (fgets(got, sizeof got, f))
		buf_adds(out, got);
	assert_int_equal(pclose(f), 0);
}

static void write_text(const struct buf *t)
{
	FILE *f = fopen(path, "w");

	must(f && fwrite(buf_str(t), 1, t->len, f) == t->len && fclose(f) == 0);
}

static void expect_the_same(const char *kind, const struct buf *t)
{
	struct buf command = { 0 }, out = { 0 }, ours = { 0 };
	struct probe_text text;
	struct probe_figures f;

	write_text(t);
	buf_printf(&command, "LC_ALL=C awk -f '%s/ctl/probe/probe_text.awk' %s && gzip -6 -c <%s | wc -c",
		   getenv("top_srcdir"), path, path);
	run(buf_str(&command), &out);
	probe_text_init(&text);
	for (size_t i = 0, n; i < t->len; i += n) {
		n = 1 + draw(5000);
		n = t->len - i < n ? t->len - i : n;
		probe_text_put(&text, t->data + i, n);
	}
	probe_text_figures(&text, &f);
	buf_printf(&ours, "words=%d lines=%d maxrun=%d maxline=%d\n%.0f\n", (int)f.said.words, (int)f.said.lines,
		   (int)f.said.maxrun, (int)f.said.maxline, f.gzip * (double)t->len);
	if (t->len && strcmp(buf_str(&ours), buf_str(&out)))
		fail_msg("%s of %zu bytes, in %s: ours %s, awk's and gzip's %s", kind, t->len, path, buf_str(&ours),
			 buf_str(&out));
	probe_text_fini(&text);
	buf_fini(&command);
	buf_fini(&out);
	buf_fini(&ours);
}

/* ---- tests ---- */

static void the_figures_are_those_of_gzip_and_awk(void **state)
{
	static const struct {
		const char *name;
		void (*make)(struct buf *t, size_t n);
	} kind[] = { { "words", words }, { "prose", prose }, { "loop", loop }, { "characters", characters },
		     { "long words", long_words } };
	/* About the window's edges, gzip and zlib part. */
	static const size_t size[] = { 1, 40, 1000, 20000, 65236, 65275, 65400, 65536, 98200, 150000 };

	(void)state;
	for (size_t k = 0; k < mem_countof(kind); k++)
		for (int i = 0; i < ROUNDS * (int)mem_countof(size); i++) {
			struct buf t = { 0 };

			kind[k].make(&t, size[(size_t)i % mem_countof(size)] + draw(40));
			if (draw(3) == 0)
				buf_addc(&t, '\n');
			expect_the_same(kind[k].name, &t);
			buf_fini(&t);
		}
}

static void a_megabyte_too(void **state)
{
	struct buf t = { 0 };

	(void)state;
	prose(&t, 300000);
	loop(&t, 600000);
	words(&t, 1000000);
	expect_the_same("a megabyte", &t);
	buf_fini(&t);
}

static void short_texts_too(void **state)
{
	static const char *const text[] = { "\n", "\n\n", " ", "a", "a\n", "a\r\na\r\n", "\r", "a a\na", "\t",
					    "-\n-\n" };

	(void)state;
	for (size_t i = 0; i < mem_countof(text); i++) {
		struct buf t = { 0 };

		buf_adds(&t, text[i]);
		expect_the_same(text[i], &t);
		buf_fini(&t);
	}
}

static void an_empty_text_has_no_ratio(void **state)
{
	struct probe_text t;
	struct probe_figures f;

	(void)state;
	probe_text_init(&t);
	probe_text_figures(&t, &f);
	assert_int_equal(f.said.maxrun + f.said.maxline + f.said.words + f.said.lines, 0);
	assert_true(f.gzip == 1);
	probe_text_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_figures_are_those_of_gzip_and_awk),
		cmocka_unit_test(a_megabyte_too),
		cmocka_unit_test(short_texts_too),
		cmocka_unit_test(an_empty_text_has_no_ratio),
	};
	int fd = mkstemp(path), rc;

	/* Others than GNU's are none to be equal to: they split their blocks elsewhere. */
	if (fd < 0 || !getenv("top_srcdir") || system("gzip --version 2>&1 | grep -q '^gzip [0-9]'") != 0)
		return 77;
	close(fd);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return rc;
}
