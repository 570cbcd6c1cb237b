/* SPDX-License-Identifier: MIT
 * constrain_calls.c - tests of forced calls: the official form, by the tools' schemas, read back as they were forced.
 * Threads: main. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/text/completion.h"
#include "tests/unit/constrainkit.h"
#include "tests/unit/schemakit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS "\n\n<｜DSML｜tool_calls>\n"
#define CALLS_END "</｜DSML｜tool_calls>"
#define INVOKE(name) "<｜DSML｜invoke name=\"" name "\">\n"
#define INVOKE_END "\n</｜DSML｜invoke>\n"
#define STRING(name, value) "<｜DSML｜parameter name=\"" name "\" string=\"true\">" value "</｜DSML｜parameter>"
#define JSON(name, value) "<｜DSML｜parameter name=\"" name "\" string=\"false\">" value "</｜DSML｜parameter>"

static const char two_tools[] =
	"[{'type':'function','function':{'name':'get_weather','parameters':{'type':'object','properties':"
	"{'city':{'type':'string'},'days':{'type':'integer','minimum':1,'maximum':14},'unit':{'enum':['C','F',null]},"
	"'where':{'anyOf':[{'type':'string'},{'type':'array','items':{'type':'number'}}]}},'required':['city']}}},"
	"{'type':'function','function':{'name':'get_weather_now'}},"
	"{'type':'function','function':{'name':'any','parameters':{'type':'object'}}}]";

static struct constraint_options required(json_t *tools)
{
	return (struct constraint_options){ .calls = GEN_CALLS_REQUIRED, .tools = tools };
}

/* ---- the form ---- */

static void expect(const struct constraint_options *o, const char *good, const char *bad)
{
	struct buf text = { 0 };
	bool end;
	size_t n;

	buf_printf(&text, "%s%s", good, bad ? bad : "");
	n = constrainkit_follow(o, text.data, text.len, &end);
	if (n != strlen(good) || (!bad && !end))
		fail_msg("'%s' was taken up to '%s'", text.data, text.data + n);
	buf_fini(&text);
}

static void calls_are_as_the_official_encoder_writes_them(void **state)
{
	json_t *tools = constrainkit_json(two_tools);
	struct constraint_options o = required(tools);

	(void)state;
	expect(&o, CALLS INVOKE("get_weather") STRING("city", "Oslo") INVOKE_END CALLS_END, NULL);
	expect(&o, CALLS INVOKE("get_weather_now") INVOKE_END INVOKE("get_weather_now") INVOKE_END CALLS_END, NULL);
	expect(&o, CALLS INVOKE("get_weather") STRING("city", "a</b> \"x\" < / </ 日\n") "\n" JSON("days", "14") "\n"
	       JSON("unit", "null") "\n" JSON("where", "[1, -2.5]") INVOKE_END CALLS_END, NULL);
	expect(&o, CALLS INVOKE("get_weather") STRING("city", "") "\n" STRING("unit", "F") "\n" STRING("where",
		"[1") INVOKE_END
	       CALLS_END, NULL);
	expect(&o, CALLS INVOKE("any") STRING("x-1", "v") "\n" JSON("y", "{\"a\": [null]}") INVOKE_END CALLS_END, NULL);
	expect(&o, "", "x");
	expect(&o, "\n\n<", "x");
	expect(&o, CALLS "<", "/");
	expect(&o, CALLS "<｜DSML｜invoke name=\"get_", "x");
	expect(&o, CALLS INVOKE("get_weather"), "\n");
	expect(&o, CALLS INVOKE("get_weather") "<｜DSML｜parameter name=\"", "days");
	expect(&o, CALLS INVOKE("get_weather") "<｜DSML｜parameter name=\"city\" string=\"", "false");
	expect(&o, CALLS INVOKE("get_weather") STRING("city", "Oslo") "\n<｜DSML｜parameter name=\"", "city");
	expect(&o, CALLS INVOKE("get_weather") STRING("city",
		"Oslo") "\n<｜DSML｜parameter name=\"days\" string=\"false\">1", "5");
	expect(&o, CALLS INVOKE("get_weather") "<｜DSML｜parameter name=\"city\" string=\"true\">x\xc3", "<");
	expect(&o, CALLS INVOKE("any") "<｜DSML｜parameter name=\"x\" string=\"false\">", "\"");
	expect(&o, CALLS INVOKE("get_weather_now") "\n<", "｜DSML｜");
	o.one_call = true;
	expect(&o, CALLS INVOKE("get_weather_now") INVOKE_END "<", "｜DSML｜");
	o.calls = GEN_CALLS_NAMED;
	o.function = "any";
	expect(&o, CALLS "<｜DSML｜invoke name=\"", "get");
	expect(&o, CALLS INVOKE("any") INVOKE_END CALLS_END, NULL);
	json_decref(tools);
}

