/* SPDX-License-Identifier: MIT
 * tools.c - the tools that a request offers, and how calls of them are chosen.
 * Threads: any. Locks: none. */
#include "api/request/tools.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <string.h>

/* Names are written into the prompt between quotes: nothing there may end the quotes or the line. */
static bool tools_name_ok(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_-.:/", s[i]))
			return false;
	return n > 0 && n <= TOOLS_MAX_NAME;
}

int tools_name(const struct field_at *f, const char **ret_name, struct error *err)
{
	int rc = field_string(f, "name", ret_name, err);

	if (rc)
		return rc;
	if (!*ret_name)
		return field_refuse(f, "name", err, RC_INVALID, "missing");
	if (!tools_name_ok(*ret_name))
		return field_refuse(f, "name", err, RC_INVALID,
			"expected 1 to %d letters, digits or any of _-.:/", TOOLS_MAX_NAME);
	return 0;
}

int tools_take_name(const struct field_at *f, json_t *names, const char *name, json_t *value, struct error *err)
{
	int rc = 0;

	if (json_object_get(names, name))
		rc = field_refuse(f, "name", err, RC_INVALID, "another tool is named \"%.260s\" already", name);
	else if (json_object_size(names) >= TOOLS_MAX)
		rc = field_refuse(f, "name", err, RC_INVALID, "more than %d tools", TOOLS_MAX);
	if (rc)
		json_decref(value);
	else
		must_zero(json_object_set_new(names, name, value));
	return rc;
}

json_t *tools_new(const char *name, const char *description, json_t *parameters, bool strict)
{
	json_t *f = json_pack("{s:s, s:s*, s:o*}", "name", name, "description", description, "parameters", parameters);
	json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", f);

	must(tool);
	if (strict)
		must_zero(json_object_set_new(f, "strict", json_true()));
	return tool;
}

static int tools_one(const struct field_at *tool, json_t *names, struct error *err)
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
	if ((rc = tools_name(&f, &name, err)) || (rc = field_string(&f, "description", &description, err)) ||
	    (rc = field_object(&f, "parameters", &parameters, err)) || (rc = field_bool(&f, "strict", &strict, err)))
		return rc;
	return tools_take_name(&f, names, name, json_true(), err);
}

int tools_check(const struct field_at *body, json_t *tools, struct error *err)
{
	json_t *names;
	int rc = 0;

	if (json_array_size(tools) > TOOLS_MAX)
		return field_refuse(body, "tools", err, RC_INVALID, "more than %d tools", TOOLS_MAX);
	names = json_object();
	for (size_t i = 0; !rc && i < json_array_size(tools); i++) {
		struct field_at tool;

		rc = field_element(body, "tools", tools, i, &tool, err);
		if (!rc)
			rc = tools_one(&tool, names, err);
	}
	json_decref(names);
	return rc;
}

void tools_unseen(const char *type, struct buf *out)
{
	bool picture = !strcmp(type, "image_url") || !strcmp(type, "input_image");

	buf_printf(out, "[Unsupported %s]", picture ? "image" : type);
}

/* ---- the choice ---- */

bool tools_have(const json_t *tools, const char *name)
{
	const json_t *tool;
	size_t i;

	json_array_foreach (tools, i, tool) {
		const char *s = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));

		if (s && (!name || !strcmp(s, name)))
			return true;
	}
	return false;
}

/* Messages may carry tools too, as the model's own encoder takes them. */
static bool tools_offered(const json_t *tools, const json_t *messages, const char *name)
{
	const json_t *m;
	size_t i;

	if (tools_have(tools, name))
		return true;
	json_array_foreach (messages, i, m)
		if (tools_have(json_object_get(m, "tools"), name))
			return true;
	return false;
}

/* "auto", "none" or "required"; false: none of them. */
static bool tools_word(const char *word, struct generation_spec *spec)
{
	static const struct {
		const char *word;
		enum gen_calls calls;
	} words[] = { { "auto", GEN_CALLS_AUTO }, { "none", GEN_CALLS_NONE }, { "required", GEN_CALLS_REQUIRED } };

	for (size_t i = 0; i < mem_countof(words); i++)
		if (!strcmp(word, words[i].word)) {
			spec->calls = words[i].calls;
			return true;
		}
	return false;
}

/* {"type": "function", "function": {"name"}}, or a word as the type. */
static int tools_named(const struct field_at *body, struct generation_spec *spec, struct error *err)
{
	const char *type = NULL;
	struct field_at o, f;
	int rc;

	if ((rc = field_object(body, "tool_choice", &o, err)) || (rc = field_need(&o, "type", &type, err)) ||
	    (rc = field_object(&o, "function", &f, err)))
		return rc;
	if (tools_word(type, spec))
		return 0;
	if (strcmp(type, "function"))
		return field_refuse(&o, "type", err, RC_UNSUPPORTED,
			"\"%.32s\" is not supported, only function, auto, none, required", type);
	if (!f.object)
		return field_refuse(&o, "function", err, RC_INVALID, "missing");
	if ((rc = tools_name(&f, &spec->function, err)))
		return rc;
	spec->calls = GEN_CALLS_NAMED;
	return 0;
}

static int tools_choice(const struct field_at *body, struct generation_spec *spec, struct error *err)
{
	json_t *v = field_any(body, "tool_choice");

	if (!v)
		return 0;
	if (json_is_object(v))
		return tools_named(body, spec, err);
	if (!json_is_string(v))
		return field_wrong_type(body, "tool_choice", v, "a string or an object", err);
	return tools_word(json_string_value(v), spec) ? 0 : field_refuse(body, "tool_choice", err, RC_INVALID,
		"\"%.32s\" is none of auto, none, required, and no object that names a function", json_string_value(v));
}

int tools_parse(const struct field_at *body, json_t *messages, struct generation_spec *spec, struct error *err)
{
	bool parallel = true;
	json_t *tools = NULL;
	int rc;

	if ((rc = field_array(body, "tools", &tools, err)) || (rc = tools_check(body, tools, err)) ||
	    (rc = field_bool(body, "parallel_tool_calls", &parallel, err)) ||
	    (rc = tools_choice(body, spec, err)))
		return rc;
	if (spec->calls == GEN_CALLS_NAMED && !tools_offered(tools, messages, spec->function))
		return field_refuse(body, "tool_choice.function.name", err, RC_INVALID,
			"\"%s\" is none of the functions in tools", spec->function);
	if (spec->calls == GEN_CALLS_REQUIRED && !tools_offered(tools, messages, NULL))
		return field_refuse(body, "tool_choice", err, RC_INVALID, "\"required\" needs tools");
	spec->one_call = !parallel;
	spec->tools = json_array_size(tools) && spec->calls != GEN_CALLS_NONE ? tools : NULL;
	return 0;
}
