/* SPDX-License-Identifier: MIT
 * schema.c - JSON schemas as grammars: the schemas to do one after the other, alternatives, references.
 * Threads: any, one at a time per grammar. Locks: none. */
#include "engine/constrain/schema.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/constrain/rawtext.h"
#include "engine/constrain/schema_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is to be done ---- */

static uint32_t schema_hash(const json_t *schema, enum schema_mode mode)
{
	return (uint32_t)(((uint64_t)(uintptr_t)schema >> 4) * 0x9e3779b97f4a7c15u >> 32) + (uint32_t)mode;
}

static void schema_slots(struct schema *s)
{
	int i;

	s->n_slot = s->n_slot ? 2 * s->n_slot : 256;
	s->slot = mem_grow(s->slot, (size_t)s->n_slot, sizeof *s->slot);
	for (i = 0; i < s->n_slot; i++)
		s->slot[i] = -1;
	for (i = 0; i < s->n; i++) {
		uint32_t h = schema_hash(s->item[i].schema, s->item[i].mode);

		while (s->slot[h & (uint32_t)(s->n_slot - 1)] >= 0)
			h++;
		s->slot[h & (uint32_t)(s->n_slot - 1)] = i;
	}
}

static uint32_t schema_put(struct schema *s, const struct schema_item *item)
{
	uint32_t h = schema_hash(item->schema, item->mode);
	int i;

	if (2 * s->n >= s->n_slot)
		schema_slots(s);
	while ((i = s->slot[h & (uint32_t)(s->n_slot - 1)]) >= 0) {
		if (s->item[i].schema == item->schema && s->item[i].mode == item->mode)
			return s->item[i].rule;
		h++;
	}
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->item = mem_grow(s->item, (size_t)s->cap, sizeof *s->item);
	}
	s->slot[h & (uint32_t)(s->n_slot - 1)] = s->n;
	s->item[s->n] = *item;
	s->item[s->n].rule = grammar_rule(s->g);
	return s->item[s->n++].rule;
}

uint32_t schema_want(struct schema *s, int at, json_t *schema, enum schema_mode mode, const char *key,
		     const char *member)
{
	return schema_put(s, &(struct schema_item){ .schema = schema, .mode = mode, .parent = at, .key = key,
						    .member = member });
}

uint32_t schema_want_at(struct schema *s, int at, json_t *schema, enum schema_mode mode, const char *key, size_t index)
{
	return schema_put(s, &(struct schema_item){ .schema = schema, .mode = mode, .parent = at, .key = key,
						    .index = index, .has_index = true });
}

/* ---- messages ---- */

/* A name as part of a path: no character that a reader could take for the path's own. */
static void schema_path_name(const char *name, struct buf *out)
{
	size_t i, n = strlen(name);

	buf_addc(out, '.');
	for (i = 0; i < n && i < 64; i++) {
		unsigned char c = (unsigned char)name[i];

		buf_addc(out, c <= ' ' || c == ':' || c == 0x7f ? '_' : (char)c);
	}
}

static void schema_path(const struct schema *s, int at, struct buf *out)
{
	int chain[GRAMMAR_MAX_DEPTH * 2], n = 0;

	for (; at >= 0 && n < (int)mem_countof(chain); at = s->item[at].parent)
		chain[n++] = at;
	if (at >= 0)
		buf_adds(out, "...");
	while (n-- > 0 && out->len < SCHEMA_MAX_PATH) {
		const struct schema_item *i = &s->item[chain[n]];

		if (i->key)
			schema_path_name(i->key, out);
		if (i->member)
			schema_path_name(i->member, out);
		if (i->has_index)
			buf_printf(out, "[%zu]", i->index);
	}
}

int schema_bad(struct schema *s, int at, int rc, const char *key, const char *fmt, ...)
{
	struct buf path = { 0 }, text = { 0 };
	va_list ap;

	schema_path(s, at, &path);
	if (key)
		schema_path_name(key, &path);
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	s->none = false;
	buf_why(s->why, rc, "%s%s: %s", s->src->name, buf_str(&path), buf_str(&text));
	buf_fini(&path);
	buf_fini(&text);
	return rc;
}

/* ---- any value ---- */

