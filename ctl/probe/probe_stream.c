/* SPDX-License-Identifier: MIT
 * probe_stream.c - a streamed answer put together into one chat.completion, and what its stream was like.
 * Threads: one at a time per object. Locks: none. */
#include "ctl/probe/probe_stream.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_DONE "[DONE]"

static int probe_stream_bad(struct buf *why, const char *where, const char *expected)
{
	return buf_why(why, RC_INVALID, "%s in a chunk is no %s", where, expected);
}

/* A text field that may be missing or null; "" then. */
static int probe_stream_string(json_t *object, const char *name, const char **ret_s, struct buf *why)
{
	json_t *v = json_object_get(object, name);

	*ret_s = "";
	if (v && !json_is_null(v) && !json_is_string(v))
		return probe_stream_bad(why, name, "string");
	if (json_is_string(v))
		*ret_s = json_string_value(v);
	return 0;
}

/* ---- tool calls ---- */

static void probe_stream_keep(char **to, const char *text)
{
	if (!*to && *text)
		*to = mem_strdup(text);
}

static int probe_stream_call(struct probe_stream *s, json_t *call, struct buf *why)
{
	json_t *index = json_object_get(call, "index"), *function = json_object_get(call, "function");
	const char *id, *name, *arguments;
	json_int_t i = json_integer_value(index);
	int r;

	if (!json_is_integer(index) || i < 0 || i >= PROBE_STREAM_CALLS)
		return probe_stream_bad(why, "tool_calls[].index", "small number");
	if (i > s->n_calls)
		return buf_why(why, RC_INVALID, "tool_calls[].index jumps from %d to %d", s->n_calls - 1, (int)i);
	if (function && !json_is_object(function))
		return probe_stream_bad(why, "tool_calls[].function", "object");
	r = probe_stream_string(call, "id", &id, why);
	r = r ? r : probe_stream_string(function, "name", &name, why);
	r = r ? r : probe_stream_string(function, "arguments", &arguments, why);
	if (r)
		return r;
	if (i == s->n_calls)
		s->n_calls++;
	probe_stream_keep(&s->call[i].id, id);
	probe_stream_keep(&s->call[i].name, name);
	buf_adds(&s->call[i].arguments, arguments);
	return 0;
}

static int probe_stream_calls(struct probe_stream *s, json_t *calls, struct buf *why)
{
	json_t *call;
	size_t i;
	int r = 0;

	if (calls && !json_is_null(calls) && !json_is_array(calls))
		return probe_stream_bad(why, "tool_calls", "array");
	json_array_foreach(calls, i, call)
		r = r ? r : probe_stream_call(s, call, why);
	return r;
}

/* ---- chunks ---- */

static int probe_stream_text(struct probe_stream *s, bool reasoning, const char *text, struct buf *why)
{
	if (!*text)
		return 0;
	buf_adds(reasoning ? &s->reasoning : &s->content, text);
	if (!s->delta || !s->delta(s->delta_arg, reasoning, text, strlen(text)))
		return 0;
	s->stopped = true;
	return buf_why(why, RC_CANCELLED, "stopped by the probe");
}

/* vLLM and others call reasoning_content reasoning; who sends both means the same text. */
static int probe_stream_delta(struct probe_stream *s, json_t *delta, struct buf *why)
{
	const char *role, *content, *reasoning, *other;
	size_t calls = json_array_size(json_object_get(delta, "tool_calls"));
	int r = probe_stream_string(delta, "role", &role, why);

	r = r ? r : probe_stream_string(delta, "content", &content, why);
	r = r ? r : probe_stream_string(delta, "reasoning_content", &reasoning, why);
	r = r ? r : probe_stream_string(delta, "reasoning", &other, why);
	if (r)
		return r;
	reasoning = *reasoning ? reasoning : other;
	s->role_first |= s->chunks == 1 && !strcmp(role, "assistant");
	s->texts += *content || *reasoning || calls;
	s->after_finish += s->finishes && (*content || *reasoning || calls);
	if (*content || *reasoning || calls) {
		s->first = s->texts == 1 ? s->at : s->first;
		s->last = s->at;
	}
	r = probe_stream_calls(s, json_object_get(delta, "tool_calls"), why);
	r = r ? r : probe_stream_text(s, true, reasoning, why);
	return r ? r : probe_stream_text(s, false, content, why);
}

static int probe_stream_choice(struct probe_stream *s, json_t *choice, struct buf *why)
{
	json_t *delta = json_object_get(choice, "delta");
	const char *finish;
	int r = probe_stream_string(choice, "finish_reason", &finish, why);

	if (r)
		return r;
	if (json_integer_value(json_object_get(choice, "index")) != 0)
		return 0;
	if (!json_is_object(delta))
		return probe_stream_bad(why, "choices[].delta", "object");
	s->chunks++;
	r = probe_stream_delta(s, delta, why);
	if (*finish) {
		s->finishes++;
		probe_stream_keep(&s->finish, finish);
	}
	return r;
}

