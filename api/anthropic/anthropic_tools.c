/* SPDX-License-Identifier: MIT
 * anthropic_tools.c - "tools" and "tool_choice" of Anthropic's /v1/messages.
 * Threads: any. Locks: none. */
#include "api/anthropic/anthropic_request.h"
#include "api/request/tools.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

/* {"name", "description", "input_schema"}; those with a type other than "custom" are tools that Anthropic's servers
 * run, or that its models know without a schema. */
static int anthropic_tools_one(const struct field_at *t, json_t *tools, json_t *names, struct error *err)
{
	const char *type = "custom", *name = NULL, *description = NULL;
	struct field_at schema;
	bool strict = false;
	int rc = field_string(t, "type", &type, err);

	if (!rc && strcmp(type, "custom"))
		rc = field_refuse(t, "type", err, RC_UNSUPPORTED,
			"\"%.60s\" tools are not supported, only those with an "
			"input_schema", type);
	if (rc || (rc = tools_name(t, &name, err)) || (rc = field_string(t, "description", &description, err)) ||
		(rc = field_object(t, "input_schema", &schema, err)) || (rc = field_bool(t, "strict", &strict, err)))
		return rc;
	if (!schema.object)
		return field_refuse(t, "input_schema", err, RC_INVALID, "missing");
	rc = tools_take_name(t, names, name, json_true(), err);
	if (!rc)
		must_zero(json_array_append_new(tools, tools_new(name, description, json_incref(schema.object),
			strict)));
	return rc;
}

static int anthropic_tools_list(const struct field_at *b, json_t **ret_tools, struct error *err)
{
	json_t *list = NULL, *tools, *names;
	int rc = field_array(b, "tools", &list, err);

	if (!rc && json_array_size(list) > TOOLS_MAX)
		rc = field_refuse(b, "tools", err, RC_INVALID, "more than %d tools", TOOLS_MAX);
	if (rc || json_array_size(list) == 0)
		return rc;
	tools = json_array();
	names = json_object();
	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		struct field_at t;

		rc = field_element(b, "tools", list, i, &t, err);
		if (!rc)
			rc = anthropic_tools_one(&t, tools, names, err);
	}
	json_decref(names);
	*ret_tools = tools;
	return rc;
}

static const struct {
	const char *type;
	enum gen_calls calls;
} anthropic_tools_choices[] = {
	{ "auto", GEN_CALLS_AUTO }, { "any", GEN_CALLS_REQUIRED }, { "tool", GEN_CALLS_NAMED }, { "none",
		GEN_CALLS_NONE },
};

static int anthropic_tools_choice_type(const struct field_at *c, enum gen_calls *ret_calls, struct error *err)
{
	const char *type = NULL;
	int rc = field_need(c, "type", &type, err);

	for (size_t i = 0; !rc && i < mem_countof(anthropic_tools_choices); i++)
		if (!strcmp(type, anthropic_tools_choices[i].type)) {
			*ret_calls = anthropic_tools_choices[i].calls;
			return 0;
		}
	return rc ? rc : field_refuse(c, "type", err, RC_INVALID, "\"%.40s\" is none of auto, any, tool, none", type);
}

static int anthropic_tools_choice(const struct field_at *b, struct anthropic_request *r, struct error *err)
{
	struct field_at c;
	int rc = field_object(b, "tool_choice", &c, err);

	if (rc || !c.object)
		return rc;
	if ((rc = anthropic_tools_choice_type(&c, &r->spec.calls, err)) ||
		(rc = field_bool(&c, "disable_parallel_tool_use", &r->spec.one_call, err)))
		return rc;
	if (r->spec.calls == GEN_CALLS_REQUIRED && !r->tools)
		return field_refuse(&c, "type", err, RC_INVALID, "\"any\" needs tools");
	if (r->spec.calls != GEN_CALLS_NAMED)
		return 0;
	rc = field_need(&c, "name", &r->spec.function, err);
	if (!rc && !tools_have(r->tools, r->spec.function))
		rc = field_refuse(&c, "name", err, RC_INVALID, "no tool is named \"%.128s\"", r->spec.function);
	return rc;
}

int anthropic_tools_parse(const struct field_at *b, struct anthropic_request *r, struct error *err)
{
	int rc = anthropic_tools_list(b, &r->tools, err);

	if (!rc)
		rc = anthropic_tools_choice(b, r, err);
	if (!rc && r->spec.calls == GEN_CALLS_NONE) {
		json_decref(r->tools);
		r->tools = NULL;
	}
	return rc;
}
