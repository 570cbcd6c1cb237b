/* SPDX-License-Identifier: MIT
 * engine_pace.c - what the engine learns of prompts beside decoding: from those that were computed, not from those that
 * a kernel failed on; and of decoding: from its own steps, not from waiting for others on the same devices.
 * Threads: this one and the engine's. */
#include "engine/base/clock.h"
#include "engine/base/rc.h"
#include "engine/device/ranks_priv.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/warmkit.h"

#include <sched.h>

#define TEST_MARK 299 /* a token on which the router fails */
#define TEST_PROMPT 24

static int test_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	for (int t = 0; t < a->n_tok; t++)
		if (a->token[t] == TEST_MARK)
			return -1;
	return ref_moe_route(x, host, a);
}

ODDPLUG(failing, ODDPLUG_OP(moe_route, EXACT, "test", test_route));

/* The prompt, begun while another's answer is being decoded. */
static struct warm_answer test_beside(struct engine *e, const struct warm_prompt *p)
{
	struct warm_prompt other = { .n = 0 };
	struct warm_gate gate = { 0 };
	struct generation *decoding, *g;
	struct generation_spec s;
	struct warm_answer a, b;

	warm_grow(&other, 1, 5);
	decoding = warm_hold(e, warm_spec(&other, 40), &gate);
	s = warm_spec(p, 1);
	g = warm_submit(e, &s);
	warm_gate_open(&gate);
	a = warm_read(e, &g);
	b = warm_read(e, &decoding); /* and with it the steps that the prompt was in have ended */
	assert_int_equal(b.finish, GEN_LENGTH);
	return a;
}

static void a_prompt_that_failed_beside_decoding_is_not_counted(void **state)
{
	struct engine_options o = { .cache_bytes = 0 };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };
	struct engine_status st;
	struct tally_view v;

	(void)state;
	provider_init(&failing, &failing_plugin, NULL);
	warm_use(e, DSV4_MOE, &failing);
	engine_max_gap(e, 10000);
	warm_grow(&p, 2, TEST_PROMPT);
	p.token[TEST_PROMPT / 2] = TEST_MARK;
	assert_int_equal(test_beside(e, &p).rc, RC_KERNEL);
	engine_status(e, &st);
	engine_tally(e, &v);
	assert_true(st.pace.decode > 0);
	assert_true(st.pace.token == 0); /* nothing is known of prompts */
	assert_int_equal(v.beside_steps, 0);
	assert_int_equal(v.beside_tokens, 0);
	/* and a sound one is */
	p.token[TEST_PROMPT / 2] = TEST_MARK + 1;
	assert_int_equal(test_beside(e, &p).rc, 0);
	engine_status(e, &st);
	engine_tally(e, &v);
	assert_true(st.pace.token > 0);
	assert_int_equal(v.beside_tokens, TEST_PROMPT);
	warm_idle(e);
	engine_close(&e);
}

static bool test_waits(struct ranks *r)
{
	bool waits;

	lock_take(&r->lock);
	waits = r->ticket > r->serving + 1;
	lock_drop(&r->lock);
	return waits;
}

/* Who compares has the devices, for ten times as long as a prompt takes. */
static long long test_hold_up(struct ranks *r, struct warm_gate *gate, long long prompt_ns)
{
	long long begun;

	(void)ranks_begin(r);
	warm_gate_open(gate);
	while (!test_waits(r))
		sched_yield();
	begun = clock_ns();
	while (clock_ns() - begun < 10 * prompt_ns)
		sched_yield();
	ranks_end(r);
	return clock_ns() - begun;
}

static void waiting_for_a_comparison_is_not_taken_for_decoding(void **state)
{
	struct ranks *r = ranks_cpu(2);
	struct engine_options o = { .cache_bytes = 0, .ranks = r };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };
	struct warm_gate gate = { 0 };
	struct generation *decoding;
	struct engine_status st;
	long long begun = clock_ns(), held;

	(void)state;
	warm_grow(&p, 3, 5);
	(void)warm_ask(e, &p, 1); /* no decoding */
	begun = clock_ns() - begun;
	decoding = warm_hold(e, warm_spec(&p, 2), &gate);
	held = test_hold_up(r, &gate, begun);
	assert_int_equal(warm_read(e, &decoding).finish, GEN_LENGTH);
	for (engine_status(e, &st); st.pace.decode == 0; engine_status(e, &st))
		sched_yield(); /* the step ends when the answer has been told */
	assert_true(st.pace.decode < (double)held * 1e-9);
	warm_idle(e);
	engine_close(&e);
	ranks_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prompt_that_failed_beside_decoding_is_not_counted),
		cmocka_unit_test(waiting_for_a_comparison_is_not_taken_for_decoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
