/* SPDX-License-Identifier: MIT
 * schema_value.c - the values of schemas: constants, strings, numbers, arrays.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/constrain/pattern.h"
#include "engine/constrain/rawtext.h"
#include "engine/constrain/schema_priv.h"
#include "engine/text/pyjson.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- constants ---- */

static void schema_scalar_text(const json_t *v, bool raw, struct buf *out)
{
	if (!json_is_string(v)) {
		pyjson_dump(v, out);
		return;
	}
	if (!raw)
		buf_addc(out, '"');
	if (raw)
		buf_add(out, json_string_value(v), json_string_length(v));
	else
		pyjson_escape(json_string_value(v), json_string_length(v), out);
	if (!raw)
		buf_addc(out, '"');
}

/* The text of a constant, with white space where there may be some, then next. RC_TOO_LARGE when it nests too deep. */
static int schema_constant(struct schema *s, json_t *v, int depth, uint32_t next, uint32_t *ret_node)
{
	struct buf text = { 0 };
	size_t i = json_array_size(v), n = i;
	const char *key, **keys = NULL;
	json_t *member, *one;
	int rc = 0;

	if (depth > GRAMMAR_MAX_DEPTH)
		return RC_TOO_LARGE;
	if (!json_is_array(v) && !json_is_object(v)) {
		schema_scalar_text(v, false, &text);
		*ret_node = grammar_text(s->g, buf_str(&text), text.len, next);
		buf_fini(&text);
		return 0;
	}
	if (json_is_object(v)) {
		keys = mem_grow(NULL, json_object_size(v) + 1, sizeof *keys);
		json_object_foreach(v, key, member)
			keys[n++] = key;
		i = n;
	}
	next = grammar_str(s->g, keys ? "}" : "]", next);
	while (i-- > 0 && rc == 0) {
		next = jrule_space(s->g, s->j, next);
		one = keys ? json_object_get(v, keys[i]) : json_array_get(v, i);
		rc = schema_constant(s, one, depth + 1, next, &next);
		if (keys && rc == 0) {
			buf_clear(&text);
			buf_addc(&text, '"');
			pyjson_escape(keys[i], strlen(keys[i]), &text);
			buf_addc(&text, '"');
			next = grammar_str(s->g, ":", jrule_space(s->g, s->j, next));
			next = grammar_text(s->g, text.data, text.len, jrule_space(s->g, s->j, next));
		}
		if (i > 0)
			next = grammar_str(s->g, ",", jrule_space(s->g, s->j, next));
	}
	*ret_node = grammar_str(s->g, keys ? "{" : "[", jrule_space(s->g, s->j, next));
	buf_fini(&text);
	free(keys);
	return rc;
}

static unsigned schema_type_of(const json_t *v)
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

/* Conditions beside constants would have to be checked against each of them. */
static int schema_enum_alone(struct schema *s, int at)
{
	static const char *const no[] = { "properties", "required", "additionalProperties", "items", "prefixItems",
		"minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum" };
	size_t i;

	for (i = 0; i < mem_countof(no) && !s->src->lenient; i++)
		if (json_object_get(s->item[at].schema, no[i]))
			return schema_bad(s, at, RC_UNSUPPORTED, no[i], "not supported together with constants");
	return 0;
}

/* Of a call's parameters there are no constants: a whole object would have to be taken apart. */
static int schema_enum_of(struct schema *s, int at, json_t **value, size_t n, unsigned types, uint32_t *ret_node)
{
	struct grammar_word *word = mem_grow(NULL, n + 1, sizeof *word);
	struct buf *text = mem_grow(NULL, n + 1, sizeof *text);
	uint32_t others = grammar_bytes(s->g, NULL, 0), one = 0;
	size_t n_word = 0, i;
	int rc = 0;

	for (i = 0; i < n && rc == 0; i++) {
		if (!(schema_type_of(value[i]) & types))
			continue;
		if (json_is_array(value[i]) || json_is_object(value[i])) {
			rc = schema_constant(s, value[i], 0, GRAMMAR_END, &one);
			others = grammar_either(s->g, one, others);
			continue;
		}
		text[n_word] = (struct buf){ 0 };
		schema_scalar_text(value[i], s->item[at].mode == SCHEMA_TEXT, &text[n_word]);
		word[n_word] = (struct grammar_word){ buf_str(&text[n_word]), text[n_word].len, GRAMMAR_END };
		n_word++;
	}
	*ret_node = grammar_either(s->g, grammar_words(s->g, word, n_word), others);
	for (i = 0; i < n_word; i++)
		buf_fini(&text[i]);
	free(text);
	free(word);
	return rc ? schema_bad(s, at, rc, "enum", "nested too deep") : 0;
}

