/* SPDX-License-Identifier: MIT
 * pretok.c - the pre-tokenizer: cuts text into words by the patterns that tokenizer.json lists.
 * Threads: any; a pretok is read-only after loading, a pretok_run belongs to one call. Locks: none. */
#include "engine/text/pretok.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>

/* Bounds on one match, for patterns that backtrack: the interpreter's memory and its steps. */
#define PRETOK_HEAP_KIB 65536
#define PRETOK_STEPS 10000000

struct pretok_run {
	pcre2_match_data *data;
	pcre2_match_context *context;
	const struct pretok *p;
	pretok_word_f *word;
	void *arg;
};

void pretok_fini(struct pretok *p)
{
	for (int i = 0; i < p->n; i++)
		pcre2_code_free(p->step[i].code);
	p->n = 0;
}

/* Compiles pattern into *s. */
static int pretok_compile(struct pretok_step *s, const struct buf *pattern, bool literal, struct buf *why)
{
	uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE), empty = 0;
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	char text[128];
	PCRE2_SIZE at;
	int error;

	if (!c)
		return -ENOMEM;
	pcre2_set_newline(c, PCRE2_NEWLINE_LF);
	s->code = pcre2_compile((PCRE2_SPTR)buf_str(pattern), pattern->len, options, &error, &at, c);
	pcre2_compile_context_free(c);
	if (!s->code) {
		pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
		return buf_why(why, RC_MODEL, "%s", text);
	}
	pcre2_pattern_info(s->code, PCRE2_INFO_MATCHEMPTY, &empty);
	if (empty) {
		pcre2_code_free(s->code);
		return buf_why(why, RC_MODEL, "a pattern that can match nothing is not supported");
	}
	/* Without JIT (not built in, or memory may not be executable) the interpreter does the same, slower.
	 */
	s->jit = pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE) == 0;
	return 0;
}

int pretok_add(struct pretok *p, const char *pattern, size_t len, bool literal, struct buf *why)
{
	struct buf b = { 0 };
	int rc = 0;

	if (p->n == PRETOK_MAX_STEPS)
		return buf_why(why, RC_MODEL, "more than %d patterns", PRETOK_MAX_STEPS);
	if (len == 0 || len > PRETOK_MAX_PATTERN)
		return buf_why(why, RC_MODEL, "a pattern of %zu bytes (limit %d)", len, PRETOK_MAX_PATTERN);
	if (literal)
		buf_add(&b, pattern, len);
	else
		rc = pretok_regex(pattern, len, &b, why);
	if (rc == 0)
		rc = pretok_compile(&p->step[p->n], &b, literal, why);
	if (rc == 0)
		p->n++;
	buf_fini(&b);
	return rc;
}

struct pretok_run *pretok_run_new(void)
{
	struct pretok_run *r = mem_new(sizeof *r);

	r->data = pcre2_match_data_create(1, NULL);
	r->context = pcre2_match_context_create(NULL);
	if (!r->data || !r->context) {
		pretok_run_free(&r);
		return NULL;
	}
	pcre2_set_heap_limit(r->context, PRETOK_HEAP_KIB);
	pcre2_set_match_limit(r->context, PRETOK_STEPS);
	return r;
}

void pretok_run_free(struct pretok_run **r)
{
	if (!*r)
		return;
	pcre2_match_data_free((*r)->data);
	pcre2_match_context_free((*r)->context);
	free(*r);
	*r = NULL;
}

/* The next match at or after `at`: 1 with its bounds, 0 when there is none. */
static int pretok_match(const struct pretok_step *s, struct pretok_run *r, const char *text, size_t len,
			size_t at, PCRE2_SIZE ret_bounds[2])
{
	int n = PCRE2_ERROR_JIT_STACKLIMIT;

	if (s->jit)
		n = pcre2_jit_match(s->code, (PCRE2_SPTR)text, len, at, PCRE2_NO_UTF_CHECK, r->data,
				    r->context);
	/* The JIT's stack is small and fixed; the interpreter's is on the heap and bounded. */
	if (n == PCRE2_ERROR_JIT_STACKLIMIT)
		n = pcre2_match(s->code, (PCRE2_SPTR)text, len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
				r->data, r->context);
	if (n == PCRE2_ERROR_NOMATCH)
		return 0;
	if (n == PCRE2_ERROR_NOMEMORY)
		return -ENOMEM;
	if (n < 0)
		return RC_TOO_LARGE;
	ret_bounds[0] = pcre2_get_ovector_pointer(r->data)[0];
	ret_bounds[1] = pcre2_get_ovector_pointer(r->data)[1];
	/* A match that does not advance would never end. */
	return ret_bounds[0] >= at && ret_bounds[1] > ret_bounds[0] ? 1 : RC_TOO_LARGE;
}

/* Cuts text by the steps from `step` on. Each piece is a text of its own: no pattern looks beyond it. */
static int pretok_cut(struct pretok_run *r, int step, const char *text, size_t len)
{
	PCRE2_SIZE m[2];
	int rc = 1;

	if (step == r->p->n)
		return r->word(r->arg, text, len);
	for (size_t at = 0; at < len && rc >= 0; at = m[1]) {
		rc = pretok_match(&r->p->step[step], r, text, len, at, m);
		if (rc == 0)
			m[0] = m[1] = len;
		if (rc >= 0 && m[0] > at)
			rc = pretok_cut(r, step + 1, text + at, m[0] - at);
		if (rc >= 0 && m[1] > m[0])
			rc = pretok_cut(r, step + 1, text + m[0], m[1] - m[0]);
	}
	return rc < 0 ? rc : 0;
}

int pretok_split(const struct pretok *p, struct pretok_run *r, const char *text, size_t len,
		 pretok_word_f *word, void *arg)
{
	r->p = p;
	r->word = word;
	r->arg = arg;
	return len > 0 ? pretok_cut(r, 0, text, len) : 0;
}
