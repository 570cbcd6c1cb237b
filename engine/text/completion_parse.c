/* SPDX-License-Identifier: MIT
 * completion_parse.c - the text states: reasoning, content, and where a block of calls begins.
 * Threads: one at a time per object. Locks: none. */
#include "engine/text/completion_priv.h"

#include <string.h>

/* The white space that the official format has before a block. */
#define COMPLETION_BLOCK_LINES 2

/* `at`: where in c->in it stands. */
static void completion_text_out(struct completion *c, const char *at, const char *text, size_t len)
{
	if (c->tail) {
		size_t space = 0;

		while (space < len && strchr(" \n\r\t", text[space]) && text[space])
			space++;
		if (space)
			c->flags |= COMPLETION_LOOSE;
		text += space;
		at += space; /* text that begins with some is its own place */
		len -= space;
		if (len) {
			c->flags |= COMPLETION_TEXT_AFTER_CALL;
			c->tail = false;
		}
	}
	if (len)
		completion_told_text(c, at, text, len);
	if (len)
		completion_push(c, c->reasoning ? COMPLETION_REASONING : COMPLETION_CONTENT, text, len);
}

/* A marker of another kind than DSML. */
static void completion_marker(struct completion *c, char symbol)
{
	bool expected = false;

	switch ((unsigned char)symbol) {
	case COMPLETION_SYM_UNTHINK:
		expected = c->reasoning;
		c->reasoning = false;
		break;
	case COMPLETION_SYM_THINK:
		c->reasoning = true;
		break;
	default:
		c->flags |= COMPLETION_CONTROL;
		return;
	}
	if (!expected)
		c->flags |= COMPLETION_STRAY_MARKER;
}

static size_t completion_lines_before(const char *s, size_t at)
{
	size_t n = 0;

	while (n < COMPLETION_BLOCK_LINES && n < at && s[at - n - 1] == '\n')
		n++;
	return n;
}

/* Bytes at the end of s that may begin a block: line ends, then "<" or "</". */
static size_t completion_held_text(const char *s, size_t len)
{
	size_t n = 0;

	if (len >= 1 && s[len - 1] == '<')
		n = 1;
	else if (len >= 2 && s[len - 1] == '/' && s[len - 2] == '<')
		n = 2;
	return n + completion_lines_before(s, len - n);
}

static size_t completion_tag_start(const char *s, size_t symbol)
{
	if (symbol >= 1 && s[symbol - 1] == '<')
		return symbol - 1;
	if (symbol >= 2 && s[symbol - 1] == '/' && s[symbol - 2] == '<')
		return symbol - 2;
	return symbol;
}

void completion_begin_block(struct completion *c, const struct completion_tag *tag)
{
	if (c->reasoning)
		c->flags |= COMPLETION_CALL_IN_THINK;
	if (c->block_done)
		c->flags |= COMPLETION_SECOND_BLOCK;
	if (tag->loose)
		c->flags |= COMPLETION_LOOSE;
	if (c->no_tools)
		c->flags |= COMPLETION_UNOFFERED_CALL;
	c->muted = c->block_done || c->no_tools;
	c->state = COMPLETION_BLOCK;
	c->gap = 0;
	c->gap_lines = true;
}

/* Text with a DSML marker at s[symbol]. */
static bool completion_text_tag(struct completion *c, const char *s, size_t len, size_t symbol, bool final)
{
	size_t start = completion_tag_start(s, symbol), lines;
	struct completion_tag tag;
	enum completion_tag_result res;

	if (start == symbol && (unsigned char)s[symbol] != COMPLETION_SYM_DSML) {
		const char *text = completion_symbol_text(s[symbol]);

		completion_text_out(c, s, s, symbol);
		completion_text_out(c, s + symbol, text, strlen(text));
		c->pos += symbol + 1;
		return true;
	}
	lines = completion_lines_before(s, start);
	res = completion_tag_read(s + start, len - start, final, &tag);
	if (res == COMPLETION_TAG_MORE) {
		completion_text_out(c, s, s, start - lines);
		c->pos += start - lines;
		if (final) {
			c->flags |= COMPLETION_CUT_CALL;
			c->pos = c->in.len;
		}
		return false;
	}
	if (!tag.close && tag.word == COMPLETION_W_CALLS) {
		completion_text_out(c, s, s, start - lines);
		completion_begin_block(c, &tag);
		c->pos += start + tag.size;
	} else if (!tag.close && tag.word == COMPLETION_W_INVOKE) {
		/* The outer tag is missing: the block begins here, and its first step reads this tag. */
		completion_text_out(c, s, s, start - lines);
		tag.loose = true;
		completion_begin_block(c, &tag);
		c->pos += start;
	} else {
		completion_text_out(c, s, s, start);
		c->flags |= COMPLETION_BAD_MARKUP;
		c->pos += start + tag.size;
	}
	if (lines != COMPLETION_BLOCK_LINES)
		c->flags |= COMPLETION_LOOSE;
	return true;
}

static bool completion_text_step(struct completion *c, bool final)
{
	const char *s = c->in.data + c->pos;
	size_t len = c->in.len - c->pos, at = 0, keep;

	while (at < len && !completion_is_symbol(s[at]))
		at++;
	if (at < len && completion_is_dsml(s[at]))
		return completion_text_tag(c, s, len, at, final);
	if (at < len) {
		completion_text_out(c, s, s, at);
		completion_marker(c, s[at]);
		c->pos += at + 1;
		return true;
	}
	keep = final ? 0 : completion_held_text(s, len);
	completion_text_out(c, s, s, len - keep);
	c->pos += len - keep;
	return false;
}

void completion_parse(struct completion *c, bool final)
{
	bool more = true;

	while (more && c->pos < c->in.len && !c->stopped)
		more = c->state == COMPLETION_TEXT ? completion_text_step(c, final) :
			completion_call_step(c, final);
	completion_told_done(c, c->pos);
	buf_drop(&c->in, c->pos);
	c->pos = 0;
}
