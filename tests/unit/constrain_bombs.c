/* SPDX-License-Identifier: MIT
 * constrain_bombs.c - tests of small schemas and grammars that would cost without end: in steps, not in time.
 * Threads: main. */
#include "engine/base/rc.h"
#include "engine/constrain/constraint_grammar.h"
#include "tests/unit/constrainkit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* All tries of a mask, and what may be passed before the first finds that it is too much. */
#define MOST_OF_A_MASK (2 * CONSTRAINT_MAX_WORK)
#define MOST_OF_A_START (2 * GRAMMAR_MAX_PASS)

/* ---- one request ---- */

/* Ways of asking for a schema; the last two wrap it as a parameter of a call. */
enum way { WAY_FORMAT, WAY_FORMAT_AND_CALLS, WAY_STRICT_REQUIRED, WAY_STRICT_AUTO, N_WAYS };

static json_t *tools_of(json_t *schema)
{
	json_t *defs = json_object_get(schema, "$defs"), *inner = json_deep_copy(schema), *tools;

	json_object_del(inner, "$defs");
	tools = json_pack("[{s:s, s:{s:s, s:b, s:{s:s, s:{s:o}, s:O*, s:[s]}}}]", "type", "function", "function",
			  "name", "f",
			  "strict", 1, "parameters", "type", "object", "properties", "a", inner, "$defs", defs,
			  "required", "a");
	assert_non_null(tools);
	return tools;
}

static struct constraint_options asked(enum way way, json_t *schema, json_t *tools)
{
	struct constraint_options o = constrainkit_schema(schema);

	if (way != WAY_FORMAT)
		o.tools = tools;
	if (way == WAY_FORMAT_AND_CALLS)
		o.calls = GEN_CALLS_AUTO;
	if (way == WAY_STRICT_REQUIRED || way == WAY_STRICT_AUTO) {
		o.format = GEN_FORMAT_TEXT;
		o.calls = way == WAY_STRICT_AUTO ? GEN_CALLS_AUTO : GEN_CALLS_REQUIRED;
	}
	return o;
}

static void steps_within(const struct constraint *c, uint64_t before, const char *text)
{
	uint64_t steps = constraint_work(c) - before;

	if (steps > MOST_OF_A_MASK)
		fail_msg("%llu steps for a token: %.400s", (unsigned long long)steps, text);
}

/* A random answer of at most so many tokens, each mask of which is paid for. */
static void answer_within(struct constraint *c, unsigned *seed, int most, const char *text)
{
	const struct constrainkit *k = constrainkit_tiny();
	const uint64_t *mask = NULL;
	struct buf why = { 0 };

	for (int i = 0; i < most && !constraint_complete(c); i++) {
		uint64_t before = constraint_work(c);
		int32_t t = (int32_t)constrainkit_rand(seed, (unsigned)k->n);
		int rc = constraint_mask(c, &mask, &why);

		steps_within(c, before, text);
		if (rc)
			fail_msg("%s: %.400s", buf_str(&why), text);
		for (int n = 0; mask && n < k->n && !(mask[t / 64] >> (t % 64) & 1); n++)
			t = (t + 1) % k->n;
		if (mask && !(mask[t / 64] >> (t % 64) & 1))
			fail_msg("no token: %.400s", text);
		if (t == 1)
			break;
		constraint_take(c, t);
		steps_within(c, before, text);
	}
	buf_fini(&why);
}

/* 1 when it was refused, with a reason that names the field. */
static int asked_within(json_t *schema, enum way way, unsigned *seed, int tokens)
{
	char *text = json_dumps(schema, JSON_ENCODE_ANY);
	json_t *tools = tools_of(schema);
	struct constraint_options o = asked(way, schema, tools);
	struct constraint *c = NULL;
	struct buf why = { 0 };
	int rc = constraint_new(constrainkit_tiny()->vocab, &o, &c, &why);

	if (rc == 0 && c)
		answer_within(c, seed, tokens, text);
	else if (rc && strncmp(buf_str(&why), "schema", 6) != 0 && strncmp(buf_str(&why), "tools", 5) != 0)
		fail_msg("%s: %s", text, buf_str(&why));
	constraint_free(&c);
	buf_fini(&why);
	json_decref(tools);
	free(text);
	return rc != 0;
}

