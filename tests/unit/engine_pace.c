/* SPDX-License-Identifier: MIT
 * engine_pace.c - what the engine learns of prompts beside decoding: from those that were computed, not from those that
 * a kernel failed on.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/warmkit.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prompt_that_failed_beside_decoding_is_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
