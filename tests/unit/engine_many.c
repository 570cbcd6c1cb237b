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

/* Every other one is drawn: its tokens, too, are picked on whatever thread is free. */
static struct generation_spec test_spec(const struct warm_prompt *p, int i)
{
	struct generation_spec s = warm_spec(p, TEST_TOKENS);

	if (i % 2) {
		s.sampling.temperature = 1;
		s.sampling.top_p = 0.95f;
		s.sampling.presence_penalty = 0.5f;
		s.sampling.has_seed = true;
		s.sampling.seed = (uint64_t)i;
	}
	return s;
}

static struct generation *test_submit(struct engine *e, const struct warm_prompt *p, int i, struct warm_gate *gate)
{
	struct generation_spec s = test_spec(p, i);

	s.notify = gate ? warm_gate_rest : NULL;
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
	struct warm_gate before = { 0 }, during = { 0 };
	struct generation *first, *g[TEST_ALL];
	struct engine_status st;

	(void)state;
	test_prompts(p);
	first = warm_hold(e, warm_spec(&p[0], 1), &before); /* what is submitted now is begun together */
	for (int i = 0; i < TEST_ALL; i++)
		g[i] = test_submit(e, &p[i], i, i == 0 ? &during : NULL);
	warm_gate_open(&before);
	warm_read(e, &first);
	warm_gate_reached(&during);
	engine_status(e, &st);
	assert_int_equal(st.running, TEST_RUNNING);
	assert_int_equal(st.queued, TEST_MORE);
	warm_gate_open(&during);
	for (int i = 0; i < TEST_ALL; i++) {
		struct warm_answer a = warm_read(e, &g[i]), b;
		struct generation *alone = test_submit(cold, &p[i], i, NULL);

		b = warm_read(cold, &alone);
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
