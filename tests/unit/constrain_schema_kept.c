/* SPDX-License-Identifier: MIT
 * constrain_schema_kept.c - tests that what comes by a schema is valid by it where several of its parts speak of one
 * value: cases once found broken, and random mixtures of parts against texts that lie close to their edges.
 * Threads: main. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/constrainkit.h"
#include "tests/unit/schemakit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- one schema, one text; ' stands for " ---- */

static int compiles(json_t *schema, struct buf *why)
{
	struct constraint_options o = constrainkit_schema(schema);
	struct constraint *c = NULL;
	int rc = constraint_new(constrainkit_tiny()->vocab, &o, &c, why);

	constraint_free(&c);
	return rc;
}

/* Can the text come, as a whole? */
static bool comes(json_t *schema, const char *text)
{
	struct constraint_options o = constrainkit_schema(schema);
	struct buf quoted = { 0 };
	bool end, whole;

	for (; *text; text++)
		buf_addc(&quoted, *text == '\'' ? '"' : *text);
	whole = constrainkit_follow(&o, buf_str(&quoted), quoted.len, &end) == quoted.len && end;
	buf_fini(&quoted);
	return whole;
}

struct row {
	const char *schema, *comes, *never; /* texts, NULL for none */
};

static void check_rows(const struct row *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *schema = constrainkit_json(row[i].schema);

		if (row[i].comes && !comes(schema, row[i].comes))
			fail_msg("%s: %s cannot come", row[i].schema, row[i].comes);
		if (row[i].never && comes(schema, row[i].never))
			fail_msg("%s: %s can come", row[i].schema, row[i].never);
		json_decref(schema);
	}
}

struct refusal {
	const char *schema;
	int rc;
	const char *why;
};

static void check_refusals(const struct refusal *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *schema = constrainkit_json(row[i].schema);
		struct buf why = { 0 };
		int rc = compiles(schema, &why);

		if (rc != row[i].rc || strncmp(buf_str(&why), row[i].why, strlen(row[i].why)) != 0)
			fail_msg("%s: %d '%s' instead of %d '%s'", row[i].schema, rc, buf_str(&why), row[i].rc,
				 row[i].why);
		buf_fini(&why);
		json_decref(schema);
	}
}

#define ROWS(rows) check_rows(rows, mem_countof(rows))
#define REFUSALS(rows) check_refusals(rows, mem_countof(rows))

/* ---- what was broken ---- */

#define SET(items) "{'type':'array','uniqueItems':true,'items':" items "}"

static void a_set_of_constants_had_those_of_other_types_and_some_twice(void **state)
{
	static const struct row rows[] = {
		{ SET("{'type':'string','enum':['a',1]}"), "['a']", "[1]" },
		{ SET("{'type':['string','null'],'enum':['a',null,2]}"), "['a',null]", "[2]" },
		{ SET("{'enum':['a','a']}"), "['a']", "['a','a']" },
		{ SET("{'enum':[1,1.0,2]}"), "[1,2]", "[1,1.0]" },
		{ SET("{'enum':[[1,{'x':2}],[1.0,{'x':2.0}]]}"), "[[1,{'x':2}]]", "[[1,{'x':2}],[1.0,{'x':2.0}]]" },
		{ SET("{'enum':['a','b'],'const':'b'}"), "['b']", "['a']" },
		{ SET("{'type':['boolean','null']}"), "[true,null]", "[true,true]" },
		{ "{'items':{'$ref':'#/$defs/e','type':'string'},'uniqueItems':true,"
		  "'$defs':{'e':{'enum':['a','b',3]}}}",
			"['a','b']", "['a','a']" },
		{ "{'items':{'$ref':'#/$defs/e','type':'string'},'uniqueItems':true,"
		  "'$defs':{'e':{'enum':['a','b',3]}}}",
			NULL, "[3]" },
	};

	(void)state;
	ROWS(rows);
}

