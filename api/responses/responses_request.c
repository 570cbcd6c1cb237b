/* SPDX-License-Identifier: MIT
 * responses_request.c - the body of OpenAI's /v1/responses to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/responses/responses_request.h"
#include "api/request/go_on.h"
#include "api/request/guard_field.h"
#include "api/request/settings.h"
#include "api/request/plain.h"
#include "api/request/recall_fill.h"
#include "api/request/thinking.h"
#include "api/responses/responses_store.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct plain_field responses_request_fields[] = {
#define PLAIN_OF struct responses_request
#define PLAIN_TABLE "api/responses/responses_fields.def"
#include "api/request/plain_rows.h"
};

/* ---- what the content must be ---- */

static int responses_request_schema(const struct field_at *f, struct responses_request *r, struct error *err)
{
	struct field_at schema;
	const char *name;
	int rc = field_need(f, "name", &name, err);

	if (rc || (rc = field_object(f, "schema", &schema, err)))
		return rc;
	if (!schema.object)
		return field_refuse(f, "schema", err, RC_INVALID, "missing");
	r->spec.format = GEN_FORMAT_JSON_SCHEMA;
	r->spec.schema = schema.object;
	r->schema_at = "text.format.schema";
	return 0;
}

static int responses_request_text(const struct field_at *b, struct responses_request *r, struct error *err)
{
	struct field_at text, f;
	const char *type = NULL;
	int rc = field_object(b, "text", &text, err);

	if (rc || !text.object || (rc = field_object(&text, "format", &f, err)) || !f.object ||
		(rc = field_need(&f, "type", &type, err)))
		return rc;
	if (!strcmp(type, "json_schema"))
		return responses_request_schema(&f, r, err);
	if (strcmp(type, "text") && strcmp(type, "json_object"))
		return field_refuse(&f, "type", err, RC_UNSUPPORTED,
			"\"%.40s\" is none of text, json_object, json_schema",
			type);
	r->spec.format = strcmp(type, "text") ? GEN_FORMAT_JSON_OBJECT : GEN_FORMAT_TEXT;
	return 0;
}

/* ---- reasoning ---- */

static int responses_request_reasoning(const struct field_at *b, struct responses_request *r, struct error *err)
{
	const char *summary = NULL;
	struct field_at o;
	int rc = field_object(b, "reasoning", &o, err);

	if (rc || !o.object)
		return rc;
	if ((rc = thinking_effort(&o, "effort", &r->spec, err)) ||
		(rc = field_string(&o, "generate_summary", &summary, err)) ||
		(rc = field_string(&o, "summary", &summary, err)))
		return rc;
	r->summary = summary && strcmp(summary, "none");
	return 0;
}

static int responses_request_include(const struct field_at *b, struct responses_request *r, struct error *err)
{
	json_t *list = NULL, *v;
	char name[32];
	size_t i;
	int rc = field_array(b, "include", &list, err);

	json_array_foreach(list, i, v) {
		snprintf(name, sizeof name, "include[%zu]", i);
		if (!json_is_string(v))
			return field_wrong_type(b, name, v, "a string", err);
		if (!strcmp(json_string_value(v), "message.output_text.logprobs"))
			return field_refuse(b, name, err, RC_UNSUPPORTED,
				"use /v1/chat/completions for log-probabilities");
		/* The others ask for what the service's own tools gave. */
		r->encrypted |= !strcmp(json_string_value(v), "reasoning.encrypted_content");
	}
	return rc;
}

/* ---- the conversation ---- */

static int responses_request_input(const struct field_at *b, struct responses_request *r, struct error *err)
{
	json_t *v = field_any(b, "input");

	if (json_is_string(v)) {
		history_user(&r->history, 0, json_incref(v));
		return 0;
	}
	if (v && !json_is_array(v))
		return field_wrong_type(b, "input", v, "a string or an array of items", err);
	if (json_array_size(v) > PROMPT_MAX_MESSAGES)
		return field_refuse(b, "input", err, RC_INVALID, "more than %d items", PROMPT_MAX_MESSAGES);
	if (json_array_size(v) == 0)
		return field_refuse(b, "input", err, RC_INVALID, v ? "expected at least one item" : "missing");
	return responses_input_items(b, "input", v, 0, &r->history, err);
}

static int responses_request_talk(const struct exchange *x, const struct field_at *b, struct responses_request *r,
	struct error *err)
{
	const char *instructions = NULL, *previous = NULL;
	int rc;

