/* SPDX-License-Identifier: MIT
 * probe_chat.c - chat completions over any peer's raw HTTP: what is asked in forms that other servers know, too.
 * Threads: one at a time per object. Locks: none. */
#include "ctl/probe/probe_chat.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define CHAT_SHOWN 160 /* bytes of an error's text that are told */

/* Fields of a body that OpenAI's API does not have. */
static const char *const probe_chat_foreign[] = { "thinking", "chat_template_kwargs" };
/* Where servers tell the context in a model's object. */
static const char *const probe_chat_contexts[] = { "max_model_len", "context_length", "context_window" };

void probe_chat_fini(struct probe_chat *c)
{
	buf_fini(&c->refusal);
	*c = (struct probe_chat){ 0 };
}

/* ---- errors ---- */

/* The message of {"error": {"message"}}, {"error": text}, {"message"} or {"detail"}, as far as servers go. */
static const char *probe_chat_message(json_t *body)
{
	static const char *const names[] = { "message", "detail" };
	json_t *error = json_object_get(body, "error"), *v = json_object_get(error, "message");

	v = v ? v : json_is_string(error) ? error : NULL;
	for (size_t i = 0; i < mem_countof(names) && !v; i++)
		v = json_object_get(body, names[i]);
	return json_string_value(v);
}

int probe_chat_error(const struct probe_reply *r, struct buf *why)
{
	static const struct {
		int status, rc;
	} row[] = { { 401, RC_AUTH }, { 403, RC_DENIED }, { 404, RC_NOT_FOUND }, { 429, RC_LIMIT }, { 503, RC_BUSY },
		    { 504, RC_TIMEOUT } };
	int rc = r->status >= 500 || r->status < 400 ? RC_INTERNAL : RC_INVALID;
	const char *encoding = probe_reply_header(r, "content-encoding"), *message;
	json_t *body;

	if (*encoding && strcasecmp(encoding, "identity"))
		return buf_why(why, RC_INVALID, "HTTP %d in the Content-Encoding \"%.40s\", which nobody asked for",
			       r->status, encoding);
	if (r->status >= 200 && r->status < 300)
		return 0;
	for (size_t i = 0; i < mem_countof(row); i++)
		rc = r->status == row[i].status ? row[i].rc : rc;
	body = json_loadb(buf_str(&r->body), r->body.len, 0, NULL);
	message = probe_chat_message(body);
	if (r->status >= 300 && r->status < 400)
		buf_why(why, rc, "HTTP %d to \"%.*s\": redirects are not followed", r->status, CHAT_SHOWN,
			probe_reply_header(r, "location"));
	else if (message)
		buf_why(why, rc, "HTTP %d: %.*s", r->status, CHAT_SHOWN, message);
	else
		buf_why(why, rc, "HTTP %d, no JSON error but %s: \"%.*s\"", r->status,
			*probe_reply_header(r, "content-type") ? probe_reply_header(r, "content-type") :
			"an untyped body", 60, buf_str(&r->body));
	json_decref(body);
	return rc;
}

/* ---- bodies ---- */

/* "thinking" as DeepSeek has it; templates of vLLM and SGLang read the other two. */
static void probe_chat_dress(json_t *body)
{
	const char *type = json_string_value(json_object_get(json_object_get(body, "thinking"), "type"));
	int on = type && !strcmp(type, "enabled");

	if (type && !json_object_get(body, "chat_template_kwargs"))
		must_zero(json_object_set_new(body, "chat_template_kwargs",
					      json_pack("{s:b, s:b}", "thinking", on, "enable_thinking", on)));
}

/* Leaves out what is not OpenAI's; false when there is nothing such. */
static bool probe_chat_undress(json_t *body)
{
	json_t *message;
	size_t i;
	bool any = false;

	for (i = 0; i < mem_countof(probe_chat_foreign); i++)
		any |= json_object_del(body, probe_chat_foreign[i]) == 0;
	json_array_foreach(json_object_get(body, "messages"), i, message)
		any |= json_object_del(message, "reasoning_content") == 0;
	return any;
}

static int probe_chat_piece(void *arg, const char *bytes, size_t len, double at)
{
	struct probe_stream *s = arg;

	s->at = at;
	s->rc = probe_stream_add(s, bytes, len, &s->why);
	return s->rc;
}

static int probe_chat_post(struct probe_chat *c, json_t *body, struct probe_stream *s, struct probe_reply *ret_r,
			   struct buf *why)
{
	char *text = json_dumps(body, JSON_COMPACT);
	json_t *headers = json_pack("{s:s}", "Content-Type", "application/json");
	struct probe_request q = { .method = "POST", .path = "/chat/completions", .headers = headers, .body = text,
				   .piece = s ? probe_chat_piece : NULL, .arg = s, .patience = c->patience,
				   .tokens = json_integer_value(json_object_get(body, "max_tokens")) };
	int r;

	must(text && headers);
	q.len = strlen(text);
	r = c->http(c->arg, &q, ret_r, why);
	r = r ? r : probe_chat_error(ret_r, why);
	json_decref(headers);
	free(text);
	return r;
}

