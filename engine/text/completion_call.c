/* SPDX-License-Identifier: MIT
 * completion_call.c - inside a block of calls: names, parameters, and their values as streamed JSON.
 * Threads: one at a time per object. Locks: none. */
#include "engine/text/completion_priv.h"
#include "engine/text/pyjson.h"

#include <string.h>

static void completion_args(struct completion *c, const char *text, size_t len)
{
	if (len && !c->muted && !c->drop_value)
		completion_push(c, COMPLETION_TOOL_ARGS, text, len);
}

static void completion_args_escaped(struct completion *c, const char *text, size_t len)
{
	struct buf b = { 0 };

	pyjson_escape(text, len, &b);
	completion_args(c, buf_str(&b), b.len);
	buf_fini(&b);
}

static void completion_new_gap(struct completion *c)
{
	c->gap = 0;
	c->gap_lines = true;
}

/* A tag came after the gap; officially that is one line end, or two before a call without parameters ends. */
static void completion_end_gap(struct completion *c, const struct completion_tag *tag)
{
	bool none = c->state == COMPLETION_CALL && c->n_params == 0 && tag->close;

	if (!c->gap_lines || c->gap < 1 || c->gap > (none ? 2U : 1U) || tag->loose)
		c->flags |= COMPLETION_LOOSE;
	completion_new_gap(c);
}

static void completion_bad_call(struct completion *c)
{
	c->drop_value = false;
	if (!c->muted)
		c->flags |= COMPLETION_BAD_CALL;
	c->state = COMPLETION_SKIP;
}

static void completion_begin_call(struct completion *c, const struct completion_tag *tag)
{
	if (!c->names)
		c->names = json_object();
	json_object_clear(c->names);
	c->n_params = 0;
	c->state = COMPLETION_CALL;
	if (tag->n_name == 0) {
		completion_bad_call(c);
		return;
	}
	if (!c->muted) {
		c->n_begun++;
		completion_push(c, COMPLETION_TOOL_BEGIN, tag->name, tag->n_name);
	}
}

static void completion_end_call(struct completion *c)
{
	completion_args(c, "{}", c->n_params ? 0 : 2);
	completion_args(c, "}", c->n_params ? 1 : 0);
	if (!c->muted) {
		c->n_calls++;
		completion_push(c, COMPLETION_TOOL_END, "", 0);
	}
	c->state = COMPLETION_BLOCK;
}

static void completion_end_block(struct completion *c)
{
	c->state = COMPLETION_TEXT;
	c->tail = true;
	c->muted = false;
	c->block_done = c->n_begun > 0;
}

/* ---- values ---- */

static void completion_begin_value(struct completion *c, const struct completion_tag *tag)
{
	struct buf key = { 0 };

	buf_add(&key, tag->name, tag->n_name);
	c->drop_value = json_object_get(c->names, buf_str(&key)) != NULL;
	if (c->drop_value)
		c->flags |= COMPLETION_DUP_PARAM;
	json_object_set_new(c->names, buf_str(&key), json_true());
	completion_args(c, c->n_params ? ", \"" : "{\"", c->n_params ? 3 : 2);
	completion_args_escaped(c, buf_str(&key), key.len);
	completion_args(c, "\": \"", tag->string ? 4 : 3);
	buf_fini(&key);
	c->n_params += !c->drop_value;
	c->close_symbol = tag->symbol;
	c->state = tag->string ? COMPLETION_STRING : COMPLETION_JSON;
	c->scan = (struct jsonprefix){ 0 };
	buf_clear(&c->held);
}

/* The held value is no JSON: it becomes a JSON string, still open. */
static void completion_json_to_string(struct completion *c)
{
	c->flags |= COMPLETION_BAD_JSON;
	completion_args(c, "\"", 1);
	completion_args_escaped(c, buf_str(&c->held), c->held.len);
	buf_clear(&c->held);
	c->state = COMPLETION_STRING;
}

