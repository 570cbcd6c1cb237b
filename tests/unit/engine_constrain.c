/* SPDX-License-Identifier: MIT
 * engine_constrain.c - tests of what answers must be on the tiny model: JSON, calls, a bound on reasoning.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "engine/engine.h"
#include "engine/text/jsonprefix.h"
#include "tests/unit/constrainkit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
	struct generation_spec s = { .messages = messages, .parse = true, .max_tokens = 400 };

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
	for (int i = 0; i < 8; i++) {
		struct test_answer a;
		struct jsonprefix p = { 0 };

		s.thinking = i % 2;
		s.max_reasoning = 20;
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
	assert_true(whole >= 4);
	json_decref(messages);
}

static void a_form_gives_the_same_answer_in_any_batch(void **state)
{
	json_t *messages = test_messages();
	struct generation_spec s = test_spec(messages);
	struct generation *g[6];
	struct test_answer alone, among;

	(void)state;
	s.format = GEN_FORMAT_JSON_OBJECT;
	s.thinking = true;
	s.max_reasoning = 10;
	s.max_tokens = 60;
	s.sampling.seed = 7;
	alone = test_ask(&s);
	for (int i = 0; i < 6; i++) {
		s.sampling.seed = i == 3 ? 7 : (uint64_t)i;
		s.format = i % 2 ? GEN_FORMAT_JSON_OBJECT : GEN_FORMAT_TEXT;
		g[i] = test_submit(&s);
	}
	for (int i = 0; i < 6; i++) {
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
	for (s.max_reasoning = 1; s.max_reasoning < n; s.max_reasoning++) {
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
	json_decref(messages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_is_in_the_content_also_with_thinking),
		cmocka_unit_test(a_form_gives_the_same_answer_in_any_batch),
		cmocka_unit_test(reasoning_is_closed_at_its_bound_and_the_answer_goes_on),
		cmocka_unit_test(what_cannot_be_asked_for_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, test_open, test_close);
}
