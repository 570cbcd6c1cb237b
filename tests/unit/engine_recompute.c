/* SPDX-License-Identifier: MIT
 * engine_recompute.c - tests of tokens computed afresh beside requests: whose memory it is, and who waits for whom.
 * Threads: this one, the engine's, and one that recomputes; made for the sanitizer builds, too. */
#include "engine/base/rc.h"
#include "engine/serve/generation_put.h"
#include "tests/unit/warmkit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Room for a request of 1,900 tokens, with a state for the cache, and one of 40 beside it; not for 600 more. */
static struct engine *test_open(double patience)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH };
	struct engine *e = warm_open(&o);
	struct sequence_layout l;

	sequence_layout_init(&l, engine_config(e));
	engine_close(&e);
	o.state_bytes = sequence_layout_bytes(&l, 1900) + sequence_state_bytes(&l, 1792) +
		sequence_layout_bytes(&l, 40);
	o.recompute_patience = patience;
	return warm_open(&o);
}

/* ---- a request that stays ---- */

static _Atomic(struct generation *) test_flooded;

/* On the engine thread, after the first token: as much as a consumer that does not read lets pile up. */
static void test_flood(void *arg)
{
	const struct gen_token_logprob lp = { .token = 1 };
	struct generation *g = atomic_exchange(&test_flooded, NULL);

	(void)arg;
	for (int i = 0; g && i < GENERATION_MAX_BACKLOG; i++)
		generation_put_logprob(g, &lp, &(struct gen_place){ 0 }, NULL, 0);
}

/* It has its memory, and is paused for ever: nobody reads it. */
static struct generation *test_paused(struct engine *e)
{
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct generation *g;

	warm_grow(&p, 1, 200);
	s = warm_spec(&p, 1700);
	s.notify = test_flood;
	g = warm_submit(e, &s);
	atomic_store(&test_flooded, g);
	while (!generation_backlogged(g))
		;
	return g;
}

static void test_leave(struct generation **g)
{
	struct gen_event ev = { .kind = GEN_EV_CONTENT };

	generation_cancel(*g);
	while (ev.kind != GEN_EV_FINISH) {
		gen_event_fini(&ev);
		assert_int_equal(generation_wait(*g, &ev, -1), 0);
	}
	gen_event_fini(&ev);
	generation_unref(g);
}

/* ---- one that recomputes beside it ---- */

struct test_recompute {
	struct engine *e;
	struct warm_prompt p;
	atomic_bool begun, done, cancel;
	int rc;
	pthread_t thread;
};

static void *test_recompute(void *arg)
{
	struct test_recompute *t = arg;
	struct sequence *s = NULL;
	struct buf why = { 0 };

	atomic_store(&t->begun, true);
	t->rc = engine_recompute(t->e, t->p.token, t->p.n, &t->cancel, &s, &why);
	atomic_store(&t->done, true);
	sequence_free(&s);
	buf_fini(&why);
	return NULL;
}

static void test_begin(struct test_recompute *t)
{
	warm_grow(&t->p, 2, 600);
	assert_int_equal(pthread_create(&t->thread, NULL, test_recompute, t), 0);
	while (!atomic_load(&t->begun))
		;
}

/* ---- tests ---- */

static void a_recomputation_that_waits_stops_no_request(void **state)
{
	struct test_recompute t = { .e = test_open(600) };
	struct generation *paused = test_paused(t.e);
	struct warm_prompt p = { .n = 0 };

	(void)state;
	test_begin(&t);
	warm_grow(&p, 3, 30);
	for (int i = 0; i < 10; i++)
		warm_ask(t.e, &p, 5);
	assert_false(atomic_load(&t.done)); /* there never was room for it */
	atomic_store(&t.cancel, true);
	assert_int_equal(pthread_join(t.thread, NULL), 0);
	assert_int_equal(t.rc, RC_CANCELLED);
	test_leave(&paused);
	warm_idle(t.e);
	engine_close(&t.e);
}

static void a_recomputation_has_the_memory_that_requests_leave(void **state)
{
	struct test_recompute t = { .e = test_open(600) };
	struct generation *paused = test_paused(t.e);

	(void)state;
	test_begin(&t);
	test_leave(&paused);
	assert_int_equal(pthread_join(t.thread, NULL), 0);
	assert_int_equal(t.rc, 0);
	warm_idle(t.e);
	engine_close(&t.e);
}

static void a_recomputation_without_room_says_busy(void **state)
{
	struct engine *e = test_open(0.01);
	struct generation *paused = test_paused(e);
	struct warm_prompt p = { .n = 0 };
	struct sequence *s = NULL;
	struct buf why = { 0 };
	atomic_bool cancel = true;

	(void)state;
	warm_grow(&p, 4, 600);
	assert_int_equal(engine_recompute(e, p.token, p.n, NULL, &s, &why), RC_BUSY);
	assert_non_null(strstr(buf_str(&why), "waited 0.01 s for the memory that 1 requests have"));
	buf_clear(&why);
	assert_int_equal(engine_recompute(e, p.token, p.n, &cancel, &s, &why), RC_CANCELLED);
	assert_non_null(strstr(buf_str(&why), "while it waited for the memory that 1 requests have"));
	assert_null(s);
	test_leave(&paused);
	assert_int_equal(engine_recompute(e, p.token, p.n, NULL, &s, &why), 0);
	assert_int_equal(sequence_pos(s), 600);
	sequence_free(&s);
	buf_fini(&why);
	warm_idle(e);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recomputation_that_waits_stops_no_request),
		cmocka_unit_test(a_recomputation_has_the_memory_that_requests_leave),
		cmocka_unit_test(a_recomputation_without_room_says_busy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
