/* SPDX-License-Identifier: MIT
 * chat_messages.c - checks and normalises the messages and tools of a chat request.
 * Threads: any. Locks: none. */
#include "api/chat_messages.h"
#include "api/chat_request.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <string.h>

#define CHAT_MAX_NAME 128

/* Joins the text parts with a blank line, as the model's own encoder joins those of a tool result. An
 * assistant's refusal, which histories from other servers hold, is text that it said. */
static int chat_messages_join(const struct field_at *m, bool assistant, json_t *parts, json_t **ret_text,
			      struct error *err)
{
	struct buf text = { 0 };
	int rc = 0;

	for (size_t i = 0; !rc && i < json_array_size(parts); i++) {
		const char *type = "text", *s = NULL, *key;
		struct field_at part;

		if ((rc = field_element(m, "content", parts, i, &part, err)) ||
		    (rc = field_string(&part, "type", &type, err)))
			break;
		key = assistant && !strcmp(type, "refusal") ? "refusal" : "text";
		if (strcmp(type, key) && strcmp(type, "input_text") && strcmp(type, "output_text"))
			rc = field_refuse(&part, "type", err, RC_UNSUPPORTED,
					  "\"%s\" parts are not supported, only text", type);
		else if (!(rc = field_string(&part, key, &s, err)) && !s)
			rc = field_refuse(&part, key, err, RC_INVALID, "missing");
		else if (!rc && i > 0)
			buf_adds(&text, "\n\n");
		if (!rc)
			buf_adds(&text, s);
	}
	if (!rc)
		*ret_text = error_text(buf_str(&text), text.len);
	buf_fini(&text);
	return rc;
}

/* Names are written into the prompt between quotes: nothing there may end the quotes or the line. */
static bool chat_messages_name_ok(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_-.:/", s[i]))
			return false;
	return n > 0 && n <= CHAT_MAX_NAME;
}

static int chat_messages_name(const struct field_at *f, const char *name, struct error *err)
{
	if (!name)
		return field_refuse(f, "name", err, RC_INVALID, "missing");
	if (!chat_messages_name_ok(name))
		return field_refuse(f, "name", err, RC_INVALID,
				    "expected 1 to %d letters, digits or any of _-.:/", CHAT_MAX_NAME);
	return 0;
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
	if ((rc = field_string(&f, "name", &name, err)) || (rc = chat_messages_name(&f, name, err)))
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

/* Checks one message; *ret_m is it, or a copy whose content parts became a string. */
static int chat_messages_one(const struct field_at *m, json_t **ret_m, struct error *err)
{
	const char *role = NULL, *skip = NULL;
	json_t *content, *text = NULL;
	int rc;

	if ((rc = field_string(m, "role", &role, err)) || (rc = field_string(m, "name", &skip, err)) ||
	    (rc = field_string(m, "reasoning_content", &skip, err)) ||
	    (rc = field_string(m, "tool_call_id", &skip, err)) || (rc = chat_messages_calls(m, err)))
		return rc;
	if (!role)
		return field_refuse(m, "role", err, RC_INVALID, "missing");
	content = field_any(m, "content");
	if (content && !json_is_string(content) && !json_is_array(content))
		return field_wrong_type(m, "content", content, "a string or an array of parts", err);
	if (!json_is_array(content)) {
		*ret_m = json_incref(m->object);
		return 0;
	}
	rc = chat_messages_join(m, !strcmp(role, "assistant"), content, &text, err);
	if (rc)
		return rc;
	*ret_m = json_copy(m->object);
	must(*ret_m && !json_object_set_new(*ret_m, "content", text));
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
	if (json_array_size(in) > CHAT_MAX_MESSAGES)
		return field_refuse(body, "messages", err, RC_INVALID, "more than %d messages",
				    CHAT_MAX_MESSAGES);
	out = json_array();
	for (size_t i = 0; !rc && i < json_array_size(in); i++) {
		struct field_at m;
		json_t *one = NULL;

		rc = field_element(body, "messages", in, i, &m, err);
		if (!rc)
			rc = chat_messages_one(&m, &one, err);
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

/* ---- tools ---- */

static int chat_messages_tool(const struct field_at *tool, struct error *err)
{
	const char *type = "function", *name = NULL, *description = NULL;
	struct field_at f, parameters;
	bool strict;
	int rc;

	if ((rc = field_string(tool, "type", &type, err)) || (rc = field_object(tool, "function", &f, err)))
		return rc;
	if (strcmp(type, "function"))
		return field_refuse(tool, "type", err, RC_UNSUPPORTED,
				    "\"%s\" tools are not supported, only function", type);
	if (!f.object)
		return field_refuse(tool, "function", err, RC_INVALID, "missing");
	if ((rc = field_string(&f, "name", &name, err)) ||
	    (rc = field_string(&f, "description", &description, err)) ||
	    (rc = field_object(&f, "parameters", &parameters, err)) ||
	    (rc = field_bool(&f, "strict", &strict, err)))
		return rc;
	return chat_messages_name(&f, name, err);
}

/* Sets *ret_calls; forcing a call needs constrained decoding, so it is refused rather than ignored. */
static int chat_messages_choice(const struct field_at *body, enum gen_calls *ret_calls, struct error *err)
{
	json_t *v = field_any(body, "tool_choice");
	const char *s = json_is_string(v) ? json_string_value(v) : "auto";

	if (v && !json_is_string(v) && !json_is_object(v))
		return field_wrong_type(body, "tool_choice", v, "a string or an object", err);
	if (json_is_object(v) || !strcmp(s, "required"))
		return field_refuse(body, "tool_choice", err, RC_UNSUPPORTED,
				    "forcing a call is not supported, only \"auto\" and \"none\"");
	if (strcmp(s, "auto") && strcmp(s, "none"))
		return field_refuse(body, "tool_choice", err, RC_INVALID,
				    "\"%s\" is neither \"auto\" nor \"none\"", s);
	*ret_calls = !strcmp(s, "none") ? GEN_CALLS_NONE : GEN_CALLS_AUTO;
	return 0;
}

int chat_messages_tools(const struct field_at *body, json_t **ret_tools, enum gen_calls *ret_calls, struct error *err)
{
	json_t *tools = NULL;
	int rc = field_array(body, "tools", &tools, err);

	if (!rc)
		rc = chat_messages_choice(body, ret_calls, err);
	if (!rc && json_array_size(tools) > CHAT_MAX_TOOLS)
		rc = field_refuse(body, "tools", err, RC_INVALID, "more than %d tools", CHAT_MAX_TOOLS);
	for (size_t i = 0; !rc && i < json_array_size(tools); i++) {
		struct field_at tool;

		rc = field_element(body, "tools", tools, i, &tool, err);
		if (!rc)
			rc = chat_messages_tool(&tool, err);
	}
	if (rc)
		return rc;
	*ret_tools = json_array_size(tools) && *ret_calls != GEN_CALLS_NONE ? json_incref(tools) : NULL;
	return 0;
}
