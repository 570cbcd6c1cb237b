/* SPDX-License-Identifier: MIT
 * schemakit.c - JSON schemas for tests: a validator of its own, and random schemas.
 * Threads: main. Locks: none. */
#include "tests/unit/schemakit.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "tests/unit/constrainkit.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

/* ---- validating ---- */

/* Are they the same value? 1 and 1.0 are. */
static bool kit_same(json_t *a, json_t *b)
{
	json_t *one;
	const char *key;
	bool same;
	size_t i;

	if (json_is_number(a) && json_is_number(b))
		return json_number_value(a) == json_number_value(b);
	if (json_typeof(a) != json_typeof(b) || (!json_is_array(a) && !json_is_object(a)))
		return json_equal(a, b);
	same = json_array_size(a) == json_array_size(b) && json_object_size(a) == json_object_size(b);
	json_array_foreach(a, i, one)
		same = same && kit_same(one, json_array_get(b, i));
	json_object_foreach(a, key, one)
		same = same && json_object_get(b, key) && kit_same(one, json_object_get(b, key));
	return same;
}

static bool kit_type_is(const char *type, const json_t *v)
{
	if (strcmp(type, "integer") == 0)
		return json_is_number(v) && floor(json_number_value(v)) == json_number_value(v);
	if (strcmp(type, "number") == 0)
		return json_is_number(v);
	if (strcmp(type, "string") == 0)
		return json_is_string(v);
	if (strcmp(type, "boolean") == 0)
		return json_is_boolean(v);
	if (strcmp(type, "null") == 0)
		return json_is_null(v);
	if (strcmp(type, "object") == 0)
		return json_is_object(v);
	return strcmp(type, "array") == 0 && json_is_array(v);
}

static bool kit_type(const json_t *type, const json_t *v)
{
	bool any = false;
	json_t *one;
	size_t i;

	if (json_is_string(type))
		return kit_type_is(json_string_value(type), v);
	json_array_foreach((json_t *)(unsigned long)type, i, one)
		any |= kit_type_is(json_string_value(one), v);
	return any;
}

