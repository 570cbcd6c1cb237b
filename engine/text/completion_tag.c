/* SPDX-License-Identifier: MIT
 * completion_tag.c - reads one DSML tag, also a damaged or unusual one.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/text/completion_priv.h"

#include <string.h>

#define COMPLETION_MAX_WORD 16

static const struct completion_word_name {
	const char *text;
	enum completion_word word;
	bool loose;
} completion_words[] = {
	{ "tool_calls", COMPLETION_W_CALLS, false },
	{ "function_calls", COMPLETION_W_CALLS, true }, /* what the model before this one was taught */
	{ "invoke", COMPLETION_W_INVOKE, false },
	{ "parameter", COMPLETION_W_PARAMETER, false },
};

/* What is being read. */
struct completion_reader {
	const char *s;
	size_t len, at;
	bool final;
};

static bool completion_reader_more(const struct completion_reader *r)
{
	return r->at == r->len;
}

static size_t completion_reader_space(struct completion_reader *r, size_t max)
{
	size_t from = r->at;

	while (r->at < r->len && r->at - from < max && strchr(" \n\r\t", r->s[r->at]) && r->s[r->at])
		r->at++;
	return r->at - from;
}

/* 1: passed `text`; 0: something else is there; -1: the beginning of it is there. */
static int completion_reader_expect(struct completion_reader *r, const char *text)
{
	size_t n = strlen(text), left = r->len - r->at;

	if (memcmp(r->s + r->at, text, left < n ? left : n) != 0)
		return 0;
	if (left < n)
		return -1;
	r->at += n;
	return 1;
}

static enum completion_tag_result completion_tag_word(struct completion_reader *r, struct completion_tag *t)
{
	size_t from = r->at, i;

	while (r->at < r->len && r->at - from < COMPLETION_MAX_WORD &&
		((r->s[r->at] >= 'a' && r->s[r->at] <= 'z') || r->s[r->at] == '_'))
		r->at++;
	for (i = 0; i < mem_countof(completion_words); i++) {
		const struct completion_word_name *w = &completion_words[i];

		if (r->at - from == strlen(w->text) && memcmp(r->s + from, w->text, r->at - from) == 0) {
			t->word = w->word;
			t->loose |= w->loose;
		}
	}
	/* Of what ends here, only a closing tag says enough. */
	if (completion_reader_more(r) && !(r->final && t->close && t->word != COMPLETION_W_OTHER))
		return COMPLETION_TAG_MORE;
	return COMPLETION_TAG;
}

/* The end of a damaged tag: its '>' when that is near, else here. */
static enum completion_tag_result completion_tag_junk(struct completion_reader *r, struct completion_tag *t)
{
	size_t i;

	t->word = COMPLETION_W_OTHER;
	t->size = r->at;
	for (i = r->at; i < r->len && i - r->at < COMPLETION_MAX_JUNK; i++) {
		if (r->s[i] == '>')
			t->size = i + 1;
		if (strchr(">\n<", r->s[i]) || completion_is_symbol(r->s[i]))
			return COMPLETION_TAG;
	}
	return i == r->len ? COMPLETION_TAG_MORE : COMPLETION_TAG;
}

/* A tag without attributes; a lost '>' is forgiven. */
static enum completion_tag_result completion_tag_bare(struct completion_reader *r, struct completion_tag *t)
{
	size_t end = r->at;
	size_t space = completion_reader_space(r, 4);

	if (completion_reader_more(r) && !r->final)
		return COMPLETION_TAG_MORE;
	if (completion_reader_expect(r, ">") == 1) {
		t->loose |= space > 0;
		end = r->at;
	} else {
		t->loose = true;
	}
	t->size = end;
	return COMPLETION_TAG;
}

/* After name=": finds the name's end, for a parameter by the official pattern: quotes may be in it. */
static enum completion_tag_result completion_tag_name(struct completion_reader *r, struct completion_tag *t)
{
	size_t from = r->at;

	for (; r->at < r->len && r->at - from <= COMPLETION_MAX_NAME; r->at++) {
		static const char *const ends[] = { "\" string=\"true\">", "\" string=\"false\">", "\">" };
		size_t i = t->word == COMPLETION_W_INVOKE ? 2 : 0;

		if (r->s[r->at] == '\0' || completion_is_symbol(r->s[r->at]))
			break;
		for (; r->s[r->at] == '"' && i < 3; i++) {
			size_t here = r->at;
			int found = completion_reader_expect(r, ends[i]);

			if (found < 0)
				return COMPLETION_TAG_MORE;
			if (found == 0)
				continue;
			t->name = r->s + from;
			t->n_name = here - from;
			t->string = i != 1;
			t->loose |= i == 2 && t->word == COMPLETION_W_PARAMETER;
			t->size = r->at;
			return COMPLETION_TAG;
		}
	}
	if (completion_reader_more(r))
		return COMPLETION_TAG_MORE;
	r->at = from;
	return completion_tag_junk(r, t);
}

static enum completion_tag_result completion_tag_attributes(struct completion_reader *r,
	struct completion_tag *t)
{
	size_t space = completion_reader_space(r, 4);
	int found = completion_reader_expect(r, "name=\"");

	if (found < 0)
		return COMPLETION_TAG_MORE;
	if (found == 0)
		return completion_tag_junk(r, t);
	t->loose |= space != 1;
	return completion_tag_name(r, t);
}

enum completion_tag_result completion_tag_read(const char *s, size_t len, bool final,
	struct completion_tag *ret_tag)
{
	struct completion_reader r = { .s = s, .len = len, .final = final };
	struct completion_tag t = { 0 };
	enum completion_tag_result res;

	if (completion_reader_expect(&r, "<") <= 0)
		t.loose = true;
	t.close = completion_reader_expect(&r, "/") > 0;
	if (completion_reader_more(&r))
		return COMPLETION_TAG_MORE;
	if (!completion_is_dsml(r.s[r.at]))
		return COMPLETION_TAG_NONE;
	t.symbol = r.s[r.at++];
	t.loose |= (unsigned char)t.symbol != COMPLETION_SYM_DSML;
	res = completion_tag_word(&r, &t);
	if (res == COMPLETION_TAG) {
		if (t.word == COMPLETION_W_OTHER)
			res = completion_tag_junk(&r, &t);
		else if (t.word == COMPLETION_W_CALLS || t.close)
			res = completion_tag_bare(&r, &t);
		else
			res = completion_tag_attributes(&r, &t);
	}
	*ret_tag = t;
	return res;
}
