/* SPDX-License-Identifier: MIT
 * constrain_cost.c - tests of what a mask may cost, whatever the schema: in nodes passed, not in time.
 * Threads: main. */
#include "engine/base/rc.h"
#include "tests/unit/constrainkit.h"
#include "tests/unit/schemakit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Each of n alternatives as printf makes it of its number, twice. */
static json_t *alternatives(int n, const char *form)
{
	json_t *all = json_array();
	char text[256];

	for (int i = 0; i < n; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof text, form, i, i);
#pragma GCC diagnostic pop
		assert_int_equal(json_array_append_new(all, constrainkit_json(text)), 0);
	}
	return json_pack("{s:o}", "anyOf", all);
}

static uint64_t mask_cost(struct constraint *c, const uint64_t **ret_mask)
{
	uint64_t before = constraint_work(c);
	struct buf why = { 0 };

	if (constraint_mask(c, ret_mask, &why))
		fail_msg("%s", buf_str(&why));
	return constraint_work(c) - before;
}

/* What the dearest mask of the answer cost, all of which is allowed. */
static uint64_t answer_cost(json_t *schema, const char *answer)
{
	const struct constrainkit *k = constrainkit_flash();
	struct constraint_options o = constrainkit_schema(schema);
	struct token_ids ids = { 0 };
	struct constraint *c = NULL;
	struct buf why = { 0 };
	uint64_t most = 0, cost;
	const uint64_t *mask;

	if (constraint_new(k->vocab, &o, &c, &why))
		fail_msg("%s", buf_str(&why));
	assert_int_equal(tokenizer_encode(k->tokenizer, answer, strlen(answer), true, &ids), 0);
	assert_true(ids.n > 3);
	for (int i = 0; i < ids.n; i++) {
		cost = mask_cost(c, &mask);
		most = cost > most ? cost : most;
		if (!(mask[ids.id[i] / 64] >> (ids.id[i] % 64) & 1))
			fail_msg("%s: token %d is not allowed", answer, i);
		constraint_take(c, ids.id[i]);
	}
	constraint_free(&c);
	token_ids_fini(&ids);
	buf_fini(&why);
	json_decref(schema);
	return most;
}

/* They cost 35 ms for a token, and up to 20 MB. */
static void a_hundred_lengths_cost_a_millisecond_and_the_longest_may_come(void **state)
{
	char answer[400];

	(void)state;
	for (size_t n = 100; n <= 299; n += 199) {
		memset(answer, 'x', sizeof answer);
		for (size_t i = 5; i < n; i += 6)
			answer[i] = ' ';
		answer[0] = '"';
		strcpy(answer + 1 + n, "\"");
		assert_true(answer_cost(alternatives(100, "{'type':'string','maxLength':2%02d,'title':'%d'}"), answer) <
			    CONSTRAINT_MAX_WORK);
	}
	assert_true(answer_cost(alternatives(100, "{'type':'object','properties':{'a':{'type':'string',"
						  "'maxLength':2%02d},'b%d':{'type':'integer'}},'required':['a']}"),
				"{\"a\":\"the quick brown fox\",\"b57\":1}") < CONSTRAINT_MAX_WORK);
}

/* 90 to the power of the depth. They cost 19 ms, mostly to go on looking after as many ways as are followed. */
static void ninety_kinds_of_objects_inside_each_other_cost_a_millisecond(void **state)
{
	json_t *n = alternatives(90, "{'type':'object','properties':{'a':{'$ref':'#/$defs/n'},'k%d':{'type':'string',"
				     "'maxLength':1%02d}},'required':['a']}");
	struct buf answer = { 0 };

	(void)state;
	assert_int_equal(json_array_append_new(json_object_get(n, "anyOf"), json_pack("{s:s}", "type", "string")), 0);
	for (int i = 0; i < 12; i++)
		buf_adds(&answer, "{\"a\": ");
	buf_adds(&answer, "\"the quick brown fox\"");
	for (int i = 0; i < 12; i++)
		buf_adds(&answer, "}");
	assert_true(answer_cost(json_pack("{s:s, s:{s:o}}", "$ref", "#/$defs/n", "$defs", "n", n), buf_str(&answer)) <
		    CONSTRAINT_MAX_WORK);
	buf_fini(&answer);
}

/* Arrays in arrays, twelve kinds at each level: 12 to the power of the depth. */
static void what_would_cost_more_is_followed_in_fewer_ways_and_stays_valid(void **state)
{
	const struct constrainkit *k = constrainkit_flash();
	json_t *n = alternatives(12, "{'type':'array','items':{'$ref':'#/$defs/n'},'minItems':1,'maxItems':9%d,"
				     "'title':'%d'}"), *root;
	struct constraint_options o;
	struct constraint *c = NULL;
	struct buf why = { 0 };
	const uint64_t *mask;

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(json_array_append_new(json_object_get(n, "anyOf"),
						       json_pack("{s:s, s:i}", "type", "string", "maxLength", 40 + i)),
				 0);
	root = json_pack("{s:s, s:{s:o}}", "$ref", "#/$defs/n", "$defs", "n", n);
	assert_non_null(root);
	o = constrainkit_schema(root);
	assert_int_equal(constraint_new(k->vocab, &o, &c, &why), 0);
	for (int i = 0; i < 4; i++) {
		struct token_ids ids = { 0 };

		assert_int_equal(tokenizer_encode(k->tokenizer, i < 3 ? "[" : "\"a", i < 3 ? 1 : 2, true, &ids), 0);
		/* Two that are given up, and one that passes. */
		assert_true(mask_cost(c, &mask) < 3 * CONSTRAINT_MAX_WORK);
		for (int t = 0; t < ids.n; t++) {
			constraint_take(c, ids.id[t]);
			assert_true(mask_cost(c, &mask) < 3 * CONSTRAINT_MAX_WORK);
		}
		token_ids_fini(&ids);
	}
	constraint_free(&c);
	for (unsigned seed = 1; seed <= 5; seed++) {
		struct buf text = { 0 };
		unsigned s = seed;
		json_t *v;

		constrainkit_random(k, &o, &s, 20, &text, NULL);
		v = json_loads(buf_str(&text), JSON_DECODE_ANY, NULL);
		if (!v || !schemakit_valid(root, root, v))
			fail_msg("%s", buf_str(&text));
		json_decref(v);
		buf_fini(&text);
	}
	json_decref(root);
	buf_fini(&why);
}

/* Each of them has a node for every rest at every digit. */
static void a_hundred_large_multiples_are_refused(void **state)
{
	json_t *schema = alternatives(100, "{'type':'number','multipleOf':1.0%02d,'title':'%d'}");
	struct constraint_options o = constrainkit_schema(schema);
	struct constraint *c = NULL;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(constraint_new(constrainkit_tiny()->vocab, &o, &c, &why), RC_TOO_LARGE);
	assert_string_equal(buf_str(&why), "schema: too large a schema");
	buf_fini(&why);
	json_decref(schema);
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
		cmocka_unit_test(a_hundred_lengths_cost_a_millisecond_and_the_longest_may_come),
		cmocka_unit_test(ninety_kinds_of_objects_inside_each_other_cost_a_millisecond),
		cmocka_unit_test(what_would_cost_more_is_followed_in_fewer_ways_and_stays_valid),
		cmocka_unit_test(a_hundred_large_multiples_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