static size_t kit_length(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static bool kit_matches(const char *pattern, const char *text)
{
	regex_t re;
	bool found;

	must(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
	found = regexec(&re, text, 0, NULL, 0) == 0;
	regfree(&re);
	return found;
}

static double kit_number(json_t *schema, const char *key, double other)
{
	json_t *v = json_object_get(schema, key);

	return v ? json_number_value(v) : other;
}

static bool kit_names(json_t *root, json_t *schema, json_t *value)
{
	json_t *patterns = json_object_get(schema, "patternProperties"),
		*names = json_object_get(schema, "propertyNames");
	double n = (double)json_object_size(value);
	const char *name, *pattern;
	json_t *member, *its, *string;
	bool fits = n >= kit_number(schema, "minProperties", 0) && n <= kit_number(schema, "maxProperties", INFINITY);

	json_object_foreach(value, name, member) {
		string = json_string(name);
		fits &= !names || schemakit_valid(root, names, string);
		json_decref(string);
		json_object_foreach(patterns, pattern, its)
			fits &= !kit_matches(pattern, name) || schemakit_valid(root, its, member);
	}
	return fits;
}

static bool kit_has_pattern(json_t *schema, const char *name)
{
	const char *pattern;
	json_t *its;

	json_object_foreach(json_object_get(schema, "patternProperties"), pattern, its)
		if (kit_matches(pattern, name))
			return true;
	return false;
}

static bool kit_object(json_t *root, json_t *schema, json_t *value)
{
	json_t *properties = json_object_get(schema, "properties"),
		*more = json_object_get(schema, "additionalProperties");
	json_t *name, *member, *its;
	const char *key;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i, name)
		if (!json_object_get(value, json_string_value(name)))
			return false;
	json_object_foreach(value, key, member) {
		its = json_object_get(properties, key);
		its = its || kit_has_pattern(schema, key) ? its : more;
		if (its && !schemakit_valid(root, its, member))
			return false;
	}
	return kit_names(root, schema, value);
}

static bool kit_array(json_t *root, json_t *schema, json_t *value)
{
	json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items"), *one, *its;
	double n = (double)json_array_size(value);
	size_t i, k;

	if (n < kit_number(schema, "minItems", 0) || n > kit_number(schema, "maxItems", INFINITY))
		return false;
	json_array_foreach(value, i, one) {
		its = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
		if (its && !schemakit_valid(root, its, one))
			return false;
		for (k = 0; k < i && json_is_true(json_object_get(schema, "uniqueItems")); k++)
			if (kit_same(json_array_get(value, k), one))
				return false;
	}
	return true;
}

static bool kit_multiple(double x, double of)
{
	double n = x / of;

	return fabs(n - round(n)) <= 1e-9 * fmax(1, fabs(n));
}

static bool kit_scalar(json_t *schema, json_t *value)
{
	double x = json_number_value(value), n;

	if (json_is_number(value))
		return x >= kit_number(schema, "minimum", -INFINITY) && x <= kit_number(schema, "maximum", INFINITY) &&
		       x > kit_number(schema, "exclusiveMinimum", -INFINITY) &&
		       x < kit_number(schema, "exclusiveMaximum", INFINITY) &&
		       kit_multiple(x, kit_number(schema, "multipleOf", x == 0 ? 1 : x));
	if (!json_is_string(value))
		return true;
	n = (double)kit_length(json_string_value(value));
	if (n < kit_number(schema, "minLength", 0) || n > kit_number(schema, "maxLength", INFINITY))
		return false;
	return !json_object_get(schema, "pattern") ||
	       kit_matches(json_string_value(json_object_get(schema, "pattern")), json_string_value(value));
}

static bool kit_any_of(json_t *root, json_t *all, json_t *value)
{
	bool any = !all;
	json_t *one;
	size_t i;

	json_array_foreach(all, i, one)
		any |= schemakit_valid(root, one, value);
	return any;
}

static bool kit_listed(json_t *values, json_t *value)
{
	bool any = !values;
	json_t *one;
	size_t i;

	json_array_foreach(values, i, one)
		any |= kit_same(one, value);
	return any;
}

static json_t *kit_target(json_t *root, const char *ref)
{
	must(strncmp(ref, "#/$defs/", 8) == 0);
	return json_object_get(json_object_get(root, "$defs"), ref + 8);
}

bool schemakit_valid(json_t *root, json_t *schema, json_t *value)
{
	json_t *type, *ref, *one;
	size_t i;

	if (json_is_boolean(schema))
		return json_is_true(schema);
	ref = json_object_get(schema, "$ref");
	if (ref && !schemakit_valid(root, kit_target(root, json_string_value(ref)), value))
		return false;
	json_array_foreach(json_object_get(schema, "allOf"), i, one)
		if (!schemakit_valid(root, one, value))
			return false;
	type = json_object_get(schema, "type");
	if ((type && !kit_type(type, value)) || !kit_listed(json_object_get(schema, "enum"), value) ||
	    !kit_any_of(root, json_object_get(schema, "anyOf"), value))
		return false;
	if (json_object_get(schema, "const") && !kit_same(json_object_get(schema, "const"), value))
		return false;
	if (json_is_object(value))
		return kit_object(root, schema, value);
	return json_is_array(value) ? kit_array(root, schema, value) : kit_scalar(schema, value);
}

/* ---- random schemas ---- */

/* Leaves: each is a schema by itself. */
static const char *const kit_leaves[] = {
	"{'type':'string'}", "{'type':'integer'}", "{'type':'number'}", "{'type':'boolean'}", "{'type':'null'}",
	"{'type':['string','null']}", "{'type':['integer','boolean']}", "{'enum':['red','green','blue','re']}",
	"{'enum':[1,10,'1',null,true,[1,{'a':'b'}],2.5]}", "{'const':'only'}", "{'const':{'k':[1,2],'l':null}}",
	"{'type':'string','minLength':2,'maxLength':5}", "{'type':'string','maxLength':0}",
		"{'type':'string','minLength':3}",
	"{'type':'string','pattern':'^[a-c]{2,4}$'}", "{'type':'string','pattern':'^(foo|ba[rz])+-[0-9]{1,3}$'}",
	"{'type':'string','pattern':'^q*$'}", "{'type':'string','pattern':'^(ab|c)*$','minLength':3,'maxLength':8}",
		"{'type':'integer','minimum':0}",
		"{'type':'integer','minimum':-12,'maximum':107}",
	"{'type':'integer','exclusiveMinimum':5,'exclusiveMaximum':8}", "{'type':'number','minimum':0,'maximum':1}",
	"{'type':'number','exclusiveMinimum':-2.5,'maximum':10.25}", "{'type':'number','maximum':-3}",
	"{'type':'array','items':{'type':'integer'},'maxItems':3}", "{'type':'array','maxItems':2,'minItems':1}",
	"{'type':'integer','multipleOf':7,'minimum':-50,'maximum':1000}", "{'type':'number','multipleOf':0.25}",
	"{'type':'number','exclusiveMinimum':1e-7,'maximum':1e-3}", "{'type':'number','multipleOf':0.6,'minimum':-1.5}",
	"{'type':'object','patternProperties':{'^[a-z]+$':{'type':'integer'}},'maxProperties':2}",
	("{'type':'object','propertyNames':{'enum':['p','q']},'additionalProperties':{'type':'boolean'},"
	 "'minProperties':1}"),
	"{'type':'array','uniqueItems':true,'items':{'enum':['a','b',1]},'minItems':1}",
	"{'$ref':'#/$defs/leaf'}", "{}", "true", "{'type':'string','enum':['é\\\\','a\\tb','<']}",
};

static json_t *kit_schema(unsigned *seed, int depth);

static json_t *kit_random_object(unsigned *seed, int depth)
{
	static const char *const names[] = { "a", "ab", "b", "name", "na\\u00efve", "x y", "longer_property", "id" };
	json_t *o = json_object(), *properties = json_object(), *required = json_array();
	unsigned n = constrainkit_rand(seed, 5), i;

	json_object_set_new(o, "type", json_string("object"));
	for (i = 0; i < n; i++) {
		const char *name = names[constrainkit_rand(seed, mem_countof(names))];

		json_object_set_new(properties, name, kit_schema(seed, depth - 1));
		if (constrainkit_rand(seed, 2))
			json_array_append_new(required, json_string(name));
	}
	if (constrainkit_rand(seed, 8))
		json_object_set_new(o, "properties", properties);
	else
		json_decref(properties);
	json_object_set_new(o, "required", required);
	switch (constrainkit_rand(seed, 4)) {
	case 0:
		json_object_set_new(o, "additionalProperties", kit_schema(seed, depth - 1));
		break;
	case 1:
		if (n == 0 || json_object_get(o, "properties"))
			json_object_set_new(o, "additionalProperties", json_false());
		break;
	default:
		break;
	}
	return o;
}

static json_t *kit_random_array(unsigned *seed, int depth)
{
	json_t *o = json_object(), *prefix = json_array();
	unsigned n = constrainkit_rand(seed, 3), min = constrainkit_rand(seed, 4), i;

	json_object_set_new(o, "type", json_string("array"));
	for (i = 0; i < n; i++)
		json_array_append_new(prefix, kit_schema(seed, depth - 1));
	if (n)
		json_object_set_new(o, "prefixItems", prefix);
	else
		json_decref(prefix);
	json_object_set_new(o, "items", kit_schema(seed, depth - 1));
	json_object_set_new(o, "minItems", json_integer(min));
	if (constrainkit_rand(seed, 2))
		json_object_set_new(o, "maxItems", json_integer(min + constrainkit_rand(seed, 4)));
	return o;
}

static json_t *kit_random_any_of(unsigned *seed, int depth)
{
	json_t *o = json_object(), *all = json_array();
	unsigned n = 1 + constrainkit_rand(seed, 3);

	while (n-- > 0)
		json_array_append_new(all, kit_schema(seed, depth - 1));
	json_object_set_new(o, "anyOf", all);
	return o;
}

static json_t *kit_schema(unsigned *seed, int depth)
{
	switch (depth > 0 ? constrainkit_rand(seed, 8) : 7) {
	case 0:
	case 1:
	case 2:
		return kit_random_object(seed, depth);
	case 3:
	case 4:
		return kit_random_array(seed, depth);
	case 5:
		return kit_random_any_of(seed, depth);
	case 6:
		return constrainkit_json("{'$ref':'#/$defs/tree'}");
	default:
		return constrainkit_json(kit_leaves[constrainkit_rand(seed, mem_countof(kit_leaves))]);
	}
}

json_t *schemakit_random(unsigned *seed, bool object)
{
	json_t *s = object ? kit_random_object(seed, 3) : kit_schema(seed, 3);

	if (!json_is_object(s)) {
		json_decref(s);
		s = json_object();
	}
	json_object_set_new(s, "$defs", constrainkit_json(
		"{'leaf':{'type':'integer','maximum':9,'description':'a leaf'},"
		"'tree':{'type':'object','properties':{'v':{'$ref':'#/$defs/leaf'},"
		"'kids':{'type':'array','items':{'$ref':'#/$defs/tree'},'maxItems':2}},'required':['v']}}"));
	return s;
}