static void a_set_of_constants_forgot_what_else_its_items_say(void **state)
{
	static const struct refusal rows[] = {
		{ SET("{'enum':['a','bbbb'],'minLength':3}"), RC_UNSUPPORTED, "schema.uniqueItems: " },
		{ SET("{'enum':['a','b'],'anyOf':[{'const':'a'}]}"), RC_UNSUPPORTED, "schema.uniqueItems: " },
		{ SET("{'enum':['a','b'],'not':{'const':'a'}}"), RC_UNSUPPORTED, "schema.uniqueItems: " },
		{ "{'type':'array','uniqueItems':true,'minItems':2,'items':{'enum':[1,1.0]}}", RC_INVALID,
			"schema: nothing satisfies it" },
	};

	(void)state;
	REFUSALS(rows);
}

static void items_of_one_part_passed_over_the_prefix_of_another(void **state)
{
#define PREFIX "{'prefixItems':[{'type':'integer'}]"
	static const struct refusal refusals[] = {
		{ "{'allOf':[" PREFIX "},{'items':{'type':'string'}}]}", RC_UNSUPPORTED,
		  "schema: prefixItems beside items" },
		{ "{'items':{'type':'string'},'allOf':[" PREFIX "}]}", RC_UNSUPPORTED,
		  "schema: prefixItems beside items" },
		{ "{'$ref':'#/$defs/p','anyOf':[{'items':false}],'$defs':{'p':" PREFIX "}}}", RC_UNSUPPORTED,
			"schema.$ref: prefixItems beside items" },
	};
	static const struct row rows[] = {
		{ "{'allOf':[" PREFIX ",'items':false},{'items':false,'prefixItems':[{'type':'integer'}]}]}", "[1]",
		  "['a']" },
		{ "{'allOf':[" PREFIX "},{'items':true}]}", "[1,'a']", "['a']" },
	};

	(void)state;
	REFUSALS(refusals);
	ROWS(rows);
}

static void a_constant_came_that_the_enum_does_not_list(void **state)
{
	static const struct row rows[] = {
		{ "{'allOf':[{'enum':['a','b']},{'const':'b'}]}", "'b'", "'a'" },
		{ "{'allOf':[{'enum':['a','b',1]},{'enum':[1.0,'b','c']}]}", "'b'", "'a'" },
		{ "{'allOf':[{'enum':['a','b',1]},{'enum':[1.0,'b','c']}]}", "1", "'c'" },
		{ "{'const':1,'enum':[1.0,2]}", "1", "2" },
		{ "{'anyOf':[{'const':'c'},{'const':'b'}],'enum':['a','b']}", "'b'", "'c'" },
		{ "{'properties':{'a':{'const':1,'enum':[2]},'b':{}}}", "{'b':1}", "{'a':1}" },
	};
	static const struct refusal refusals[] = {
		{ "{'const':'a','enum':['b']}", RC_INVALID, "schema.const: no value is left" },
		{ "{'allOf':[{'enum':['a','b']},{'const':'c'}]}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'allOf':[{'const':1},{'const':2}]}", RC_INVALID, "schema: nothing satisfies it" },
	};

	(void)state;
	ROWS(rows);
	REFUSALS(refusals);
}

static void numbers_with_a_far_bound_had_exponents(void **state)
{
	static const struct row rows[] = {
		{ "{'type':'number','maximum':1e20}", "-5.5", "5e99" },
		{ "{'type':'number','minimum':-1e20}", "5.5", "-5e99" },
		{ "{'type':'number','exclusiveMaximum':1e18}", "999999999999999872", "999999999999999999" },
		{ "{'type':'integer','exclusiveMaximum':1000000000000000000}", "999999999999999872",
		  "999999999999999999" },
		{ "{'type':'number','maximum':1e18}", "999999999999999999", "1e19" },
	};

	(void)state;
	ROWS(rows);
}

