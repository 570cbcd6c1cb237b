/* SPDX-License-Identifier: MIT
 * chat_messages.c - checks and normalises the messages of a chat request.
 * Threads: any. Locks: none. */
#include "api/request/chat_messages.h"
#include "api/request/chat_request.h"
#include "api/request/tools.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

/* An assistant's refusal, which histories from other servers hold, is text that it said. */
static int chat_messages_part(const struct field_at *part, const char *role, struct buf *text, struct error *err)
{
	const char *type = "text", *s = NULL, *key;
	int rc = field_string(part, "type", &type, err);

	if (rc)
		return rc;
	key = !strcmp(role, "assistant") && !strcmp(type, "refusal") ? "refusal" : "text";
	if (!strcmp(type, key) || !strcmp(type, "input_text") || !strcmp(type, "output_text")) {
		if (!(rc = field_need(part, key, &s, err)))
			buf_adds(text, s);
		return rc;
	}
	if (strcmp(role, "tool"))
		return field_refuse(part, "type", err, RC_UNSUPPORTED, "\"%.40s\" parts are not supported, only text",
			type);
	tools_unseen(type, text);
	return 0;
}

/* Joins the text parts with a blank line, as the model's own encoder joins those of a tool result. */
static int chat_messages_join(const struct field_at *m, const char *role, json_t *parts, json_t **ret_text,
			      struct error *err)
{
	struct buf text = { 0 };
	int rc = 0;

	for (size_t i = 0; !rc && i < json_array_size(parts); i++) {
		struct field_at part;

		rc = field_element(m, "content", parts, i, &part, err);
		if (!rc && i > 0)
			buf_adds(&text, "\n\n");
		if (!rc)
			rc = chat_messages_part(&part, role, &text, err);
	}
	if (!rc)
		*ret_text = error_text(buf_str(&text), text.len);
	buf_fini(&text);
	return rc;
}

/* The arguments of a call are JSON text; objects are accepted, since some clients send them parsed. */
static int chat_messages_call(const struct field_at *call, struct error *err)
{
	const char *id = NULL, *type = "function", *name = NULL;
	struct field_at f;
	json_t *args;
	int rc;

	if ((rc = field_string(call, "id", &id, err)) || (rc = field_string(call, "type", &type, err)) ||
	    (rc = field_object(call, "function", &f, err)))
		return rc;
	if (strcmp(type, "function"))
		return field_refuse(call, "type", err, RC_UNSUPPORTED,
				    "\"%s\" calls are not supported, only function", type);
	if (!f.object)
		return field_refuse(call, "function", err, RC_INVALID, "missing");
	if ((rc = tools_name(&f, &name, err)))
		return rc;
	args = field_any(&f, "arguments");
	if (args && !json_is_string(args) && !json_is_object(args))
		return field_wrong_type(&f, "arguments", args, "a string of JSON", err);
	return 0;
}

static int chat_messages_calls(const struct field_at *m, struct error *err)
{
	json_t *calls = NULL;
	int rc = field_array(m, "tool_calls", &calls, err);

	for (size_t i = 0; !rc && i < json_array_size(calls); i++) {
		struct field_at call;

		rc = field_element(m, "tool_calls", calls, i, &call, err);
		if (!rc)
			rc = chat_messages_call(&call, err);
	}
	return rc;
}

/* An assistant's last message is gone on with whether or not it says so; in front of others the word says nothing that
 * could be done. */
static int chat_messages_prefix(const struct field_at *m, const char *role, bool last, struct error *err)
{
	bool prefix = false;
	int rc = field_bool(m, "prefix", &prefix, err);

	if (rc || !prefix)
		return rc;
	if (strcmp(role, "assistant"))
		return field_refuse(m, "prefix", err, RC_INVALID, "only an assistant's message can be gone on with");
	return last ? 0 : field_refuse(m, "prefix", err, RC_INVALID, "only the last message can be gone on with");
}