/* ---- bombs ---- */

/* d1 to d59, each twice the one before: 2 to the power of 59 ways to one integer. */
static json_t *doubled(const char *word)
{
	json_t *defs = json_pack("{s:{s:s}}", "d0", "type", "integer"), *root;
	char name[16], ref[32];

	for (int i = 1; i < 60; i++) {
		snprintf(name, sizeof name, "d%d", i);
		snprintf(ref, sizeof ref, "#/$defs/d%d", i - 1);
		assert_int_equal(json_object_set_new(defs, name,
						     json_pack("{s:[{s:s}, {s:s}]}", word, "$ref", ref, "$ref", ref)),
				 0);
	}
	root = json_pack("{s:s, s:o}", "$ref", "#/$defs/d59", "$defs", defs);
	assert_non_null(root);
	return root;
}

/* It hung the thread that asked, and under a property the engine. */
static void alternatives_doubled_sixty_times_cost_nothing_and_are_exact(void **state)
{
	static const char *const words[] = { "anyOf", "oneOf", "allOf" };
	unsigned seed = 1;
	bool end;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		json_t *schema = doubled(words[i]), *under;
		struct constraint_options o = constrainkit_schema(schema);

		assert_int_equal(constrainkit_follow(&o, "1234", 4, &end), 4);
		assert_true(end);
		for (int way = 0; way < N_WAYS; way++)
			assert_int_equal(asked_within(schema, (enum way)way, &seed, 20), 0);
		under = json_pack("{s:s, s:{s:{s:s}}, s:[s], s:O}", "type", "object", "properties", "a", "$ref",
				  "#/$defs/d59", "required", "a", "$defs", json_object_get(schema, "$defs"));
		assert_int_equal(asked_within(under, WAY_FORMAT, &seed, 20), 0);
		json_decref(under);
		json_decref(schema);
	}
}

/* ---- what is too wide ---- */

static json_t *kinds(int n)
{
	json_t *all = json_array();
	char name[16];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "k%04d", i);
		assert_int_equal(json_array_append_new(all, json_pack("{s:s, s:{s:{s:s}}, s:[s]}", "type", "object",
								      "properties",
								      "kind", "const", name, "required", "kind")), 0);
	}
	return json_pack("{s:{s:{s:o}}, s:[s]}", "properties", "a", "anyOf", all, "required", "a");
}

/* Token by token, as a model writes it. */
static void tokens_may_come(const struct constrainkit *k, json_t *schema, const char *text)
{
	struct constraint_options o = constrainkit_schema(schema);
	struct token_ids ids = { 0 };
	struct constraint *c = NULL;
	struct buf why = { 0 };
	const uint64_t *mask;

	assert_int_equal(constraint_new(k->vocab, &o, &c, &why), 0);
	assert_int_equal(tokenizer_encode(k->tokenizer, text, strlen(text), true, &ids), 0);
	for (int i = 0; i < ids.n; i++) {
		assert_int_equal(constraint_mask(c, &mask, &why), 0);
		if (!(mask[ids.id[i] / 64] >> (ids.id[i] % 64) & 1))
			fail_msg("%s: token %d may not come", text, i);
		constraint_take(c, ids.id[i]);
	}
	assert_true(constraint_complete(c));
	constraint_free(&c);
	token_ids_fini(&ids);
	buf_fini(&why);
}

static bool whole_may_come(json_t *schema, const char *text)
{
	struct constraint_options o = constrainkit_schema(schema);
	bool end;

	return constrainkit_follow(&o, text, strlen(text), &end) == strlen(text) && end;
}