static void digits_that_no_double_holds_passed_an_open_bound(void **state)
{
	static const struct row rows[] = {
		{ "{'type':'number','exclusiveMinimum':1000}", "1000.0000000001", "1000.000000000000000001" },
		{ "{'type':'number','exclusiveMaximum':1000}", "999.9999999999", "999.999999999999999999" },
		{ "{'type':'number','exclusiveMinimum':-1000}", "-999.9999999999", "-999.999999999999999999" },
		{ "{'type':'number','exclusiveMaximum':-0.5}", "-0.50000001", "-0.500000000000000001" },
		{ "{'type':'number','exclusiveMinimum':0}", "0.000000000000000001", "0.0" },
		{ "{'type':'number','exclusiveMaximum':0}", "-0.000000000000000001", "-0.0" },
		{ "{'type':'integer','exclusiveMinimum':1000}", "1001", "1000" },
		{ "{'type':'integer','exclusiveMinimum':9007199254740992}", "9007199254740994", "9007199254740993" },
		{ "{'type':'number','minimum':9007199254740993}", "9007199254740994.0", "9007199254740993.0" },
		{ "{'type':'integer','minimum':9007199254740993}", "9007199254740993", "9007199254740992" },
		{ "{'type':'number','exclusiveMinimum':1,'multipleOf':0.25}", "1.25", "1.0" },
	};

	(void)state;
	ROWS(rows);
}

static void a_name_that_came_twice_counted_as_two(void **state)
{
	static const struct refusal refusals[] = {
		{ "{'type':'object','minProperties':2}", RC_UNSUPPORTED, "schema.minProperties: more than 1" },
		{ "{'items':{'patternProperties':{'^a':{}},'minProperties':2}}", RC_UNSUPPORTED,
		  "schema.items.minProperties: " },
		{ "{'propertyNames':{'enum':['a']},'minProperties':2}", RC_UNSUPPORTED, "schema.minProperties: " },
	};
	static const struct row rows[] = {
		{ "{'type':'object','minProperties':1}", "{'a':1}", "{}" },
	};

	(void)state;
	REFUSALS(refusals);
	ROWS(rows);
}

static void a_prefix_shorter_than_the_array_must_be_was_refused(void **state)
{
	static const struct row rows[] = {
		{ "{'type':'array','prefixItems':[{}],'minItems':2}", "[1,'a']", "[1]" },
		{ "{'prefixItems':[{'type':'null'}],'minItems':3,'maxItems':4}", "[null,1,2]", "[1,1,2]" },
	};

	(void)state;
	ROWS(rows);
}

static void a_branch_that_nothing_satisfies_refused_the_whole(void **state)
{
#define NONE "{'type':'string','minLength':3,'maxLength':2}"
	static const struct row rows[] = {
		{ "{'anyOf':[" NONE ",{'type':'null'}]}", "null", "'abc'" },
		{ "{'oneOf':[{'type':'null'},{'minItems':2,'maxItems':1}]}", "null", "[1,2]" },
		{ "{'properties':{'a':" NONE ",'b':{}}}", "{'b':1}", "{'a':'abc'}" },
		{ "{'properties':{'a':{'enum':[]}}}", "{}", "{'a':1}" },
		{ "{'items':{'required':['a'],'additionalProperties':false}}", "[]", "[{'a':1}]" },
		{ "{'items':{'minProperties':2,'maxProperties':1}}", "[]", "[{'a':1}]" },
		{ "{'type':['string','null'],'minLength':3,'maxLength':2}", "null", "'abc'" },
	};
	static const struct refusal refusals[] = {
		{ NONE, RC_INVALID, "schema.minLength: 3 is more" },
		{ "{'properties':{'a':" NONE "},'required':['a']}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'anyOf':[" NONE ",{'not':{}}]}", RC_UNSUPPORTED, "schema.anyOf[1].not: " },
	};

	(void)state;
	ROWS(rows);
	REFUSALS(refusals);
}

/* ---- random mixtures of parts ---- */

/* Parts that speak of values of one kind, and texts of it: what comes of these must be valid, whatever the mixture. */
struct kind {
	const char *part[16], *text[20];
};