int schema_enum(struct schema *s, int at, json_t *values, unsigned types, uint32_t *ret_node)
{
	json_t *only = json_object_get(s->item[at].schema, "const"), **all;
	size_t n = only ? 1 : json_array_size(values), i;
	int rc = schema_enum_alone(s, at);

	if (rc)
		return rc;
	if (!only && n == 0)
		return schema_bad(s, at, RC_INVALID, "enum", "must be an array of values");
	if (s->item[at].mode == SCHEMA_PARAMS)
		return schema_bad(s, at, RC_UNSUPPORTED, only ? "const" : "enum", "not supported for all of a call");
	all = mem_grow(NULL, n, sizeof *all);
	for (i = 0; i < n; i++)
		all[i] = only ? only : json_array_get(values, i);
	rc = schema_enum_of(s, at, all, n, types, ret_node);
	free(all);
	return rc;
}

/* ---- strings ---- */

static int schema_pattern(struct schema *s, int at, const json_t *pattern, struct pattern_want *x, uint32_t *ret_node)
{
	struct buf why = { 0 };
	uint32_t rule = 0;
	int rc;

	if (!json_is_string(pattern) || strlen(json_string_value(pattern)) != json_string_length(pattern))
		return schema_bad(s, at, RC_INVALID, "pattern", "must be a string");
	x->pattern = json_string_value(pattern);
	rc = pattern_rule(s->g, x, &rule, &why);
	if (rc)
		rc = schema_bad(s, at, rc, "pattern", "%s", buf_str(&why));
	*ret_node = grammar_call(s->g, rule, GRAMMAR_END);
	buf_fini(&why);
	return rc;
}

int schema_string(struct schema *s, int at, uint32_t *ret_node)
{
	const json_t *pattern = json_object_get(s->item[at].schema, "pattern");
	uint32_t min = 0, max = JRULE_NO_MAX, rule;
	bool raw = s->item[at].mode == SCHEMA_TEXT;
	int rc = schema_words_count(s, at, "minLength", &min);

	rc = rc ? rc : schema_words_count(s, at, "maxLength", &max);
	if (rc)
		return rc;
	if (min > max)
		return schema_bad(s, at, RC_INVALID, "minLength", "%u is more than maxLength, %u", min, max);
	if (pattern) {
		struct pattern_want x = { .min = min, .max = max, .raw = raw };

		rc = schema_pattern(s, at, pattern, &x, ret_node);
		if (!rc || !s->src->lenient || s->g->full)
			return rc;
	}
	if (min == 0 && max == JRULE_NO_MAX)
		rule = raw ? schema_any(s, SCHEMA_TEXT) : jrule_get(s->g, s->j, JRULE_STRING);
	else
		rule = raw ? rawtext_rule(s->g, min, max) : jrule_string(s->g, min, max);
	*ret_node = grammar_call(s->g, rule, GRAMMAR_END);
	return 0;
}

/* ---- numbers ---- */

struct schema_bound {
	struct jrule_decimal d;
	bool there, open;
};

/* Beyond what numbers can be written here, a bound says nothing. */
#define SCHEMA_FAR 1e18

/* side: -1 for a lower bound, 1 for an upper one. */
static int schema_bound(struct schema *s, int at, const char *key, bool open, bool integer, int side,
			struct schema_bound *b)
{
	const json_t *v = json_object_get(s->item[at].schema, key);
	double x = json_number_value(v);
	struct buf text = { 0 };
	bool fits;

