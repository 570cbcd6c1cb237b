/* SPDX-License-Identifier: MIT
 * schema_object.c - the properties of a schema, as members of an object or as parameters of a call.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"

#include <stdlib.h>
#include <string.h>

struct schema_object {
	struct schema_member *member;
	size_t n;
	struct schema_member more;
	bool has_more, params;
};

/* The rules of a member's value: a parameter is text where its schema says string, and JSON where it does not. */
static void schema_object_rules(struct schema *s, int at, json_t *schema, const char *key, const char *name,
				struct schema_member *m)
{
	if (s->item[at].mode == SCHEMA_PARAMS) {
		m->text = schema_want(s, at, schema, SCHEMA_TEXT, key, name);
		m->value = schema_want(s, at, schema, SCHEMA_NOT_STRING, key, name);
	} else {
		m->value = schema_want(s, at, schema, SCHEMA_VALUE, key, name);
	}
}

static void schema_object_any(struct schema *s, int at, struct schema_member *m)
{
	bool params = s->item[at].mode == SCHEMA_PARAMS;

	m->value = schema_any(s, params ? SCHEMA_NOT_STRING : SCHEMA_VALUE);
	m->text = params ? schema_any(s, SCHEMA_TEXT) : 0;
}

static int schema_object_name(struct schema *s, int at, const char *key, const char *name)
{
	if (strlen(name) > SCHEMA_MAX_NAME)
		return schema_bad(s, at, RC_TOO_LARGE, key, "a name longer than %d bytes", SCHEMA_MAX_NAME);
	if (s->item[at].mode == SCHEMA_PARAMS && !schema_name_fits(name))
		return schema_bad(s, at, RC_UNSUPPORTED, key, "a call can have no parameter named \"%.80s\"", name);
	return 0;
}

static int schema_object_properties(struct schema *s, int at, struct schema_object *o)
{
	json_t *properties = json_object_get(s->item[at].schema, "properties"), *schema;
	const char *name;
	int rc;

	if (properties && !json_is_object(properties))
		return schema_bad(s, at, RC_INVALID, "properties", "must be an object");
	json_object_foreach(properties, name, schema) {
		rc = schema_object_name(s, at, "properties", name);
		if (rc)
			return rc;
		o->member[o->n] = (struct schema_member){ .name = name };
		schema_object_rules(s, at, schema, "properties", name, &o->member[o->n++]);
	}
	return 0;
}

/* Where nothing is said of others, there are others only if no property is named at all. */
static int schema_object_more(struct schema *s, int at, struct schema_object *o)
{
	json_t *schema = s->item[at].schema, *more = json_object_get(schema, "additionalProperties");

	o->has_more = more ? !json_is_false(more) : !json_object_get(schema, "properties");
	if (o->has_more && more)
		schema_object_rules(s, at, more, "additionalProperties", NULL, &o->more);
	else if (o->has_more)
		schema_object_any(s, at, &o->more);
	return 0;
}

static struct schema_member *schema_object_find(struct schema_object *o, const char *name)
{
	size_t i;

	for (i = 0; i < o->n; i++)
		if (strcmp(o->member[i].name, name) == 0)
			return &o->member[i];
	return NULL;
}

/* One that is required without a schema of its own is what additional ones are. */
static int schema_object_require(struct schema *s, int at, const char *name, struct schema_object *o)
{
	struct schema_member *m = schema_object_find(o, name);
	int rc;

	grammar_work(s->g, 2 * o->n);
	if (!m) {
		rc = schema_object_name(s, at, "required", name);
		if (rc)
			return rc;
		if (!o->has_more && json_object_get(s->item[at].schema, "additionalProperties"))
			return schema_none(s, at, "required",
					   "\"%.80s\" is excluded by additionalProperties", name);
		m = &o->member[o->n++];
		*m = o->more;
		if (!o->has_more)
			schema_object_any(s, at, m);
		m->name = name;
	}
	m->required = true;
	return 0;
}

