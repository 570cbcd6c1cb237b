/* SPDX-License-Identifier: MIT
 * engine_many.c - as many requests at once as an engine runs by default: each has the bits it has alone.
 * Threads: this one and the engine's. */
#include "tests/unit/warmkit.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define TEST_RUNNING 64 /* engine_options.max_running's default */
#define TEST_MORE 6     /* that have to wait for a place */
#define TEST_ALL (TEST_RUNNING + TEST_MORE)
#define TEST_TOKENS 5

/* The engine's thread rests in a request's event until the gate is open. */
struct test_gate {
	atomic_bool reached, open;
};

static void test_gate_wait(void *arg)
{
	struct test_gate *gate = arg;

	atomic_store(&gate->reached, true);
	while (!atomic_load(&gate->open))
		sched_yield();
}

static void test_until_reached(struct test_gate *gate)
{
	while (!atomic_load(&gate->reached))
		sched_yield();
}

static struct generation *test_submit(struct engine *e, const struct warm_prompt *p, int tokens, struct test_gate *gate)
{
	struct generation_spec s = warm_spec(p, tokens);

	s.notify = gate ? test_gate_wait : NULL;
	s.arg = gate;
	return warm_submit(e, &s);
}

static void test_prompts(struct warm_prompt *p)
{
	for (uint32_t i = 0; i < TEST_ALL; i++) {
		p[i].n = 0;
		warm_grow(&p[i], i, 5 + (int)i % 23);
	}
}

static void sixty_four_at_once_have_the_bits_they_have_alone(void **state)
{
	static struct warm_prompt p[TEST_ALL];
	struct engine_options o = { .cache_bytes = 0 };
	struct engine *e = warm_open(&o), *cold = warm_open(&o);
	struct test_gate before = { 0 }, during = { 0 };
	struct generation *first, *g[TEST_ALL];
	struct engine_status st;

	(void)state;
	test_prompts(p);
	first = test_submit(e, &p[0], 1, &before);
	test_until_reached(&before); /* what is submitted now is begun together */
	for (int i = 0; i < TEST_ALL; i++)
		g[i] = test_submit(e, &p[i], TEST_TOKENS, i == 0 ? &during : NULL);
	atomic_store(&before.open, true);
	warm_read(e, &first);
	test_until_reached(&during);
	engine_status(e, &st);
	assert_int_equal(st.running, TEST_RUNNING);
	assert_int_equal(st.queued, TEST_MORE);
	atomic_store(&during.open, true);
	for (int i = 0; i < TEST_ALL; i++) {
		struct warm_answer a = warm_read(e, &g[i]), b = warm_ask_cold(cold, &p[i], TEST_TOKENS);

		warm_same(&a, &b);
	}
	warm_idle(e);
	engine_close(&e);
	engine_close(&cold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixty_four_at_once_have_the_bits_they_have_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
