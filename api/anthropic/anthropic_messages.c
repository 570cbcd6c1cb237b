/* SPDX-License-Identifier: MIT
 * anthropic_messages.c - "system", "messages" and "tools" of Anthropic's /v1/messages as the engine renders them.
 * Threads: any. Locks: none. */
#include "api/anthropic/anthropic_request.h"
#include "api/request/tools.h"
#include "api/request/opaque.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

/* A line that Claude Code puts in front of the system prompt and that is for the service, not for the model. Its hash
 * is another in every request, so that no prompt would begin like the one before it. */
#define ANTHROPIC_BILLING "x-anthropic-billing-header:"

/* One message being read. */
struct anthropic_messages_turn {
	struct history *h;
	int index;              /* in messages */
	bool assistant;
	struct buf text;        /* of a user's text blocks so far */
};

/* ---- text ---- */

static const char *anthropic_messages_system_text(const char *s)
{
	const char *end;

	if (strncmp(s, ANTHROPIC_BILLING, strlen(ANTHROPIC_BILLING)))
		return s;
	end = strchr(s, '\n');
	return end ? end + 1 : "";
}

/* Texts in one message are told apart by a blank line, as the model's own encoder does it. */
static void anthropic_messages_join(struct buf *out, const char *s)
{
	if (out->len && *s)
		buf_adds(out, "\n\n");
	buf_adds(out, s);
}

/* {"type": "text", "text": ...}: the text. */
static int anthropic_messages_text_block(const struct field_at *block, const char **ret_s, struct error *err)
{
	const char *type = "text";
	int rc = field_string(block, "type", &type, err);

	if (!rc && strcmp(type, "text"))
		rc = field_refuse(block, "type", err, RC_UNSUPPORTED,
			"\"%.40s\" blocks are not supported here, only text", type);
	return rc ? rc : field_need(block, "text", ret_s, err);
}

/* A string or an array of text blocks. */
static int anthropic_messages_texts(const struct field_at *at, const char *key, bool front, struct buf *out,
	struct error *err)
{
	json_t *v = field_any(at, key);
	int rc = 0;

	if (v && !json_is_string(v) && !json_is_array(v))
		return field_wrong_type(at, key, v, "a string or an array of text blocks", err);
	if (json_is_string(v))
		anthropic_messages_join(out, front ? anthropic_messages_system_text(json_string_value(v)) :
			json_string_value(v));
	for (size_t i = 0; !rc && i < json_array_size(v); i++) {
		struct field_at block;
		const char *s = NULL;

		rc = field_element(at, key, v, i, &block, err);
		if (!rc)
			rc = anthropic_messages_text_block(&block, &s, err);
		if (!rc)
			anthropic_messages_join(out, front ? anthropic_messages_system_text(s) : s);
	}
	return rc;
}

/* In front, or, as clients may, between the others. */
static int anthropic_messages_system(const struct field_at *at, const char *key, int index, struct history *h,
	struct error *err)
{
	struct buf text = { 0 };
	int rc = anthropic_messages_texts(at, key, index == HISTORY_FRONT, &text, err);

	if (!rc && text.len)
		history_system(h, index, text.data, text.len);
	buf_fini(&text);
	return rc;
}

/* ---- blocks ---- */

typedef int anthropic_messages_block_f(struct anthropic_messages_turn *t, const struct field_at *block,
	struct error *err);

static void anthropic_messages_flush(struct anthropic_messages_turn *t)
{
	if (!t->text.len)
		return;
	history_user(t->h, t->index, error_text(t->text.data, t->text.len));
	buf_clear(&t->text);
}

static int anthropic_messages_block_text(struct anthropic_messages_turn *t, const struct field_at *block,
	struct error *err)
{
	const char *s = NULL;
	int rc = field_need(block, "text", &s, err);

	if (!rc && t->assistant)
		history_text(t->h, t->index, s, strlen(s));
	else if (!rc)
		anthropic_messages_join(&t->text, s);
	return rc;
}