/* Of a 2xx: what the stream's own reading said. */
static int probe_chat_streamed(const struct probe_stream *s, const struct probe_reply *reply, struct buf *why)
{
	const char *type = probe_reply_header(reply, "content-type"), *event = "text/event-stream";

	if (strncasecmp(type, event, strlen(event)))
		return buf_why(why, RC_INVALID, "the stream's type is \"%.60s\", not %s", type, event);
	if (s->stopped)
		return 0;
	return s->rc ? buf_why(why, s->rc, "%s", buf_str(&s->why)) : probe_stream_end(s, why);
}

int probe_chat_send(struct probe_chat *c, json_t *given, struct probe_stream *s,
		    struct probe_reply *ret_r, struct buf *why)
{
	json_t *body = json_deep_copy(given);
	struct probe_reply first = { 0 };
	struct buf refusal = { 0 };
	int r;

	must(body);
	if (c->plain)
		probe_chat_undress(body);
	else
		probe_chat_dress(body);
	r = probe_chat_post(c, body, s, &first, why);
	if ((first.status == 400 || first.status == 422) && probe_chat_undress(body)) {
		buf_adds(&refusal, buf_str(why));
		probe_reply_fini(&first);
		r = probe_chat_post(c, body, s, &first, why);
		if (first.status >= 200 && first.status < 300) {
			c->plain = true;
			buf_clear(&c->refusal);
			buf_adds(&c->refusal, buf_str(&refusal));
		}
	}
	r = r || !s ? r : probe_chat_streamed(s, &first, why);
	buf_fini(&refusal);
	json_decref(body);
	*ret_r = first;
	return r;
}

/* ---- answers ---- */

static int probe_chat_whole(struct probe_chat *c, json_t *body, json_t **ret_reply, struct buf *why)
{
	struct probe_reply reply = { 0 };
	json_t *o, *message, *reasoning;
	int r = probe_chat_send(c, body, NULL, &reply, why);

	o = r ? NULL : json_loadb(buf_str(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
	if (!r && !json_is_object(o))
		r = buf_why(why, RC_JSON, "the answer is no JSON object: \"%.60s\"", buf_str(&reply.body));
	message = json_object_get(json_array_get(json_object_get(o, "choices"), 0), "message");
	reasoning = json_object_get(message, "reasoning");
	if (json_is_string(reasoning) && !json_is_string(json_object_get(message, "reasoning_content")))
		json_object_set(message, "reasoning_content", reasoning);
	probe_reply_fini(&reply);
	if (r)
		json_decref(o);
	else
		*ret_reply = o;
	return r;
}

int probe_chat(struct probe_chat *c, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply,
	       struct buf *why)
{
	struct probe_reply reply = { 0 };
	struct probe_stream s;
	json_t *streamed;
	int r;

	if (!delta)
		return probe_chat_whole(c, body, ret_reply, why);
	streamed = json_copy(body);
	must(streamed);
	json_object_set_new(streamed, "stream", json_true());
	json_object_set_new(streamed, "stream_options", json_pack("{s:b}", "include_usage", 1));
	probe_stream_init(&s);
	s.delta = delta;
	s.delta_arg = delta_arg;
	r = probe_chat_send(c, streamed, &s, &reply, why);
	if (!r)
		*ret_reply = probe_stream_reply(&s);
	probe_stream_fini(&s);
	probe_reply_fini(&reply);
	json_decref(streamed);
	return r;
}

/* ---- models ---- */

static int probe_chat_context(json_t *model)
{
	for (size_t i = 0; i < mem_countof(probe_chat_contexts); i++) {
		json_int_t n = json_integer_value(json_object_get(model, probe_chat_contexts[i]));

		if (n > 0)
			return n < INT_MAX ? (int)n : INT_MAX;
	}
	return 0;
}

static int probe_chat_pick(json_t *list, const char *wanted, struct buf *ret_model, int *ret_context, struct buf *why)
{
	json_t *model, *data = json_object_get(list, "data");
	size_t i;

	json_array_foreach(data, i, model) {
		const char *id = json_string_value(json_object_get(model, "id"));

		if (!id || (wanted && strcmp(id, wanted)))
			continue;
		buf_clear(ret_model);
		buf_adds(ret_model, id);
		*ret_context = probe_chat_context(model);
		return 0;
	}
	return buf_why(why, RC_NOT_FOUND, "GET /models lists no model%s%s%s", wanted ? " \"" : "", wanted ? wanted : "",
		       wanted ? "\"" : "");
}

int probe_chat_model(struct probe_chat *c, const char *wanted, struct buf *ret_model, int *ret_context,
		     struct buf *why)
{
	const struct probe_request q = { .method = "GET", .path = "/models", .patience = c->patience };
	struct probe_reply reply = { 0 };
	json_t *list = NULL;
	int r = c->http(c->arg, &q, &reply, why);

	r = r ? r : probe_chat_error(&reply, why);
	if (!r) {
		list = json_loadb(buf_str(&reply.body), reply.body.len, JSON_REJECT_DUPLICATES, NULL);
		r = probe_chat_pick(list, wanted, ret_model, ret_context, why);
	}
	json_decref(list);
	probe_reply_fini(&reply);
	return r;
}
