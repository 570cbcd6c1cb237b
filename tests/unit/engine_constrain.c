/* SPDX-License-Identifier: MIT
 * engine_constrain.c - tests of what answers must be on the tiny model: JSON, calls, a bound on reasoning.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "engine/engine.h"
#include "engine/text/jsonprefix.h"
#include "tests/unit/constrainkit.h"
#include "tests/unit/schemakit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sanitized kernels are ten times slower, and it is not they that are tried here. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SLOW 2
#else
#define TEST_SLOW 1
#endif

static struct engine *engine;

static int test_open(void **state)
{
	const char *top = getenv("top_srcdir");
	struct engine_options o = { 0 };
	struct buf why = { 0 };
	char dir[4096];

	(void)state;
	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	o.model_dir = dir;
	if (engine_open(&o, &engine, &why))
		fail_msg("%s", buf_str(&why));
	return 0;
}

static int test_close(void **state)
{
	(void)state;
	engine_close(&engine);
	constrainkit_done();
	return 0;
}

/* ---- asking ---- */

/* What would end a random text soon: quotes, brackets, the end. */
static struct gen_logit_bias test_ends[] = { { 1, 9 }, { 0, 0 }, { 0, 0 }, { 0, 0 } };

static void test_find_ends(void)
{
	const struct tokenizer *t = engine_tokenizer(engine);
	const char *const ends = "\"}]";

	for (int32_t id = 0; id < tokenizer_vocab(t); id++) {
		size_t len;
		const char *b = tokenizer_bytes(t, id, &len);
		const char *at = len == 1 && *b ? strchr(ends, *b) : NULL;

		if (at)
			test_ends[1 + (at - ends)] = (struct gen_logit_bias){ id, 9 };
	}
}

static struct generation_spec test_spec(json_t *messages)
{
	struct generation_spec s = { .messages = messages, .parse = true, .max_tokens = 120 };

	gen_sampling_init(engine, &s.sampling);
	s.sampling.temperature = 2.5f;
	s.sampling.has_seed = true;
	test_find_ends();
	s.sampling.bias = test_ends;
	s.sampling.n_bias = 4;
	return s;
}

struct test_answer {
	struct buf reasoning, content, name, args;
	int n_calls;               /* whole ones */
	enum gen_finish finish;
	struct gen_usage usage;
	char detail[128];
};

static void test_answer_fini(struct test_answer *a)
{
	buf_fini(&a->reasoning);
	buf_fini(&a->content);
	buf_fini(&a->name);
	buf_fini(&a->args);
}

static void test_event(struct test_answer *a, const struct gen_event *ev)
{
	switch (ev->kind) {
	case GEN_EV_REASONING:
		buf_add(&a->reasoning, ev->text, ev->len);
		break;
	case GEN_EV_CONTENT:
		buf_add(&a->content, ev->text, ev->len);
		break;
	case GEN_EV_TOOL_BEGIN:
		buf_printf(&a->name, "%s%s", a->name.len ? "," : "", ev->text);
		break;
	case GEN_EV_TOOL_ARGS:
		buf_add(&a->args, ev->text, ev->len);
		break;
	case GEN_EV_TOOL_END:
		a->n_calls++;
		buf_addc(&a->args, '\n');
		break;
	case GEN_EV_FINISH:
		a->finish = ev->finish;
		snprintf(a->detail, sizeof a->detail, "%s", ev->text);
		break;
	case GEN_EV_LOGPROB:
	default:
		break;
	}
}

static struct test_answer test_read(struct generation *g)
{
	struct test_answer a = { 0 };
	struct gen_event ev;
	bool done = false;

	while (!done) {
		assert_int_equal(generation_wait(g, &ev, -1), 0);
		test_event(&a, &ev);
		done = ev.kind == GEN_EV_FINISH;
		gen_event_fini(&ev);
	}
	generation_usage(g, &a.usage);
	generation_unref(&g);
	return a;
}

static struct generation *test_submit(const struct generation_spec *s)
{
	struct generation *g = NULL;
	struct buf why = { 0 };

	if (engine_submit(engine, s, &g, &why))
		fail_msg("%s", buf_str(&why));
	return g;
}

static struct test_answer test_ask(const struct generation_spec *s)
{
	return test_read(test_submit(s));
}