/* Of a thousand that began alike the last fifty could come, and nobody was told. */
static void of_many_alternatives_that_begin_alike_each_may_come_or_they_are_refused(void **state)
{
	json_t *schema = kinds(GRAMMAR_MAX_FORMS);
	struct constraint_options o;
	struct constraint *c = NULL;
	struct buf why = { 0 };
	char text[64];

	(void)state;
	for (int i = 0; i < GRAMMAR_MAX_FORMS; i += 33) {
		snprintf(text, sizeof text, "{\"a\":{\"kind\":\"k%04d\"}}", i);
		tokens_may_come(constrainkit_tiny(), schema, text);
		tokens_may_come(constrainkit_flash(), schema, text);
	}
	json_decref(schema);
	schema = kinds(GRAMMAR_MAX_FORMS + 1);
	o = constrainkit_schema(schema);
	assert_int_equal(constraint_new(constrainkit_tiny()->vocab, &o, &c, &why), RC_TOO_LARGE);
	assert_string_equal(buf_str(&why), "schema.properties.a: more than 1024 alternatives at one place, or 100 "
			    "objects, arrays and strings with a length or pattern, or 8192 steps to them");
	buf_fini(&why);
	json_decref(schema);
}

static void of_a_thousand_constants_that_begin_alike_each_may_come(void **state)
{
	json_t *all = json_array(), *schema;
	char text[32];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof text, "constant%04d", i);
		assert_int_equal(json_array_append_new(all, json_pack("{s:s}", "const", text)), 0);
	}
	schema = json_pack("{s:o}", "anyOf", all);
	for (int i = 0; i < 1000; i += 333) {
		snprintf(text, sizeof text, "\"constant%04d\"", i);
		tokens_may_come(constrainkit_flash(), schema, text);
	}
	json_decref(schema);
}

static void of_seven_hundred_optional_members_the_first_and_the_last_may_come(void **state)
{
	json_t *properties = json_object(), *schema;
	char name[16];

	(void)state;
	for (int i = 0; i < 700; i++) {
		snprintf(name, sizeof name, "m%04d", i);
		assert_int_equal(json_object_set_new(properties, name, json_pack("{s:s}", "type", "integer")), 0);
	}
	schema = json_pack("{s:o}", "properties", properties);
	assert_true(whole_may_come(schema, "{}"));
	assert_true(whole_may_come(schema, "{\"m0000\": 1}"));
	assert_true(whole_may_come(schema, "{\"m0699\": 1}"));
	assert_true(whole_may_come(schema, "{\"m0000\": 1, \"m0350\": 2, \"m0699\": 3}"));
	json_decref(schema);
}

static void a_constant_named_ten_thousand_times_is_one(void **state)
{
	json_t *values = json_array(), *schema;
	unsigned seed = 1;

	(void)state;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(json_array_append_new(values, json_string("x")), 0);
	schema = json_pack("{s:o}", "enum", values);
	assert_true(whole_may_come(schema, "\"x\""));
	assert_int_equal(asked_within(schema, WAY_FORMAT, &seed, 5), 0);
	json_decref(schema);
}

/* ---- what would take long to work out ---- */

static void refused_as_too_large(json_t *schema)
{
	struct constraint_options o = constrainkit_schema(schema);
	struct constraint *c = NULL;
	struct buf why = { 0 };

	assert_non_null(schema);
	assert_int_equal(constraint_new(constrainkit_tiny()->vocab, &o, &c, &why), RC_TOO_LARGE);
	assert_memory_equal(buf_str(&why), "schema", 6);
	buf_fini(&why);
	json_decref(schema);
}

/* A thousand times a hundred thousand members were copied, for ten seconds. */
static void parts_that_are_large_and_many_are_refused_before_they_are_put_together(void **state)
{
	json_t *large = json_object(), *parts = json_array(), *values = json_array();
	char name[16];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "m%d", i);
		assert_int_equal(json_object_set_new(large, name, json_object()), 0);
		assert_int_equal(json_array_append_new(values, json_integer(i)), 0);
	}
	assert_int_equal(json_array_append_new(parts, json_pack("{s:O}", "properties", large)), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "n%d", i);
		assert_int_equal(json_array_append_new(parts, json_pack("{s:{s:{}}}", "properties", name)), 0);
	}
	refused_as_too_large(json_pack("{s:O}", "allOf", parts));
	json_array_clear(parts);
	for (int i = 0; i < 200; i++)
		assert_int_equal(json_array_append_new(parts,
						       json_pack("{s:s}", "$ref", i % 2 ? "#/$defs/a" : "#/$defs/b")),
				 0);
	refused_as_too_large(json_pack("{s:O, s:{s:{s:O}, s:{s:o}}}", "allOf", parts, "$defs", "a", "enum", values, "b",
				       "enum", json_deep_copy(values)));
	json_decref(parts);
	json_decref(values);
	json_decref(large);
}

