/* SPDX-License-Identifier: MIT
 * anthropic_answer.c - answers of Anthropic's /v1/messages, whole and streamed.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/anthropic/anthropic_answer.h"
#include "api/http/sse.h"
#include "api/request/opaque.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

/* ---- what whole and streamed answers share ---- */

static json_t *anthropic_answer_text(const struct buf *b)
{
	return error_text(buf_str(b), b->len);
}

/* The three counts of input add up to the prompt. What is put into the cache is not counted by request. */
static json_t *anthropic_answer_usage(const struct gen_usage *u)
{
	json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:{s:i}}", "input_tokens", u->prompt_tokens - u->cached_tokens,
		"cache_creation_input_tokens", 0, "cache_read_input_tokens", u->cached_tokens,
		"output_tokens", u->completion_tokens, "output_tokens_details", "thinking_tokens", u->reasoning_tokens);

	must(o);
	return o;
}

static const char *anthropic_answer_reason(enum gen_finish f, const char *detail, int stop)
{
	if (f == GEN_TOOL_CALLS)
		return "tool_use";
	if (f == GEN_LENGTH)
		return !strcmp(detail, "context") ? "model_context_window_exceeded" : "max_tokens";
	return stop >= 0 ? "stop_sequence" : "end_turn";
}

/* {"stop_reason", "stop_sequence"} into o; and "stop_detail" of an answer that looped. */
static void anthropic_answer_stop(const struct anthropic_answer *a, json_t *o, enum gen_finish f, const char *detail,
	int stop)
{
	json_t *which = f == GEN_STOP && stop >= 0 ? json_array_get(a->stops, (size_t)stop) : NULL;

	must_zero(json_object_set_new(o, "stop_reason", json_string(anthropic_answer_reason(f, detail, stop))));
	must_zero(json_object_set_new(o, "stop_sequence", which ? json_incref(which) : json_null()));
	if (f == GEN_LENGTH && !strcmp(detail, "repetition"))
		must_zero(json_object_set_new(o, "stop_detail", json_string(detail)));
}

static json_t *anthropic_answer_message(const struct anthropic_answer *a, json_t *content, const struct gen_usage *u)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", a->id, "type", "message", "role",
		"assistant", "model", engine_model_name(a->engine), "content", content, "stop_reason", "stop_sequence",
		"usage", anthropic_answer_usage(u));

	must(o);
	return o;
}

static void anthropic_answer_sign(const struct anthropic_answer *a, const struct buf *thinking, struct buf *out)
{
	if (a->omit)
		opaque_hold(out, buf_str(thinking), thinking->len);
	else
		opaque_mark(out, buf_str(thinking), thinking->len);
}

/* ---- streamed ---- */

static void anthropic_answer_send(struct buf *out, json_t *event)
{
	must(event);
	sse_event(out, json_string_value(json_object_get(event, "type")), event);
}

static void anthropic_answer_begin(void *form, const struct gen_usage *usage, struct buf *out)
{
	struct anthropic_answer *a = form;

	anthropic_answer_send(out, json_pack("{s:s, s:o}", "type", "message_start", "message",
		anthropic_answer_message(a, json_array(), usage)));
	anthropic_answer_send(out, json_pack("{s:s}", "type", "ping"));
}

static void anthropic_answer_quiet(void *form, struct buf *out)
{
	(void)form;
	anthropic_answer_send(out, json_pack("{s:s}", "type", "ping"));
}

/* Takes over `value`. */
static void anthropic_answer_delta(struct anthropic_answer *a, const char *type, const char *key, json_t *value,
	struct buf *out)
{
	anthropic_answer_send(out, json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index",
		a->index, "delta", "type", type, key, value));
}

static void anthropic_answer_close(struct anthropic_answer *a, struct buf *out)
{
	struct buf signature = { 0 };

	if (a->block == ANTHROPIC_NONE)
		return;
	if (a->block == ANTHROPIC_THINKING) {
		anthropic_answer_sign(a, &a->thinking, &signature);
		anthropic_answer_delta(a, "signature_delta", "signature", anthropic_answer_text(&signature), out);
		buf_fini(&signature);
		buf_clear(&a->thinking);
	}
	anthropic_answer_send(out, json_pack("{s:s, s:i}", "type", "content_block_stop", "index", a->index));
	a->block = ANTHROPIC_NONE;
	a->index++;
}

/* Ends the block so far and begins another; takes over `block`. */
static void anthropic_answer_open(struct anthropic_answer *a, enum anthropic_block kind, json_t *block, struct buf *out)
{
	must(block);
	anthropic_answer_close(a, out);
	a->block = kind;
	anthropic_answer_send(out, json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", a->index,
		"content_block", block));
}

static void anthropic_answer_reasoning(struct anthropic_answer *a, const struct gen_event *ev, struct buf *out)
{
	if (a->block != ANTHROPIC_THINKING)
		anthropic_answer_open(a, ANTHROPIC_THINKING,
			json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""), out);
	buf_add(&a->thinking, ev->text, ev->len);
	if (!a->omit)
		anthropic_answer_delta(a, "thinking_delta", "thinking", error_text(ev->text, ev->len), out);
}

static void anthropic_answer_content(struct anthropic_answer *a, const struct gen_event *ev, struct buf *out)
{
	if (a->block != ANTHROPIC_TEXT)
		anthropic_answer_open(a, ANTHROPIC_TEXT, json_pack("{s:s, s:s}", "type", "text", "text", ""), out);
	anthropic_answer_delta(a, "text_delta", "text", error_text(ev->text, ev->len), out);
}

