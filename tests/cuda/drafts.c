/* SPDX-License-Identifier: MIT
 * drafts.c - the engine on the stand-in for a GPU: an answer with drafts is the answer without, to the bit, and all
 * decode steps are graphs. Nothing here ran on a real GPU.
 * Threads: the test's and the engine's. Locks: none. */
#include "tests/cuda/stepkit.h"
#include "tests/unit/warmkit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define DRAFTS_TOKENS 9

static struct engine *drafts_open(void)
{
	static const char *const all[] = { "all=cuda-base" };
	const char *top = getenv("top_srcdir");
	struct engine_options o = { .ranks = kit.ranks, .n_threads = 1 };
	struct kset *ks = stepkit_set(all, 1);
	struct engine *e = NULL;
	char dir[4096];

	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	o.model_dir = dir;
	if (engine_open(&o, &e, &kit.gpu.why) || engine_activate(e, &ks, NULL, false, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	return e;
}

static struct warm_answer drafts_ask(struct engine *e, int drafts)
{
	json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Who are you?");
	struct warm_prompt nothing = { .n = 0 };
	struct generation_spec s = warm_spec(&nothing, DRAFTS_TOKENS);
	struct warm_answer a;
	struct generation *g;

	s.tokens = NULL;
	s.messages = messages;
	assert_int_equal(engine_speculate(e, drafts, NULL), 0);
	g = warm_submit(e, &s);
	a = warm_read(e, &g);
	json_decref(messages);
	assert_int_equal(a.n, DRAFTS_TOKENS);
	return a;
}

static void test_answers_are_those_without_drafts(void **state)
{
	struct engine *e = drafts_open();
	struct warm_answer plain = drafts_ask(e, 0), one, three;
	struct device_view v;

	(void)state;
	one = drafts_ask(e, 1);
	three = drafts_ask(e, 3);
	warm_same(&plain, &one);
	warm_same(&plain, &three);
	assert_true(one.usage.accepted_tokens > 2);
	assert_true(three.usage.drafted_tokens > one.usage.drafted_tokens);
	/* of one token, of as many as are verified, of the draft block */
	v = stepkit_view();
	assert_int_equal(v.plain_steps, 0);
	assert_true(v.graph_steps > DRAFTS_TOKENS);
	assert_string_equal(v.graph_why, "");
	engine_close(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_are_those_without_drafts),
	};

	(void)argc;
	return stepkit_run(argv, "drafts") ? cmocka_run_group_tests(tests, stepkit_setup, stepkit_teardown) : 77;
}
