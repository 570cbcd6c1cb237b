/* SPDX-License-Identifier: MIT
 * schema_value.c - the values of schemas: constants and strings.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/constrain/pattern.h"
#include "engine/constrain/rawtext.h"
#include "engine/constrain/schema_priv.h"
#include "engine/text/pyjson.h"

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

/* Conditions beside constants would have to be checked against each of them. */
static int schema_enum_alone(struct schema *s, int at)
{
	static const char *const no[] = { "properties", "required", "additionalProperties", "items", "prefixItems",
		"minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "minimum", "maximum",
		"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "patternProperties", "propertyNames",
		"minProperties", "maxProperties" };
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
		if (!(schema_constant_types(value[i]) & types))
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

int schema_enum(struct schema *s, int at, unsigned types, uint32_t *ret_node)
{
	json_t *schema = s->item[at].schema, *values, **all;
	const char *key = json_object_get(schema, "const") ? "const" : "enum";
	size_t n, i;
	int rc = schema_enum_alone(s, at);

	if (rc)
		return rc;
	if (s->item[at].mode == SCHEMA_PARAMS)
		return schema_bad(s, at, RC_UNSUPPORTED, key, "not supported for all of a call");
	values = schema_constants(s, schema);
	n = json_array_size(values);
	if (n == 0) {
		rc = values ? schema_none(s, at, key, "no value is left") :
			      schema_bad(s, at, RC_INVALID, "enum", "must be an array of values");
		json_decref(values);
		return rc;
	}
	all = mem_grow(NULL, n, sizeof *all);
	for (i = 0; i < n; i++)
		all[i] = json_array_get(values, i);
	rc = schema_enum_of(s, at, all, n, types, ret_node);
	free(all);
	json_decref(values);
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
	else
		grammar_form(s->g, rule);
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
		return schema_none(s, at, "minLength", "%u is more than maxLength, %u", min, max);
	if (pattern) {
		struct pattern_want x = { .min = min, .max = max, .raw = raw };

		rc = schema_pattern(s, at, pattern, &x, ret_node);
		if (!rc || !s->src->lenient || s->g->full)
			return rc;
	}
	if (min == 0 && max == JRULE_NO_MAX)
		rule = raw ? schema_any(s, SCHEMA_TEXT) : jrule_get(s->g, s->j, JRULE_STRING);
	else
		grammar_form(s->g, rule = raw ? rawtext_rule(s->g, min, max) : jrule_string(s->g, min, max));
	*ret_node = grammar_call(s->g, rule, GRAMMAR_END);
	return 0;
}
