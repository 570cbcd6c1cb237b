/* SPDX-License-Identifier: MIT
 * engine_replay.c - tests of requests computed again with the answer they had: the digests of their logits are those of
 * then, whatever was cached, sampled, or running beside them.
 * Threads: this one and the engine's. Locks: none. */
#include "engine/base/rc.h"
#include "tests/unit/warmkit.h"

#include <stdlib.h>
#include <string.h>

struct replayed {
	struct record_view view;
	int n;
	int32_t *token;    /* [n] of the answer */
	uint64_t *digest;  /* [n] */
};

static struct replayed test_read(struct engine *e, struct generation **g)
{
	struct gen_event ev = { .kind = GEN_EV_CONTENT };
	struct replayed r = { 0 };
	struct record *rec = engine_record(e, generation_id(*g));
	int32_t *all;
	int n_prompt, n;

	while (ev.kind != GEN_EV_FINISH) {
		gen_event_fini(&ev);
		assert_int_equal(generation_wait(*g, &ev, -1), 0);
	}
	gen_event_fini(&ev);
	generation_unref(g);
	record_view(rec, &r.view);
	n = record_tokens(rec, &all, &n_prompt);
	r.n = record_digests(rec, &r.digest);
	assert_int_equal(r.n, n - n_prompt);
	memmove(all, all + n_prompt, (size_t)r.n * sizeof *all);
	r.token = all;
	record_unref(&rec);
	return r;
}

static void test_drop(struct replayed *r)
{
	free(r->token);
	free(r->digest);
}

static struct replayed test_ask(struct engine *e, const struct generation_spec *s)
{
	struct generation *g = warm_submit(e, s);

	return test_read(e, &g);
}

static struct generation_spec test_again(const struct warm_prompt *p, const struct replayed *r)
{
	struct generation_spec s = { .tokens = p->token, .n_tokens = p->n, .answer = r->token, .n_answer = r->n };

	s.sampling.top_p = 1;
	s.sampling.repetition_penalty = 1;
	s.cache_off = true;
	return s;
}

/* The same prompt with that answer, without the cache: the same tokens and digests. */
static void test_same_cold(struct engine *e, const struct warm_prompt *p, const struct replayed *r)
{
	struct generation_spec s = test_again(p, r);
	struct replayed again = test_ask(e, &s);

	assert_int_equal(again.view.finish, GEN_LENGTH);
	assert_int_equal(again.view.reused_tokens, 0);
	assert_int_equal(again.n, r->n);
	assert_memory_equal(again.token, r->token, (size_t)r->n * sizeof *r->token);
	assert_memory_equal(again.digest, r->digest, (size_t)r->n * sizeof *r->digest);
	test_drop(&again);
}

static struct engine *test_open(int prefill_chunk)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = prefill_chunk };

	return warm_open(&o);
}

static uint64_t test_lookups(struct engine *e)
{
	struct cache_stats st;

	cache_stats(engine_cache(e), &st);
	return st.lookups + st.published;
}

/* A conversation whose turns go on from the cache; half of them sampled. */
static void a_warm_conversation_has_the_digests_it_has_cold(void **state)
{
	struct engine *e = test_open(100);
	struct warm_prompt p = { .n = 0 };
	int warm = 0;

	(void)state;
	for (uint32_t turn = 0; turn < 4; turn++) {
		struct generation_spec s;
		struct replayed r;
		uint64_t lookups;

		warm_grow(&p, 70 + turn, 150);
		s = warm_spec(&p, 12);
		s.sampling.temperature = turn % 2 ? 1.0f : 0;
		s.sampling.has_seed = true;
		s.sampling.seed = turn;
		r = test_ask(e, &s);
		assert_int_equal(r.n, 12);
		warm += r.view.reused_tokens > 0;
		lookups = test_lookups(e);
		test_same_cold(e, &p, &r);
		assert_int_equal(test_lookups(e), lookups); /* it left the cache alone */
		test_drop(&r);
	}
	assert_int_equal(warm, 3);
	warm_idle(e);
	engine_close(&e);
}

/* Other tokens than the model's own best: the logits after them are others, and an end of sentence ends nothing. */
static void an_answer_given_is_what_is_computed(void **state)
{
	struct engine *e = test_open(0);
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct replayed own, given;

	(void)state;
	warm_grow(&p, 80, 60);
	s = warm_spec(&p, 6);
	own = test_ask(e, &s);
	s = test_again(&p, &own);
	own.token[2] = engine_config(e)->eos_id;
	given = test_ask(e, &s);
	assert_int_equal(given.n, 6);
	assert_int_equal(given.view.finish, GEN_LENGTH);
	assert_memory_equal(given.token, own.token, 6 * sizeof *own.token);
	assert_memory_equal(given.digest, own.digest, 3 * sizeof *own.digest); /* up to where it was taken */
	assert_true(given.digest[3] != own.digest[3]);
	test_drop(&own);
	test_drop(&given);
	engine_close(&e);
}

static void answers_that_cannot_be_are_refused(void **state)
{
	struct engine *e = test_open(0);
	struct warm_prompt p = { .n = 0 };
	int32_t answer[2] = { 300, 0 };
	struct generation_spec s = { .answer = answer };
	struct generation *g;
	struct buf why = { 0 };

	(void)state;
	warm_grow(&p, 90, 20);
	s.tokens = p.token;
	s.n_tokens = p.n;
	s.sampling = (struct gen_sampling){ .top_p = 1, .repetition_penalty = 1 };
	assert_int_equal(engine_submit(e, &s, &g, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), "answer: empty");
	buf_clear(&why);
	s.n_answer = 2;
	answer[1] = engine_config(e)->vocab_size;
	assert_int_equal(engine_submit(e, &s, &g, &why), RC_INVALID);
	assert_non_null(strstr(buf_str(&why), "answer[1]: token 2048 is outside 0 to 2047"));
	buf_clear(&why);
	s.n_answer = engine_max_context(e);
	assert_int_equal(engine_submit(e, &s, &g, &why), RC_CONTEXT);
	buf_fini(&why);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_warm_conversation_has_the_digests_it_has_cold),
		cmocka_unit_test(an_answer_given_is_what_is_computed),
		cmocka_unit_test(answers_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
