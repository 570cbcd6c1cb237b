/* SPDX-License-Identifier: MIT
 * probe_text.c - figures of one text that show repetition.
 * Threads: any. Locks: none. */
#include "ctl/probe_text.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP_WINDOW_BITS (15 + 16) /* zlib's way to ask for a gzip header */

struct span {
	const char *at;
	size_t len;
};

static int span_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	int c = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void probe_text_words(const char *text, size_t len, struct probe_text *t)
{
	struct span last = { NULL, 0 };
	int run = 0;

	for (size_t i = 0; i < len;) {
		struct span w;

		while (i < len && isspace((unsigned char)text[i]))
			i++;
		w = (struct span){ text + i, i };
		while (i < len && !isspace((unsigned char)text[i]))
			i++;
		w.len = i - w.len;
		if (w.len == 0)
			break;
		t->words++;
		run = last.at && span_compare(&w, &last) == 0 ? run + 1 : 1;
		if (run > t->maxrun)
			t->maxrun = run;
		last = w;
	}
}

static int span_has_word(const struct span *s)
{
	for (size_t i = 0; i < s->len; i++)
		if (isalnum((unsigned char)s->at[i]) || (unsigned char)s->at[i] >= 0x80)
			return 1;
	return 0;
}

static void probe_text_lines(const char *text, size_t len, struct probe_text *t)
{
	struct span *line;
	size_t n = 0, cap = 1;
	int same = 0;

	for (size_t i = 0; i < len; i++)
		cap += text[i] == '\n';
	line = mem_grow(NULL, cap, sizeof *line);
	for (size_t i = 0; i < len;) {
		const char *end = memchr(text + i, '\n', len - i);
		struct span s = { text + i, end ? (size_t)(end - text) - i : len - i };

		i += s.len + 1;
		if (span_has_word(&s))
			line[n++] = s;
	}
	qsort(line, n, sizeof *line, span_compare);
	for (size_t i = 0; i < n; i++) {
		same = i && span_compare(&line[i], &line[i - 1]) == 0 ? same + 1 : 1;
		if (same > t->maxline)
			t->maxline = same;
	}
	t->lines = (int)n;
	free(line);
}

static double probe_text_gzip(const char *text, size_t len)
{
	z_stream z = { 0 };
	size_t cap;
	unsigned char *out;
	double ratio;

	if (len == 0)
		return 1;
	must(deflateInit2(&z, 6, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	cap = deflateBound(&z, len);
	out = mem_grow(NULL, cap, 1);
	z.next_in = (unsigned char *)(uintptr_t)text;
	z.avail_in = (unsigned)len;
	z.next_out = out;
	z.avail_out = (unsigned)cap;
	must(deflate(&z, Z_FINISH) == Z_STREAM_END);
	ratio = (double)z.total_out / (double)len;
	deflateEnd(&z);
	free(out);
	return ratio;
}

void probe_text_measure(const char *text, size_t len, struct probe_text *ret_t)
{
	*ret_t = (struct probe_text){ 0 };
	probe_text_words(text, len, ret_t);
	probe_text_lines(text, len, ret_t);
	ret_t->gzip = probe_text_gzip(text, len);
}