static const struct kind kinds[] = {
	{ { "{'type':'number'}", "{'type':'integer'}", "{'maximum':1e20}", "{'minimum':-1e20}",
	    "{'exclusiveMinimum':1000}",
	    "{'exclusiveMaximum':1000}", "{'minimum':1}", "{'enum':[1,2.0,1000]}", "{'const':1.0}", "{'const':2}",
	    "{'multipleOf':0.5}", "{'exclusiveMaximum':1e18}", "{'minimum':9007199254740993}",
	    "{'type':['number','null']}", "{'enum':[1.0,1,5]}", "{'minimum':3,'maximum':2}" },
	  { "1", "2", "1.0", "5", "0.5", "-1", "1000", "1000.000000000000000001", "999.999999999999999999", "5e99",
	    "-5e99", "1001", "999999999999999999", "9007199254740993.0", "9007199254740993", "1500" } },
	{ { "{'type':'array'}", "{'prefixItems':[{'type':'integer'}]}", "{'items':{'type':'string'}}",
	    "{'items':false}",
	    "{'prefixItems':[{},{'const':'a'}]}", "{'minItems':2}", "{'maxItems':1}", "{'items':{'enum':['a',1,1.0]}}",
	    "{'uniqueItems':true,'items':{'type':'string','enum':['a',1]}}", "{'items':{'enum':['a',1],'const':'a'}}",
	    "{'uniqueItems':true,'items':{'enum':['a','bb','a',1,1.0]}}", "{'items':true}",
	    "{'uniqueItems':true,'items':{'enum':['a','bb'],'minLength':2}}", "{'minItems':2,'maxItems':1}",
	    "{'uniqueItems':true,'items':{'enum':['a','bb'],'anyOf':[{'const':'a'}]}}",
	    "{'items':{'anyOf':[false,{'const':1}]}}" },
	  { "[]", "['a']", "[1]", "[1,'a']", "['a','a']", "[1,1.0]", "['a','bb']", "['bb']", "['a',1]", "[1,1]",
	    "['a',1,'a']", "['c','a']" } },
	{ { "{'type':'object'}", "{'properties':{'a':{'type':'integer'}}}", "{'required':['a']}", "{'required':['b']}",
	    "{'additionalProperties':{'type':'integer'}}", "{'additionalProperties':false}", "{'minProperties':2}",
	    "{'minProperties':1}", "{'maxProperties':1}",
	    "{'patternProperties':{'^a':{'type':'integer'}}}",
	    "{'propertyNames':{'maxLength':1}}", "{'properties':{'b':{'type':'string','minLength':3,'maxLength':2}}}",
	    "{'properties':{'a':{'enum':['x',1]}}}", "{'properties':{'a':{'const':'x','enum':['y']},'b':{}}}",
	    "{'minProperties':2,'maxProperties':1}", "{'properties':{'a':{'type':'integer'},'b':{'type':'integer'}}}" },
	  { "{}", "{'a':1}", "{'a':'x'}", "{'a':1,'a':2}", "{'b':1,'b':2}", "{'a':1,'b':2}", "{'a':1,'b':'abc'}",
	    "{'ab':'x'}", "{'ab':1}", "{'b':1}", "{'b':'x'}", "{'a':1,'b':1,'c':1}" } },
	{ { "{'type':'string'}", "{'minLength':2}", "{'maxLength':1}", "{'pattern':'^a'}", "{'enum':['a','b','abc']}",
	    "{'const':'c'}", "{'const':'abc'}", "{'enum':['b','c']}", "{'type':['string','null']}",
	    "{'enum':['a',null]}",
	    "{'minLength':3}", "{'maxLength':3}", "{'type':'null'}", "{'minLength':3,'maxLength':2}", "{'enum':[]}",
	    "{'pattern':'^[abc]?c$'}" },
	  { "'a'", "'b'", "'c'", "'abc'", "'ab'", "''", "'abcd'", "'bb'" } },
};

static json_t *random_part(const struct kind *k, unsigned *seed)
{
	return constrainkit_json(k->part[constrainkit_rand(seed, mem_countof(k->part))]);
}

static json_t *random_parts(const struct kind *k, unsigned *seed)
{
	json_t *all = json_array();

	for (unsigned n = 1 + constrainkit_rand(seed, 3); n > 0; n--)
		json_array_append_new(all, random_part(k, seed));
	return all;
}