/* Up to the byte that no JSON can have there, whatever pieces the text comes in. */
static void completion_json_passed(struct completion *c, const char *text, size_t len)
{
	size_t good = 0;

	while (good < len && jsonprefix_put(&c->scan, text + good, 1))
		good++;
	completion_args(c, text, good);
	if (good < len)
		completion_bad_call(c);
}

/* Byte by byte or at once: what is decided depends on the bytes alone. */
static void completion_json(struct completion *c, const char *text, size_t len)
{
	size_t most = c->sure_json ? 0 : COMPLETION_HELD_JSON, room, n;

	if (c->state == COMPLETION_JSON_PASSED) {
		completion_json_passed(c, text, len);
		return;
	}
	room = most - c->held.len;
	n = len < room ? len : room;
	if (!jsonprefix_put(&c->scan, text, n)) {
		buf_add(&c->held, text, len);
		completion_json_to_string(c);
		return;
	}
	buf_add(&c->held, text, n);
	if (len <= room)
		return;
	completion_args(c, buf_str(&c->held), c->held.len);
	buf_clear(&c->held);
	c->state = COMPLETION_JSON_PASSED;
	completion_json_passed(c, text + n, len - n);
}

static void completion_value_bytes(struct completion *c, const char *text, size_t len)
{
	if (c->drop_value || len == 0 || c->state == COMPLETION_SKIP)
		return;
	if (c->state == COMPLETION_STRING)
		completion_args_escaped(c, text, len);
	else
		completion_json(c, text, len);
}

/* Markers in a value are text. */
static void completion_value_out(struct completion *c, const char *s, size_t len)
{
	size_t from = 0, i;

	for (i = 0; i < len; i++) {
		const char *text;

		if (!completion_is_symbol(s[i]))
			continue;
		text = completion_symbol_text(s[i]);
		completion_value_bytes(c, s + from, i - from);
		completion_value_bytes(c, text, strlen(text));
		from = i + 1;
	}
	completion_value_bytes(c, s + from, len - from);
}

static void completion_end_value(struct completion *c)
{
	if (!c->drop_value && c->state != COMPLETION_STRING && !jsonprefix_end(&c->scan)) {
		if (c->state == COMPLETION_JSON_PASSED) {
			completion_bad_call(c);
			return;
		}
		completion_json_to_string(c);
	}
	if (c->state == COMPLETION_STRING)
		completion_args(c, "\"", 1);
	else if (c->state == COMPLETION_JSON)
		completion_args(c, buf_str(&c->held), c->held.len);
	c->drop_value = false;
	c->state = COMPLETION_CALL;
}

/* Where the value's closing tag begins, or may begin; *ret_whole when its word is there. */
static size_t completion_find_close(const struct completion *c, const char *s, size_t len, bool *ret_whole)
{
	const char close[] = { '<', '/', c->close_symbol, 'p', 'a', 'r', 'a', 'm', 'e', 't', 'e', 'r' };
	size_t at = 0;

	*ret_whole = false;
	for (; at < len; at++) {
		const char *p = memchr(s + at, '<', len - at);
		size_t n;

		if (!p)
			return len;
		at = (size_t)(p - s);
		n = len - at < sizeof close ? len - at : sizeof close;
		if (memcmp(p, close, n) == 0) {
			*ret_whole = n == sizeof close;
			return at;
		}
	}
	return len;
}

static bool completion_value_step(struct completion *c, bool final)
{
	const char *s = c->in.data + c->pos;
	struct completion_tag tag;
	bool whole;
	size_t n = completion_find_close(c, s, c->in.len - c->pos, &whole);

	completion_value_out(c, s, n);
	c->pos += n;
	if (c->state == COMPLETION_SKIP)
		return true;
	if (!whole || completion_tag_read(s + n, c->in.len - c->pos, final, &tag) != COMPLETION_TAG)
		return false;
	c->pos += tag.size;
	if (tag.loose)
		c->flags |= COMPLETION_LOOSE;
	completion_end_value(c);
	completion_new_gap(c);
	return true;
}