/* ---- random ones ---- */

static json_t *random_ref(unsigned *seed, int n)
{
	char ref[32];

	snprintf(ref, sizeof ref, "#/$defs/d%d", n > 0 ? n - 1 - (int)constrainkit_rand(seed, n < 3 ? (unsigned)n : 3) :
		 0);
	return json_pack("{s:s}", "$ref", ref);
}

static json_t *random_leaf(unsigned *seed)
{
	static const char *const leaves[] = {
		"{'type':'integer'}", "{'type':['null','string']}", "{'enum':['','a',null,'']}", "{'const':''}",
		"false", "true",
		"{'type':'string','pattern':'^((a?)*)*$'}", "{'type':'string','pattern':'^((a|b?)*|(b*)*)*(a?){20}$'}",
		"{'type':'string','pattern':'^(|a|(|b)*)$'}", "{'type':'string','maxLength':0}",
		"{'type':'array','prefixItems':[]}",
		"{'type':'object','properties':{}}", "{'type':'string','maxLength':40}", "{'type':'boolean'}",
	};

	return constrainkit_json(leaves[constrainkit_rand(seed, sizeof leaves / sizeof *leaves)]);
}

/* Of the ones below n, some twice, in one of the ways that schemas are put together. */
static json_t *random_schema(unsigned *seed, int n)
{
	static const char *const words[] = { "anyOf", "oneOf", "anyOf", "oneOf", "allOf" };
	unsigned kind = constrainkit_rand(seed, 12), most = 2 + constrainkit_rand(seed, 4);
	json_t *parts = json_array(), *o;
	char name[16];

	for (unsigned i = 0; i < most; i++)
		assert_int_equal(json_array_append_new(parts,
						       constrainkit_rand(seed, 6) ? random_ref(seed, n) :
						       random_leaf(seed)), 0);
	if (kind < 5)
		return json_pack("{s:o}", words[kind], parts);
	if (kind < 7)
		return json_pack("{s:o, s:s}", words[kind - 5], parts, "type", "object");
	if (kind < 9)
		return json_pack("{s:s, s:o, s:i}", "type", "array", "prefixItems", parts, "minItems",
				 (int)constrainkit_rand(seed, 3));
	o = json_object();
	for (unsigned i = 0; i < most; i++) {
		snprintf(name, sizeof name, "m%u", i);
		assert_int_equal(json_object_set(o, name, json_array_get(parts, i)), 0);
	}
	json_decref(parts);
	o = json_pack("{s:s, s:o}", "type", "object", "properties", o);
	if (kind == 9)
		assert_int_equal(json_object_set_new(o, "required", json_pack("[s]", "m1")), 0);
	if (kind == 10)
		assert_int_equal(json_object_set_new(o, "additionalProperties", random_ref(seed, n)), 0);
	return o;
}

static json_t *random_root(unsigned *seed)
{
	int n = 3 + (int)constrainkit_rand(seed, 60);
	json_t *defs = json_object();
	char name[32];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "d%d", i);
		assert_int_equal(json_object_set_new(defs, name, i ? random_schema(seed, i) : random_leaf(seed)), 0);
	}
	snprintf(name, sizeof name, "#/$defs/d%d", n - 1);
	return json_pack("{s:s, s:o}", "$ref", name, "$defs", defs);
}

