/* SPDX-License-Identifier: MIT
 * schema_merge.c - references, and what two schemas say together.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* References that only lead to references. */
#define SCHEMA_MAX_CHAIN 64

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

/* The schema without a reference at its top. */
static int schema_plain(struct schema *s, int at, json_t *schema, json_t **ret_schema)
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

/* What both schemas say under one key: a new reference, NULL when that is not plain. */
static json_t *schema_both_say(const char *key, json_t *a, json_t *b)
{
	if (json_equal(a, b))
		return json_incref(a);
	if (strcmp(key, "properties") == 0 && json_is_object(a) && json_is_object(b))
		return schema_members_of_both(a, b);
	if (strcmp(key, "required") == 0 && json_is_array(a) && json_is_array(b))
		return schema_union(a, b);
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
	json_object_foreach(json_object_get(b, "properties"), key, value)
		if (!json_object_get(mine, key))
			return true;
	return false;
}

int schema_merge(struct schema *s, int at, json_t *a, json_t *b, json_t **ret_schema)
{
	json_t *all, *value, *mine;
	const char *key;
	int rc;

	if (json_array_size(s->made) > SCHEMA_MAX_MERGES)
		return schema_bad(s, at, RC_UNSUPPORTED, NULL, "too many schemas to be put together");
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
	if (schema_closes(a, b) || schema_closes(b, a))
		return schema_bad(s, at, RC_UNSUPPORTED, NULL,
				  "additionalProperties beside properties of another part");
	json_object_update(all, a);
	json_object_foreach(b, key, value) {
		mine = json_object_get(a, key);
		if (mine && schema_words_is_note(key))
			continue;
		mine = mine ? schema_both_say(key, mine, value) : json_incref(value);
		if (!mine)
			return schema_bad(s, at, RC_UNSUPPORTED, key, "parts that say different things of it");
		json_object_set_new(all, key, mine);
	}
	*ret_schema = all;
	return 0;
}
