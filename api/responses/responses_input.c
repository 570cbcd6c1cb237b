/* SPDX-License-Identifier: MIT
 * responses_input.c - the items of OpenAI's /v1/responses, of requests and of earlier answers, as a conversation.
 * Threads: any. Locks: none. */
#include "api/request/tools.h"
#include "api/request/opaque.h"
#include "api/responses/responses_request.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

typedef int responses_input_f(struct history *h, int from, const struct field_at *item, struct error *err);

/* ---- text ---- */

static bool responses_input_is_text(const char *type)
{
	static const char *const texts[] = {
		"input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"
	};

	for (size_t i = 0; i < mem_countof(texts); i++)
		if (!strcmp(type, texts[i]))
			return true;
	return false;
}

/* One part of a message or an output: its text. What was kept of the model's may have NUL characters. */
static int responses_input_part(const struct field_at *part, const json_t **ret_s, struct error *err)
{
	const char *type = NULL, *key, *text;
	int rc = field_need(part, "type", &type, err);

	if (!rc && responses_input_is_text(type)) {
		key = strcmp(type, "refusal") ? "text" : "refusal";
		rc = field_need(part, key, &text, err);
		*ret_s = field_any(part, key);
		return rc;
	}
	return rc ? rc : field_refuse(part, "type", err, RC_UNSUPPORTED, "\"%.40s\" parts are not supported, only text",
		type);
}

/* What a tool gave may hold what the model cannot be shown; the type of it, or NULL. */
static const char *responses_input_unseen(const struct field_at *part)
{
	const char *type = json_string_value(field_any(part, "type"));

	return type && !responses_input_is_text(type) ? type : NULL;
}

/* A string, or an array of parts; `between` stands between those. */
static int responses_input_text(const struct field_at *item, const char *key, const char *between, struct buf *out,
	struct error *err)
{
	json_t *v = field_any(item, key);
	int rc = 0;

	if (v && !json_is_string(v) && !json_is_array(v))
		return field_wrong_type(item, key, v, "a string or an array of parts", err);
	if (json_is_string(v))
		buf_add(out, json_string_value(v), json_string_length(v));
	for (size_t i = 0; !rc && i < json_array_size(v); i++) {
		struct field_at part;
		const json_t *s = NULL;
		const char *unseen;

		rc = field_element(item, key, v, i, &part, err);
		unseen = !rc && !strcmp(key, "output") ? responses_input_unseen(&part) : NULL;
		if (unseen) {
			buf_adds(out, out->len ? between : "");
			tools_unseen(unseen, out);
			continue;
		}
		if (!rc)
			rc = responses_input_part(&part, &s, err);
		if (!rc) {
			buf_adds(out, out->len && json_string_length(s) ? between : "");
			buf_add(out, json_string_value(s), json_string_length(s));
		}
	}
	return rc;
}

/* ---- items ---- */

/* A developer's words are instructions, as a system's are. */
static int responses_input_message(struct history *h, int from, const struct field_at *item, struct error *err)
{
	const char *role = NULL;
	struct buf text = { 0 };
	bool assistant;
	int rc = field_need(item, "role", &role, err);

	if (rc)
		return rc;
	assistant = !strcmp(role, "assistant");
	if (!assistant && strcmp(role, "user") && strcmp(role, "system") && strcmp(role, "developer"))
		return field_refuse(item, "role", err, RC_INVALID,
			"\"%.40s\" is none of user, assistant, system, developer",
			role);
	if (!field_any(item, "content"))
		return field_refuse(item, "content", err, RC_INVALID, "missing");
	rc = responses_input_text(item, "content", assistant ? "" : "\n\n", &text, err);
	if (!rc && assistant)
		history_text(h, from, buf_str(&text), text.len);
	else if (!rc && !strcmp(role, "user"))
		history_user(h, from, error_text(buf_str(&text), text.len));
	else if (!rc && text.len)
		history_system(h, from, text.data, text.len);
	buf_fini(&text);
	return rc;
}