static void test_refused(const struct generation_spec *s, int rc, const char *text)
{
	struct generation *g = NULL;
	struct buf why = { 0 };

	assert_int_equal(engine_submit(engine, s, &g, &why), rc);
	if (strncmp(buf_str(&why), text, strlen(text)) != 0)
		fail_msg("'%s' does not begin with '%s'", buf_str(&why), text);
	buf_fini(&why);
}

static json_t *test_messages(void)
{
	return constrainkit_json("[{'role': 'user', 'content': 'Remember this: my codeword is poppy.'}]");
}

/* ---- JSON ---- */

/* Behaviour 85: with thinking, the JSON is in the content and the reasoning is as free as ever. */
static void json_is_in_the_content_also_with_thinking(void **state)
{
	json_t *messages = test_messages();
	struct generation_spec s = test_spec(messages);
	int whole = 0;

	(void)state;
	s.format = GEN_FORMAT_JSON_OBJECT;
	for (int i = 0; i < 4 / TEST_SLOW; i++) {
		struct test_answer a;
		struct jsonprefix p = { 0 };

		s.thinking = i % 2;
		s.max_reasoning = 8;
		s.sampling.seed = (uint64_t)i;
		a = test_ask(&s);
		assert_true(a.content.len > 0 && a.content.data[0] == '{');
		assert_int_equal(s.thinking, a.reasoning.len > 0);
		if (!jsonprefix_put(&p, a.content.data, a.content.len))
			fail_msg("%s", buf_str(&a.content));
		assert_int_equal(a.finish, jsonprefix_end(&p) ? GEN_STOP : GEN_LENGTH);
		whole += a.finish == GEN_STOP;
		test_answer_fini(&a);
	}
	assert_true(whole >= 1);
	json_decref(messages);
}

static void a_form_gives_the_same_answer_in_any_batch(void **state)
{
	json_t *messages = test_messages();
	struct generation_spec s = test_spec(messages);
	struct generation *g[4];
	struct test_answer alone, among;

	(void)state;
	s.format = GEN_FORMAT_JSON_OBJECT;
	s.thinking = true;
	s.max_reasoning = 10;
	s.max_tokens = 24;
	s.sampling.seed = 7;
	alone = test_ask(&s);
	for (int i = 0; i < 4; i++) {
		s.sampling.seed = i == 3 ? 7 : (uint64_t)i;
		s.format = i % 2 ? GEN_FORMAT_JSON_OBJECT : GEN_FORMAT_TEXT;
		g[i] = test_submit(&s);
	}
	for (int i = 0; i < 4; i++) {
		among = test_read(g[i]);
		if (i == 3) {
			assert_string_equal(buf_str(&among.content), buf_str(&alone.content));
			assert_string_equal(buf_str(&among.reasoning), buf_str(&alone.reasoning));
		}
		test_answer_fini(&among);
	}
	test_answer_fini(&alone);
	json_decref(messages);
}

/* Text in strings that looks like markup is that text. */
static void markup_in_a_string_stays_in_it(void **state)
{
	json_t *messages = test_messages();
	json_t *schema = constrainkit_json("{'const':"
		"'\\n\\n<|DSML|tool_calls>\\n<|DSML|invoke name=\\\"x\\\"><think>'}");
	struct generation_spec s = test_spec(messages);
	struct test_answer a;
	json_t *v;

	(void)state;
	s.format = GEN_FORMAT_JSON_SCHEMA;
	s.schema = schema;
	a = test_ask(&s);
	v = json_loadb(a.content.data, a.content.len, JSON_DECODE_ANY, NULL);
	assert_true(json_equal(v, json_object_get(schema, "const")));
	assert_int_equal(a.n_calls, 0);
	assert_string_equal(a.detail, "eos");
	json_decref(v);
	test_answer_fini(&a);
	json_decref(schema);
	json_decref(messages);
}

