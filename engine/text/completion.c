/* SPDX-License-Identifier: MIT
 * completion.c - the completion parser as an object: tokens in, events out, the verdict at the end.
 * Threads: one at a time per object (the engine thread). Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/text/completion_priv.h"

#include <stdlib.h>
#include <string.h>

int completion_new(const struct completion_options *o, struct completion **ret_c, struct buf *why)
{
	struct completion *c = mem_new(sizeof *c);
	int rc = stop_match_new(o->stop, o->n_stop, &c->stop, why);

	if (rc) {
		free(c);
		return rc;
	}
	c->mode = o->mode;
	c->emit = o->emit;
	c->arg = o->arg;
	c->lex.spelled = o->spelled;
	c->lex.tokens_only = o->tokens_only;
	c->no_tools = o->no_tools;
	c->sure_json = o->sure_json;
	c->told.wanted = o->tell;
	c->reasoning = o->mode == COMPLETION_THINKING;
	*ret_c = c;
	return 0;
}

void completion_free(struct completion **c)
{
	struct completion *x = *c;

	if (!x)
		return;
	stop_match_free(&x->stop);
	buf_fini(&x->in);
	buf_fini(&x->out);
	buf_fini(&x->held);
	json_decref(x->names);
	free(x->told.mark);
	free(x);
	*c = NULL;
}

bool completion_in_reasoning(const struct completion *c)
{
	return c->reasoning && c->state == COMPLETION_TEXT;
}

/* ---- events ---- */

static void completion_event(struct completion *c, enum completion_kind kind, const char *text, size_t len)
{
	struct completion_event ev = { .kind = kind, .text = text, .len = len };

	if (kind >= COMPLETION_TOOL_BEGIN)
		ev.call = c->n_begun - 1;
	if (len || kind == COMPLETION_TOOL_END)
		c->emit(c->arg, &ev);
}

static void completion_flush(struct completion *c)
{
	completion_told_settle(c, false);
	completion_event(c, c->out_kind, buf_str(&c->out), c->out.len);
	buf_clear(&c->out);
}

/* Content that can be no stop string any more. */
static void completion_release(struct completion *c)
{
	size_t before = c->out.len;

	stop_match_flush(c->stop, &c->out);
	c->told.out += c->out.len - before;
}

/* Ends the run of text before an event of another kind. Content that is interrupted can no longer become a
 * stop string. */
static void completion_out_kind(struct completion *c, enum completion_kind kind)
{
	if (c->out_kind == kind)
		return;
	if (c->out_kind == COMPLETION_CONTENT)
		completion_release(c);
	completion_flush(c);
	c->out_kind = kind;
}

void completion_push(struct completion *c, enum completion_kind kind, const char *text, size_t len)
{
	if (c->stopped)
		return;
	if (kind == COMPLETION_TOOL_BEGIN || kind == COMPLETION_TOOL_END) {
		/* A call's index changes with its beginning, so nothing of the one before may be left. */
		completion_flush(c);
		completion_out_kind(c, COMPLETION_TOOL_ARGS);
		completion_event(c, kind, text, len);
		return;
	}
	completion_out_kind(c, kind);
	if (kind == COMPLETION_CONTENT) {
		size_t before = c->out.len;

		c->any_content = true;
		c->stopped = stop_match_put(c->stop, text, len, &c->out);
		c->told.out += c->out.len - before;
		c->stop_flags = c->flags;
	} else {
		c->any_reasoning |= kind == COMPLETION_REASONING;
		buf_add(&c->out, text, len);
	}
}

/* ---- tokens ---- */

/* Role markers and their like: added tokens whose text is set in bars. */
static bool completion_is_control(const struct completion_token *t)
{
	static const struct { const char *begin, *end; } bars[] = { { "<｜", "｜>" }, { "<|", "|>" } };
	size_t i;

	for (i = 0; i < mem_countof(bars); i++) {
		size_t b = strlen(bars[i].begin), e = strlen(bars[i].end);

		if (t->len >= b + e && memcmp(t->bytes, bars[i].begin, b) == 0 &&
			memcmp(t->bytes + t->len - e, bars[i].end, e) == 0)
			return true;
	}
	return false;
}

/* False: it is dropped. */
static bool completion_put_added(struct completion *c, const struct completion_token *t)
{
	int symbol = completion_lex_token(t->bytes, t->len);

	completion_lex_flush(&c->lex, &c->in);
	completion_told_from(c);
	if (symbol) {
		buf_addc(&c->in, (char)symbol);
		return true;
	}
	/* What came before decides whether this one stands in text or in a value. */
	completion_parse(c, false);
	if (t->special || (completion_is_control(t) && c->state == COMPLETION_TEXT)) {
		c->flags |= COMPLETION_CONTROL;
		return false;
	}
	completion_lex_text(&c->lex, t->bytes, t->len, &c->in);
	return true;
}

static void completion_raw_text(struct completion *c, const struct buf *text)
{
	if (!text->len)
		return;
	completion_told_text(c, NULL, text->data, text->len);
	completion_push(c, COMPLETION_CONTENT, text->data, text->len);
	completion_told_raw(c, text->len);
}