/* With a format and AUTO: one or the other, decided by how it begins. */
static void with_a_format_it_is_either_calls_or_that(void **state)
{
	json_t *tools = constrainkit_json(two_tools);
	struct constraint_options o = { .format = GEN_FORMAT_JSON_OBJECT, .tools = tools };

	(void)state;
	expect(&o, "{\"a\":1}", NULL);
	expect(&o, CALLS INVOKE("get_weather_now") INVOKE_END CALLS_END, NULL);
	expect(&o, "{}", "\n");
	o.calls = GEN_CALLS_NONE;
	expect(&o, "{}", "\n");
	expect(&o, "", "\n");
	o.calls = GEN_CALLS_REQUIRED;
	expect(&o, "", "{");
	json_decref(tools);
}

static void tools_that_cannot_be_called_so_are_refused(void **state)
{
	static const struct {
		const char *tools, *function;
		int rc;
		const char *why;
	} rows[] = {
		{ "[]", NULL, RC_INVALID, "tool_choice: no tools" },
		{ two_tools, "no", RC_INVALID, "tool_choice: no tool named \"no\"" },
		{ "[{'function':{'name':'a<b'}}]", NULL, RC_UNSUPPORTED, "tools[0].function.name: " },
		{ "[{'function':{'name':'a','strict':true,'parameters':{'properties':{'x':{'not':{}}}}}}]", NULL,
			RC_UNSUPPORTED,
		  "tools[0].function.parameters.properties.x.not: " },
		{ "[{'function':{'name':'a','strict':true,'parameters':{'type':'string'}}}]", NULL, RC_INVALID,
			"tools: nothing satisfies" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++) {
		json_t *tools = constrainkit_json(rows[i].tools);
		struct constraint_options o = required(tools);
		struct constraint *c = NULL;
		struct buf why = { 0 };
		int rc;

		o.calls = rows[i].function ? GEN_CALLS_NAMED : GEN_CALLS_REQUIRED;
		o.function = rows[i].function;
		rc = constraint_new(constrainkit_tiny()->vocab, &o, &c, &why);
		if (rc != rows[i].rc || strncmp(buf_str(&why), rows[i].why, strlen(rows[i].why)) != 0)
			fail_msg("%d '%s' instead of '%s'", rc, buf_str(&why), rows[i].why);
		buf_fini(&why);
		json_decref(tools);
	}
}

/* Without `strict` nobody promised that the schema is kept to: what is not understood of it is left away. */
static void conditions_not_understood_are_left_away_unless_strict(void **state)
{
	json_t *tools = constrainkit_json("[{'function':{'name':'f','parameters':{'type':'object','minProperties':1,"
		"'properties':"
		"{'a':{'type':'integer','not':{'const':3}},'b':{'type':'any'},'c':{'type':'string',"
			"'pattern':'(?=x)'}}}}}]");
	struct constraint_options o = required(tools);

	(void)state;
	expect(&o, CALLS INVOKE("f") JSON("a", "3") "\n" JSON("b", "{}") "\n" STRING("c", "y") INVOKE_END CALLS_END,
		NULL);
	expect(&o, CALLS INVOKE("f") "<｜DSML｜parameter name=\"a\" string=\"false\">", "t");
	json_decref(tools);
}

/* The model is led along the tokens that the official encoder's text has, not other pieces of the same text. */
static void what_is_forced_is_the_tokenizers_own_tokens(void **state)
{
	static const char text[] = CALLS INVOKE("get_weather_now") INVOKE_END CALLS_END;
	const struct constrainkit *kits[] = { constrainkit_tiny(), constrainkit_flash() };
	json_t *tools = constrainkit_json("[{'function':{'name':'get_weather_now'}}]");
	struct constraint_options o = required(tools);

	(void)state;
	o.one_call = true;
	for (size_t k = 0; k < 2; k++) {
		struct token_ids want = { 0 };
		struct constraint *c = NULL;
		struct buf why = { 0 };
		const uint64_t *mask;

		assert_int_equal(tokenizer_encode(kits[k]->tokenizer, text, strlen(text), true, &want), 0);
		assert_int_equal(constraint_new(kits[k]->vocab, &o, &c, &why), 0);
		for (int i = 0; i < want.n; i++) {
			int n = 0;

			assert_int_equal(constraint_mask(c, &mask, &why), 0);
			for (int32_t t = 0; t < kits[k]->n; t++)
				n += (mask[t / 64] >> (t % 64) & 1) != 0;
			assert_true(mask[want.id[i] / 64] >> (want.id[i] % 64) & 1);
			if (i + 1 < want.n)
				assert_int_equal(n, 1);
			constraint_take(c, want.id[i]);
		}
		assert_true(constraint_complete(c));
		constraint_free(&c);
		token_ids_fini(&want);
	}
	json_decref(tools);
}

/* ---- strict tools under AUTO ---- */

static void put(const struct constrainkit *k, struct constraint *c, const char *text)
{
	struct token_ids ids = { 0 };

	assert_int_equal(tokenizer_encode(k->tokenizer, text, strlen(text), true, &ids), 0);
	for (int i = 0; i < ids.n; i++)
		constraint_take(c, ids.id[i]);
	token_ids_fini(&ids);
}

static void a_strict_tool_is_held_to_its_schema_once_it_is_called(void **state)
{
	const struct constrainkit *k = constrainkit_tiny();
	json_t *tools = constrainkit_json("[{'function':{'name':'f','strict':true,'parameters':{'type':'object',"
		"'properties':"
		"{'a':{'type':'integer'}},'required':['a'],'additionalProperties':false}}}]");
	struct constraint_options o = { .tools = tools, .thinking = true };
	struct constraint *c = NULL;
	struct buf why = { 0 };
	const uint64_t *mask;

	(void)state;
	assert_int_equal(constraint_new(k->vocab, &o, &c, &why), 0);
	put(k, c, "I think </think>Let me see.");
	assert_int_equal(constraint_mask(c, &mask, &why), 0);
	assert_null(mask);
	put(k, c, "\n\n<｜DSML｜");
	assert_int_equal(constraint_mask(c, &mask, &why), 0);
	assert_non_null(mask);
	put(k, c, "tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"false\">1");
	put(k, c, "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>");
	assert_true(constraint_complete(c));
	constraint_free(&c);
	json_decref(tools);
}

/* ---- read back ---- */

struct read_back {
	json_t *calls;         /* [[name, arguments as text]] */
	struct buf args;
};

static void read_event(void *arg, const struct completion_event *ev)
{
	struct read_back *r = arg;

	switch (ev->kind) {
	case COMPLETION_TOOL_BEGIN:
		json_array_append_new(r->calls, json_pack("[s%]", ev->text, ev->len));
		buf_clear(&r->args);
		break;
	case COMPLETION_TOOL_ARGS:
		buf_add(&r->args, ev->text, ev->len);
		break;
	case COMPLETION_TOOL_END:
		json_array_append_new(json_array_get(r->calls, json_array_size(r->calls) - 1),
				      json_stringn(buf_str(&r->args), r->args.len));
		break;
	case COMPLETION_REASONING:
	case COMPLETION_CONTENT:
	default:
		fail_msg("text beside the calls: '%.*s'", (int)ev->len, ev->text);
	}
}

static void check_call(const json_t *tools, const json_t *call, const char *answer)
{
	const char *name = json_string_value(json_array_get(call, 0)),
		*text = json_string_value(json_array_get(call, 1));
	json_t *args = json_loads(text, 0, NULL), *function, *schema = NULL, *tool;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)tools, i, tool) {
		function = json_object_get(tool, "function");
		if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
			schema = json_object_get(function, "parameters");
	}
	if (!args || !schema || !schemakit_valid(schema, schema, args))
		fail_msg("%s(%s) in %s", name, text, answer);
	json_decref(args);
}