/* The text, or what a signature of ours holds when the client was not shown it. */
static int anthropic_messages_block_thinking(struct anthropic_messages_turn *t, const struct field_at *block,
	struct error *err)
{
	const char *s = NULL, *signature = "";
	struct buf held = { 0 };
	int rc = field_need(block, "thinking", &s, err);

	if (!rc)
		rc = field_string(block, "signature", &signature, err);
	if (rc)
		return rc;
	if (*s || !opaque_open(&held, signature, strlen(signature)))
		buf_adds(&held, s);
	history_reasoning(t->h, t->index, buf_str(&held), held.len);
	buf_fini(&held);
	return 0;
}

/* Only other servers make these, and only they can read them. */
static int anthropic_messages_block_redacted(struct anthropic_messages_turn *t, const struct field_at *block,
	struct error *err)
{
	const char *data;

	(void)t;
	return field_need(block, "data", &data, err);
}

static int anthropic_messages_block_use(struct anthropic_messages_turn *t, const struct field_at *block,
	struct error *err)
{
	const char *id, *name = NULL;
	struct field_at input;
	int rc;

	if ((rc = field_need(block, "id", &id, err)) || (rc = tools_name(block, &name, err)) ||
		(rc = field_object(block, "input", &input, err)))
		return rc;
	if (!input.object)
		return field_refuse(block, "input", err, RC_INVALID, "missing");
	history_call(t->h, t->index, id, name, json_incref(input.object));
	return 0;
}

/* A search for tools found this one; all that the request has are offered anyway. */
static int anthropic_messages_result_reference(const struct field_at *part, json_t *parts, struct error *err)
{
	const char *name;
	struct buf text = { 0 };
	int rc = field_need(part, "tool_name", &name, err);

	if (rc)
		return rc;
	buf_printf(&text, "The tool %s can be called.", name);
	must_zero(json_array_append_new(parts, json_pack("{s:s, s:o}", "type", "text", "text",
		error_text(text.data, text.len))));
	buf_fini(&text);
	return 0;
}

/* One block of what a tool gave: text as it is, anything else as its type, which the model's encoder mentions as
 * "[Unsupported image]": refusing it would end an agent's conversation, which has to send it again for ever. */
static int anthropic_messages_result_part(const struct field_at *part, json_t *parts, struct error *err)
{
	const char *type = NULL, *text = "";
	int rc = field_need(part, "type", &type, err);

	if (!rc && !strcmp(type, "tool_reference"))
		return anthropic_messages_result_reference(part, parts, err);
	if (!rc && !strcmp(type, "text"))
		rc = field_need(part, "text", &text, err);
	if (!rc)
		must_zero(json_array_append_new(parts, json_pack("{s:s, s:s}", "type", type, "text", text)));
	return rc;
}

static int anthropic_messages_result_parts(const struct field_at *block, json_t *content, json_t *parts,
	struct error *err)
{
	int rc = 0;

	if (json_is_string(content))
		must_zero(json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", content)));
	for (size_t i = 0; !rc && i < json_array_size(content); i++) {
		struct field_at part;

		rc = field_element(block, "content", content, i, &part, err);
		if (!rc)
			rc = anthropic_messages_result_part(&part, parts, err);
	}
	return rc;
}

/* The model has no mark for a call that failed: a first line says so. */
static int anthropic_messages_block_result(struct anthropic_messages_turn *t, const struct field_at *block,
	struct error *err)
{
	json_t *content = field_any(block, "content"), *parts;
	const char *id;
	bool failed = false;
	int rc;

