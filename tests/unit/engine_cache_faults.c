/* SPDX-License-Identifier: MIT
 * engine_cache_faults.c - what users of other servers lost to a prefix cache, each on the tiny model: here the answers
 * are those of an engine without one, bit for bit. Which fault each test guards stands in tests/README.md.
 * Threads: this one and the engine's. */
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/warmkit.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The answers of an engine without a cache; it is asked once per test, not opened anew. */
static struct engine *cold;

static int test_init(void **state)
{
	struct engine_options o = { 0 };

	(void)state;
	cold = warm_open(&o);
	return 0;
}

static int test_fini(void **state)
{
	(void)state;
	engine_close(&cold);
	return 0;
}

static struct engine *test_open(int prefill_chunk)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = prefill_chunk };

	return warm_open(&o);
}

/* Asks both engines; the answers must be the same. Returns the warm one. */
static struct warm_answer test_ask(struct engine *e, const struct warm_prompt *p, int max_tokens)
{
	struct warm_answer a = warm_ask(e, p, max_tokens), b = warm_ask_cold(cold, p, max_tokens);

	warm_same(&a, &b);
	return a;
}

/* The first n tokens of `from`, then others. */
static struct warm_prompt test_branch(const struct warm_prompt *from, int n, uint32_t seed, int more)
{
	struct warm_prompt p = *from;

	assert_true(n <= from->n);
	p.n = n;
	warm_grow(&p, seed, more);
	return p;
}

/* ---- what prompts have in common ---- */

static void prompts_may_share_any_number_of_tokens(void **state)
{
	static const int shared[] = { 127, 128, 129, 255, 256, 257, 383, 384, 385, 511, 512, 513 };
	struct engine *e = test_open(0);

	(void)state;
	for (uint32_t i = 0; i < sizeof shared / sizeof *shared; i += WARM_STEP) {
		int edge = shared[i] / SEQUENCE_BLOCK * SEQUENCE_BLOCK, n = shared[i] < 300 ? 300 : 530;
		struct warm_prompt first = { .n = 0 };

		warm_grow(&first, 500 + i, n);
		test_ask(e, &first, 2);
		for (uint32_t k = 0; k < 3; k++) {
			struct warm_prompt p = test_branch(&first, shared[i], 600 + 10 * i + k, 40);
			struct warm_answer a = test_ask(e, &p, 2);

			/* The first prompt left a state at its last edge; another one gets its
			 * from the first branch. */
			assert_int_equal(a.usage.cached_tokens, k > 0 || edge == warm_most(n) ? edge : 0);
		}
	}
	warm_idle(e);
	engine_close(&e);
}

static void an_extended_truncated_and_extended_prompt_is_itself(void **state)
{
	struct engine *e = test_open(150);
	struct warm_prompt p = { .n = 0 };
	int reused = 0;

	(void)state;
	warm_grow(&p, 1, 200);
	for (uint32_t i = 0; i < 10; i++) {
		struct warm_answer a;

		p = test_branch(&p, 130 + (p.n - 130) / (i % 3 + 1), 20 + i, 90);
		a = test_ask(e, &p, 2);
		reused += a.usage.cached_tokens;
		warm_grow_answer(&p, &a);
	}
	assert_true(reused >= 5 * SEQUENCE_BLOCK);
	warm_idle(e);
	engine_close(&e);
}

/* ---- decode against prefill ---- */

static void a_decoded_token_is_the_one_that_prefill_gives(void **state)
{
	struct engine *e = test_open(0);
	struct warm_prompt p = { .n = 0 };
	struct warm_answer all, a;

	(void)state;
	warm_grow(&p, 9, 120);
	all = warm_ask_cold(cold, &p, 20);
	for (int i = 0; i < all.n; i++) {
		a = warm_ask(e, &p, 1);
		assert_int_equal(a.token[0], all.token[i]);
		assert_memory_equal(&a.logprob[0], &all.logprob[i], sizeof *a.logprob);
		warm_grow_answer(&p, &a);
	}
	assert_int_equal(a.usage.cached_tokens, 128);
	engine_close(&e);
}

/* ---- beside each other ---- */

/* While one answers, others begin from the cache; each has what it would have alone. */
static void resuming_one_leaves_the_others_alone(void **state)
{
	struct engine *e = test_open(100);
	struct warm_prompt p[4] = { { .n = 0 } };
	struct generation *g[4];

	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		warm_grow(&p[k], 70 + k, 200 + 30 * (int)k);
		test_ask(e, &p[k], 2);
	}
	for (int round = 0; round < 3; round++) {
		for (uint32_t k = 0; k < 4; k++) {
			struct generation_spec s;

			warm_grow(&p[k], 80 + k, 50);
			s = warm_spec(&p[k], 30 + 10 * (int)k);
			g[k] = warm_submit(e, &s);
		}
		for (uint32_t k = 0; k < 4; k++) {
			struct warm_answer a = warm_read(e, &g[k]), b = warm_ask_cold(cold, &p[k], 30 + 10 * (int)k);

			warm_same(&a, &b);
			assert_true(a.usage.cached_tokens >= 128);
			warm_grow_answer(&p[k], &a);
		}
	}
	warm_idle(e);
	engine_close(&e);
}

