/* SPDX-License-Identifier: MIT
 * constrain_schema.c - tests of answers by JSON schemas: what is accepted, what is refused, and that random answers
 * by random schemas are valid.
 * Threads: main. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/constrainkit.h"
#include "tests/unit/schemakit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- tables: schema, text; ' stands for " ---- */

static char *quoted(const char *text)
{
	char *copy = strdup(text), *p;

	for (p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

struct row {
	const char *schema, *good;
	const char *bad;       /* what may not follow; NULL: the text is whole */
};

static void check_row(const struct row *r)
{
	json_t *schema = constrainkit_json(r->schema);
	struct constraint_options o = constrainkit_schema(schema);
	char *good = quoted(r->good), *bad = quoted(r->bad ? r->bad : "");
	struct buf text = { 0 };
	bool end;
	size_t n;

	buf_adds(&text, good);
	buf_adds(&text, bad);
	n = constrainkit_follow(&o, buf_str(&text), text.len, &end);
	if (n != strlen(good) || (!r->bad && !end))
		fail_msg("%s: '%s' was taken up to '%s'%s", r->schema, buf_str(&text), buf_str(&text) + n,
			 end ? ", may end" : "");
	buf_fini(&text);
	free(good);
	free(bad);
	json_decref(schema);
}

static void every_keyword_accepts_and_refuses(void **state)
{
	static const struct row rows[] = {
		{ "true", "[1,{'a':null}]", NULL }, { "{}", "'x'", NULL },
		{ "{'title':'no condition'}", "-1.5e3", NULL },
		{ "{'type':'string'}", "'a'", NULL }, { "{'type':'string'}", "", "1" },
		{ "{'type':['string','null']}", "null", NULL }, { "{'type':['string','null']}", "", "t" },
		{ "{'type':'integer'}", "-120", NULL }, { "{'type':'integer'}", "1", "." },
		{ "{'type':'integer'}", "-", "0" },
		{ "{'type':'number'}", "-0.5E-3", NULL }, { "{'type':'boolean'}", "false", NULL },
		{ "{'enum':['a','ab',1,12,null]}", "'ab'", NULL }, { "{'enum':['a','ab',1,12,null]}", "'a'", NULL },
		{ "{'enum':['a','ab',1,12,null]}", "12", NULL }, { "{'enum':['a','ab',1,12,null]}", "1", "1" },
		{ "{'type':'string','enum':['a',1]}", "", "1" },
		{ "{'const':{'a':[1,2]}}", "{ 'a': [1,\n2] }", NULL }, { "{'const':{'a':[1,2]}}", "{'a':[1,", "3" },
		{ "{'minLength':2,'maxLength':3}", "'\\u00e9é'", NULL }, { "{'minLength':2,'maxLength':3}", "'a", "'" },
		{ "{'minLength':2,'maxLength':3}", "'abc", "d" }, { "{'maxLength':1}", "'\\ud83d\\ude00'", NULL },
		{ "{'items':{'type':'integer'},'minItems':1,'maxItems':2}", "[1, 2]", NULL },
		{ "{'items':{'type':'integer'},'minItems':1,'maxItems':2}", "[", "]" },
		{ "{'items':{'type':'integer'},'minItems':1,'maxItems':2}", "[1,2", "," },
		{ "{'prefixItems':[{'type':'null'},{'type':'boolean'}]}", "[null,true]", NULL },
		{ "{'prefixItems':[{'type':'null'},{'type':'boolean'}]}", "[null]", NULL },
		{ "{'prefixItems':[{'type':'null'},{'type':'boolean'}]}", "[null,true", "," },
		{ "{'prefixItems':[{'type':'null'}],'items':{'type':'integer'},'minItems':3}", "[null,1", "]" },
		{ "{'prefixItems':[{'type':'null'}],'items':{'type':'integer'},'minItems':3}", "[null,1,2,3]", NULL },
		{ "{'items':[{'type':'null'}]}", "[null", "," }, { "{'type':'array','maxItems':0}", "[", "1" },
		{ "{'anyOf':[{'type':'integer'},{'type':'string'}]}", "'x'", NULL },
		{ "{'oneOf':[{'const':1},{'const':10}]}", "10", NULL },
		{ "{'oneOf':[{'const':1},{'const':10}]}", "1", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

#define ABC "{'properties':{'a':{'type':'integer'},'b':{'type':'boolean'},'abc':{}},'required':['b']"

static void members_come_in_their_order(void **state)
{
	static const struct row rows[] = {
		{ ABC "}", "{'a':1,'b':true,'abc':[]}", NULL }, { ABC "}", "{ 'b' : true }", NULL },
		{ ABC "}", "{'b':true,'a", "'" }, { ABC "}", "{'a':1", "}" }, { ABC "}", "{'a'", "}" },
		{ ABC "}", "{", "}" },
		{ ABC "}", "{'b':true,'abc':1", "," },
		{ ABC ",'additionalProperties':{'type':'null'}}", "{'b':true,'x':null,'y':null}", NULL },
		{ ABC ",'additionalProperties':{'type':'null'}}", "{'b':true,'abc':1,'ab':null,'abcd':null,'é':null}",
			NULL },
		{ ABC ",'additionalProperties':{'type':'null'}}", "{'b':true,'ab':null,'a", "'" },
		{ ABC ",'additionalProperties':{'type':'null'}}", "{'b':true,'z':null,'abc", "'" },
		{ ABC ",'additionalProperties':{'type':'null'}}", "{'b':true,'z':", "1" },
		{ ABC ",'additionalProperties':true}", "{'b':true,'z", "\\" },
		{ "{'type':'object','properties':{}}", "{", "'" }, { "{'type':'object'}", "{'any':1}", NULL },
		{ "{'type':'object','additionalProperties':false}", "{ }", NULL },
		{ "{'type':'object','required':['z']}", "{'z':1,'y':2}", NULL },
		{ "{'type':'object','required':['z']}", "{", "}" },
		{ "{'properties':{'a\\\\b\\u00e9':{}},'required':['a\\\\b\\u00e9']}", "{'a\\\\bé':1}", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

#define TREE "{'$ref':'#/$defs/t','$defs':{'t':{'properties':{'v':{'type':'integer'}," \
	"'k':{'type':'array','items':{'$ref':'#/$defs/t'}}},'required':['v']}}}"

static void references_and_parts_are_put_together(void **state)
{
	static const struct row rows[] = {
		{ TREE, "{'v':1,'k':[{'v':2,'k':[]},{'v':3}]}", NULL }, { TREE, "{'v':1,'k':[{'", "k" },
		{ "{'properties':{'a':{'$ref':'#'}}}", "{'a':{'a':{}}}", NULL },
		{ "{'$ref':'#/definitions/a~1b','definitions':{'a/b':{'const':1}}}", "1", NULL },
		{ "{'$ref':'#/$defs/a','description':'x','$defs':{'a':{'const':1}}}", "1", NULL },
		{ "{'$ref':'#/$defs/a','required':['q'],'$defs':{'a':{'properties':{'q':{'const':1}}}}}", "{", "}" },
		{ "{'allOf':[{'properties':{'a':{}}},{'properties':{'b':{}},'required':['b']}]}", "{'a':1,'b':2}",
			NULL },
		{ "{'allOf':[{'properties':{'a':{}}},{'properties':{'b':{}},'required':['b']}]}", "{'a':1", "}" },
		{ "{'allOf':[{'type':'string'}]}", "'x'", NULL },
		{ "{'allOf':[{'type':['number','null']},{'type':['integer','string']}]}", "1", NULL },
		{ "{'allOf':[{'type':['number','null']},{'type':['integer','string']}]}", "1", "." },
		{ "{'allOf':[{'type':['number','null']},{'type':['integer','string']}]}", "", "n" },
		{ "{'type':'object','properties':{'v':{},'n':{'anyOf':[{'$ref':'#'},{'type':'null'}],"
		  "'type':['object','null']}}}",
			"{'v':1,'n':{'n':{'n':null}}}", NULL },
		{ "{'anyOf':[{'type':'null'},{'type':'array','items':{'$ref':'#'}}]}", "[[null],[]]", NULL },
		{ "{'type':'object','properties':{'a':{},'b':{}},'anyOf':[{'required':['a']},{'required':['b']}]}",
			"{'a':1}",
		  NULL },
		{ "{'type':'object','properties':{'a':{},'b':{}},'anyOf':[{'required':['a']},{'required':['b']}]}",
			"{", "}" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

static void numbers_keep_to_their_bounds(void **state)
{
	static const struct row rows[] = {
		{ "{'type':'integer','minimum':0}", "", "-" }, { "{'type':'integer','minimum':0}", "1234", NULL },
		{ "{'type':'integer','minimum':18,'maximum':120}", "99", NULL },
		{ "{'type':'integer','minimum':18,'maximum':120}", "12", "1" },
		{ "{'type':'integer','minimum':18,'maximum':120}", "120", NULL },
		{ "{'type':'integer','minimum':-5,'maximum':5}", "-", "6" },
		{ "{'type':'integer','maximum':-10}", "-1", "," },
		{ "{'type':'integer','exclusiveMinimum':0,'maximum':9007199254740991}", "", "0" },
		{ "{'type':'integer','exclusiveMaximum':0}", "-1", NULL },
		{ "{'type':'integer','exclusiveMaximum':0}", "", "0" },
		{ "{'type':'integer','minimum':1.5,'maximum':2.5}", "2", NULL },
		{ "{'type':'integer','minimum':1.5}", "", "0" },
		{ "{'type':'integer','maximum':9223372036854775807}", "999", NULL },
		{ "{'type':'number','minimum':0,'maximum':1}", "0.25", NULL },
		{ "{'type':'number','minimum':0,'maximum':1}", "1.00", "1" },
		{ "{'type':'number','minimum':0,'maximum':1}", "0.", "]" },
		{ "{'type':'number','exclusiveMinimum':0.5}", "0.50000000001", NULL },
		{ "{'type':'number','exclusiveMinimum':0.5}", "0.", "4" },
		{ "{'type':'number','minimum':-1.25}", "-1.25", NULL },
		{ "{'type':'number','minimum':-1.25}", "-1.2", "6" }, { "{'type':'number','maximum':0}", "-0.0", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

static void bounds_with_exponents_are_kept(void **state)
{
	static const struct row rows[] = {
		{ "{'type':'number','exclusiveMinimum':1e-7,'maximum':1.5e-3}", "0.0000001", "]" },
		{ "{'type':'number','exclusiveMinimum':1e-7,'maximum':1.5e-3}", "0.00000011", NULL },
		{ "{'type':'number','exclusiveMinimum':1e-7,'maximum':1.5e-3}", "0.0015", NULL },
		{ "{'type':'number','exclusiveMinimum':1e-7,'maximum':1.5e-3}", "0.001", "6" },
		{ "{'type':'number','minimum':-2.5e-5,'maximum':1e3}", "-0.00002", "6" },
		{ "{'type':'number','minimum':-2.5e-5,'maximum':1e3}", "1000", NULL },
		{ "{'type':'number','minimum':-1e22,'maximum':1e22}", "-999999999999999999", NULL },
		/* Below what can be written: beyond nought, and up to nought. */
		{ "{'type':'number','minimum':1e-20,'maximum':1}", "0", "]" },
		{ "{'type':'number','minimum':1e-20,'maximum':1}", "0.000000000000000001", NULL },
		{ "{'type':'number','minimum':0,'exclusiveMaximum':1e-20}", "0.000000000000000000", NULL },
		{ "{'type':'number','minimum':0,'exclusiveMaximum':1e-20}", "0.00000000000000000", "1" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

static void multiples_are_kept(void **state)
{
	static const struct row rows[] = {
		{ "{'type':'integer','multipleOf':5}", "12345", NULL },
		{ "{'type':'integer','multipleOf':5}", "-10", NULL },
		{ "{'type':'integer','multipleOf':5}", "1", "]" }, { "{'type':'integer','multipleOf':5}", "0", NULL },
		{ "{'type':'integer','multipleOf':7,'minimum':10,'maximum':100}", "98", NULL },
		{ "{'type':'integer','multipleOf':7,'minimum':10,'maximum':100}", "9", "2" },
		{ "{'type':'integer','multipleOf':7,'minimum':10,'maximum':100}", "7", "]" },
		{ "{'type':'integer','multipleOf':2.5}", "15", NULL },
		{ "{'type':'integer','multipleOf':2.5}", "12", "]" },
		{ "{'type':'number','multipleOf':0.01}", "12.5", NULL },
		{ "{'type':'number','multipleOf':0.01}", "3", NULL },
		{ "{'type':'number','multipleOf':0.01}", "0.99", NULL },
		{ "{'type':'number','multipleOf':0.01}", "0.99", "9" },
		{ "{'type':'number','multipleOf':0.25,'exclusiveMinimum':1}", "1.25", NULL },
		{ "{'type':'number','multipleOf':0.25,'exclusiveMinimum':1}", "1.2", "6" },
		{ "{'type':'number','multipleOf':0.25,'exclusiveMinimum':1}", "1", "]" },
		{ "{'type':'number','multipleOf':10}", "120", NULL },
		{ "{'type':'number','multipleOf':10}", "12", "." },
		{ "{'multipleOf':1e-3}", "0.125", NULL }, { "{'multipleOf':1000}", "999999999999999000", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

static void names_and_numbers_of_members_are_kept(void **state)
{
	static const struct row rows[] = {
		{ "{'patternProperties':{'^[a-z]+$':{'type':'integer'}}}", "{'ab':1,'z':2}", NULL },
		{ "{'patternProperties':{'^[a-z]+$':{'type':'integer'}}}", "{}", NULL },
		{ "{'patternProperties':{'^[a-z]+$':{'type':'integer'}}}", "{'ab", "1" },
		{ "{'patternProperties':{'^[a-z]+$':{'type':'integer'}}}", "{'ab':", "'" },
		{ "{'patternProperties':{'^x':true},'additionalProperties':false}", "{'xy':null}", NULL },
		{ "{'patternProperties':{'^x':true},'additionalProperties':false}", "{'", "y" },
		{ "{'propertyNames':{'enum':['p','q',1]},'additionalProperties':{'type':'integer'}}", "{'p':1,'q':2}",
		  NULL },
		{ "{'propertyNames':{'enum':['p','q',1]},'additionalProperties':{'type':'integer'}}", "{", "1" },
		{ "{'propertyNames':{'$ref':'#/$defs/n'},'$defs':{'n':{'maxLength':2}}}", "{'ab':[]}", NULL },
		{ "{'propertyNames':{'$ref':'#/$defs/n'},'$defs':{'n':{'maxLength':2}}}", "{'ab", "c" },
		{ "{'type':'object','minProperties':1,'maxProperties':2}", "{", "}" },
		{ "{'type':'object','minProperties':1,'maxProperties':2}", "{'a':1,'b':2}", NULL },
		{ "{'type':'object','minProperties':1,'maxProperties':2}", "{'a':1,'b':2", "," },
		{ "{'properties':{'a':{},'b':{}},'required':['a','b'],'minProperties':2}", "{'a':{'x':{}},'b':2}",
		  NULL },
		{ "{'type':'object','maxProperties':0}", "{}", NULL },
		{ "{'type':'object','maxProperties':0}", "{", "'" },
		{ "{'properties':{'a':{},'b':{}},'required':['a'],'minProperties':1,'maxProperties':2}",
		  "{'a':1,'b':1}", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

static void constants_of_a_set_come_once(void **state)
{
#define SET "{'uniqueItems':true,'items':{'$ref':'#/$defs/e'},'$defs':{'e':{'enum':['a','b','c']}}"
	static const struct row rows[] = {
		{ SET "}", "['a','c']", NULL }, { SET "}", "[]", NULL }, { SET "}", "['a','", "a" },
		{ SET ",'minItems':2}", "['a'", "]" }, { SET ",'minItems':2}", "['b','c']", NULL },
		{ SET ",'minItems':2}", "['", "c" }, { SET ",'minItems':3}", "['a','", "c" },
		{ SET ",'maxItems':1}", "['b'", "," }, { SET ",'maxItems':0}", "[", "'" },
		{ "{'uniqueItems':true,'items':{'type':'boolean'}}", "[false,true]", NULL },
		{ "{'uniqueItems':true,'items':{'type':'boolean'}}", "[true", "," },
		/* Of others it is no condition. */
		{ "{'uniqueItems':true,'items':{'type':'integer'}}", "[1,2]", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

static void patterns_are_kept(void **state)
{
	static const struct row rows[] = {
		{ "{'pattern':'^[A-Z]{2}-\\\\d+$'}", "'AB-12'", NULL },
		{ "{'pattern':'^[A-Z]{2}-\\\\d+$'}", "'A", "1" },
		{ "{'pattern':'^(?:ab|cd)*$'}", "'abcdab'", NULL }, { "{'pattern':'^(?:ab|cd)*$'}", "'abc", "'" },
		{ "{'pattern':'b'}", "'aébz'", NULL }, { "{'pattern':'b'}", "'ac", "'" },
		{ "{'pattern':'^a|b$'}", "'xb'", NULL },
		{ "{'pattern':'^[^a]+$'}", "'é\\\\'", NULL }, { "{'pattern':'^[^a]+$'}", "'b", "a" },
		{ "{'pattern':'^.{2,3}?$'}", "'é€'", NULL }, { "{'pattern':'^.{2}$'}", "'ab", "c" },
		{ "{'pattern':'^a\\\\.b[-x]$'}", "'a.b-'", NULL }, { "{'pattern':'^x?$'}", "''", NULL },
		{ "{'pattern':'^\\\\S+@\\\\S+$'}", "'a@b'", NULL },
		{ "{'pattern':'^a*b?$','minLength':2,'maxLength':3}", "'aab'", NULL },
		{ "{'pattern':'^a*b?$','minLength':2,'maxLength':3}", "'aaa", "b" },
		{ "{'pattern':'^a*b?$','minLength':2,'maxLength':3}", "'", "b" },
		{ "{'pattern':'^a*b?$','minLength':2}", "'a", "'" },
		{ "{'pattern':'^a*b?$','minLength':2}", "'aaaaab'", NULL },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		check_row(&rows[i]);
}

/* More members that may be left out than are followed at once: the end, and those that come next, are among what is. */
static void of_very_many_members_the_end_and_the_next_may_come(void **state)
{
	json_t *properties = json_object(), *schema = json_pack("{s:o}", "properties", properties);
	struct constraint_options o = constrainkit_schema(schema);
	struct buf text = { 0 };
	bool end;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		buf_clear(&text);
		buf_printf(&text, "m%d", i);
		json_object_set_new(properties, buf_str(&text), json_pack("{s:s}", "type", "null"));
	}
	assert_int_equal(constrainkit_follow(&o, "{}", 2, &end), 2);
	assert_true(end);
	buf_clear(&text);
	for (int i = 100; i < 1000; i += 150)
		buf_printf(&text, "%s\"m%d\":null", i == 100 ? "{" : ",", i);
	buf_addc(&text, '}');
	assert_int_equal(constrainkit_follow(&o, text.data, text.len, &end), text.len);
	assert_true(end);
	buf_fini(&text);
	json_decref(schema);
}

/* ---- refusals ---- */

static void refused(json_t *schema, int rc, const char *why)
{
	struct constraint_options o = constrainkit_schema(schema);
	struct constraint *c = NULL;
	struct buf text = { 0 };
	int got = constraint_new(constrainkit_tiny()->vocab, &o, &c, &text);

	if (got != rc || strncmp(buf_str(&text), why, strlen(why)) != 0)
		fail_msg("%d '%s' instead of %d '%s'", got, buf_str(&text), rc, why);
	assert_null(c);
	buf_fini(&text);
}

static void what_is_not_understood_is_refused_with_its_path(void **state)
{
	static const struct {
		const char *schema;
		int rc;
		const char *why;
	} rows[] = {
		{ "{'not':{}}", RC_UNSUPPORTED, "schema.not: " }, { "[]", RC_INVALID, "schema: must be a schema" },
		{ "{'type':'any'}", RC_INVALID, "schema.type: must be" },
		{ "{'properties':{'a':{'items':{'contains':true}}}}", RC_UNSUPPORTED,
			"schema.properties.a.items.contains: " },
		{ "{'anyOf':[{},{'multipleOf':1025}]}", RC_UNSUPPORTED,
		  "schema.anyOf[1].multipleOf: not supported: only" },
		{ "{'multipleOf':0}", RC_INVALID, "schema.multipleOf: must be a number above 0" },
		{ "{'multipleOf':1e-20}", RC_UNSUPPORTED, "schema.multipleOf: " },
		{ "{'multipleOf':7,'minimum':1,'maximum':6}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'patternProperties':{'a':{},'b':{}}}", RC_UNSUPPORTED,
		  "schema.patternProperties: not supported: more" },
		{ "{'patternProperties':{'(':{}}}", RC_INVALID, "schema.patternProperties.(.pattern: " },
		{ "{'patternProperties':{'a':{}},'properties':{'b':{}}}", RC_UNSUPPORTED,
			"schema.patternProperties: supported only in objects without properties" },
		{ "{'allOf':[{'patternProperties':{'a':{}}},{'additionalProperties':false}]}", RC_UNSUPPORTED,
			"schema: additionalProperties beside" },
		{ "{'propertyNames':{'const':1},'minProperties':1}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'propertyNames':{},'required':['a']}", RC_UNSUPPORTED, "schema.propertyNames: supported only" },
		{ "{'properties':{'a':{}},'minProperties':1}", RC_UNSUPPORTED,
		  "schema.minProperties: with properties" },
		{ "{'properties':{'a':{},'b':{}},'maxProperties':1}", RC_UNSUPPORTED, "schema.maxProperties: with" },
		{ "{'minProperties':2,'maxProperties':1}", RC_INVALID, "schema.minProperties: 2 is more" },
		{ "{'uniqueItems':true,'items':{'type':'boolean'},'minItems':3}", RC_INVALID,
		  "schema: nothing satisfies it" },
		{ "{'$ref':'http://x/y'}", RC_UNSUPPORTED, "schema.$ref: " },
		{ "{'$ref':'#/nowhere'}", RC_INVALID, "schema.$ref: nothing is at" },
		{ "{'$ref':'#'}", RC_INVALID, "schema: refers to itself" },
		{ "{'anyOf':[{'$ref':'#'},{'type':'null'}]}", RC_INVALID, "schema: refers" },
		{ "{'allOf':[{'type':'string'},{'type':'null'}]}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'allOf':[{'properties':{'a':{}},'additionalProperties':false},{'properties':{'b':{}}}]}",
		  RC_UNSUPPORTED, "schema: additionalProperties beside" },
		{ "{'properties':{'a':{'$ref':'#'}},'required':['a']}", RC_INVALID, "schema: nothing satisfies it" },
		{ "false", RC_INVALID, "schema: nothing satisfies it" }, { "{'enum':[]}", RC_INVALID, "schema.enum: " },
		{ "{'minLength':3,'maxLength':2}", RC_INVALID, "schema.minLength: 3 is more" },
		{ "{'minItems':-1}", RC_INVALID, "schema.minItems: " },
		{ "{'maxLength':1.5}", RC_INVALID, "schema.maxLength: " },
		{ "{'type':'integer','minimum':3,'maximum':2}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'pattern':'(?=a)'}", RC_UNSUPPORTED, "schema.pattern: " },
		{ "{'pattern':'(a'}", RC_INVALID, "schema.pattern: " },
		{ "{'pattern':'a^b'}", RC_UNSUPPORTED, "schema.pattern: " },
		{ "{'pattern':'\\\\bx'}", RC_UNSUPPORTED, "schema.pattern: " },
		{ "{'pattern':'*'}", RC_INVALID, "schema.pattern: " },
		{ "{'pattern':'(x{200}){200}'}", RC_TOO_LARGE, "schema.pattern: " },
		{ "{'pattern':'[z-a]'}", RC_INVALID, "schema.pattern: " },
		{ "{'pattern':'^x{5}$','minLength':6}", RC_INVALID, "schema: nothing satisfies it" },
		{ "{'pattern':'^x{100}$','maxLength':1000}", RC_TOO_LARGE, "schema.pattern: too many states" },
		{ "{'properties':{'a: b':{'not':1}}}", RC_UNSUPPORTED, "schema.properties.a__b.not: " },
		{ "{'required':['a'],'additionalProperties':false}", RC_INVALID, "schema.required: " },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++) {
		json_t *schema = constrainkit_json(rows[i].schema);

		refused(schema, rows[i].rc, rows[i].why);
		json_decref(schema);
	}
}

/* Behaviour 106: nesting without end costs no stack, and more than can be followed is refused. */
static void sixty_thousand_nested_groups_are_refused(void **state)
{
	static const char *const by[] = { "items", "anyOf", "allOf" };
	struct buf pattern = { 0 };
	json_t *deep, *long_one;

	(void)state;
	for (size_t k = 0; k < mem_countof(by); k++) {
		json_t *schema = json_true();

		for (int i = 0; i < 60000; i++)
			schema = k == 0 ? json_pack("{s:o, s:i}", by[k], schema, "minItems", 1) : json_pack("{s:[o]}",
				by[k], schema);
		refused(schema, RC_TOO_LARGE, "schema: ");
		/* Freeing recurses, in jansson: from the outside in, it does not. */
		while (json_is_object(schema)) {
			json_t *inner = json_object_get(schema, by[k]);

			inner = json_incref(k == 0 ? inner : json_array_get(inner, 0));
			json_decref(schema);
			schema = inner;
		}
	}
	for (int i = 0; i < 400; i++)
		buf_adds(&pattern, "(");
	deep = json_pack("{s:s}", "pattern", buf_str(&pattern));
	refused(deep, RC_TOO_LARGE, "schema.pattern: groups are nested");
	for (int i = 0; i < 60000; i++)
		buf_adds(&pattern, "(");
	long_one = json_pack("{s:s}", "pattern", buf_str(&pattern));
	refused(long_one, RC_TOO_LARGE, "schema.pattern: longer than");
	json_decref(deep);
	json_decref(long_one);
	buf_fini(&pattern);
}

/* A thousand words, each the beginning of the next, and names that have all but their last byte in common. */
static void long_lists_of_words_cost_no_stack(void **state)
{
	json_t *words = json_array(), *schema = json_pack("{s:o}", "enum", words);
	struct constraint_options o = constrainkit_schema(schema);
	struct buf word = { 0 };
	bool end;

	(void)state;
	for (int i = 0; i < 900; i++) {
		buf_addc(&word, 'a');
		json_array_append_new(words, json_string(buf_str(&word)));
	}
	assert_int_equal(constrainkit_follow(&o, "\"aaaa\"", 6, &end), 6);
	assert_true(end);
	for (int i = 0; i < 900; i++) {
		buf_addc(&word, 'a');
		json_array_append_new(words, json_string(buf_str(&word)));
	}
	refused(schema, RC_TOO_LARGE, "schema: ");
	buf_fini(&word);
	json_decref(schema);
}

/* ---- random answers ---- */

static void random_answers(const struct constrainkit *k, unsigned seed, int n)
{
	for (int i = 0; i < n; i++) {
		json_t *schema = schemakit_random(&seed, false), *v;
		struct constraint_options o = constrainkit_schema(schema);
		struct buf text = { 0 };
		json_error_t e;
		bool end;

		constrainkit_random(k, &o, &seed, 60, &text, NULL);
		v = json_loadb(buf_str(&text), text.len, JSON_DECODE_ANY, &e);
		if (!v || !schemakit_valid(schema, schema, v))
			fail_msg("%s: %.*s by %s", v ? "invalid" : e.text, (int)text.len, text.data,
				 json_dumps(schema, JSON_COMPACT));
		assert_int_equal(constrainkit_follow(&o, text.data, text.len, &end), text.len);
		assert_true(end);
		json_decref(v);
		json_decref(schema);
		buf_fini(&text);
	}
}

static void random_answers_of_the_tiny_vocabulary_are_valid(void **state)
{
	(void)state;
	random_answers(constrainkit_tiny(), 1, 400);
}

static void random_answers_of_the_vocabulary_of_flash_are_valid(void **state)
{
	(void)state;
	random_answers(constrainkit_flash(), 2, 25);
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
		cmocka_unit_test(every_keyword_accepts_and_refuses),
		cmocka_unit_test(members_come_in_their_order),
		cmocka_unit_test(references_and_parts_are_put_together),
		cmocka_unit_test(numbers_keep_to_their_bounds),
		cmocka_unit_test(bounds_with_exponents_are_kept),
		cmocka_unit_test(multiples_are_kept),
		cmocka_unit_test(names_and_numbers_of_members_are_kept),
		cmocka_unit_test(constants_of_a_set_come_once),
		cmocka_unit_test(patterns_are_kept),
		cmocka_unit_test(of_very_many_members_the_end_and_the_next_may_come),
		cmocka_unit_test(what_is_not_understood_is_refused_with_its_path),
		cmocka_unit_test(sixty_thousand_nested_groups_are_refused),
		cmocka_unit_test(long_lists_of_words_cost_no_stack),
		cmocka_unit_test(random_answers_of_the_tiny_vocabulary_are_valid),
		cmocka_unit_test(random_answers_of_the_vocabulary_of_flash_are_valid),
	};

	return cmocka_run_group_tests(tests, NULL, test_done);
}