/* ---- between values ---- */

static void completion_block_tag(struct completion *c, const struct completion_tag *tag)
{
	completion_end_gap(c, tag);
	if (!tag->close && tag->word == COMPLETION_W_INVOKE)
		completion_begin_call(c, tag);
	else if (tag->close && tag->word == COMPLETION_W_CALLS)
		completion_end_block(c);
	else
		c->flags |= COMPLETION_BAD_MARKUP;
}

static void completion_call_tag(struct completion *c, const struct completion_tag *tag)
{
	completion_end_gap(c, tag);
	if (!tag->close && tag->word == COMPLETION_W_PARAMETER) {
		completion_begin_value(c, tag);
	} else if (tag->close && tag->word == COMPLETION_W_INVOKE) {
		completion_end_call(c);
	} else if (tag->word == COMPLETION_W_INVOKE || (tag->close && tag->word == COMPLETION_W_CALLS)) {
		/* The call's own end is missing, but what follows shows that nothing was cut off. */
		c->flags |= COMPLETION_LOOSE;
		completion_end_call(c);
		completion_block_tag(c, tag);
	} else {
		completion_bad_call(c);
	}
}

/* Text where only tags may be. */
static void completion_stray_text(struct completion *c)
{
	if (c->state == COMPLETION_CALL) {
		completion_bad_call(c);
		return;
	}
	c->flags |= COMPLETION_BAD_MARKUP;
	c->state = COMPLETION_TEXT;
	c->tail = c->n_begun > 0;
	c->muted = false;
}

static bool completion_tags_step(struct completion *c, bool final)
{
	struct completion_tag tag;

	while (c->pos < c->in.len && strchr(" \n\r\t", c->in.data[c->pos]) && c->in.data[c->pos]) {
		c->gap_lines &= c->in.data[c->pos++] == '\n';
		c->gap++;
	}
	if (c->pos == c->in.len)
		return false;
	switch (completion_tag_read(c->in.data + c->pos, c->in.len - c->pos, final, &tag)) {
	case COMPLETION_TAG_MORE:
		return false;
	case COMPLETION_TAG_NONE:
		completion_stray_text(c);
		return true;
	case COMPLETION_TAG:
	default:
		c->pos += tag.size;
		if (c->state == COMPLETION_CALL)
			completion_call_tag(c, &tag);
		else
			completion_block_tag(c, &tag);
		return true;
	}
}

/* Looks for the next tag that ends or begins a call. */
static bool completion_skip_step(struct completion *c, bool final)
{
	const char *s = c->in.data + c->pos, *open = memchr(s, '<', c->in.len - c->pos);
	struct completion_tag tag;

	c->pos = open ? (size_t)(open - c->in.data) : c->in.len;
	if (!open)
		return false;
	switch (completion_tag_read(open, c->in.len - c->pos, final, &tag)) {
	case COMPLETION_TAG_MORE:
		return false;
	case COMPLETION_TAG_NONE:
		c->pos++;
		return true;
	case COMPLETION_TAG:
	default:
		c->pos += tag.size;
		completion_new_gap(c);
		if (tag.close && tag.word == COMPLETION_W_INVOKE)
			c->state = COMPLETION_BLOCK;
		else if (tag.close && tag.word == COMPLETION_W_CALLS)
			completion_end_block(c);
		else if (tag.word == COMPLETION_W_INVOKE)
			completion_begin_call(c, &tag);
		return true;
	}
}

bool completion_call_step(struct completion *c, bool final)
{
	switch (c->state) {
	case COMPLETION_STRING:
	case COMPLETION_JSON:
	case COMPLETION_JSON_PASSED:
		return completion_value_step(c, final);
	case COMPLETION_SKIP:
		return completion_skip_step(c, final);
	case COMPLETION_TEXT:
	case COMPLETION_BLOCK:
	case COMPLETION_CALL:
	default:
		return completion_tags_step(c, final);
	}
}
