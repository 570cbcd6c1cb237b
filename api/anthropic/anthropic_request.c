/* SPDX-License-Identifier: MIT
 * anthropic_request.c - the body of Anthropic's /v1/messages to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/anthropic/anthropic_request.h"
#include "api/http/exchange.h"
#include "api/request/go_on.h"
#include "api/request/guard_field.h"
#include "api/request/settings.h"
#include "api/request/plain.h"
#include "api/request/recall_fill.h"
#include "api/request/thinking.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct plain_field anthropic_request_fields[] = {
#define PLAIN_OF struct anthropic_request
#define PLAIN_TABLE "api/anthropic/anthropic_fields.def"
#include "api/request/plain_rows.h"
};

static int anthropic_request_plain(const struct field_at *b, bool counting, struct anthropic_request *r,
	struct error *err)
{
	int rc = plain_read(anthropic_request_fields, mem_countof(anthropic_request_fields), b, r, err);

	if (!rc && !counting && r->spec.max_tokens <= 0)
		rc = field_refuse(b, "max_tokens", err, RC_INVALID, "missing");
	return rc;
}

/* {"type": "json_schema", "schema": {...}} */
static int anthropic_request_format(const struct field_at *at, const char *key, const char *path,
	struct anthropic_request *r, struct error *err)
{
	struct field_at f, schema;
	const char *type = "";
	int rc = field_object(at, key, &f, err);

	if (rc || !f.object)
		return rc;
	if ((rc = field_string(&f, "type", &type, err)) || (rc = field_object(&f, "schema", &schema, err)))
		return rc;
	if (strcmp(type, "json_schema"))
		return field_refuse(&f, "type", err, RC_INVALID, "\"%.40s\" is not \"json_schema\"", type);
	if (!schema.object)
		return field_refuse(&f, "schema", err, RC_INVALID, "missing");
	r->spec.format = GEN_FORMAT_JSON_SCHEMA;
	r->spec.schema = schema.object;
	r->schema_at = path;
	return 0;
}

/* `output_format` is what `output_config.format` was called before. */
static int anthropic_request_output(const struct field_at *b, struct anthropic_request *r, struct error *err)
{
	struct field_at config;
	int rc = field_object(b, "output_config", &config, err);

	if (!rc)
		rc = anthropic_request_format(b, "output_format", "output_format.schema", r, err);
	if (rc || !config.object)
		return rc;
	rc = thinking_effort(&config, "effort", &r->spec, err);
	return rc ? rc : anthropic_request_format(&config, "format", "output_config.format.schema", r, err);
}

static const struct {
	const char *type;
	bool thinking;
} anthropic_request_thinkings[] = {
	{ "enabled", true }, { "adaptive", true }, { "between_tools", true }, { "disabled", false },
};

static int anthropic_request_thinking_type(const struct field_at *t, struct anthropic_request *r, struct error *err)
{
	const char *type = NULL;
	int rc = field_need(t, "type", &type, err);

	for (size_t i = 0; !rc && i < mem_countof(anthropic_request_thinkings); i++)
		if (!strcmp(type, anthropic_request_thinkings[i].type)) {
			r->spec.thinking = anthropic_request_thinkings[i].thinking;
			return 0;
		}
	return rc ? rc : field_refuse(t, "type", err, RC_INVALID,
		"\"%.40s\" is none of enabled, adaptive, between_tools, disabled", type);
}

static int anthropic_request_thinking(const struct field_at *b, struct anthropic_request *r, struct error *err)
{
	const char *display = "summarized";
	struct field_at t;
	int rc = field_object(b, "thinking", &t, err);

	if (rc || !t.object)
		return rc;
	if ((rc = anthropic_request_thinking_type(&t, r, err)) ||
		(rc = thinking_budget(&t, "budget_tokens", &r->spec, err)) ||
		(rc = field_string(&t, "display", &display, err)))
		return rc;
	r->omit = !strcmp(display, "omitted");
	if (!r->omit && strcmp(display, "summarized"))
		return field_refuse(&t, "display", err, RC_INVALID, "\"%.40s\" is neither summarized nor omitted",
			display);
	return 0;
}

static int anthropic_request_fill(const struct exchange *x, const struct field_at *b, bool counting,
	struct anthropic_request *r, struct error *err)
{
	int rc;

	if ((rc = settings_model(b, x->engine, true, err)) ||
		(rc = settings_sampling(x->engine, b, &r->spec.sampling, &r->bias, err)) ||
		(rc = anthropic_request_plain(b, counting, r, err)) ||
		(rc = settings_stops(b, "stop_sequences", &r->stop, &r->spec.sampling, err)) ||
		(rc = guard_field(b, &r->spec.guard, err)) || (rc = anthropic_request_output(b, r, err)) ||
		(rc = anthropic_request_thinking(b, r, err)) ||
		(rc = anthropic_tools_parse(b, r, err)) || (rc = anthropic_messages_parse(b, &r->history, err)))
		return rc;
	if (history_ends_with_calls(&r->history))
		return field_refuse(b, "messages", err, RC_INVALID, "the last one has tool_use blocks without results");
	r->spec.messages = history_end(&r->history);
	if (go_on_prepare(r->spec.messages, &r->spec, err)) {
		history_error(&r->history, err);
		return err->rc;
	}
	if (r->spec.thinking)
		recall_fill(x->engine, x->label, r->spec.messages);
	r->spec.tools = r->tools;
	return 0;
}

int anthropic_request_parse(const struct exchange *x, json_t *body, bool counting, struct anthropic_request *ret_r,
	struct error *err)
{
	struct field_at at = { body, "" };
	struct anthropic_request r = { .spec = { .parse = true }, .history = { .list = "messages",
		.front = "system" } };
	int rc;

	gen_sampling_init(x->engine, &r.spec.sampling);
	rc = anthropic_request_fill(x, &at, counting, &r, err);
	if (rc) {
		anthropic_request_fini(&r);
		return rc;
	}
	*ret_r = r;
	return 0;
}

void anthropic_request_error(const struct anthropic_request *r, struct error *err)
{
	history_error(&r->history, err);
	if (r->schema_at)
		error_rename(err, "schema", r->schema_at);
	error_rename(err, "stop", "stop_sequences");
}

void anthropic_request_fini(struct anthropic_request *r)
{
	history_fini(&r->history);
	json_decref(r->tools);
	free(r->stop);
	free(r->bias);
	*r = (struct anthropic_request){ 0 };
}
