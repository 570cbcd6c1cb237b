/* SPDX-License-Identifier: MIT
 * play.c - plays a text to the completion parser, by tokens and in chunks, and writes down what comes of it.
 * Threads: the test's own. Locks: none. */
#include "tests/unit/play.h"
#include "engine/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tokenizer *play_tok;

const struct play play_chat = { .mode = COMPLETION_CHAT }, play_thinking = { .mode = COMPLETION_THINKING };
const struct play play_chat_cut = { .mode = COMPLETION_CHAT, .why = COMPLETION_MAX_TOKENS };

/* Whole ones: the text does not begin with a continuation byte, and the last character has all of its own. */
static void play_check_characters(const unsigned char *s, size_t len)
{
	size_t i = len, want;

	assert_true((s[0] & 0xc0) != 0x80);
	while (i > 0 && (s[i - 1] & 0xc0) == 0x80)
		i--;
	assert_true(i > 0);
	want = s[i - 1] < 0x80 ? 1 : s[i - 1] < 0xe0 ? 2 : s[i - 1] < 0xf0 ? 3 : 4;
	assert_int_equal(len - i + 1, want);
}

void play_event(void *arg, const struct completion_event *ev)
{
	static const char letters[] = "RCBAE";
	struct play_trace *t = arg;

	if (ev->len)
		play_check_characters((const unsigned char *)ev->text, ev->len);
	else
		assert_int_equal(ev->kind, COMPLETION_TOOL_END);
	if (t->n_events++ && t->kind == ev->kind && ev->kind != COMPLETION_TOOL_BEGIN)
		t->text.data[--t->text.len] = '\0';
	else
		buf_printf(&t->text, "%c(", letters[ev->kind]);
	buf_add(&t->text, ev->text, ev->len);
	buf_addc(&t->text, ')');
	t->kind = ev->kind;
}

static void play_tokens(struct completion *c, const char *text)
{
	struct token_ids ids = { 0 };
	int i;

	tokenizer_encode(play_tok, text, strlen(text), true, &ids);
	for (i = 0; i < ids.n; i++) {
		struct completion_token t = { .added = tokenizer_is_added(play_tok, ids.id[i]),
			.special = tokenizer_is_special(play_tok, ids.id[i]) };

		t.bytes = tokenizer_bytes(play_tok, ids.id[i], &t.len);
		if (completion_put(c, &t))
			break;
	}
	token_ids_fini(&ids);
}

static void play_chunks(struct completion *c, const char *text, size_t chunk)
{
	size_t len = strlen(text), i;

	for (i = 0; i < len; i += chunk) {
		struct completion_token t = { .bytes = text + i, .len = len - i < chunk ? len - i : chunk };

		if (completion_put(c, &t))
			break;
	}
}

void play_run(const struct play *p, const char *text, struct play_trace *ret_t, struct completion_verdict *ret_v)
{
	struct completion_options o = { .mode = p->mode, .stop = p->stop, .n_stop = p->n_stop,
		.spelled = p->spelled, .no_tools = p->no_tools, .emit = play_event, .arg = ret_t };
	struct completion *c = NULL;

	buf_clear(&ret_t->text);
	ret_t->n_events = 0;
	assert_int_equal(completion_new(&o, &c, NULL), 0);
	if (p->chunk)
		play_chunks(c, text, p->chunk);
	else
		play_tokens(c, text);
	completion_end(c, p->why, ret_v);
	completion_free(&c);
}

void play_expect(struct play p, const char *text, const char *want, const char *detail, unsigned flags)
{
	struct completion_verdict v;
	struct play_trace t = { 0 };

	for (p.chunk = 0; p.chunk < 12; p.chunk++) {
		p.spelled = p.chunk > 0;
		play_run(&p, text, &t, &v);
		assert_string_equal(buf_str(&t.text), want);
		assert_string_equal(v.detail, detail);
		assert_int_equal(v.flags, flags);
	}
	buf_fini(&t.text);
}

int play_setup(void **state)
{
	struct buf path = { 0 };
	int rc;

	(void)state;
	buf_printf(&path, "%s/etc/tiny/tokenizer.json", getenv("top_srcdir") ? getenv("top_srcdir") : ".");
	rc = tokenizer_open(buf_str(&path), &play_tok, NULL);
	buf_fini(&path);
	return rc;
}

int play_teardown(void **state)
{
	(void)state;
	tokenizer_free(&play_tok);
	return 0;
}
