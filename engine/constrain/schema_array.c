/* SPDX-License-Identifier: MIT
 * schema_array.c - arrays by schemas.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/constrain/schema_priv.h"

#include <stdlib.h>
#include <string.h>

/* Each value at most once, in their order; from the last to the first, `choose` begins one from there on. */
static uint32_t schema_each_once(struct schema *s, int at, const json_t *values, const struct jrule_array *a)
{
	struct grammar *g = s->g;
	size_t n = json_array_size(values);
	uint32_t most = a->max == JRULE_NO_MAX ? a->min : a->max, rule = grammar_rule(g);
	uint32_t close = grammar_str(g, "]", GRAMMAR_END), choose = grammar_bytes(g, NULL, 0);

	for (size_t i = n; i-- > 0;) {
		json_t *one = json_pack("{s:O}", "const", json_array_get(values, i));
		uint32_t more = grammar_str(g, ",", jrule_space(g, s->j, choose)), after, here;

		json_array_append_new(s->made, one);
		if (a->max != JRULE_NO_MAX)
			more = grammar_below(g, a->max, more);
		after = grammar_either(g, grammar_from(g, a->min, close), more);
		after = most ? grammar_count(g, most, after) : after;
		here = grammar_call(g, schema_want_at(s, at, one, SCHEMA_VALUE, "items", i),
				    jrule_space(g, s->j, after));
		if (a->min > n - i) /* enough must be left */
			here = grammar_from(g, a->min - (uint32_t)(n - i), here);
		choose = grammar_either(g, here, choose);
	}
	if (a->max == 0 || a->min > n)
		choose = grammar_bytes(g, NULL, 0);
	if (a->min == 0)
		choose = grammar_either(g, close, choose);
	grammar_define(g, rule, grammar_str(g, "[", jrule_space(g, s->j, choose)), true);
	return rule;
}

/* Of constants; what else there may be twice would have to be remembered, so there it is no condition. */
static int schema_unique(struct schema *s, int at, const struct jrule_array *a, bool *ret_unique, uint32_t *ret_node)
{
	json_t *schema = s->item[at].schema, *values = NULL;
	int rc;

	*ret_unique = false;
	if (!json_is_true(json_object_get(schema, "uniqueItems")) || json_object_get(schema, "prefixItems"))
		return 0;
	rc = schema_constants_of(s, at, json_object_get(schema, "items"), &values);
	if (rc || !values)
		return rc;
	*ret_unique = true;
	*ret_node = grammar_call(s->g, schema_each_once(s, at, values, a), GRAMMAR_END);
	json_decref(values);
	return 0;
}

int schema_array(struct schema *s, int at, uint32_t *ret_node)
{
	json_t *schema = s->item[at].schema, *prefix = json_object_get(schema, "prefixItems"), *one;
	json_t *items = json_object_get(schema, "items");
	struct jrule_array a = { .max = JRULE_NO_MAX };
	const char *key = "prefixItems";
	uint32_t *rule, rest;
	bool unique;
	size_t i;
	int rc = schema_words_count(s, at, "minItems", &a.min);

	rc = rc ? rc : schema_words_count(s, at, "maxItems", &a.max);
	if (rc)
		return rc;
	if (a.min > a.max)
		return schema_none(s, at, "minItems", "%u is more than maxItems, %u", a.min, a.max);
	rc = schema_unique(s, at, &a, &unique, ret_node);
	if (rc || unique)
		return rc;
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
	} else if (!prefix || a.min > a.n_prefix) { /* after a prefix, no more than must be */
		a.max = prefix ? a.min : a.max;
		rest = schema_any(s, SCHEMA_VALUE);
		a.rest = &rest;
	}
	*ret_node = grammar_call(s->g, jrule_array(s->g, s->j, &a), GRAMMAR_END);
	free(rule);
	return 0;
}
