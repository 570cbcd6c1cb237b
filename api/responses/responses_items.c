/* SPDX-License-Identifier: MIT
 * responses_items.c - output items of OpenAI's /v1/responses, made of events one after the other.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/http/sse.h"
#include "api/request/opaque.h"
#include "api/responses/responses_answer.h"
#include "engine/base/hexid.h"
#include "engine/base/must.h"

#include <string.h>

/* How the text of an item is told: the names of its events, and of its part. Index 1 of reasoning is its summary. */
static const struct responses_items_kind {
	const char *part_added, *delta, *done, *part_done; /* no part: NULL */
	const char *index;                                 /* the part's index */
	const char *part, *text;                           /* its type; what `done` calls the text */
} responses_items_kinds[] = {
	{ "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
	  "response.content_part.done", "content_index", "reasoning_text", "text" },
	{ "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
	  "response.reasoning_summary_text.done", "response.reasoning_summary_part.done", "summary_index",
	  "summary_text", "text" },
	{ "response.content_part.added", "response.output_text.delta", "response.output_text.done",
	  "response.content_part.done", "content_index", "output_text", "text" },
	{ NULL, "response.function_call_arguments.delta", "response.function_call_arguments.done", NULL, NULL, NULL,
	  "arguments" },
	{ NULL, "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", NULL, NULL, NULL,
	  "input" },
};
enum { KIND_REASONING, KIND_SUMMARY, KIND_TEXT, KIND_FUNCTION, KIND_CUSTOM };

void responses_items_send(struct responses_answer *a, struct buf *out, json_t *event)
{
	must(event);
	if (!out) {
		json_decref(event);
		return;
	}
	must_zero(json_object_set_new(event, "sequence_number", json_integer(a->sequence++)));
	sse_event(out, json_string_value(json_object_get(event, "type")), event);
}

/* ---- the open item ---- */

static bool responses_items_custom(const struct responses_answer *a)
{
	return !strcmp(json_string_value(json_object_get(a->item, "type")), "custom_tool_call");
}

static const struct responses_items_kind *responses_items_kind(const struct responses_answer *a)
{
	if (a->kind == GEN_EV_REASONING)
		return &responses_items_kinds[a->summary ? KIND_SUMMARY : KIND_REASONING];
	if (a->kind == GEN_EV_CONTENT)
		return &responses_items_kinds[KIND_TEXT];
	return &responses_items_kinds[responses_items_custom(a) ? KIND_CUSTOM : KIND_FUNCTION];
}

static json_t *responses_items_text(const struct responses_answer *a)
{
	return error_text(buf_str(&a->text), a->text.len);
}

/* An event about the open item. */
static json_t *responses_items_about(const struct responses_answer *a, const char *type)
{
	const struct responses_items_kind *k = responses_items_kind(a);
	json_t *e = json_pack("{s:s, s:O, s:i}", "type", type, "item_id", json_object_get(a->item, "id"),
		"output_index",
		a->index);

	must(e);
	if (k->index)
		must_zero(json_object_set_new(e, k->index, json_integer(0)));
	return e;
}

/* The part of the open item with the text so far. */
static json_t *responses_items_part(const struct responses_answer *a)
{
	json_t *part = json_pack("{s:s, s:o}", "type", responses_items_kind(a)->part, "text", responses_items_text(a));

	must(part);
	if (a->kind == GEN_EV_CONTENT) {
		must_zero(json_object_set_new(part, "annotations", json_array()));
		must_zero(json_object_set_new(part, "logprobs", json_array()));
	}
	return part;
}

static void responses_items_tell_part(struct responses_answer *a, const char *type, struct buf *out)
{
	json_t *e;

	if (!type || !out)
		return;
	e = responses_items_about(a, type);
	must_zero(json_object_set_new(e, "part", responses_items_part(a)));
	responses_items_send(a, out, e);
}

static void responses_items_tell(struct responses_answer *a, const char *type, struct buf *out)
{
	responses_items_send(a, out, json_pack("{s:s, s:i, s:O}", "type", type, "output_index", a->index, "item",
		a->item));
}

/* Begins an item; takes over it. */
static void responses_items_open(struct responses_answer *a, enum gen_event_kind kind, const char *prefix, json_t *item,
	struct buf *out)
{
	char id[48];

	must(item && !a->item);
	hexid_make(id, sizeof id, prefix);
	must_zero(json_object_set_new(item, "id", json_string(id)));
	must_zero(json_object_set_new(item, "status", json_string("in_progress")));
	a->item = item;
	a->kind = kind;
	buf_clear(&a->text);
	responses_items_tell(a, "response.output_item.added", out);
	responses_items_tell_part(a, responses_items_kind(a)->part_added, out);
}

/* `piece` is what came of the text; takes over it. */
static void responses_items_delta(struct responses_answer *a, json_t *piece, struct buf *out)
{
	json_t *e;

	if (!out) {
		json_decref(piece);
		return;
	}
	e = responses_items_about(a, responses_items_kind(a)->delta);
	must_zero(json_object_set_new(e, "delta", piece));
	if (a->kind == GEN_EV_CONTENT)
		must_zero(json_object_set_new(e, "logprobs", json_array()));
	responses_items_send(a, out, e);
}

/* ---- what an item is in the end ---- */

