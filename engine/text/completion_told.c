/* SPDX-License-Identifier: MIT
 * completion_told.c - which tokens the text is made of: those of markers and calls, and of a stop string, are not.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/text/completion_priv.h"

#include <stdlib.h>
#include <string.h>

/* Places are counted in bytes of the whole answer's text, in which a marker's symbol stands for all of its own. */
static uint64_t completion_told_size(const char *s, size_t len)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += completion_is_symbol(s[i]) ? strlen(completion_symbol_text(s[i])) : 1;
	return n;
}

/* Where the next byte will stand. */
static uint64_t completion_told_here(const struct completion *c)
{
	return c->told.done + completion_told_size(buf_str(&c->in), c->in.len) + c->lex.n_held;
}

/* One that ends inside a character is of the text that this becomes. */
static uint64_t completion_told_end(const struct completion_mark *m)
{
	return m->to > m->from ? m->to : m->from + 1;
}

static size_t completion_told_characters(const char *s, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ((unsigned char)s[i] & 0xc0) != 0x80;
	return count;
}

/* Half a character that the token does not go on with becomes U+FFFD, which is not the token's. */
static uint64_t completion_told_broken(const struct completion *c, const struct completion_token *t)
{
	bool goes_on = t->len > 0 && ((unsigned char)t->bytes[0] & 0xc0) == 0x80;

	return c->lex.utf8.n_held > 0 && t->len > 0 && !goes_on ? strlen("\uFFFD") : 0;
}

void completion_told_begin(struct completion *c, const struct completion_token *token)
{
	struct completion_told *t = &c->told;

	if (!t->wanted)
		return;
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 16;
		t->mark = mem_grow(t->mark, (size_t)t->cap, sizeof *t->mark);
	}
	t->mark[t->n++] = (struct completion_mark){ .to = UINT64_MAX,
						    .from = completion_told_here(c) +
						    completion_told_broken(c, token) };
}

void completion_told_from(struct completion *c)
{
	if (c->told.wanted)
		c->told.mark[c->told.n - 1].from = completion_told_here(c);
}

void completion_told_to(struct completion *c, bool any)
{
	struct completion_mark *m;

	if (!c->told.wanted)
		return;
	m = &c->told.mark[c->told.n - 1];
	m->to = completion_told_here(c);
	if (!any)
		m->what = COMPLETION_TOLD_NOT;
}

/* The mark's text begins in this one, of which it may be the rest. */
static void completion_told_mark(struct completion *c, struct completion_mark *m, uint64_t from, const char *text)
{
	size_t into = m->from > from ? (size_t)(m->from - from) : 0;

	m->what = c->reasoning && c->mode != COMPLETION_RAW ? COMPLETION_TOLD_REASONING : COMPLETION_TOLD_CONTENT;
	m->at = c->told.put + into;
	m->character = c->told.characters + completion_told_characters(text, into);
}

void completion_told_text(struct completion *c, const char *at, const char *text, size_t len)
{
	struct completion_told *t = &c->told;
	uint64_t from;

	if (!t->wanted)
		return;
	from = t->done + (at ? completion_told_size(c->in.data, (size_t)(at - c->in.data)) : 0);
	for (int i = 0; i < t->n && t->mark[i].from < from + len; i++)
		if (t->mark[i].what == COMPLETION_TOLD_OPEN && completion_told_end(&t->mark[i]) > from)
			completion_told_mark(c, &t->mark[i], from, text);
	if (c->reasoning && c->mode != COMPLETION_RAW)
		return;
	t->put += len;
	t->characters += completion_told_characters(text, len);
}

void completion_told_done(struct completion *c, size_t len)
{
	struct completion_told *t = &c->told;

	if (!t->wanted)
		return;
	t->done += completion_told_size(buf_str(&c->in), len);
	for (int i = 0; i < t->n; i++)
		if (t->mark[i].what == COMPLETION_TOLD_OPEN && completion_told_end(&t->mark[i]) <= t->done)
			t->mark[i].what = COMPLETION_TOLD_NOT;
}

void completion_told_raw(struct completion *c, size_t len)
{
	c->told.done += len;
}

/* In their order. What is content is told when it is sure to be none of a stop string. */
void completion_told_settle(struct completion *c, bool last)
{
	struct completion_told *t = &c->told;
	int i = 0;

	for (; i < t->n; i++) {
		struct completion_mark *m = &t->mark[i];
		struct completion_event ev = { .kind = COMPLETION_TOKEN, .told = m->what, .character = m->character };

		if (m->what == COMPLETION_TOLD_CONTENT && m->at >= t->out)
			ev.told = COMPLETION_TOLD_OPEN;
		if (ev.told == COMPLETION_TOLD_OPEN && !last && !c->stopped)
			break;
		if (ev.told == COMPLETION_TOLD_OPEN)
			ev.told = COMPLETION_TOLD_NOT;
		c->emit(c->arg, &ev);
	}
	t->n -= i;
	if (i && t->n)
		memmove(t->mark, t->mark + i, (size_t)t->n * sizeof *t->mark);
}