/* The text of it that there is, a token of ours, or the summary; another server's token alone says nothing here. */
static int responses_input_reasoning(struct history *h, int from, const struct field_at *item, struct error *err)
{
	struct buf text = { 0 }, summary = { 0 };
	const char *token = NULL;
	int rc;

	if (!(rc = responses_input_text(item, "content", "\n\n", &text, err)) &&
		!(rc = responses_input_text(item, "summary", "\n\n", &summary, err)) &&
		!(rc = field_string(item, "encrypted_content", &token, err))) {
		if (!text.len && token)
			opaque_open(&text, token, strlen(token));
		if (!text.len)
			buf_add(&text, buf_str(&summary), summary.len);
		if (text.len)
			history_reasoning(h, from, text.data, text.len);
	}
	buf_fini(&text);
	buf_fini(&summary);
	return rc;
}

static int responses_input_name(const struct field_at *item, struct buf *out, struct error *err)
{
	const char *name = NULL, *space = NULL;
	int rc = tools_name(item, &name, err);

	if (!rc)
		rc = field_string(item, "namespace", &space, err);
	if (!rc)
		responses_tools_name(space, name, out);
	return rc;
}

static int responses_input_call(struct history *h, int from, const struct field_at *item, struct error *err)
{
	const char *id, *arguments;
	struct buf name = { 0 };
	int rc;

	if (!(rc = field_need(item, "call_id", &id, err)) && !(rc = responses_input_name(item, &name, err)) &&
		!(rc = field_need(item, "arguments", &arguments, err)))
		history_call(h, from, id, buf_str(&name), json_string(*arguments ? arguments : "{}"));
	buf_fini(&name);
	return rc;
}

static int responses_input_custom(struct history *h, int from, const struct field_at *item, struct error *err)
{
	const char *id, *input;
	struct buf name = { 0 };
	int rc;

	if (!(rc = field_need(item, "call_id", &id, err)) && !(rc = responses_input_name(item, &name, err)) &&
		!(rc = field_need(item, "input", &input, err)))
		history_call(h, from, id, buf_str(&name), json_pack("{s:O}", "input", field_any(item, "input")));
	buf_fini(&name);
	return rc;
}

static int responses_input_output(struct history *h, int from, const struct field_at *item, struct error *err)
{
	struct buf text = { 0 };
	const char *id;
	int rc = field_need(item, "call_id", &id, err);

	if (rc)
		return rc;
	if (!field_any(item, "output"))
		return field_refuse(item, "output", err, RC_INVALID, "missing");
	rc = responses_input_text(item, "output", "\n\n", &text, err);
	if (!rc)
		history_result(h, from, id, error_text(buf_str(&text), text.len));
	buf_fini(&text);
	return rc;
}

static const struct {
	const char *type;
	responses_input_f *read;
} responses_input_types[] = {
	{ "message", responses_input_message },
	{ "reasoning", responses_input_reasoning },
	{ "function_call", responses_input_call },
	{ "function_call_output", responses_input_output },
	{ "custom_tool_call", responses_input_custom },
	{ "custom_tool_call_output", responses_input_output },
};

static int responses_input_item(struct history *h, int from, const struct field_at *item, struct error *err)
{
	const char *type = "message";
	int rc = field_string(item, "type", &type, err);

	for (size_t i = 0; !rc && i < mem_countof(responses_input_types); i++)
		if (!strcmp(type, responses_input_types[i].type))
			return responses_input_types[i].read(h, from, item, err);
	return rc ? rc : field_refuse(item, "type", err, RC_UNSUPPORTED, "\"%.60s\" items are not supported", type);
}

int responses_input_items(const struct field_at *at, const char *key, json_t *items, int from, struct history *h,
	struct error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < json_array_size(items); i++) {
		struct field_at item;

		rc = field_element(at, key, items, i, &item, err);
		if (!rc)
			rc = responses_input_item(h, from < 0 ? from : from + (int)i, &item, err);
	}
	return rc;
}