static int probe_stream_chunk(struct probe_stream *s, json_t *chunk, struct buf *why)
{
	json_t *error = json_object_get(chunk, "error"), *choices = json_object_get(chunk, "choices"), *choice;
	json_t *usage = json_object_get(chunk, "usage");
	const char *message = json_string_value(json_object_get(error, "message"));
	size_t i;
	int r = 0;

	if (error && !json_is_null(error))
		return buf_why(why, RC_INTERNAL, "the server broke off: %s", message ? message : "no message");
	if (!json_is_array(choices))
		return probe_stream_bad(why, "choices", "array");
	if (json_is_object(usage)) {
		json_decref(s->usage);
		s->usage = json_incref(usage);
	}
	if (!s->head)
		s->head = json_incref(chunk);
	json_array_foreach(choices, i, choice)
		r = r ? r : probe_stream_choice(s, choice, why);
	return r;
}

static int probe_stream_event(void *arg, const char *data, size_t len, struct buf *why)
{
	struct probe_stream *s = arg;
	json_t *chunk;
	int r;

	if (len == strlen(STREAM_DONE) && !memcmp(data, STREAM_DONE, len)) {
		s->after_done |= s->done;
		s->done = true;
		return 0;
	}
	s->after_done |= s->done;
	chunk = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(chunk)) {
		json_decref(chunk);
		return buf_why(why, RC_INVALID, "an event is no JSON object: \"%.60s\"", data);
	}
	if (s->chunk)
		s->chunk(s->chunk_arg, chunk);
	r = probe_stream_chunk(s, chunk, why);
	json_decref(chunk);
	return r;
}

void probe_stream_init(struct probe_stream *s)
{
	*s = (struct probe_stream){ .sse = { .event = probe_stream_event, .arg = s } };
}

int probe_stream_add(struct probe_stream *s, const char *bytes, size_t len, struct buf *why)
{
	return probe_sse_add(&s->sse, bytes, len, why);
}

int probe_stream_end(const struct probe_stream *s, struct buf *why)
{
	int r = probe_sse_end(&s->sse, why);

	return r || s->finish ? r : buf_why(why, RC_INVALID, "the stream ended without a finish_reason");
}

/* ---- the answer ---- */

static json_t *probe_stream_utf8(const struct buf *text)
{
	json_t *v = json_stringn(buf_str(text), text->len);

	must(v); /* joined from JSON strings */
	return v;
}

static json_t *probe_stream_message(const struct probe_stream *s)
{
	json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", probe_stream_utf8(&s->content));
	json_t *calls = json_array();

	for (int i = 0; i < s->n_calls; i++) {
		const struct probe_stream_call *c = &s->call[i];

		must_zero(json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", c->id ? c->id : "",
								 "type", "function", "function", "name",
								 c->name ? c->name : "",
								 "arguments", probe_stream_utf8(&c->arguments))));
	}
	must(m && calls);
	if (s->reasoning.len)
		must_zero(json_object_set_new(m, "reasoning_content", probe_stream_utf8(&s->reasoning)));
	if (s->n_calls)
		must_zero(json_object_set(m, "tool_calls", calls));
	json_decref(calls);
	return m;
}

json_t *probe_stream_reply(const struct probe_stream *s)
{
	static const char *const heads[] = { "id", "created", "model" };
	json_t *o = json_pack("{s:s, s:[{s:i, s:o, s:s}]}", "object", "chat.completion", "choices", "index", 0,
			      "message", probe_stream_message(s), "finish_reason",
			      s->stopped ? "stopped_by_probe" : s->finish ? s->finish : "");

	must(o);
	for (size_t i = 0; i < mem_countof(heads); i++)
		if (json_object_get(s->head, heads[i]))
			must_zero(json_object_set(o, heads[i], json_object_get(s->head, heads[i])));
	must_zero(json_object_set_new(o, "usage", s->usage ? json_incref(s->usage) :
				      json_pack("{s:i, s:i}", "prompt_tokens", 0, "completion_tokens", s->texts)));
	return o;
}

void probe_stream_fini(struct probe_stream *s)
{
	for (int i = 0; i < s->n_calls; i++) {
		free(s->call[i].id);
		free(s->call[i].name);
		buf_fini(&s->call[i].arguments);
	}
	json_decref(s->head);
	json_decref(s->usage);
	free(s->finish);
	buf_fini(&s->content);
	buf_fini(&s->reasoning);
	buf_fini(&s->why);
	probe_sse_fini(&s->sse);
	*s = (struct probe_stream){ 0 };
}
