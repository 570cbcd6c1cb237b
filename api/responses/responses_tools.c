/* SPDX-License-Identifier: MIT
 * responses_tools.c - "tools" and "tool_choice" of OpenAI's /v1/responses.
 * Threads: any. Locks: none. */
#include "api/request/tools.h"
#include "api/responses/responses_request.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

/* What a service of OpenAI's would run. Clients offer these with every request; a model need not use them. */
static const char *const responses_tools_left_out[] = {
	"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
		"image_generation",
};

void responses_tools_name(const char *space, const char *name, struct buf *out)
{
	if (space && *space)
		buf_printf(out, "%s.%s", space, name);
	else
		buf_adds(out, name);
}

/* Offers it; takes over `parameters`. A namespace's function may be named as another tool is in full: refused. */
static int responses_tools_offer(const struct field_at *t, struct responses_request *r, const char *space,
	const char *type, const char *name, const char *description, json_t *parameters, bool strict, struct error *err)
{
	struct buf full = { 0 };
	json_t *known, *tool;
	int rc;

	responses_tools_name(space, name, &full);
	tool = tools_new(buf_str(&full), description, parameters, strict);
	known = json_pack("{s:s, s:s, s:s*, s:O}", "type", type, "name", name, "namespace", space, "tool", tool);
	must(known);
	rc = tools_take_name(t, r->names, buf_str(&full), known, err);
	if (rc)
		json_decref(tool);
	else
		must_zero(json_array_append_new(r->tools, tool));
	buf_fini(&full);
	return rc;
}

static int responses_tools_function(const struct field_at *t, const char *space, struct responses_request *r,
	struct error *err)
{
	const char *name = NULL, *description = NULL;
	struct field_at parameters;
	bool strict = false;
	int rc;

	if ((rc = tools_name(t, &name, err)) || (rc = field_string(t, "description", &description, err)) ||
		(rc = field_object(t, "parameters", &parameters, err)) || (rc = field_bool(t, "strict", &strict, err)))
		return rc;
	return responses_tools_offer(t, r, space, "function", name, description, json_incref(parameters.object), strict,
		err);
}

/* A tool whose input is text of any kind: a function with one string, which calls are held to. A grammar for it is
 * told, not enforced. */
static int responses_tools_custom(const struct field_at *t, struct responses_request *r, struct error *err)
{
	const char *name = NULL, *description = "", *grammar = NULL;
	struct buf told = { 0 };
	struct field_at format = { 0 };
	int rc;

	if ((rc = tools_name(t, &name, err)) || (rc = field_string(t, "description", &description, err)) ||
		(rc = field_object(t, "format", &format, err)) ||
		(format.object && (rc = field_string(&format, "definition", &grammar, err))))
		return rc;
	buf_adds(&told, description);
	if (grammar)
		buf_printf(&told, "%sThe input follows this grammar:\n%s", told.len ? "\n\n" : "", grammar);
	rc = responses_tools_offer(t, r, NULL, "custom", name, buf_str(&told), json_pack("{s:s, s:{s:{s:s}}, s:[s]}",
		"type", "object", "properties", "input", "type", "string", "required", "input"), true, err);
	buf_fini(&told);
	return rc;
}

static int responses_tools_namespace(const struct field_at *t, struct responses_request *r, struct error *err)
{
	const char *space = NULL, *type;
	json_t *list = NULL;
	int rc = tools_name(t, &space, err);

	if (!rc)
		rc = field_array(t, "tools", &list, err);
	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		struct field_at f;

		type = "function";
		if ((rc = field_element(t, "tools", list, i, &f, err)) || (rc = field_string(&f, "type", &type, err)))
			break;
		if (strcmp(type, "function"))
			rc = field_refuse(&f, "type", err, RC_UNSUPPORTED, "\"%.60s\" is not a function", type);
		else
			rc = responses_tools_function(&f, space, r, err);
	}
	return rc;
}

static bool responses_tools_omitted(const char *type)
{
	for (size_t i = 0; i < mem_countof(responses_tools_left_out); i++)
		if (!strcmp(type, responses_tools_left_out[i]))
			return true;
	return false;
}

static int responses_tools_one(const struct field_at *t, struct responses_request *r, json_t *echo, struct error *err)
{
	const char *type = NULL;
	int rc = field_need(t, "type", &type, err);

	if (rc || responses_tools_omitted(type))
		return rc;
	if (!strcmp(type, "function"))
		rc = responses_tools_function(t, NULL, r, err);
	else if (!strcmp(type, "custom"))
		rc = responses_tools_custom(t, r, err);
	else if (!strcmp(type, "namespace"))
		rc = responses_tools_namespace(t, r, err);
	else
		rc = field_refuse(t, "type", err, RC_UNSUPPORTED,
			"\"%.60s\" tools are not supported, only function, custom "
			"and namespace", type);
	must_zero(json_array_append(echo, t->object));
	return rc;
}

