/* SPDX-License-Identifier: MIT
 * engine_cache_thinking.c - the prefix cache when the history is rendered anew: with drop_thinking only what changed is
 * computed again, to the token, and with a cold answer's bits.
 * Threads: this one and the engine's. */
#include "tests/unit/warmkit.h"

#include <stdlib.h>
#include <string.h>

/* Tokens before and after the text of the first message: begin, user, assistant, think. */
#define TEST_MARKS 4

struct test_turn {
	struct buf reasoning, content;
	int32_t *id; int n, n_prompt; /* prompt and answer */
	struct gen_usage usage;
	enum gen_finish finish;
	float logprob[WARM_MAX_OUT]; int n_logprob;
};

static void test_event(struct test_turn *t, const struct gen_event *ev)
{
	if (ev->kind == GEN_EV_REASONING)
		buf_add(&t->reasoning, ev->text, ev->len);
	else if (ev->kind == GEN_EV_CONTENT)
		buf_add(&t->content, ev->text, ev->len);
	else if (ev->kind == GEN_EV_LOGPROB && t->n_logprob < WARM_MAX_OUT)
		t->logprob[t->n_logprob++] = ev->lp.logprob;
	t->finish = ev->finish;
}

static struct test_turn test_chat(struct engine *e, json_t *messages)
{
	struct generation_spec s = { .messages = messages, .thinking = true, .parse = true, .max_tokens = 60 };
	struct test_turn t = { .n = 0 };
	struct gen_event ev = { .kind = GEN_EV_CONTENT };
	struct generation *g;
	struct record *r;

	s.sampling.top_p = s.sampling.repetition_penalty = 1;
	s.sampling.logprobs = true;
	g = warm_submit(e, &s);
	while (ev.kind != GEN_EV_FINISH) {
		gen_event_fini(&ev);
		assert_int_equal(generation_wait(g, &ev, -1), 0);
		test_event(&t, &ev);
	}
	gen_event_fini(&ev);
	generation_usage(g, &t.usage);
	r = engine_record(e, generation_id(g));
	t.n = record_tokens(r, &t.id, &t.n_prompt);
	record_unref(&r);
	generation_unref(&g);
	return t;
}

static void test_turn_fini(struct test_turn *t)
{
	free(t->id);
	buf_fini(&t->reasoning);
	buf_fini(&t->content);
}

/* A first message whose prompt ends just before a block does, so that the answer goes beyond. */
static void test_first(const struct tokenizer *t, struct buf *ret_text)
{
	struct token_ids ids = { 0 };

	buf_adds(ret_text, "Remember this: my codeword is poppy.");
	do {
		buf_adds(ret_text, " That is all.");
		token_ids_fini(&ids);
		assert_int_equal(tokenizer_encode(t, buf_str(ret_text), ret_text->len, false, &ids), 0);
	} while (ids.n < 2 * SEQUENCE_BLOCK || (ids.n + TEST_MARKS) % SEQUENCE_BLOCK < 116 ||
		 (ids.n + TEST_MARKS) % SEQUENCE_BLOCK > 124);
	token_ids_fini(&ids);
}

static json_t *test_second(const struct buf *first, const struct test_turn *t)
{
	json_t *m = json_pack("[{s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s}]", "role", "user", "content", buf_str(first),
		"role",
		"assistant", "reasoning_content", buf_str(&t->reasoning), "content", buf_str(&t->content), "role",
		"user", "content", "What is my codeword?");

	assert_non_null(m);
	return m;
}

static int test_common(const struct test_turn *a, const struct test_turn *b)
{
	int n = 0;

	while (n < a->n && n < b->n_prompt && a->id[n] == b->id[n])
		n++;
	return n;
}

/* Two turns under one setting, warm and cold. */
static void test_turns(const char *drop, bool kept)
{
	struct engine_options with = { .cache_bytes = WARM_ENOUGH }, without = { .cache_bytes = 0 };
	struct engine *e = warm_open(&with), *cold = warm_open(&without);
	struct test_turn one, two, want;
	struct buf first = { 0 }, why = { 0 };
	json_t *m;
	int common, before, after;

	assert_int_equal(engine_numerics_set(e, "drop_thinking", drop, &why), 0);
	assert_int_equal(engine_numerics_set(cold, "drop_thinking", drop, &why), 0);
	test_first(engine_tokenizer(e), &first);
	m = json_pack("[{s:s, s:s}]", "role", "user", "content", buf_str(&first));
	one = test_chat(e, m);
	json_decref(m);
	assert_int_equal(one.finish, GEN_STOP);
	assert_true(one.reasoning.len > 0 && one.content.len > 0);
	before = warm_most(one.n_prompt);
	after = (one.n - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK; /* the token sampled last was not computed */
	assert_int_equal(after, before + SEQUENCE_BLOCK);
	m = test_second(&first, &one);
	two = test_chat(e, m);
	want = test_chat(cold, m);
	json_decref(m);
	common = test_common(&one, &two);
	/* With the reasoning gone the histories part where it was; with it they are the same to the last token. */
	assert_true(kept ? common >= one.n - 1 : common >= one.n_prompt - 1 && common < one.n_prompt + 1);
	assert_int_equal(two.usage.cached_tokens, kept ? after : before);
	assert_true(common - two.usage.cached_tokens < SEQUENCE_BLOCK);
	assert_int_equal(want.usage.cached_tokens, 0);
	assert_int_equal(two.n, want.n);
	assert_memory_equal(two.id, want.id, (size_t)two.n * sizeof *two.id);
	assert_true(two.n_logprob > 0);
	assert_int_equal(two.n_logprob, want.n_logprob);
	assert_memory_equal(two.logprob, want.logprob, (size_t)two.n_logprob * sizeof *two.logprob);
	test_turn_fini(&one);
	test_turn_fini(&two);
	test_turn_fini(&want);
	buf_fini(&first);
	buf_fini(&why);
	warm_idle(e);
	engine_close(&e);
	engine_close(&cold);
}

static void reasoning_that_stays_is_not_computed_again(void **state)
{
	(void)state;
	test_turns("never", true);
}

static void of_reasoning_that_is_dropped_what_came_before_is_kept(void **state)
{
	(void)state;
	test_turns("always", false);
	test_turns("auto", false); /* no tools */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reasoning_that_stays_is_not_computed_again),
		cmocka_unit_test(of_reasoning_that_is_dropped_what_came_before_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
