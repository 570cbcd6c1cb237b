/* SPDX-License-Identifier: MIT
 * schema_merge.c - references, and what two schemas say together.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Steps of one member, copied or compared. */
#define SCHEMA_MEMBER_WORK 40

/* How many values it has, itself among them. */
static uint64_t schema_weight(const json_t *v)
{
	json_t *x = (json_t *)(uintptr_t)v, *one;
	uint64_t n = 1;
	const char *key;
	size_t i;

	json_object_foreach(x, key, one)
		n += schema_weight(one);
	json_array_foreach(x, i, one)
		n += schema_weight(one);
	return n;
}

static json_t *schema_keep(struct schema *s, json_t *made)
{
	json_array_append_new(s->made, made);
	return made;
}

/* ---- references ---- */

/* One step of a JSON pointer: "~1" is "/", "~0" is "~". */
static json_t *schema_step(json_t *v, const char *step, size_t len)
{
	struct buf name = { 0 };
	json_t *next = NULL;
	char *end;
	size_t i;

	for (i = 0; i < len; i++) {
		bool tilde = step[i] == '~' && i + 1 < len;

		buf_addc(&name, !tilde ? step[i] : step[i + 1] == '1' ? '/' : '~');
		i += tilde;
	}
	if (json_is_object(v)) {
		next = json_object_get(v, buf_str(&name));
	} else if (json_is_array(v) && name.len > 0 && name.len < 8) {
		unsigned long at = strtoul(name.data, &end, 10);

		next = *end ? NULL : json_array_get(v, at);
	}
	buf_fini(&name);
	return next;
}

int schema_ref(struct schema *s, int at, json_t *ref, json_t **ret_schema)
{
	const char *p = json_string_value(ref);
	json_t *v = s->src->schema;

	if (!p)
		return schema_bad(s, at, RC_INVALID, "$ref", "must be a string");
	if (*p != '#' || (p[1] && p[1] != '/'))
		return schema_bad(s, at, RC_UNSUPPORTED, "$ref", "must be a path in this schema, like #/$defs/name");
	grammar_work(s->g, strlen(p));
	for (p++; v && *p == '/';) {
		size_t len = strcspn(++p, "/");

		v = schema_step(v, p, len);
		p += len;
	}
	if (!v)
		return schema_bad(s, at, RC_INVALID, "$ref", "nothing is at %.100s", json_string_value(ref));
	*ret_schema = v;
	return 0;
}

/* ---- merging ---- */

json_t *schema_beside(struct schema *s, json_t *schema, const char *without)
{
	json_t *rest = json_object(), *value;
	const char *key;

	json_object_foreach(schema, key, value)
		if (strcmp(key, without) != 0 && !schema_words_is_note(key))
			json_object_set(rest, key, value);
	if (json_object_size(rest))
		return schema_keep(s, rest);
	json_decref(rest);
	return NULL;
}

int schema_plain(struct schema *s, int at, json_t *schema, json_t **ret_schema)
{
	json_t *ref, *rest, *target;
	int rc, i;

	for (i = 0; (ref = json_object_get(schema, "$ref")) != NULL; i++) {
		if (i == SCHEMA_MAX_CHAIN)
			return schema_bad(s, at, RC_INVALID, "$ref", "refers to itself without anything between");
		rc = schema_ref(s, at, ref, &target);
		if (rc)
			return rc;
		rest = schema_beside(s, schema, "$ref");
		if (rest) {
			rc = schema_merge(s, at, target, rest, &target);
			if (rc)
				return rc;
		}
		schema = target;
	}
	*ret_schema = schema;
	return 0;
}

static json_t *schema_union(const json_t *a, const json_t *b)
{
	json_t *all = json_copy((json_t *)(uintptr_t)a), *one;
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)b, i, one) {
		for (k = 0; k < json_array_size(all) && !json_equal(json_array_get(all, k), one); k++)
			;
		if (k == json_array_size(all))
			json_array_append(all, one);
	}
	return all;
}

/* Members of both; NULL when one of them is in both and differs. */
static json_t *schema_members_of_both(json_t *a, json_t *b)
{
	json_t *all = json_copy(a), *value, *mine;
	const char *key;

	json_object_foreach(b, key, value) {
		mine = json_object_get(a, key);
		if (mine && !json_equal(mine, value)) {
			json_decref(all);
			return NULL;
		}
		json_object_set(all, key, value);
	}
	return all;
}

/* The types of both lists; a number of which the other says integer is one. */
static json_t *schema_types_of_both(const json_t *a, const json_t *b)
{
	json_t *x = json_is_array(a) ? json_incref((json_t *)(uintptr_t)a) : json_pack("[O]", a);
	json_t *y = json_is_array(b) ? json_incref((json_t *)(uintptr_t)b) : json_pack("[O]", b), *both = json_array();
	json_t *one, *other;
	size_t i, k;

	json_array_foreach(x, i, one)
		json_array_foreach(y, k, other) {
			const char *s = json_string_value(one), *t = json_string_value(other);
			bool whole = s && t && !strcmp(s, "integer") && !strcmp(t, "number");

			if (json_equal(one, other) || whole)
				json_array_append(both, one);
			else if (s && t && !strcmp(s, "number") && !strcmp(t, "integer"))
				json_array_append(both, other);
		}
	json_decref(x);
	json_decref(y);
	return both;
}