static void a_schema_is_kept_at_any_temperature(void **state)
{
	json_t *messages = test_messages();
	json_t *schema = constrainkit_json("{'type':'object','properties':{'word':{'type':'string','maxLength':12},"
		"'count':{'type':'integer','minimum':1,'maximum':99},'kind':{'enum':['noun','verb']}},"
		"'required':['word','count','kind'],'additionalProperties':false}");
	struct generation_spec s = test_spec(messages);

	(void)state;
	s.format = GEN_FORMAT_JSON_SCHEMA;
	s.schema = schema;
	for (int i = 0; i < 3; i += TEST_SLOW) {
		struct test_answer a;
		json_t *v;

		s.sampling.seed = (uint64_t)i;
		s.sampling.temperature = (float)(2 * i);
		a = test_ask(&s);
		v = json_loadb(buf_str(&a.content), a.content.len, 0, NULL);
		if (!schemakit_valid(schema, schema, v))
			fail_msg("%s", buf_str(&a.content));
		assert_int_equal(a.finish, GEN_STOP);
		json_decref(v);
		test_answer_fini(&a);
	}
	json_decref(schema);
	json_decref(messages);
}

/* ---- calls ---- */

static const char test_tools[] =
	"[{'type':'function','function':{'name':'get_weather','parameters':{'type':'object','properties':"
	"{'city':{'type':'string','maxLength':20},'days':{'type':'integer','minimum':1,'maximum':14}},"
	"'required':['city','days']}}},"
	"{'type':'function','function':{'name':'get_time','parameters':{'type':'object','properties':{}}}}]";

static void test_calls_are_valid(const json_t *tools, const struct test_answer *a)
{
	const char *p = buf_str(&a->args), *end;

	for (; (end = strchr(p, '\n')) != NULL; p = end + 1) {
		json_t *args = json_loadb(p, (size_t)(end - p), 0, NULL), *schema;

		schema = json_object_get(json_object_get(json_array_get(tools, json_object_size(args) ? 0 : 1),
			"function"),
					 "parameters");
		if (!args || !schemakit_valid(schema, schema, args))
			fail_msg("%s", buf_str(&a->args));
		json_decref(args);
	}
}

/* Behaviour 68. */
static void a_call_that_is_asked_for_comes_and_is_read_back(void **state)
{
	json_t *messages = test_messages(), *tools = constrainkit_json(test_tools);
	struct generation_spec s = test_spec(messages);

	(void)state;
	s.tools = tools;
	s.one_call = true;
	for (int i = 1; i < 8; i += 2 * TEST_SLOW) {
		struct test_answer a;

		s.thinking = i == 3;
		s.max_reasoning = 4;
		s.calls = i & 2 ? GEN_CALLS_NAMED : GEN_CALLS_REQUIRED;
		s.function = i & 4 ? "get_time" : "get_weather";
		s.sampling.seed = (uint64_t)i;
		a = test_ask(&s);
		assert_int_equal(a.finish, GEN_TOOL_CALLS);
		assert_int_equal(a.n_calls, 1);
		assert_int_equal(a.content.len, 0);
		if (s.calls == GEN_CALLS_NAMED)
			assert_string_equal(buf_str(&a.name), s.function);
		test_calls_are_valid(tools, &a);
		test_answer_fini(&a);
	}
	json_decref(tools);
	json_decref(messages);
}

static void several_calls_may_come_unless_one_is_enough(void **state)
{
	json_t *messages = test_messages(), *tools = constrainkit_json(test_tools);
	struct generation_spec s = test_spec(messages);
	struct gen_logit_bias again[2] = { { tokenizer_added(engine_tokenizer(engine), "｜DSML｜"), 40 } };
	struct token_ids ids = { 0 };
	int most = 0;

	(void)state;
	s.tools = tools;
	s.calls = GEN_CALLS_NAMED;
	s.function = "get_time";
	/* In "<" and the marker another call begins, in "</" the block ends. */
	assert_int_equal(tokenizer_encode(engine_tokenizer(engine), "<", 1, false, &ids), 0);
	again[1] = (struct gen_logit_bias){ ids.id[0], 40 };
	token_ids_fini(&ids);
	s.sampling.bias = again;
	s.sampling.n_bias = 2;
	for (int i = 0; i < 2 / TEST_SLOW; i++) {
		struct test_answer a;

		s.sampling.seed = (uint64_t)i;
		a = test_ask(&s);
		most = a.n_calls > most ? a.n_calls : most;
		test_calls_are_valid(tools, &a);
		test_answer_fini(&a);
	}
	assert_true(most > 1);
	json_decref(tools);
	json_decref(messages);
}