uint32_t schema_any(struct schema *s, enum schema_mode mode)
{
	switch (mode) {
	case SCHEMA_TEXT:
		if (!s->text)
			s->text = rawtext_rule(s->g, 0, JRULE_NO_MAX) + 1;
		return s->text - 1;
	case SCHEMA_PARAMS:
		if (!s->params)
			s->params = schema_any_params(s) + 1;
		return s->params - 1;
	case SCHEMA_NOT_STRING:
		return jrule_get(s->g, s->j, JRULE_NOT_STRING);
	case SCHEMA_VALUE:
	default:
		return jrule_get(s->g, s->j, JRULE_VALUE);
	}
}

/* ---- one schema ---- */

/* The alternatives, each with what stands beside them. */
static int schema_alternatives(struct schema *s, int at, const char *key, uint32_t *ret_node)
{
	const struct schema_item item = s->item[at];
	json_t *all = json_object_get(item.schema, key), *rest = schema_beside(s, item.schema, key), *one;
	uint32_t node = grammar_bytes(s->g, NULL, 0), call;
	size_t i;
	int rc;

	if (!json_is_array(all) || json_array_size(all) == 0)
		return schema_bad(s, at, RC_INVALID, key, "must be an array of schemas");
	json_array_foreach(all, i, one) {
		if (rest) {
			rc = schema_merge(s, at, rest, one, &one);
			if (rc)
				return rc;
		}
		call = grammar_call(s->g, schema_want_at(s, at, one, item.mode, key, i), GRAMMAR_END);
		node = grammar_either(s->g, call, node);
	}
	*ret_node = node;
	return 0;
}

/* A reference, or all of several, as one schema. */
static int schema_joined(struct schema *s, int at, const char *key, uint32_t *ret_node)
{
	const struct schema_item item = s->item[at];
	json_t *value = json_object_get(item.schema, key), *all = schema_beside(s, item.schema, key), *one;
	bool ref = strcmp(key, "$ref") == 0;
	size_t i;
	int rc = 0;

	if (ref)
		rc = schema_ref(s, at, value, &one);
	else if (!json_is_array(value) || json_array_size(value) == 0)
		rc = schema_bad(s, at, RC_INVALID, key, "must be an array of schemas");
	if (rc)
		return rc;
	if (ref && all)
		rc = schema_merge(s, at, one, all, &all);
	else if (ref)
		all = one;
	if (!ref)
		json_array_foreach(value, i, one) {
			rc = all ? schema_merge(s, at, all, one, &all) : 0;
			all = all ? all : one;
			if (rc)
				break;
		}
	if (rc)
		return rc;
	*ret_node = grammar_call(s->g, schema_want(s, at, all, item.mode, key, NULL), GRAMMAR_END);
	return 0;
}

static unsigned schema_mode_types(enum schema_mode mode)
{
	static const unsigned types[] = {
		[SCHEMA_VALUE] = SCHEMA_ALL_TYPES,
		[SCHEMA_NOT_STRING] = SCHEMA_ALL_TYPES & ~(unsigned)SCHEMA_STRING,
		[SCHEMA_TEXT] = SCHEMA_STRING,
		[SCHEMA_PARAMS] = SCHEMA_OBJECT,
	};

	return types[mode];
}

static int schema_one_type(struct schema *s, int at, unsigned type, uint32_t *ret_node)
{
	switch (type) {
	case SCHEMA_STRING:
		return schema_string(s, at, ret_node);
	case SCHEMA_INTEGER:
	case SCHEMA_NUMBER:
		return schema_number(s, at, type == SCHEMA_INTEGER, ret_node);
	case SCHEMA_OBJECT:
		return schema_object(s, at, ret_node);
	case SCHEMA_ARRAY:
		return schema_array(s, at, ret_node);
	case SCHEMA_BOOLEAN:
		*ret_node = grammar_call(s->g, jrule_get(s->g, s->j, JRULE_BOOLEAN), GRAMMAR_END);
		return 0;
	case SCHEMA_NULL:
	default:
		*ret_node = grammar_call(s->g, jrule_get(s->g, s->j, JRULE_NULL), GRAMMAR_END);
		return 0;
	}
}