	if ((rc = field_string(b, "instructions", &instructions, err)) ||
		(rc = field_string(b, "previous_response_id", &previous, err)))
		return rc;
	if (instructions && *instructions)
		history_system(&r->history, HISTORY_FRONT, instructions, strlen(instructions));
	if (previous)
		rc = responses_store_earlier(x, previous, &r->history, err);
	if (!rc)
		rc = responses_request_input(b, r, err);
	if (!rc && history_ends_with_calls(&r->history))
		rc = field_refuse(b, "input", err, RC_INVALID, "the last calls have no outputs");
	r->spec.messages = history_end(&r->history);
	if (!rc && (rc = go_on_prepare(r->spec.messages, &r->spec, err)))
		history_error(&r->history, err);
	if (!rc && r->spec.thinking)
		recall_fill(x->engine, x->label, r->spec.messages);
	return rc;
}

/* ---- what the response repeats ---- */

/* As the body has it, else as it is when nobody asked for anything. Takes over `otherwise`. */
static void responses_request_repeat(struct responses_request *r, const struct field_at *b, const char *name,
	json_t *otherwise)
{
	json_t *v = field_any(b, name);

	must_zero(json_object_set(r->echo, name, v ? v : otherwise));
	json_decref(otherwise);
}

static void responses_request_echo(struct responses_request *r, const struct field_at *b)
{
	const struct {
		const char *name;
		json_t *otherwise;
	} repeated[] = {
		{ "instructions", json_null() }, { "max_output_tokens", json_null() }, { "metadata", json_object() },
		{ "previous_response_id", json_null() }, { "tool_choice", json_string("auto") }, { "user",
			json_null() },
		{ "text", json_pack("{s:{s:s}}", "format", "type", "text") }, { "truncation", json_string("disabled") },
		{ "reasoning", json_pack("{s:n, s:n}", "effort", "summary") },
		{ "temperature", json_real((double)r->spec.sampling.temperature) },
		{ "top_p", json_real((double)r->spec.sampling.top_p) },
		{ "parallel_tool_calls", json_boolean(r->parallel) }, { "store", json_boolean(r->store) },
	};

	for (size_t i = 0; i < mem_countof(repeated); i++)
		responses_request_repeat(r, b, repeated[i].name, repeated[i].otherwise);
}

/* ---- the whole ---- */

static int responses_request_fill(const struct exchange *x, const struct field_at *b, struct responses_request *r,
	struct error *err)
{
	struct field_at metadata;
	int rc;

	if ((rc = settings_model(b, x->engine, false, err)) ||
		(rc = settings_sampling(x->engine, b, &r->spec.sampling, &r->bias, err)) ||
		(rc = plain_read(responses_request_fields, mem_countof(responses_request_fields), b, r, err)) ||
		(rc = field_object(b, "metadata", &metadata, err)) || (rc = responses_request_text(b, r, err)) ||
		(rc = responses_request_reasoning(b, r, err)) || (rc = responses_request_include(b, r, err)) ||
		(rc = responses_tools_parse(b, r, err)) || (rc = guard_field(b, &r->spec.guard, err)))
		return rc;
	responses_request_echo(r, b);
	r->spec.one_call = !r->parallel;
	r->spec.tools = r->tools;
	return responses_request_talk(x, b, r, err);
}

int responses_request_parse(const struct exchange *x, json_t *body, struct responses_request *ret_r, struct error *err)
{
	struct field_at at = { body, "" };
	struct responses_request r = { .spec = { .thinking = true, .parse = true }, .store = true, .parallel = true,
		.history = { .list = "input", .front = "instructions", .earlier = "previous_response_id" } };
	int rc;

	r.echo = json_object();
	r.names = json_object();
	gen_sampling_init(x->engine, &r.spec.sampling);
	rc = responses_request_fill(x, &at, &r, err);
	if (rc) {
		responses_request_fini(&r);
		return rc;
	}
	*ret_r = r;
	return 0;
}

void responses_request_error(const struct responses_request *r, struct error *err)
{
	history_error(&r->history, err);
	if (r->schema_at)
		error_rename(err, "schema", r->schema_at);
	error_rename(err, "max_tokens", "max_output_tokens");
}

void responses_request_fini(struct responses_request *r)
{
	history_fini(&r->history);
	json_decref(r->tools);
	json_decref(r->echo);
	json_decref(r->names);
	free(r->bias);
	*r = (struct responses_request){ 0 };
}