static void responses_items_fill_reasoning(struct responses_answer *a)
{
	struct buf token = { 0 };
	json_t *parts = json_pack("[o]", responses_items_part(a));

	must(parts);
	must_zero(json_object_set_new(a->item, a->summary ? "summary" : "content", parts));
	if (a->encrypted) {
		opaque_hold(&token, buf_str(&a->text), a->text.len);
		must_zero(json_object_set_new(a->item, "encrypted_content", json_string(buf_str(&token))));
		buf_fini(&token);
	}
}

/* A custom tool's function has one string, which is the tool's input. Tells what there is of it beyond `from`. */
static void responses_items_input(struct responses_answer *a, size_t from, struct buf *out)
{
	if (a->text.len > from)
		responses_items_delta(a, error_text(a->text.data + from, a->text.len - from), out);
}

static void responses_items_fill(struct responses_answer *a)
{
	if (a->kind == GEN_EV_REASONING)
		responses_items_fill_reasoning(a);
	else if (a->kind == GEN_EV_CONTENT)
		must_zero(json_object_set_new(a->item, "content", json_pack("[o]", responses_items_part(a))));
	else
		must_zero(json_object_set_new(a->item, responses_items_kind(a)->text, responses_items_text(a)));
}

static void responses_items_done(struct responses_answer *a, const char *status, struct buf *out)
{
	const struct responses_items_kind *k;
	json_t *e;

	must(a->item);
	k = responses_items_kind(a);
	if (a->kind == GEN_EV_TOOL_ARGS && responses_items_custom(a)) {
		size_t from = a->text.len;

		unwrap_end(&a->input, &a->text);
		responses_items_input(a, from, out);
	}
	e = responses_items_about(a, k->done);
	must_zero(json_object_set_new(e, k->text, responses_items_text(a)));
	if (a->kind == GEN_EV_CONTENT)
		must_zero(json_object_set_new(e, "logprobs", json_array()));
	if (k == &responses_items_kinds[KIND_FUNCTION])
		must_zero(json_object_set(e, "name", json_object_get(a->item, "name")));
	responses_items_send(a, out, e);
	responses_items_tell_part(a, k->part_done, out);
	must_zero(json_object_set_new(a->item, "status", json_string(status)));
	responses_items_fill(a);
	responses_items_tell(a, "response.output_item.done", out);
	must_zero(json_array_append_new(a->output, a->item));
	a->item = NULL;
	a->index++;
}

/* Text ends where something else begins; a call that did not end by itself was never one. */
static void responses_items_close(struct responses_answer *a, const char *status, struct buf *out)
{
	if (!a->item)
		return;
	if (a->kind != GEN_EV_TOOL_ARGS) {
		responses_items_done(a, status, out);
		return;
	}
	unwrap_fini(&a->input);
	json_decref(a->item);
	a->item = NULL;
	a->index++;
}

/* ---- events ---- */

static void responses_items_words(struct responses_answer *a, const struct gen_event *ev, struct buf *out)
{
	bool reasoning = ev->kind == GEN_EV_REASONING;

	if (a->item && a->kind != ev->kind)
		responses_items_close(a, "completed", out);
	if (!a->item && reasoning)
		responses_items_open(a, ev->kind, "rs_", json_pack("{s:s, s:[], s:[]}", "type", "reasoning", "summary",
			"content"), out);
	else if (!a->item)
		responses_items_open(a, ev->kind, "msg_", json_pack("{s:s, s:s, s:[]}", "type", "message", "role",
			"assistant", "content"), out);
	buf_add(&a->text, ev->text, ev->len);
	responses_items_delta(a, error_text(ev->text, ev->len), out);
}

/* The tool under the name the client gave it. */
static void responses_items_call(struct responses_answer *a, const struct gen_event *ev, struct buf *out)
{
	json_t *own = json_object_get(a->names, ev->text), *name = json_object_get(own, "name"), *item;
	json_t *space = json_object_get(own, "namespace");
	const char *type = json_string_value(json_object_get(own, "type"));
	bool custom = type && !strcmp(type, "custom");

	responses_items_close(a, "completed", out);
	item = json_pack("{s:s, s:s, s:o, s:s, s:O*}", "type", custom ? "custom_tool_call" : "function_call", "call_id",
		ev->tool_id ? ev->tool_id : "", "name", name ? json_incref(name) : error_text(ev->text, ev->len),
		custom ? "input" : "arguments", "", "namespace", space);
	responses_items_open(a, GEN_EV_TOOL_ARGS, custom ? "ctc_" : "fc_", item, out);
}

static void responses_items_arguments(struct responses_answer *a, const struct gen_event *ev, struct buf *out)
{
	size_t from = a->text.len;

	must(a->item);
	if (responses_items_custom(a)) {
		unwrap_put(&a->input, ev->text, ev->len, &a->text);
		responses_items_input(a, from, out);
	} else {
		buf_add(&a->text, ev->text, ev->len);
		responses_items_delta(a, error_text(ev->text, ev->len), out);
	}
}

void responses_items_event(struct responses_answer *a, const struct gen_event *ev, struct buf *out)
{
	switch (ev->kind) {
	case GEN_EV_REASONING:
	case GEN_EV_CONTENT: responses_items_words(a, ev, out); break;
	case GEN_EV_TOOL_BEGIN: responses_items_call(a, ev, out); break;
	case GEN_EV_TOOL_ARGS: responses_items_arguments(a, ev, out); break;
	case GEN_EV_TOOL_END: responses_items_done(a, "completed", out); break;
	case GEN_EV_LOGPROB:
	case GEN_EV_FINISH: break;
	}
}

void responses_items_end(struct responses_answer *a, struct buf *out)
{
	responses_items_close(a, a->complete ? "completed" : "incomplete", out);
}