static int schema_by_type(struct schema *s, int at, unsigned types, uint32_t *ret_node)
{
	uint32_t node = grammar_bytes(s->g, NULL, 0), one = 0;
	bool any = false;
	int rc, none = 0;

	for (unsigned type = 1; type < SCHEMA_ALL_TYPES; type <<= 1) {
		if (!(types & type))
			continue;
		rc = schema_one_type(s, at, type, &one);
		if (rc && !s->none)
			return rc;
		if (rc) {
			none = rc;
			continue;
		}
		any = true;
		node = grammar_either(s->g, one, node);
	}
	*ret_node = node;
	return any ? 0 : none;
}

/* The node of the schema's rule. */
static int schema_node(struct schema *s, int at, uint32_t *ret_node)
{
	static const char *const joined[] = { "$ref", "allOf" }, *const alternatives[] = { "anyOf", "oneOf" };
	json_t *schema = s->item[at].schema;
	unsigned types;
	size_t i;
	int rc;

	if (json_is_false(schema)) {
		*ret_node = grammar_bytes(s->g, NULL, 0);
		return 0;
	}
	if (!json_is_object(schema))
		return schema_bad(s, at, RC_INVALID, NULL, "must be a schema: an object, true or false");
	rc = schema_words_check(s, at);
	for (i = 0; i < 2 && rc == 0; i++)
		if (json_object_get(schema, joined[i]))
			return schema_joined(s, at, joined[i], ret_node);
	for (i = 0; i < 2 && rc == 0; i++)
		if (json_object_get(schema, alternatives[i]))
			return schema_alternatives(s, at, alternatives[i], ret_node);
	rc = rc ? rc : schema_words_types(s, at, schema, &types);
	if (rc)
		return rc;
	types &= schema_mode_types(s->item[at].mode);
	if (json_object_get(schema, "enum") || json_object_get(schema, "const"))
		return schema_enum(s, at, types, ret_node);
	return schema_by_type(s, at, types, ret_node);
}

/* Does it say nothing about values, so that it needs no rule of its own? */
static bool schema_is_any(const json_t *schema)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)schema, key, value)
		if (!schema_words_is_note(key))
			return false;
	return json_is_true(schema) || json_is_object(schema);
}

static int schema_do(struct schema *s, int at)
{
	const struct schema_item item = s->item[at];
	uint32_t node = 0;
	int rc = 0;

	s->item[at].node = s->g->n_node;
	if (schema_is_any(item.schema))
		node = grammar_call(s->g, schema_any(s, item.mode), GRAMMAR_END);
	else
		rc = schema_node(s, at, &node);
	if (rc && s->none && at > 0 && !s->src->lenient) {
		node = grammar_bytes(s->g, NULL, 0);
		rc = 0;
	}
	if (rc && s->src->lenient && !s->g->full) {
		node = grammar_call(s->g, schema_any(s, item.mode), GRAMMAR_END);
		rc = 0;
	}
	grammar_define(s->g, item.rule, node, false);
	return rc;
}

/* Does no place lead to more than can be followed? Nodes were made item by item. */
static int schema_check(struct schema *s)
{
	enum grammar_reached reached;
	uint32_t node = 0;
	int at = s->n - 1;

	reached = grammar_reach(s->g, &node);
	if (reached == GRAMMAR_REACHED_CIRCLE)
		return buf_why(s->why, RC_INVALID, "%s: refers to itself without anything between", s->src->name);
	if (reached == GRAMMAR_REACHED)
		return 0;
	while (at > 0 && s->item[at].node > node)
		at--;
	return schema_bad(s, at, RC_TOO_LARGE, NULL,
			  "more than %d alternatives at one place, or %d objects, arrays and "
			  "strings with a length or pattern, or %d steps to them",
			  GRAMMAR_MAX_FORK, GRAMMAR_MAX_FORMS, GRAMMAR_MAX_PASS);
}

int schema_rule(struct grammar *g, struct jrules *j, const struct schema_source *src, uint32_t *ret_rule,
		struct buf *why)
{
	struct schema s = { .g = g, .j = j, .src = src, .made = json_array(), .why = why };
	int at, rc = 0;

	*ret_rule = schema_want(&s, -1, src->schema, src->mode, NULL, NULL);
	for (at = 0; at < s.n && rc == 0 && !g->full; at++)
		rc = schema_do(&s, at);
	if (rc == 0)
		rc = schema_check(&s);
	if (rc == 0 && g->full)
		rc = buf_why(why, RC_TOO_LARGE, "%s: too large a schema", src->name);
	free(s.item);
	free(s.slot);
	json_decref(s.made);
	return rc;
}
