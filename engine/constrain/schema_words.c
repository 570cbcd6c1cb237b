/* SPDX-License-Identifier: MIT
 * schema_words.c - the keywords of JSON Schema: which are understood, and what types a schema means.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"

#include <string.h>

enum schema_word_kind {
	SCHEMA_W_KEY,          /* handled */
	SCHEMA_W_REFUSED       /* a condition that is not understood */
};

/* Keywords that are in no row are notes. */
static const struct schema_word {
	const char *name;
	enum schema_word_kind kind;
	unsigned types;        /* what it is a condition of, when of one type only */
} schema_words[] = {
	{ "type", SCHEMA_W_KEY, 0 },
	{ "enum", SCHEMA_W_KEY, 0 },
	{ "const", SCHEMA_W_KEY, 0 },
	{ "$ref", SCHEMA_W_KEY, 0 },
	{ "anyOf", SCHEMA_W_KEY, 0 },
	{ "oneOf", SCHEMA_W_KEY, 0 },
	{ "allOf", SCHEMA_W_KEY, 0 },
	{ "properties", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "required", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "additionalProperties", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "items", SCHEMA_W_KEY, SCHEMA_ARRAY },
	{ "prefixItems", SCHEMA_W_KEY, SCHEMA_ARRAY },
	{ "minItems", SCHEMA_W_KEY, SCHEMA_ARRAY },
	{ "maxItems", SCHEMA_W_KEY, SCHEMA_ARRAY },
	{ "minLength", SCHEMA_W_KEY, SCHEMA_STRING },
	{ "maxLength", SCHEMA_W_KEY, SCHEMA_STRING },
	{ "pattern", SCHEMA_W_KEY, SCHEMA_STRING },
	{ "minimum", SCHEMA_W_KEY, SCHEMA_NUMBER },
	{ "maximum", SCHEMA_W_KEY, SCHEMA_NUMBER },
	{ "exclusiveMinimum", SCHEMA_W_KEY, SCHEMA_NUMBER },
	{ "exclusiveMaximum", SCHEMA_W_KEY, SCHEMA_NUMBER },
	{ "not", SCHEMA_W_REFUSED, 0 },
	{ "if", SCHEMA_W_REFUSED, 0 },
	{ "then", SCHEMA_W_REFUSED, 0 },
	{ "else", SCHEMA_W_REFUSED, 0 },
	{ "$dynamicRef", SCHEMA_W_REFUSED, 0 },
	{ "$recursiveRef", SCHEMA_W_REFUSED, 0 },
	{ "patternProperties", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "propertyNames", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "minProperties", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "maxProperties", SCHEMA_W_KEY, SCHEMA_OBJECT },
	{ "dependentRequired", SCHEMA_W_REFUSED, 0 },
	{ "dependentSchemas", SCHEMA_W_REFUSED, 0 },
	{ "dependencies", SCHEMA_W_REFUSED, 0 },
	{ "unevaluatedProperties", SCHEMA_W_REFUSED, 0 },
	{ "unevaluatedItems", SCHEMA_W_REFUSED, 0 },
	{ "additionalItems", SCHEMA_W_REFUSED, 0 },
	{ "contains", SCHEMA_W_REFUSED, 0 },
	{ "minContains", SCHEMA_W_REFUSED, 0 },
	{ "maxContains", SCHEMA_W_REFUSED, 0 },
	{ "uniqueItems", SCHEMA_W_KEY, SCHEMA_ARRAY },
	{ "multipleOf", SCHEMA_W_KEY, SCHEMA_NUMBER },
};

static const struct schema_type_name {
	const char *name;
	unsigned types;
} schema_type_names[] = {
	{ "string", SCHEMA_STRING }, { "integer", SCHEMA_INTEGER }, { "number", SCHEMA_NUMBER },
	{ "boolean", SCHEMA_BOOLEAN }, { "null", SCHEMA_NULL }, { "object", SCHEMA_OBJECT }, { "array", SCHEMA_ARRAY },
};

static const struct schema_word *schema_word(const char *key)
{
	size_t i;

	for (i = 0; i < mem_countof(schema_words); i++)
		if (strcmp(schema_words[i].name, key) == 0)
			return &schema_words[i];
	return NULL;
}

bool schema_words_is_note(const char *key)
{
	return !schema_word(key);
}

int schema_words_check(struct schema *s, int at)
{
	const struct schema_word *w;
	const char *key;
	json_t *value;

	json_object_foreach(s->item[at].schema, key, value) {
		w = schema_word(key);
		if (w && w->kind == SCHEMA_W_REFUSED && !s->src->lenient)
			return schema_bad(s, at, RC_UNSUPPORTED, key, "not supported");
	}
	return 0;
}

static int schema_type_named(struct schema *s, int at, const json_t *name, unsigned *types)
{
	const char *text = json_string_value(name);
	size_t i;

	for (i = 0; text && i < mem_countof(schema_type_names); i++)
		if (strcmp(schema_type_names[i].name, text) == 0) {
			*types |= schema_type_names[i].types;
			return 0;
		}
	return schema_bad(s, at, RC_INVALID, "type",
			  "must be string, integer, number, boolean, null, object, array, or several of them");
}

static unsigned schema_types_meant(const json_t *schema)
{
	const struct schema_word *w;
	const char *key;
	unsigned types = 0;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
		w = schema_word(key);
		types |= w ? w->types : 0;
	}
	return types ? types : SCHEMA_ALL_TYPES & ~(unsigned)SCHEMA_INTEGER;
}

int schema_words_types(struct schema *s, int at, json_t *schema, unsigned *ret_types)
{
	json_t *type = json_object_get(schema, "type"), *one;
	unsigned types = 0;
	size_t i;
	int rc;

	if (!type) {
		*ret_types = schema_types_meant(schema);
		return 0;
	}
	if (!json_is_array(type)) {
		rc = schema_type_named(s, at, type, &types);
		if (rc)
			return rc;
	}
	json_array_foreach(type, i, one) {
		rc = schema_type_named(s, at, one, &types);
		if (rc)
			return rc;
	}
	if (types & SCHEMA_NUMBER)
		types &= ~(unsigned)SCHEMA_INTEGER;
	*ret_types = types;
	return 0;
}

int schema_words_count(struct schema *s, int at, const char *key, uint32_t *ret_v)
{
	const json_t *v = json_object_get(s->item[at].schema, key);
	double n = json_number_value(v);

	if (!v)
		return 0;
	if (!json_is_number(v) || n < 0 || n != (double)(int64_t)n)
		return schema_bad(s, at, RC_INVALID, key, "must be an integer from 0 on");
	*ret_v = n >= JRULE_NO_MAX ? JRULE_NO_MAX - 1 : (uint32_t)n;
	return 0;
}