static int schema_object_required(struct schema *s, int at, struct schema_object *o)
{
	json_t *required = json_object_get(s->item[at].schema, "required"), *name;
	size_t i;
	int rc;

	if (required && !json_is_array(required))
		return schema_bad(s, at, RC_INVALID, "required", "must be an array of names");
	json_array_foreach(required, i, name) {
		if (!json_is_string(name))
			return schema_bad(s, at, RC_INVALID, "required", "must be an array of names");
		rc = schema_object_require(s, at, json_string_value(name), o);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- names and numbers of members ---- */

static json_t *schema_object_kept(struct schema *s, json_t *made)
{
	must_zero(json_array_append_new(s->made, made));
	return made;
}

/* Names that match a pattern, and what is said of their members; others may, and do not come. */
static int schema_object_pattern(struct schema *s, int at, json_t *patterns, struct schema_object *o)
{
	const char *pattern = json_object_iter_key(json_object_iter(patterns));
	json_t *schema, *names;

	if (json_object_size(patterns) != 1)
		return schema_bad(s, at, RC_UNSUPPORTED, "patternProperties", "not supported: more than one pattern");
	schema = json_object_get(patterns, pattern);
	o->has_more = true;
	schema_object_rules(s, at, schema, "patternProperties", pattern, &o->more);
	names = schema_object_kept(s, json_pack("{s:s, s:s}", "type", "string", "pattern", pattern));
	o->more.names = schema_want(s, at, names, SCHEMA_VALUE, "patternProperties", pattern) + 1;
	return 0;
}

static int schema_object_names(struct schema *s, int at, struct schema_object *o)
{
	json_t *schema = s->item[at].schema, *names = json_object_get(schema, "propertyNames");
	json_t *patterns = json_object_get(schema, "patternProperties"), *strings;
	const char *key = names ? "propertyNames" : "patternProperties";
	int rc;

	if ((!names && json_object_size(patterns) == 0) || s->src->lenient)
		return 0;
	if (o->n || o->params || (names && patterns))
		return schema_bad(s, at, RC_UNSUPPORTED, key,
				  "supported only in objects without properties, required%s, and not of a call",
				  patterns ? ", propertyNames" : ", patternProperties");
	if (patterns)
		return schema_object_pattern(s, at, patterns, o);
	strings = schema_object_kept(s, json_pack("{s:s}", "type", "string"));
	rc = schema_merge(s, at, names, strings, &strings);
	if (rc || !o->has_more)
		return rc;
	o->more.names = schema_want(s, at, strings, SCHEMA_VALUE, key, NULL) + 1;
	return 0;
}

/* They are counted where all are additional ones; with others only what is so anyway. */
static int schema_object_counts(struct schema *s, int at, struct schema_object *o)
{
	uint32_t min = 0, max = JRULE_NO_MAX, required = 0;
	int rc = schema_words_count(s, at, "minProperties", &min);
	size_t i;

	rc = rc ? rc : schema_words_count(s, at, "maxProperties", &max);
	o->more.min = 0;
	o->more.max = JRULE_NO_MAX;
	if (rc || s->src->lenient)
		return rc;
	if (min > max)
		return schema_none(s, at, "minProperties", "%u is more than maxProperties, %u", min, max);
	for (i = 0; i < o->n; i++)
		required += o->member[i].required;
	if (o->n && min > required)
		return schema_bad(s, at, RC_UNSUPPORTED, "minProperties",
				  "with properties supported only up to the number of required ones, %u", required);
	if (o->n && (max < o->n || (o->has_more && max != JRULE_NO_MAX)))
		return schema_bad(s, at, RC_UNSUPPORTED, "maxProperties",
				  "with properties supported only from their number on, without additional ones");
	if (o->n)
		return 0;
	o->more.min = min;
	o->more.max = max;
	o->has_more = o->has_more && max > 0;
	if (!o->has_more)
		return min ? schema_none(s, at, "minProperties", "no member may come") : 0;
	return min <= 1 ? 0 : schema_bad(s, at, RC_UNSUPPORTED, "minProperties",
					 "more than 1 supported only up to the number of required ones: of free names "
					 "one could come twice");
}

int schema_object(struct schema *s, int at, uint32_t *ret_node)
{
	const json_t *schema = s->item[at].schema;
	struct schema_object o = { .params = s->item[at].mode == SCHEMA_PARAMS };
	size_t most = json_object_size(json_object_get(schema, "properties")) +
		      json_array_size(json_object_get(schema, "required"));
	uint32_t rule, node;
	int rc;

	if (json_array_size(json_object_get(schema, "required")) > SCHEMA_MAX_REQUIRED)
		return schema_bad(s, at, RC_TOO_LARGE, "required", "more than %d names", SCHEMA_MAX_REQUIRED);
	o.member = mem_grow(NULL, most + 1, sizeof *o.member);
	rc = schema_object_properties(s, at, &o);
	rc = rc ? rc : schema_object_more(s, at, &o);
	rc = rc ? rc : schema_object_required(s, at, &o);
	rc = rc ? rc : schema_object_names(s, at, &o);
	rc = rc ? rc : schema_object_counts(s, at, &o);
	if (rc == 0) {
		rule = grammar_rule(s->g);
		node = schema_members(s, o.params, o.member, o.n, o.has_more ? &o.more : NULL);
		grammar_define(s->g, rule, node, true);
		*ret_node = grammar_call(s->g, rule, GRAMMAR_END);
	}
	free(o.member);
	return rc;
}

uint32_t schema_any_params(struct schema *s)
{
	struct schema_member more = { .text = schema_any(s, SCHEMA_TEXT), .value = schema_any(s, SCHEMA_NOT_STRING),
				      .max = JRULE_NO_MAX };
	uint32_t rule = grammar_rule(s->g);

	grammar_define(s->g, rule, schema_members(s, true, NULL, 0, &more), true);
	return rule;
}