/* A refusal beside the content is text that was said, as one among its parts. */
static void chat_messages_refusal(json_t *m, const char *refusal)
{
	const char *content = json_string_value(json_object_get(m, "content"));
	struct buf text = { 0 };

	if (!*refusal)
		return;
	buf_printf(&text, "%s%s%s", content ? content : "", content && *content ? "\n\n" : "", refusal);
	must_zero(json_object_set_new(m, "content", error_text(text.data, text.len)));
	must_zero(json_object_del(m, "refusal"));
	buf_fini(&text);
}

/* Clients send "" for a call without arguments, which is no JSON. */
static void chat_messages_arguments(json_t *m)
{
	json_t *calls = json_object_get(m, "tool_calls"), *own, *call;
	size_t i;

	json_array_foreach (calls, i, call) {
		json_t *args = json_object_get(json_object_get(call, "function"), "arguments");

		if (json_is_string(args) && json_string_length(args) == 0)
			break;
	}
	if (i == json_array_size(calls))
		return;
	own = json_deep_copy(calls);
	json_array_foreach (own, i, call) {
		json_t *f = json_object_get(call, "function"), *args = json_object_get(f, "arguments");

		if (json_is_string(args) && json_string_length(args) == 0)
			must_zero(json_object_set_new(f, "arguments", json_string("{}")));
	}
	must_zero(json_object_set_new(m, "tool_calls", own));
}

/* Checks one message; *ret_m is a copy, whose content parts became a string. */
static int chat_messages_one(const struct field_at *m, bool last, json_t **ret_m, struct error *err)
{
	const char *role = NULL, *skip = NULL, *refusal = "";
	json_t *content, *tools = NULL, *text = NULL;
	int rc;

	if ((rc = field_string(m, "role", &role, err)) || (rc = field_string(m, "name", &skip, err)) ||
	    (rc = field_string(m, "reasoning_content", &skip, err)) ||
	    (rc = field_string(m, "refusal", &refusal, err)) ||
	    (rc = field_string(m, "tool_call_id", &skip, err)) || (rc = chat_messages_calls(m, err)) ||
	    (rc = field_array(m, "tools", &tools, err)) || (rc = tools_check(m, tools, err)))
		return rc;
	if (!role)
		return field_refuse(m, "role", err, RC_INVALID, "missing");
	if ((rc = chat_messages_prefix(m, role, last, err)))
		return rc;
	content = field_any(m, "content");
	if (content && !json_is_string(content) && !json_is_array(content))
		return field_wrong_type(m, "content", content, "a string or an array of parts", err);
	if (json_is_array(content) && (rc = chat_messages_join(m, role, content, &text, err)))
		return rc;
	*ret_m = json_copy(m->object);
	must(*ret_m);
	if (text)
		must_zero(json_object_set_new(*ret_m, "content", text));
	if (!strcmp(role, "assistant"))
		chat_messages_refusal(*ret_m, refusal);
	chat_messages_arguments(*ret_m);
	return 0;
}

int chat_messages_parse(const struct field_at *body, json_t **ret_messages, struct error *err)
{
	json_t *in = NULL, *out;
	int rc = field_array(body, "messages", &in, err);

	if (rc)
		return rc;
	if (!in)
		return field_refuse(body, "messages", err, RC_INVALID, "missing");
	if (json_array_size(in) == 0)
		return field_refuse(body, "messages", err, RC_INVALID, "expected at least one message");
	if (json_array_size(in) > CHAT_REQUEST_MAX_MESSAGES)
		return field_refuse(body, "messages", err, RC_INVALID, "more than %d messages",
				    CHAT_REQUEST_MAX_MESSAGES);
	out = json_array();
	for (size_t i = 0; !rc && i < json_array_size(in); i++) {
		struct field_at m;
		json_t *one = NULL;

		rc = field_element(body, "messages", in, i, &m, err);
		if (!rc)
			rc = chat_messages_one(&m, i + 1 == json_array_size(in), &one, err);
		if (!rc)
			must_zero(json_array_append_new(out, one));
	}
	if (rc) {
		json_decref(out);
		return rc;
	}
	*ret_messages = out;
	return 0;
}
