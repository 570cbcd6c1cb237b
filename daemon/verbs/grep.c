/* SPDX-License-Identifier: MIT
 * grep.c - the lines of a text that a regular expression matches: how many, and a piece of the first.
 * Threads: any, one at a time per struct grep. Locks: none. */
#include "daemon/verbs/grep.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Of one line: about 10 ms, and the interpreter's memory. */
#define GREP_STEPS 500000
#define GREP_HEAP_KIB 16384
#define GREP_BEFORE (GREP_EXCERPT / 3) /* bytes shown of what stands before the match */

struct grep {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
};

void grep_free(struct grep **pg)
{
	struct grep *g = *pg;

	if (!g)
		return;
	*pg = NULL;
	pcre2_code_free(g->code);
	pcre2_match_data_free(g->data);
	pcre2_match_context_free(g->context);
	free(g);
}

int grep_new(const char *regex, bool ignore_case, struct grep **ret_g, struct buf *why)
{
	uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
	struct grep *g;
	char text[128];
	PCRE2_SIZE at;
	int error;

	if (!*regex || strlen(regex) > GREP_MAX_REGEX)
		return buf_why(why, RC_INVALID, "regex: %zu bytes, must be 1 to %d", strlen(regex), GREP_MAX_REGEX);
	g = mem_new(sizeof *g);
	g->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, options | (ignore_case ? PCRE2_CASELESS : 0),
				&error, &at, NULL);
	g->context = pcre2_match_context_create(NULL);
	if (!g->code) {
		pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
		grep_free(&g);
		return buf_why(why, RC_INVALID, "regex: %s, at byte %zu", text, (size_t)at);
	}
	g->data = pcre2_match_data_create(1, NULL);
	if (!g->data || !g->context) {
		grep_free(&g);
		return -ENOMEM;
	}
	pcre2_set_match_limit(g->context, GREP_STEPS);
	pcre2_set_heap_limit(g->context, GREP_HEAP_KIB);
	*ret_g = g;
	return 0;
}

static bool grep_inside(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* The line from a little before the match on, cut between characters. */
static void grep_excerpt(const char *line, size_t len, size_t match, struct buf *out)
{
	size_t from = match > GREP_BEFORE ? match - GREP_BEFORE : 0, end;

	while (from > 0 && grep_inside(line[from]))
		from--;
	end = len - from > GREP_EXCERPT ? from + GREP_EXCERPT : len;
	while (end < len && end > from && grep_inside(line[end]))
		end--;
	buf_adds(out, from ? "..." : "");
	buf_add(out, line + from, end - from);
	buf_adds(out, end < len ? "..." : "");
}

static void grep_line(struct grep *g, const char *line, size_t len, struct grep_found *f)
{
	int n = pcre2_match(g->code, (PCRE2_SPTR)line, len, 0, 0, g->data, g->context);

	f->looked++;
	if (n == PCRE2_ERROR_NOMATCH)
		return;
	if (n < 0) {
		f->unread++;
		return;
	}
	if (!f->lines++) {
		f->first = f->looked;
		grep_excerpt(line, len, pcre2_get_ovector_pointer(g->data)[0], &f->excerpt);
	}
}

void grep_text(struct grep *g, const char *text, size_t len, bool (*stop)(void *arg), void *arg, struct grep_found *f)
{
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;

		if (stop && stop(arg))
			return;
		grep_line(g, text + at, n, f);
		at += n + 1;
	}
}

void grep_found_fini(struct grep_found *f)
{
	buf_fini(&f->excerpt);
	*f = (struct grep_found){ 0 };
}
