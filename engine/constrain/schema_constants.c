/* SPDX-License-Identifier: MIT
 * schema_constants.c - the values that schemas are one of: which are the same, and which two schemas have in common.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps of one value whose text is made and looked up, without the text's bytes. */
#define SCHEMA_CONSTANT_WORK 64
/* 2^63: whole numbers below it can be integers. */
#define SCHEMA_INTEGERS 9223372036854775808.0

unsigned schema_constant_types(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		return SCHEMA_STRING;
	case JSON_INTEGER:
		return SCHEMA_INTEGER | SCHEMA_NUMBER;
	case JSON_REAL:
		return SCHEMA_NUMBER | (floor(json_real_value(v)) == json_real_value(v) ? SCHEMA_INTEGER : 0);
	case JSON_OBJECT:
		return SCHEMA_OBJECT;
	case JSON_ARRAY:
		return SCHEMA_ARRAY;
	case JSON_NULL:
		return SCHEMA_NULL;
	case JSON_TRUE:
	case JSON_FALSE:
	default:
		return SCHEMA_BOOLEAN;
	}
}

/* The value with every whole number as an integer: JSON Schema takes 1 and 1.0 for the same. A new reference. */
static json_t *schema_constant_whole(json_t *v)
{
	double x = json_real_value(v);
	json_t *copy, *one;
	const char *key;
	size_t i;

	if (json_is_real(v) && floor(x) == x && x >= -SCHEMA_INTEGERS && x < SCHEMA_INTEGERS)
		return json_integer((json_int_t)x);
	if (!json_is_array(v) && !json_is_object(v))
		return json_incref(v);
	copy = json_is_array(v) ? json_array() : json_object();
	json_array_foreach(v, i, one)
		json_array_append_new(copy, schema_constant_whole(one));
	json_object_foreach(v, key, one)
		json_object_set_new(copy, key, schema_constant_whole(one));
	return copy;
}

/* A text that two values have just when they are the same. */
static char *schema_constant_text(struct schema *s, json_t *v)
{
	json_t *whole = schema_constant_whole(v);
	char *text = json_dumps(whole, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);

	must(text);
	grammar_work(s->g, SCHEMA_CONSTANT_WORK + strlen(text));
	json_decref(whole);
	return text;
}

/* Puts the value's text among the others; false when it was there. */
static bool schema_constant_put(struct schema *s, json_t *texts, json_t *v)
{
	char *text = schema_constant_text(s, v);
	bool is_new = !json_object_get(texts, text);

	json_object_set_new(texts, text, json_null());
	free(text);
	return is_new;
}

json_t *schema_constants_both(struct schema *s, json_t *a, json_t *b)
{
	json_t *in_b = json_object(), *in_both = json_object(), *both = json_array(), *one;
	size_t i;

	json_array_foreach(b, i, one)
		schema_constant_put(s, in_b, one);
	json_array_foreach(a, i, one) {
		char *text = schema_constant_text(s, one);

		if (json_object_get(in_b, text) && schema_constant_put(s, in_both, one))
			json_array_append(both, one);
		free(text);
	}
	json_decref(in_b);
	json_decref(in_both);
	return both;
}

json_t *schema_constants(struct schema *s, json_t *schema)
{
	json_t *values = json_object_get(schema, "enum"), *only = json_object_get(schema, "const"), *one, *both;

	if (values && !json_is_array(values))
		return NULL;
	if (!only)
		return values ? schema_constants_both(s, values, values) : NULL;
	one = json_pack("[O]", only);
	both = schema_constants_both(s, one, values ? values : one);
	json_decref(one);
	return both;
}

/* Has it keywords beside those that list values, and their types? */
static bool schema_constants_and_more(json_t *schema)
{
	const char *key;
	json_t *value;

	json_object_foreach(schema, key, value)
		if (strcmp(key, "enum") != 0 && strcmp(key, "const") != 0 && strcmp(key, "type") != 0 &&
		    !schema_words_is_note(key))
			return true;
	return false;
}

int schema_constants_of(struct schema *s, int at, json_t *schema, json_t **ret_values)
{
	json_t *values, *fit = NULL, *one;
	unsigned types;
	size_t i;
	bool more;

	/* Where this fails, so will the items' own rule, and say so at its own place. */
	if (schema_plain(s, at, schema, &schema) || schema_words_types(s, at, schema, &types))
		return 0;
	more = schema_constants_and_more(schema);
	values = schema_constants(s, schema);
	if (values && more && !s->src->lenient) {
		json_decref(values);
		return schema_bad(s, at, RC_UNSUPPORTED, "uniqueItems",
				  "not supported where items have constants beside other conditions");
	}
	if (!values && !more && !json_object_get(schema, "enum") &&
	    !(types & ~(unsigned)(SCHEMA_BOOLEAN | SCHEMA_NULL)))
		values = json_pack("[b, b, n]", 0, 1);
	if (values && !more)
		fit = json_array();
	json_array_foreach(values, i, one)
		if (fit && schema_constant_types(one) & types)
			json_array_append(fit, one);
	json_decref(values);
	*ret_values = fit;
	return 0;
}