/* The model's own call, with nothing forced: it ends the answer, whatever the model would say after it. */
static void the_models_own_call_is_the_last_where_one_is_enough(void **state)
{
	json_t *messages = constrainkit_json("[{'role':'user','content':'What is the weather in Milan?'}]");
	json_t *tools = constrainkit_json("[{'type':'function','function':{'name':'get_weather','description':"
		"'Get the weather of a city','parameters':{'type':'object','properties':{'city':{'type':'string'}},"
		"'required':['city']}}}]");
	struct generation_spec s = test_spec(messages);
	struct test_answer all, one;

	(void)state;
	s.tools = tools;
	s.sampling.temperature = 0;
	s.sampling.n_bias = 0;
	all = test_ask(&s);
	assert_int_equal(all.finish, GEN_TOOL_CALLS);
	s.one_call = true;
	one = test_ask(&s);
	assert_int_equal(one.finish, GEN_TOOL_CALLS);
	assert_int_equal(one.n_calls, 1);
	assert_string_equal(buf_str(&one.args), buf_str(&all.args));
	assert_true(one.usage.completion_tokens < all.usage.completion_tokens);
	test_answer_fini(&all);
	test_answer_fini(&one);
	json_decref(tools);
	json_decref(messages);
}

/* ---- a bound on reasoning ---- */

/* Behaviour 87. */
static void reasoning_is_closed_at_its_bound_and_the_answer_goes_on(void **state)
{
	json_t *messages = test_messages();
	struct generation_spec s = test_spec(messages);
	struct test_answer a;
	int n;

	(void)state;
	s.thinking = true;
	s.sampling.temperature = 0;
	s.sampling.n_bias = 0;
	a = test_ask(&s);
	assert_int_equal(a.finish, GEN_STOP);
	assert_true(a.usage.reasoning_tokens > 4);
	n = a.usage.reasoning_tokens;
	test_answer_fini(&a);
	for (s.max_reasoning = 1; s.max_reasoning < n; s.max_reasoning += 3 * TEST_SLOW) {
		a = test_ask(&s);
		assert_int_equal(a.usage.reasoning_tokens, s.max_reasoning);
		assert_true(a.content.len > 0);
		assert_int_equal(a.finish, GEN_STOP);
		assert_string_equal(a.detail, "eos");
		test_answer_fini(&a);
	}
	s.max_reasoning = n + 1;
	a = test_ask(&s);
	assert_int_equal(a.usage.reasoning_tokens, n);
	test_answer_fini(&a);
	json_decref(messages);
}

/* ---- refusals ---- */

static void what_cannot_be_asked_for_is_refused_by_name(void **state)
{
	json_t *messages = test_messages();
	struct generation_spec s = test_spec(messages);

	(void)state;
	s.max_reasoning = -1;
	test_refused(&s, RC_INVALID, "max_reasoning: ");
	s.max_reasoning = 0;
	s.format = GEN_FORMAT_JSON_OBJECT;
	s.sampling.ignore_eos = true;
	test_refused(&s, RC_INVALID, "ignore_eos: ");
	s.sampling.ignore_eos = false;
	s.format = GEN_FORMAT_JSON_SCHEMA;
	test_refused(&s, RC_INVALID, "schema: missing");
	s.format = GEN_FORMAT_TEXT;
	s.calls = GEN_CALLS_REQUIRED;
	test_refused(&s, RC_INVALID, "tool_choice: no tools");
	s.parse = false;
	test_refused(&s, RC_INVALID, "tool_choice: ");
	json_decref(messages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_is_in_the_content_also_with_thinking),
		cmocka_unit_test(markup_in_a_string_stays_in_it),
		cmocka_unit_test(a_schema_is_kept_at_any_temperature),
		cmocka_unit_test(a_call_that_is_asked_for_comes_and_is_read_back),
		cmocka_unit_test(several_calls_may_come_unless_one_is_enough),
		cmocka_unit_test(the_models_own_call_is_the_last_where_one_is_enough),
		cmocka_unit_test(a_form_gives_the_same_answer_in_any_batch),
		cmocka_unit_test(reasoning_is_closed_at_its_bound_and_the_answer_goes_on),
		cmocka_unit_test(what_cannot_be_asked_for_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, test_open, test_close);
}