struct test_stopper {
	struct generation *g;
	int events;
};

/* On the engine thread. */
static void test_stop(void *arg)
{
	struct test_stopper *s = arg;

	if (--s->events == 0)
		generation_cancel(s->g);
}

static void a_hundred_that_leave_after_prefill_pin_nothing(void **state)
{
	struct engine *e = test_open(0);
	struct cache_stats c;
	struct warm_prompt p = { .n = 0 };

	(void)state;
	for (uint32_t i = 0; i < 100; i += WARM_STEP) {
		struct test_stopper stop = { .events = 1 };
		struct generation_spec s;
		struct warm_answer a;
		struct buf why = { 0 };

		p.n = 0;
		warm_grow(&p, 900 + i % 5, 130);
		s = warm_spec(&p, 100);
		s.notify = test_stop;
		s.arg = &stop;
		assert_int_equal(engine_submit(e, &s, &stop.g, &why), 0);
		a = warm_read(e, &stop.g);
		assert_int_equal(a.finish, GEN_CANCELLED);
		assert_int_equal(a.n, 1);
	}
	warm_idle(e);
	cache_stats(engine_cache(e), &c);
	assert_int_equal(c.blocks, 5);
	assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 128);
	engine_close(&e);
}

/* ---- numbers that are none ---- */

#define TEST_MARK 299

static atomic_bool test_poison;

static int test_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	int rc = ref_moe_route(x, host, a);

	for (int t = 0; t < a->n_tok && atomic_load(&test_poison); t++)
		if (a->token[t] == TEST_MARK)
			a->weight[t * a->k] = NAN;
	return rc;
}

ODDPLUG(poison, ODDPLUG_OP(moe_route, EXACT, "test", test_route));

static void test_use_poison(struct engine *e)
{
	provider_init(&poison, &poison_plugin, NULL);
	warm_use(e, DSV4_MOE, &poison);
}

/* A kernel that fails now and then fails its request, and none that comes later with the same prompt. */
static void what_is_no_number_is_not_kept(void **state)
{
	struct engine *e = test_open(64);
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct generation *g;
	struct cache_stats c;

	(void)state;
	warm_grow(&p, 3, 300);
	p.token[150] = TEST_MARK;
	test_use_poison(e);
	atomic_store(&test_poison, true);
	for (int again = 0; again < 2; again++) {
		s = warm_spec(&p, 2);
		g = warm_submit(e, &s);
		assert_int_equal(warm_read(e, &g).finish, GEN_ERROR);
		cache_stats(engine_cache(e), &c);
		assert_int_equal(c.blocks, 1); /* up to 128; 150 was the first bad one */
	}
	atomic_store(&test_poison, false);
	assert_true(test_ask(e, &p, 3).usage.cached_tokens <= 128);
	assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 256);
	warm_idle(e);
	engine_close(&e);
}

/* ---- restarts ---- */

static void test_remove(const char *dir)
{
	struct buf cmd = { 0 };

	buf_printf(&cmd, "rm -rf '%s'", dir);
	assert_int_equal(system(buf_str(&cmd)), 0);
	buf_fini(&cmd);
}

/* What was said last is said otherwise, after a restart and with hardly any memory to come back to. */
static void after_a_restart_the_last_message_can_be_edited(void **state)
{
	static const size_t memory[] = { WARM_ENOUGH, WARM_ENOUGH, 700 << 10, WARM_ENOUGH };
	char dir[] = "/tmp/engine_cache_faults.XXXXXX";
	struct engine_options o = { .cache_disk_bytes = 1 << 30, .cache_dir = dir };
	struct warm_prompt p = { .n = 0 }, edited;

	(void)state;
	assert_non_null(mkdtemp(dir));
	warm_grow(&p, 30, 390);
	for (uint32_t run = 0; run < sizeof memory / sizeof *memory; run++) {
		struct engine *e;
		struct warm_answer a;

		o.cache_bytes = memory[run];
		e = warm_open(&o);
		edited = test_branch(&p, 385, 50 + run, 60);
		a = test_ask(e, &edited, 3);
		assert_int_equal(a.usage.cached_tokens, run ? 384 : 0);
		warm_idle(e);
		engine_close(&e);
	}
	test_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prompts_may_share_any_number_of_tokens),
		cmocka_unit_test(an_extended_truncated_and_extended_prompt_is_itself),
		cmocka_unit_test(a_decoded_token_is_the_one_that_prefill_gives),
		cmocka_unit_test(resuming_one_leaves_the_others_alone),
		cmocka_unit_test(a_hundred_that_leave_after_prefill_pin_nothing),
		cmocka_unit_test(what_is_no_number_is_not_kept),
		cmocka_unit_test(after_a_restart_the_last_message_can_be_edited),
	};
	return cmocka_run_group_tests(tests, test_init, test_fini);
}