static void random_schemas_cost_no_more_than_a_mask_may_in_every_way_of_asking(void **state)
{
	int refused = 0, n = 400;

	(void)state;
	for (int i = 0; i < n; i++) {
		unsigned seed = (unsigned)i * 7919u + 1;
		json_t *schema = random_root(&seed);

		refused += asked_within(schema, (enum way)(i % N_WAYS), &seed, 12);
		json_decref(schema);
	}
	/* Neither all nor none, or it would show nothing. */
	if (refused > n * 9 / 10 || refused == 0)
		fail_msg("%d of %d were refused", refused, n);
}

/* A random grammar: nodes that lead to ones before them, rules that call ones before them, most of them empty-able. */
static uint32_t random_rule(struct grammar *g, unsigned *seed, uint32_t n_rule)
{
	uint32_t node[24] = { GRAMMAR_END }, rule = grammar_rule(g);

	for (int i = 1; i < 24; i++) {
		uint32_t a = node[constrainkit_rand(seed, (unsigned)i)], b = node[constrainkit_rand(seed, (unsigned)i)];

		switch (n_rule && i > 2 ? constrainkit_rand(seed, 6) : 5) {
		case 0:
		case 1:
		case 2: node[i] = grammar_either(g, a, node[i - 1]); break;
		case 3:
			node[i] = grammar_call(g, n_rule - 1 - constrainkit_rand(seed, n_rule < 3 ? n_rule : 3),
					       a); break;
		case 4: node[i] = grammar_count(g, 3, node[i - 1]); break;
		default: node[i] = i % 2 ? grammar_byte(g, 'a', 'c', b) : grammar_either(g, b, a); break;
		}
	}
	grammar_define(g, rule, node[23], constrainkit_rand(seed, 3) == 0);
	return rule;
}

static void random_grammars_are_refused_or_begun_within_the_steps_that_they_promise(void **state)
{
	int refused = 0, n = 500;

	(void)state;
	for (int i = 0; i < n; i++) {
		unsigned seed = (unsigned)i * 104729u + 3, rules = 2 + constrainkit_rand(&seed, 40);
		struct buf why = { 0 };
		struct automaton *a;
		struct grammar g;
		uint32_t root = 0, at;

		grammar_init(&g);
		for (uint32_t r = 0; r < rules; r++)
			root = random_rule(&g, &seed, r);
		if (grammar_finish(&g, root, &why)) {
			refused++;
		} else {
			a = automaton_new(&g);
			at = automaton_start(a);
			if (automaton_work(a) > MOST_OF_A_START)
				fail_msg("seed %d: %llu steps", i, (unsigned long long)automaton_work(a));
			automaton_budget(a, CONSTRAINT_MAX_WORK);
			for (int s = 0; s < 8 && at != AUTOMATON_FULL && at != AUTOMATON_DEAD; s++)
				at = automaton_step(a, at, (uint8_t)('a' + constrainkit_rand(&seed, 3)));
			assert_true(automaton_work(a) <= MOST_OF_A_START + 2 * CONSTRAINT_MAX_WORK);
			automaton_free(&a);
		}
		buf_fini(&why);
		grammar_fini(&g);
	}
	if (refused > n * 9 / 10 || refused == 0)
		fail_msg("%d of %d were refused", refused, n);
}

static int done(void **state)
{
	(void)state;
	constrainkit_done();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alternatives_doubled_sixty_times_cost_nothing_and_are_exact),
		cmocka_unit_test(of_many_alternatives_that_begin_alike_each_may_come_or_they_are_refused),
		cmocka_unit_test(of_a_thousand_constants_that_begin_alike_each_may_come),
		cmocka_unit_test(of_seven_hundred_optional_members_the_first_and_the_last_may_come),
		cmocka_unit_test(a_constant_named_ten_thousand_times_is_one),
		cmocka_unit_test(parts_that_are_large_and_many_are_refused_before_they_are_put_together),
		cmocka_unit_test(random_schemas_cost_no_more_than_a_mask_may_in_every_way_of_asking),
		cmocka_unit_test(random_grammars_are_refused_or_begun_within_the_steps_that_they_promise),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
