/* SPDX-License-Identifier: MIT
 * chat_stream.c - the events of a streamed chat completion.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/chat/chat_stream.h"
#include "api/http/sse.h"
#include "engine/base/must.h"

/* One chunk of a choice; takes over delta. `finish` and `detail` are NULL but in its last one. */
static void chat_stream_chunk(struct chat_stream *s, int index, json_t *delta, const char *finish, const char *detail,
	struct buf *out)
{
	json_t *o = openai_json_head(&s->head, "chat.completion.chunk"), *choice;

	choice = json_pack("{s:i, s:o, s:o?, s:s?}", "index", index, "delta", delta, "logprobs", s->logprobs[index],
		"finish_reason", finish);
	s->logprobs[index] = NULL;
	must(choice);
	if (detail)
		must_zero(json_object_set_new(choice, "finish_detail", json_string(detail)));
	must_zero(json_object_set_new(o, "choices", json_pack("[o]", choice)));
	if (s->include_usage)
		must_zero(json_object_set_new(o, "usage", json_null()));
	sse_data(out, o);
}

void chat_stream_begin(struct chat_stream *s, struct buf *out)
{
	for (int i = 0; i < s->n; i++)
		chat_stream_chunk(s, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, NULL, out);
}

static void chat_stream_text(struct chat_stream *s, int index, const char *key, const struct gen_event *ev,
	struct buf *out)
{
	chat_stream_chunk(s, index, json_pack("{s:o}", key, error_text(ev->text, ev->len)), NULL, NULL, out);
}

/* The first delta of a call carries id, type and name; the next ones only pieces of the arguments. */
static void chat_stream_call(struct chat_stream *s, int index, const struct gen_event *ev, struct buf *out)
{
	json_t *call, *text = error_text(ev->text, ev->len);

	if (ev->kind == GEN_EV_TOOL_BEGIN)
		call = json_pack("{s:i, s:s, s:s, s:{s:o, s:s}}", "index", ev->call, "id",
			ev->tool_id ? ev->tool_id : "", "type", "function", "function", "name", text, "arguments", "");
	else
		call = json_pack("{s:i, s:{s:o}}", "index", ev->call, "function", "arguments", text);
	must(call);
	chat_stream_chunk(s, index, json_pack("{s:[o]}", "tool_calls", call), NULL, NULL, out);
}

void chat_stream_event(struct chat_stream *s, int choice, const struct gen_event *ev, struct buf *out)
{
	switch (ev->kind) {
	case GEN_EV_REASONING: chat_stream_text(s, choice, "reasoning_content", ev, out); break;
	case GEN_EV_CONTENT: chat_stream_text(s, choice, "content", ev, out); break;
	case GEN_EV_TOOL_BEGIN:
	case GEN_EV_TOOL_ARGS: chat_stream_call(s, choice, ev, out); break;
	case GEN_EV_TOOL_END: break;
	/* Held until the text it belongs to, or the end: a token may end inside a character or be a marker. */
	case GEN_EV_LOGPROB:
		openai_json_add_logprob(&s->logprobs[choice], engine_tokenizer(s->head.engine), ev);
		break;
	case GEN_EV_FINISH:
		chat_stream_chunk(s, choice, json_object(), openai_json_finish(ev->finish), ev->text ? ev->text : "",
			out);
		break;
	}
}

void chat_stream_end(struct chat_stream *s, const struct gen_usage *usage, struct buf *out)
{
	json_t *o;

	if (s->include_usage) {
		o = openai_json_head(&s->head, "chat.completion.chunk");
		must_zero(json_object_set_new(o, "choices", json_array()));
		must_zero(json_object_set_new(o, "usage", openai_json_usage(usage)));
		sse_data(out, o);
	}
	sse_done(out);
}

void chat_stream_fail(struct chat_stream *s, const struct error *err, struct buf *out)
{
	sse_data(out, error_json(err, s->head.id));
	sse_done(out);
}

void chat_stream_fini(struct chat_stream *s)
{
	for (int i = 0; i < s->n; i++)
		json_decref(s->logprobs[i]);
	*s = (struct chat_stream){ 0 };
}