static int responses_tools_list(const struct field_at *b, struct responses_request *r, struct error *err)
{
	json_t *list = NULL, *echo = json_array();
	int rc = field_array(b, "tools", &list, err);

	must_zero(json_object_set_new(r->echo, "tools", echo));
	r->tools = json_array();
	if (!rc && json_array_size(list) > TOOLS_MAX)
		rc = field_refuse(b, "tools", err, RC_INVALID, "more than %d tools", TOOLS_MAX);
	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		struct field_at t;

		rc = field_element(b, "tools", list, i, &t, err);
		if (!rc)
			rc = responses_tools_one(&t, r, echo, err);
	}
	return rc;
}

/* ---- tool_choice ---- */

static int responses_tools_mode(const struct field_at *at, const char *key, const char *word,
	struct generation_spec *spec, struct error *err)
{
	if (!strcmp(word, "auto") || !strcmp(word, "none"))
		spec->calls = strcmp(word, "none") ? GEN_CALLS_AUTO : GEN_CALLS_NONE;
	else if (!strcmp(word, "required"))
		spec->calls = GEN_CALLS_REQUIRED;
	else
		return field_refuse(at, key, err, RC_INVALID, "\"%.40s\" is none of auto, none, required", word);
	return 0;
}

/* {"type", "name", "namespace"} of a tool that is offered: as it is offered. */
static int responses_tools_chosen(const struct field_at *c, const struct responses_request *r, json_t **ret_tool,
	struct error *err)
{
	const char *name = NULL, *space = NULL;
	struct buf full = { 0 };
	json_t *known;
	int rc;

	if ((rc = field_need(c, "name", &name, err)) || (rc = field_string(c, "namespace", &space, err)))
		return rc;
	responses_tools_name(space, name, &full);
	known = json_object_get(r->names, buf_str(&full));
	if (known)
		*ret_tool = json_object_get(known, "tool");
	else
		rc = field_refuse(c, "name", err, RC_INVALID, "no tool is named \"%.128s\"", buf_str(&full));
	buf_fini(&full);
	return rc;
}

static const char *responses_tools_own_name(const json_t *tool)
{
	return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static int responses_tools_keep(const struct field_at *c, json_t *list, const struct responses_request *r,
	json_t *kept, struct error *err)
{
	json_t *names = json_object();
	int rc = 0;

	if (json_array_size(list) > TOOLS_MAX)
		rc = field_refuse(c, "tools", err, RC_INVALID, "more than %d tools", TOOLS_MAX);
	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		struct field_at t;
		json_t *tool = NULL;

		if ((rc = field_element(c, "tools", list, i, &t, err)) ||
			(rc = responses_tools_chosen(&t, r, &tool, err)))
			break;
		if (json_object_get(names, responses_tools_own_name(tool)))
			continue;
		must_zero(json_object_set_new(names, responses_tools_own_name(tool), json_true()));
		must_zero(json_array_append(kept, tool));
	}
	json_decref(names);
	return rc;
}

/* Only some of the tools may be called: only those are offered. */
static int responses_tools_allowed(const struct field_at *c, struct responses_request *r, struct error *err)
{
	json_t *list = NULL, *kept;
	const char *mode = "auto";
	int rc;

	if ((rc = field_array(c, "tools", &list, err)) || (rc = field_string(c, "mode", &mode, err)) ||
		(rc = responses_tools_mode(c, "mode", mode, &r->spec, err)))
		return rc;
	kept = json_array();
	rc = responses_tools_keep(c, list, r, kept, err);
	json_decref(r->tools);
	r->tools = kept;
	return rc;
}

static int responses_tools_choice_object(const struct field_at *b, struct responses_request *r, struct error *err)
{
	const char *type = NULL;
	struct field_at c;
	json_t *tool = NULL;
	int rc = field_object(b, "tool_choice", &c, err);

	if (rc || (rc = field_need(&c, "type", &type, err)))
		return rc;
	if (!strcmp(type, "allowed_tools"))
		return responses_tools_allowed(&c, r, err);
	if (strcmp(type, "function") && strcmp(type, "custom"))
		return field_refuse(&c, "type", err, RC_UNSUPPORTED,
			"\"%.60s\" is none of function, custom, allowed_tools",
			type);
	r->spec.calls = GEN_CALLS_NAMED;
	rc = responses_tools_chosen(&c, r, &tool, err);
	if (!rc)
		r->spec.function = responses_tools_own_name(tool);
	return rc;
}

int responses_tools_parse(const struct field_at *b, struct responses_request *r, struct error *err)
{
	json_t *choice = field_any(b, "tool_choice");
	int rc = responses_tools_list(b, r, err);

	if (!rc && json_is_string(choice))
		rc = responses_tools_mode(b, "tool_choice", json_string_value(choice), &r->spec, err);
	else if (!rc && choice)
		rc = responses_tools_choice_object(b, r, err);
	if (!rc && r->spec.calls == GEN_CALLS_REQUIRED && json_array_size(r->tools) == 0)
		rc = field_refuse(b, "tool_choice", err, RC_INVALID, "\"required\" needs tools");
	if (!rc && (r->spec.calls == GEN_CALLS_NONE || json_array_size(r->tools) == 0)) {
		json_decref(r->tools);
		r->tools = NULL;
	}
	return rc;
}