/* Random tools, random tokens: the parser makes valid calls of them, and has nothing to say against the form. */
static void random_calls(const struct constrainkit *k, unsigned seed, int n)
{
	for (int i = 0; i < n; i++) {
		json_t *tools = json_array();
		struct constraint_options o = required(tools);
		struct read_back r = { .calls = json_array() };
		struct completion_options co = { .mode = COMPLETION_CHAT, .tokens_only = true, .emit = read_event,
			.arg = &r };
		struct completion *parser = NULL;
		struct completion_verdict v;
		struct token_ids ids = { 0 };
		struct buf text = { 0 };
		json_t *call;
		size_t c;

		for (int t = 0; t < 3; t++)
			json_array_append_new(tools, json_pack("{s:s, s:{s:s, s:b, s:o}}", "type", "function",
				"function", "name",
				t == 0 ? "f" : t == 1 ? "fetch" : "x.y-z", "strict", 1, "parameters",
					schemakit_random(&seed, true)));
		o.one_call = i % 2;
		constrainkit_random(k, &o, &seed, 80, &text, &ids);
		assert_int_equal(completion_new(&co, &parser, NULL), 0);
		for (int t = 0; t < ids.n; t++) {
			struct completion_token ct = { .added = tokenizer_is_added(k->tokenizer, ids.id[t]) };

			ct.bytes = tokenizer_bytes(k->tokenizer, ids.id[t], &ct.len);
			completion_put(parser, &ct);
		}
		completion_end(parser, COMPLETION_EOS, &v);
		if (v.flags & ~(unsigned)COMPLETION_DUP_PARAM || v.finish != GEN_TOOL_CALLS)
			fail_msg("flags %x: %s", v.flags, buf_str(&text));
		assert_int_equal(v.n_calls, json_array_size(r.calls));
		assert_true(v.n_calls == 1 || !o.one_call);
		json_array_foreach(r.calls, c, call)
			check_call(tools, call, buf_str(&text));
		completion_free(&parser);
		json_decref(r.calls);
		buf_fini(&r.args);
		json_decref(tools);
		token_ids_fini(&ids);
		buf_fini(&text);
	}
}

static void random_calls_of_the_tiny_vocabulary_are_valid(void **state)
{
	(void)state;
	random_calls(constrainkit_tiny(), 3, 250);
}

static void random_calls_of_the_vocabulary_of_flash_are_valid(void **state)
{
	(void)state;
	random_calls(constrainkit_flash(), 4, 15);
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
		cmocka_unit_test(calls_are_as_the_official_encoder_writes_them),
		cmocka_unit_test(with_a_format_it_is_either_calls_or_that),
		cmocka_unit_test(tools_that_cannot_be_called_so_are_refused),
		cmocka_unit_test(conditions_not_understood_are_left_away_unless_strict),
		cmocka_unit_test(what_is_forced_is_the_tokenizers_own_tokens),
		cmocka_unit_test(a_strict_tool_is_held_to_its_schema_once_it_is_called),
		cmocka_unit_test(random_calls_of_the_tiny_vocabulary_are_valid),
		cmocka_unit_test(random_calls_of_the_vocabulary_of_flash_are_valid),
	};

	return cmocka_run_group_tests(tests, NULL, test_done);
}