	if ((rc = field_need(block, "tool_use_id", &id, err)) || (rc = field_bool(block, "is_error", &failed, err)))
		return rc;
	if (content && !json_is_string(content) && !json_is_array(content))
		return field_wrong_type(block, "content", content, "a string or an array of blocks", err);
	parts = json_array();
	if (failed)
		must_zero(json_array_append_new(parts, json_pack("{s:s, s:s}", "type", "text", "text", "[error]")));
	rc = anthropic_messages_result_parts(block, content, parts, err);
	if (rc) {
		json_decref(parts);
		return rc;
	}
	anthropic_messages_flush(t);
	history_result(t->h, t->index, id, parts);
	return 0;
}

static const struct {
	const char *type;
	bool user, assistant;
	anthropic_messages_block_f *read;
} anthropic_messages_blocks[] = {
	{ "text", true, true, anthropic_messages_block_text },
	{ "thinking", false, true, anthropic_messages_block_thinking },
	{ "redacted_thinking", false, true, anthropic_messages_block_redacted },
	{ "tool_use", false, true, anthropic_messages_block_use },
	{ "tool_result", true, false, anthropic_messages_block_result },
};

static int anthropic_messages_block(struct anthropic_messages_turn *t, const struct field_at *block, struct error *err)
{
	const char *type = NULL;
	int rc = field_need(block, "type", &type, err);

	for (size_t i = 0; !rc && i < mem_countof(anthropic_messages_blocks); i++)
		if (!strcmp(type, anthropic_messages_blocks[i].type) &&
			(t->assistant ? anthropic_messages_blocks[i].assistant : anthropic_messages_blocks[i].user))
			return anthropic_messages_blocks[i].read(t, block, err);
	return rc ? rc : field_refuse(block, "type", err, RC_UNSUPPORTED,
		"\"%.40s\" blocks are not supported in %s message", type, t->assistant ? "an assistant's" : "a user's");
}

/* ---- messages ---- */

static int anthropic_messages_content(struct anthropic_messages_turn *t, const struct field_at *m, struct error *err)
{
	json_t *content = field_any(m, "content");
	int rc = 0;

	if (!content)
		return field_refuse(m, "content", err, RC_INVALID, "missing");
	if (!json_is_string(content) && !json_is_array(content))
		return field_wrong_type(m, "content", content, "a string or an array of blocks", err);
	if (json_is_string(content) && t->assistant)
		history_text(t->h, t->index, json_string_value(content), json_string_length(content));
	else if (json_is_string(content))
		history_user(t->h, t->index, json_incref(content));
	for (size_t i = 0; !rc && i < json_array_size(content); i++) {
		struct field_at block;

		rc = field_element(m, "content", content, i, &block, err);
		if (!rc)
			rc = anthropic_messages_block(t, &block, err);
	}
	return rc;
}

static int anthropic_messages_one(struct history *h, int index, const struct field_at *m, struct error *err)
{
	struct anthropic_messages_turn t = { .h = h, .index = index };
	const char *role = NULL;
	int rc = field_need(m, "role", &role, err);

	if (rc)
		return rc;
	if (!strcmp(role, "system"))
		return anthropic_messages_system(m, "content", index, h, err);
	t.assistant = !strcmp(role, "assistant");
	if (!t.assistant && strcmp(role, "user"))
		return field_refuse(m, "role", err, RC_INVALID, "\"%.40s\" is none of user, assistant, system", role);
	rc = anthropic_messages_content(&t, m, err);
	if (!rc)
		anthropic_messages_flush(&t);
	buf_fini(&t.text);
	return rc;
}

int anthropic_messages_parse(const struct field_at *b, struct history *h, struct error *err)
{
	json_t *list = NULL;
	int rc;

	if ((rc = anthropic_messages_system(b, "system", HISTORY_FRONT, h, err)) || (rc = field_array(b, "messages",
		&list, err)))
		return rc;
	if (!list)
		return field_refuse(b, "messages", err, RC_INVALID, "missing");
	if (json_array_size(list) == 0)
		return field_refuse(b, "messages", err, RC_INVALID, "expected at least one message");
	if (json_array_size(list) > PROMPT_MAX_MESSAGES)
		return field_refuse(b, "messages", err, RC_INVALID, "more than %d messages", PROMPT_MAX_MESSAGES);
	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		struct field_at m;

		rc = field_element(b, "messages", list, i, &m, err);
		if (!rc)
			rc = anthropic_messages_one(h, (int)i, &m, err);
	}
	return rc;
}