/* A part or two in one, and with luck some beside them in each of the ways in which there may be some. */
static json_t *random_mixture(const struct kind *k, unsigned *seed)
{
	json_t *mixture = random_part(k, seed), *more = random_part(k, seed);

	if (constrainkit_rand(seed, 2))
		json_object_update_missing(mixture, more);
	json_decref(more);
	/* Only of constants is it a condition. */
	if (json_object_get(mixture, "prefixItems") || !json_object_get(json_object_get(mixture, "items"), "enum"))
		json_object_del(mixture, "uniqueItems");
	if (constrainkit_rand(seed, 2))
		json_object_set_new(mixture, "allOf", random_parts(k, seed));
	if (constrainkit_rand(seed, 2))
		json_object_set_new(mixture, "anyOf", random_parts(k, seed));
	if (constrainkit_rand(seed, 3) == 0) {
		json_object_set_new(mixture, "$ref", json_string("#/$defs/part"));
		json_object_set_new(mixture, "$defs", json_pack("{s:o}", "part", random_part(k, seed)));
	}
	return mixture;
}

struct seen {
	unsigned taken, came, kept_out, empty;
};

/* The value is read as readers read it: of names that come twice the last counts. */
static bool valid(json_t *schema, const char *text, size_t len)
{
	json_t *v = json_loadb(text, len, JSON_DECODE_ANY, NULL);
	bool fits = v && schemakit_valid(schema, schema, v);

	json_decref(v);
	return fits;
}

/* What can come is valid; where nothing is said to satisfy the schema, none of the texts does. */
static void check_mixture(const struct kind *k, json_t *schema, unsigned *seed, struct seen *seen)
{
	struct constraint_options o = constrainkit_schema(schema);
	struct buf why = { 0 }, answer = { 0 };
	int rc = compiles(schema, &why);

	for (size_t i = 0; i < mem_countof(k->text) && k->text[i] && (rc == 0 || rc == RC_INVALID); i++) {
		json_t *v = constrainkit_json(k->text[i]);
		bool fits = schemakit_valid(schema, schema, v), can = rc == 0 && comes(schema, k->text[i]);

		if ((can && !fits) || (rc && fits))
			fail_msg("%s %s by %s %s", k->text[i], can ? "comes, and is invalid" : "is valid",
				 json_dumps(schema, 0), buf_str(&why));
		seen->came += can;
		seen->kept_out += !can && rc == 0;
		json_decref(v);
	}
	seen->taken += rc == 0;
	seen->empty += rc == RC_INVALID;
	if (rc == 0) {
		constrainkit_random(constrainkit_tiny(), &o, seed, 20, &answer, NULL);
		if (!valid(schema, answer.data, answer.len))
			fail_msg("%s comes, and is invalid by %s", buf_str(&answer), json_dumps(schema, 0));
	}
	buf_fini(&why);
	buf_fini(&answer);
}

static void what_comes_by_random_mixtures_is_valid(void **state)
{
	enum { MIXTURES = 300 };
	unsigned seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 11;

	(void)state;
	for (size_t k = 0; k < mem_countof(kinds); k++) {
		struct seen seen = { 0 };

		for (int i = 0; i < MIXTURES; i++) {
			json_t *schema = random_mixture(&kinds[k], &seed);

			check_mixture(&kinds[k], schema, &seed, &seen);
			json_decref(schema);
		}
		print_message("kind %zu: %u of %d taken, %u empty; of texts %u came, %u did not\n", k, seen.taken,
			      MIXTURES, seen.empty, seen.came, seen.kept_out);
		assert_true(seen.taken > MIXTURES / 10 && seen.empty > MIXTURES / 50 && seen.came > MIXTURES / 10 &&
			    seen.kept_out > MIXTURES / 10);
	}
}

static int test_done(void **state)
{
	(void)state;
	constrainkit_done();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_of_constants_had_those_of_other_types_and_some_twice),
		cmocka_unit_test(a_set_of_constants_forgot_what_else_its_items_say),
		cmocka_unit_test(items_of_one_part_passed_over_the_prefix_of_another),
		cmocka_unit_test(a_constant_came_that_the_enum_does_not_list),
		cmocka_unit_test(numbers_with_a_far_bound_had_exponents),
		cmocka_unit_test(digits_that_no_double_holds_passed_an_open_bound),
		cmocka_unit_test(a_name_that_came_twice_counted_as_two),
		cmocka_unit_test(a_prefix_shorter_than_the_array_must_be_was_refused),
		cmocka_unit_test(a_branch_that_nothing_satisfies_refused_the_whole),
		cmocka_unit_test(what_comes_by_random_mixtures_is_valid),
	};

	return cmocka_run_group_tests(tests, NULL, test_done);
}
