/* SPDX-License-Identifier: MIT
 * chat_format.c - what the content must be: response_format, and what other servers call it.
 * Threads: any. Locks: none. */
#include "api/request/chat_format.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <string.h>

#define CHAT_FORMAT_MAX_NAME 64

static int chat_format_schema(const struct field_at *at, const char *key, const char *path,
	struct generation_spec *spec, const char **ret_path, struct error *err)
{
	struct field_at schema;
	int rc = field_object(at, key, &schema, err);

	if (rc)
		return rc;
	if (!schema.object)
		return field_refuse(at, key, err, RC_INVALID, "missing");
	spec->format = GEN_FORMAT_JSON_SCHEMA;
	spec->schema = schema.object;
	*ret_path = path;
	return 0;
}

static int chat_format_name(const struct field_at *at, struct error *err)
{
	const char *name = NULL;
	int rc = field_string(at, "name", &name, err);
	size_t n = name ? strlen(name) : 0;

	if (rc)
		return rc;
	if (!name)
		return field_refuse(at, "name", err, RC_INVALID, "missing");
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("_-", name[i]))
			n = 0;
	return n && n <= CHAT_FORMAT_MAX_NAME ? 0 : field_refuse(at, "name", err, RC_INVALID,
		"expected 1 to %d letters, digits, - or _", CHAT_FORMAT_MAX_NAME);
}

/* {"name", "description", "strict", "schema"}. The content follows the schema whether or not it is to be strict. */
static int chat_format_json_schema(const struct field_at *f, struct generation_spec *spec, const char **ret_path,
	struct error *err)
{
	const char *description = NULL;
	struct field_at o;
	bool strict = true;
	int rc = field_object(f, "json_schema", &o, err);

	if (rc)
		return rc;
	if (!o.object)
		return field_refuse(f, "json_schema", err, RC_INVALID, "missing");
	if ((rc = chat_format_name(&o, err)) || (rc = field_bool(&o, "strict", &strict, err)) ||
	    (rc = field_string(&o, "description", &description, err)))
		return rc;
	return chat_format_schema(&o, "schema", "response_format.json_schema.schema", spec, ret_path, err);
}

static int chat_format_response(const struct field_at *b, struct generation_spec *spec, const char **ret_path,
	struct error *err)
{
	const char *type = NULL;
	struct field_at o;
	int rc = field_object(b, "response_format", &o, err);

	if (rc || !o.object || (rc = field_string(&o, "type", &type, err)))
		return rc;
	if (!type)
		return field_refuse(&o, "type", err, RC_INVALID, "missing");
	if (!strcmp(type, "json_schema"))
		return chat_format_json_schema(&o, spec, ret_path, err);
	if (!strcmp(type, "json_object") && field_any(&o, "schema"))
		return chat_format_schema(&o, "schema", "response_format.schema", spec, ret_path, err);
	if (strcmp(type, "text") && strcmp(type, "json_object"))
		return field_refuse(&o, "type", err, RC_UNSUPPORTED,
			"\"%.32s\" is none of text, json_object, json_schema", type);
	spec->format = strcmp(type, "text") ? GEN_FORMAT_JSON_OBJECT : GEN_FORMAT_TEXT;
	return 0;
}

/* {"json": schema} or {"json_object": true}; nothing else of it. */
static int chat_format_structured(const struct field_at *o, struct generation_spec *spec, const char **ret_path,
	struct error *err)
{
	static const char *const no[] = { "regex", "choice", "grammar", "structural_tag" };
	bool object = false;
	int rc;

	for (size_t i = 0; i < mem_countof(no); i++)
		if (field_any(o, no[i]))
			return field_refuse(o, no[i], err, RC_UNSUPPORTED, "constraints are JSON schemas");
	if (field_any(o, "json"))
		return chat_format_schema(o, "json", "structured_outputs.json", spec, ret_path, err);
	rc = field_bool(o, "json_object", &object, err);
	spec->format = object ? GEN_FORMAT_JSON_OBJECT : GEN_FORMAT_TEXT;
	return rc;
}

static int chat_format_other(const struct field_at *b, const char *name, struct generation_spec *spec,
	const char **ret_path, struct error *err)
{
	struct field_at o;

	if (!field_any(b, name))
		return 0;
	if (spec->format != GEN_FORMAT_TEXT)
		return field_refuse(b, name, err, RC_INVALID, "another field says the format already");
	if (strcmp(name, "structured_outputs"))
		return chat_format_schema(b, name, name, spec, ret_path, err);
	return field_object(b, name, &o, err) ? err->rc : chat_format_structured(&o, spec, ret_path, err);
}

int chat_format_parse(const struct field_at *b, struct generation_spec *spec, const char **ret_path, struct error *err)
{
	static const char *const others[] = { "guided_json", "json_schema", "structured_outputs" };
	int rc = chat_format_response(b, spec, ret_path, err);

	for (size_t i = 0; i < mem_countof(others) && !rc; i++)
		rc = chat_format_other(b, others[i], spec, ret_path, err);
	return rc;
}