	if (!v)
		return 0;
	if (!json_is_number(v))
		return schema_bad(s, at, RC_INVALID, key, "must be a number");
	if (x * side >= SCHEMA_FAR)
		return 0;
	if (integer && floor(x) != x) {
		x = side < 0 ? ceil(x) : floor(x);
		open = false;
	}
	if (json_is_integer(v))
		buf_printf(&text, "%lld", (long long)json_integer_value(v));
	else if (integer || floor(x) == x)
		buf_printf(&text, "%.0f", x);
	else
		pyjson_float(x, &text);
	fits = jrule_decimal(buf_str(&text), &b->d);
	buf_fini(&text);
	if (!fits)
		return schema_bad(s, at, RC_UNSUPPORTED, key, "not supported: too many digits");
	b->there = true;
	b->open = open;
	return 0;
}

/* The tighter of two keywords. */
static int schema_bounds(struct schema *s, int at, const char *shut, const char *open, bool integer, int side,
			 struct schema_bound *b)
{
	const json_t *x = json_object_get(s->item[at].schema, shut), *y = json_object_get(s->item[at].schema, open);
	bool both = json_is_number(x) && json_is_number(y);
	bool open_wins = both && (json_number_value(y) - json_number_value(x)) * side <= 0;
	int rc = both && open_wins ? 0 : schema_bound(s, at, shut, false, integer, side, b);

	return rc || (both && !open_wins) ? rc : schema_bound(s, at, open, true, integer, side, b);
}

int schema_number(struct schema *s, int at, bool integer, uint32_t *ret_node)
{
	struct schema_bound lo = { 0 }, hi = { 0 };
	struct jrule_range r = { .integer = integer };
	uint32_t rule;
	int rc = schema_bounds(s, at, "minimum", "exclusiveMinimum", integer, -1, &lo);

	rc = rc ? rc : schema_bounds(s, at, "maximum", "exclusiveMaximum", integer, 1, &hi);
	if (rc)
		return rc;
	if (!lo.there && !hi.there) {
		rule = jrule_get(s->g, s->j, integer ? JRULE_INTEGER : JRULE_NUMBER);
		*ret_node = grammar_call(s->g, rule, GRAMMAR_END);
		return 0;
	}
	r.lo = lo.there ? &lo.d : NULL;
	r.lo_open = lo.open;
	r.hi = hi.there ? &hi.d : NULL;
	r.hi_open = hi.open;
	*ret_node = jrule_range(s->g, &r);
	return 0;
}

/* ---- arrays ---- */

int schema_array(struct schema *s, int at, uint32_t *ret_node)
{
	json_t *schema = s->item[at].schema, *prefix = json_object_get(schema, "prefixItems"), *one;
	json_t *items = json_object_get(schema, "items");
	struct jrule_array a = { .max = JRULE_NO_MAX };
	const char *key = "prefixItems";
	uint32_t *rule, rest;
	size_t i;
	int rc = schema_words_count(s, at, "minItems", &a.min);

	rc = rc ? rc : schema_words_count(s, at, "maxItems", &a.max);
	if (rc)
		return rc;
	if (a.min > a.max)
		return schema_bad(s, at, RC_INVALID, "minItems", "%u is more than maxItems, %u", a.min, a.max);
	/* An array of items is what earlier drafts called the prefix. */
	if (json_is_array(items) && !prefix) {
		prefix = items;
		items = NULL;
		key = "items";
	}
	if (prefix && !json_is_array(prefix))
		return schema_bad(s, at, RC_INVALID, key, "must be an array of schemas");
	rule = mem_grow(NULL, json_array_size(prefix) + 1, sizeof *rule);
	json_array_foreach(prefix, i, one)
		rule[i] = schema_want_at(s, at, one, SCHEMA_VALUE, key, i);
	a.prefix = rule;
	a.n_prefix = json_array_size(prefix);
	if (items) {
		rest = schema_want(s, at, items, SCHEMA_VALUE, "items", NULL);
		a.rest = &rest;
	} else if (!prefix) {
		rest = schema_any(s, SCHEMA_VALUE);
		a.rest = &rest;
	}
	*ret_node = grammar_call(s->g, jrule_array(s->g, s->j, &a), GRAMMAR_END);
	free(rule);
	return 0;
}