/* What both schemas say under one key: a new reference, NULL when that is not plain. */
static json_t *schema_both_say(struct schema *s, const char *key, json_t *a, json_t *b)
{
	if (a != b)
		grammar_work(s->g, SCHEMA_MEMBER_WORK * (schema_weight(b) + json_object_size(a) +
							 json_array_size(a) * json_array_size(b)));
	if (s->g->full)
		return NULL;
	if (json_equal(a, b))
		return json_incref(a);
	if (strcmp(key, "properties") == 0 && json_is_object(a) && json_is_object(b))
		return schema_members_of_both(a, b);
	if (strcmp(key, "required") == 0 && json_is_array(a) && json_is_array(b))
		return schema_union(a, b);
	if (strcmp(key, "type") == 0)
		return schema_types_of_both(a, b);
	if (strcmp(key, "enum") == 0 && json_is_array(a) && json_is_array(b))
		return schema_constants_both(s, a, b);
	return NULL;
}

/* What one of them says of additional members would be about the other's properties too. */
static bool schema_closes(const json_t *a, const json_t *b)
{
	const json_t *more = json_object_get(a, "additionalProperties"), *mine = json_object_get(a, "properties");
	const char *key;
	json_t *value;

	if (!more || json_is_true(more))
		return false;
	if (json_object_get(b, "patternProperties") && !json_object_get(a, "patternProperties"))
		return true;
	json_object_foreach(json_object_get(b, "properties"), key, value)
		if (!json_object_get(mine, key))
			return true;
	return false;
}

/* What one of them says of items would be about those after the other's prefix only. */
static bool schema_shifts(const json_t *a, const json_t *b)
{
	const json_t *prefix = json_object_get(a, "prefixItems"), *items = json_object_get(b, "items");

	return prefix && items && !json_is_true(items) && !json_equal(prefix, json_object_get(b, "prefixItems"));
}

/* Is each a constant, and another? */
static bool schema_contradict(struct schema *s, json_t *a, json_t *b)
{
	json_t *x = json_object_get(a, "const"), *y = json_object_get(b, "const"), *mine, *both;
	bool differ;

	if (!x || !y)
		return false;
	mine = json_pack("[O]", x);
	both = json_pack("[O]", y);
	y = schema_constants_both(s, mine, both);
	differ = json_array_size(y) == 0;
	json_decref(y);
	json_decref(mine);
	json_decref(both);
	return differ;
}

/* What cannot be put together. */
static int schema_apart(struct schema *s, int at, json_t *a, json_t *b)
{
	grammar_work(s->g, SCHEMA_MEMBER_WORK * (json_object_size(json_object_get(a, "properties")) +
						 json_object_size(json_object_get(b, "properties"))));
	if (schema_closes(a, b) || schema_closes(b, a))
		return schema_bad(s, at, RC_UNSUPPORTED, NULL,
				  "additionalProperties beside properties of another part");
	if (schema_shifts(a, b) || schema_shifts(b, a))
		return schema_bad(s, at, RC_UNSUPPORTED, NULL, "prefixItems beside items of another part");
	return 0;
}

int schema_merge(struct schema *s, int at, json_t *a, json_t *b, json_t **ret_schema)
{
	json_t *all, *value, *mine;
	const char *key;
	int rc;

	grammar_work(s->g, SCHEMA_MEMBER_WORK * (json_object_size(a) + json_object_size(b) + 1));
	if (s->g->full || json_array_size(s->made) > SCHEMA_MAX_MERGES)
		return schema_bad(s, at, RC_TOO_LARGE, NULL, "too much to be put together");
	all = schema_keep(s, json_object());
	rc = schema_plain(s, at, a, &a);
	rc = rc ? rc : schema_plain(s, at, b, &b);
	if (rc)
		return rc;
	if (json_is_boolean(a) || json_is_boolean(b)) {
		*ret_schema = json_is_true(a) ? b : json_is_true(b) ? a : json_is_false(a) ? a : b;
		return 0;
	}
	if (!json_is_object(a) || !json_is_object(b))
		return schema_bad(s, at, RC_INVALID, NULL, "must be a schema: an object, true or false");
	if (schema_contradict(s, a, b)) {
		*ret_schema = schema_keep(s, json_false());
		return 0;
	}
	rc = schema_apart(s, at, a, b);
	if (rc)
		return rc;
	json_object_update(all, a);
	json_object_foreach(b, key, value) {
		mine = json_object_get(a, key);
		if (mine && (schema_words_is_note(key) || strcmp(key, "const") == 0))
			continue;
		mine = mine ? schema_both_say(s, key, mine, value) : json_incref(value);
		if (!mine && s->g->full)
			return schema_bad(s, at, RC_TOO_LARGE, key, "too much to be put together");
		if (!mine)
			return schema_bad(s, at, RC_UNSUPPORTED, key, "parts that say different things of it");
		json_object_set_new(all, key, mine);
	}
	*ret_schema = all;
	return 0;
}