/* A call that has no end must not look like one: no input at all means {} to clients. */
static void anthropic_answer_spoil(struct anthropic_answer *a, struct buf *out)
{
	json_t *v;

	if (a->block != ANTHROPIC_TOOL)
		return;
	v = json_loadb(buf_str(&a->input), a->input.len, JSON_ALLOW_NUL, NULL);
	if (v || !a->input.len)
		anthropic_answer_delta(a, "input_json_delta", "partial_json", json_string("{"), out);
	json_decref(v);
}

static void anthropic_answer_call(struct anthropic_answer *a, const struct gen_event *ev, struct buf *out)
{
	anthropic_answer_spoil(a, out); /* of one before it that did not end */
	buf_clear(&a->input);
	anthropic_answer_open(a, ANTHROPIC_TOOL, json_pack("{s:s, s:s, s:o, s:{}}", "type", "tool_use", "id",
		ev->tool_id ? ev->tool_id : "", "name", error_text(ev->text, ev->len), "input"), out);
}

static void anthropic_answer_finish(struct anthropic_answer *a, const struct gen_event *ev,
	const struct gen_usage *usage, struct buf *out)
{
	json_t *delta = json_object();

	anthropic_answer_spoil(a, out);
	anthropic_answer_close(a, out);
	anthropic_answer_stop(a, delta, ev->finish, ev->text ? ev->text : "", ev->stop);
	anthropic_answer_send(out, json_pack("{s:s, s:o, s:o}", "type", "message_delta", "delta", delta, "usage",
		anthropic_answer_usage(usage)));
}

static void anthropic_answer_event(void *form, int choice, const struct gen_event *ev, const struct gen_usage *usage,
	struct buf *out)
{
	struct anthropic_answer *a = form;

	must_zero(choice);
	switch (ev->kind) {
	case GEN_EV_REASONING: anthropic_answer_reasoning(a, ev, out); break;
	case GEN_EV_CONTENT: anthropic_answer_content(a, ev, out); break;
	case GEN_EV_TOOL_BEGIN: anthropic_answer_call(a, ev, out); break;
	case GEN_EV_TOOL_ARGS:
		buf_add(&a->input, ev->text, ev->len);
		anthropic_answer_delta(a, "input_json_delta", "partial_json", error_text(ev->text, ev->len), out);
		break;
	case GEN_EV_TOOL_END: anthropic_answer_close(a, out); break;
	case GEN_EV_LOGPROB: break;
	case GEN_EV_FINISH: anthropic_answer_finish(a, ev, usage, out); break;
	}
}

static void anthropic_answer_end(void *form, const struct gen_usage *usage, struct buf *out)
{
	(void)form;
	(void)usage;
	anthropic_answer_send(out, json_pack("{s:s}", "type", "message_stop"));
}

static void anthropic_answer_fail(void *form, const struct error *err, struct buf *out)
{
	struct anthropic_answer *a = form;

	anthropic_answer_send(out, error_json_messages(err, a->id));
}

/* ---- whole ---- */

static json_t *anthropic_answer_thinking(const struct anthropic_answer *a, const struct buf *thinking)
{
	struct buf signature = { 0 };
	json_t *block;

	anthropic_answer_sign(a, thinking, &signature);
	block = json_pack("{s:s, s:o, s:o}", "type", "thinking", "thinking",
		a->omit ? json_string("") : anthropic_answer_text(thinking), "signature",
		anthropic_answer_text(&signature));
	buf_fini(&signature);
	return block;
}

/* Numbers that JSON's readers here cannot hold (1e999) leave only the text. */
static json_t *anthropic_answer_input(const struct buf *arguments)
{
	json_t *v = json_loadb(buf_str(arguments), arguments->len, JSON_ALLOW_NUL, NULL);

	if (json_is_object(v))
		return v;
	json_decref(v);
	return json_pack("{s:o}", "arguments", anthropic_answer_text(arguments));
}

static json_t *anthropic_answer_use(const struct collect_call *call)
{
	return json_pack("{s:s, s:s, s:o, s:o}", "type", "tool_use", "id", call->id, "name",
		error_text(call->name, strlen(call->name)), "input", anthropic_answer_input(&call->arguments));
}

static json_t *anthropic_answer_block(const struct anthropic_answer *a, const struct collect *c,
	const struct collect_part *p)
{
	const struct buf *all = p->kind == GEN_EV_REASONING ? &c->reasoning : &c->content;
	struct buf piece = { .len = p->len };

	if (p->kind == GEN_EV_TOOL_END)
		return anthropic_answer_use(&c->call[p->call]);
	piece.data = all->data + p->from;
	if (p->kind == GEN_EV_REASONING)
		return anthropic_answer_thinking(a, &piece);
	return json_pack("{s:s, s:o}", "type", "text", "text", error_text(piece.data, piece.len));
}

static json_t *anthropic_answer_reply(void *form, const struct collect *c, int n, const struct gen_usage *usage)
{
	struct anthropic_answer *a = form;
	json_t *content = json_array(), *block, *o;

	must(n == 1);
	for (int i = 0; i < c->n_parts; i++) {
		block = anthropic_answer_block(a, c, &c->part[i]);
		must(block);
		must_zero(json_array_append_new(content, block));
	}
	o = anthropic_answer_message(a, content, usage);
	anthropic_answer_stop(a, o, c->finish, buf_str(&c->detail), c->stop);
	return o;
}

static void anthropic_answer_free(void *form)
{
	struct anthropic_answer *a = form;

	json_decref(a->stops);
	buf_fini(&a->thinking);
	buf_fini(&a->input);
	free(a);
}

const struct answer_form anthropic_answer_form = {
	anthropic_answer_begin, anthropic_answer_event, anthropic_answer_end, anthropic_answer_fail,
	anthropic_answer_quiet, anthropic_answer_reply, anthropic_answer_free,
};