static void completion_put_raw(struct completion *c, const struct completion_token *t)
{
	struct buf text = { 0 };

	if (t->special) {
		completion_told_to(c, false);
		return;
	}
	utf8_stream_put(&c->lex.utf8, t->bytes, t->len, &text);
	completion_raw_text(c, &text);
	buf_fini(&text);
}

bool completion_put(struct completion *c, const struct completion_token *t)
{
	must(!c->ended);
	if (c->stopped)
		return true;
	completion_told_begin(c, t);
	if (c->mode == COMPLETION_RAW) {
		completion_put_raw(c, t);
	} else {
		bool any = t->added ? completion_put_added(c, t) : true;

		if (!t->added)
			completion_lex_text(&c->lex, t->bytes, t->len, &c->in);
		completion_told_to(c, any);
		completion_parse(c, false);
	}
	completion_flush(c);
	return c->stopped;
}

/* ---- the end ---- */

void completion_remarks(unsigned flags, struct buf *out)
{
	static const char *const names[] = {
#define X(flag, name, text) name,
		COMPLETION_FLAGS(X)
#undef X
	};
	const char *sep = "";
	size_t i;

	for (i = 0; i < mem_countof(names); i++) {
		if (!(flags >> i & 1))
			continue;
		buf_printf(out, "%s%s", sep, names[i]);
		sep = ",";
	}
}

static void completion_end_raw(struct completion *c)
{
	struct buf text = { 0 };

	utf8_stream_end(&c->lex.utf8, &text);
	completion_raw_text(c, &text);
	buf_fini(&text);
}

static void completion_end_parsed(struct completion *c)
{
	const char *last = c->in.len ? c->in.data + c->in.len - 1 : "";

	/* "<" and half a DSML marker are a tag that was cut, not text. */
	if ((*last == '<' || *last == '/') && completion_lex_cut(&c->lex, &c->in))
		buf_addc(&c->in, (char)COMPLETION_SYM_DSML_ASCII);
	completion_lex_flush(&c->lex, &c->in);
	completion_parse(c, true);
	if (c->reasoning)
		c->flags |= COMPLETION_OPEN_THINK;
	if (c->state == COMPLETION_BLOCK && !c->no_tools)
		c->flags |= c->in.len > c->pos ? COMPLETION_CUT_CALL : COMPLETION_OPEN_BLOCK;
	else if (c->state != COMPLETION_TEXT && c->state != COMPLETION_BLOCK && !c->muted)
		c->flags |= COMPLETION_CUT_CALL;
}

/* How it ended: the first row that holds. */
static enum gen_finish completion_finish(const struct completion *c, enum completion_why why,
	const char **ret_detail)
{
	bool eos = why == COMPLETION_EOS, incomplete = c->flags & (COMPLETION_CUT_CALL | COMPLETION_BAD_CALL);
	bool unoffered = c->flags & COMPLETION_UNOFFERED_CALL;
	const struct {
		bool holds;
		enum gen_finish finish;
		const char *detail;
	} rows[] = {
		{ why == COMPLETION_CANCELLED, GEN_CANCELLED, "cancelled" },
		{ c->stopped, GEN_STOP, "stop_string" },
		{ why == COMPLETION_REPETITION, GEN_LENGTH, "repetition" },
		{ unoffered && eos, GEN_STOP, "tool_call_without_tools" },
		{ incomplete, eos ? GEN_STOP : GEN_LENGTH, "incomplete_tool_call" },
		{ why == COMPLETION_CONTEXT, GEN_LENGTH, "context" },
		{ why == COMPLETION_MAX_TOKENS, GEN_LENGTH, "max_tokens" },
		{ c->n_calls > 0, GEN_TOOL_CALLS, "tool_calls" },
		{ c->any_content, GEN_STOP, "eos" },
		{ c->any_reasoning, GEN_STOP, "only_reasoning" },
		{ true, GEN_STOP, "empty" },
	};
	size_t i = 0;

	while (!rows[i].holds)
		i++;
	*ret_detail = rows[i].detail;
	return rows[i].finish;
}

void completion_end(struct completion *c, enum completion_why why, struct completion_verdict *ret_v)
{
	must(!c->ended);
	c->ended = true;
	if (!c->stopped) {
		if (c->mode == COMPLETION_RAW)
			completion_end_raw(c);
		else
			completion_end_parsed(c);
		if (c->out_kind == COMPLETION_CONTENT && !c->stopped)
			completion_release(c);
	}
	completion_told_settle(c, true);
	completion_flush(c);
	if (why != COMPLETION_EOS && !c->stopped)
		c->flags |= COMPLETION_NO_END;
	ret_v->finish = completion_finish(c, why, &ret_v->detail);
	ret_v->n_calls = c->n_calls;
	ret_v->stop = c->stopped ? stop_match_found(c->stop) : -1;
	ret_v->flags = c->stopped ? c->stop_flags : c->flags;
}
