/* SPDX-License-Identifier: MIT
 * generation.c - tests of generation.c: order and merging of events, waiting, and the end of notify calls.
 * Threads: a producer and a consumer; worth a ThreadSanitizer run. */
#include "engine/base/lock.h"
#include "engine/base/rc.h"
#include "engine/serve/generation_put.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 2000

static struct generation *generation_make(void (*notify)(void *), void *arg)
{
	struct generation_setup s = { .id = "g", .notify = notify, .arg = arg };

	return generation_new(&s);
}

static void generation_expect(struct generation *g, enum gen_event_kind kind, int call, const char *text)
{
	struct gen_event ev;

	assert_true(generation_next(g, &ev));
	assert_int_equal(ev.kind, kind);
	assert_int_equal(ev.call, call);
	if (text)
		assert_string_equal(ev.text, text);
	else
		assert_null(ev.text);
	assert_true((ev.kind == GEN_EV_TOOL_BEGIN) == (ev.tool_id != NULL));
	gen_event_fini(&ev);
}

static void adjacent_texts_merge_and_order_stays(void **state)
{
	struct generation *g = generation_make(NULL, NULL), *engine = g;
	struct gen_token_logprob lp = { 3, -1 }, top[2] = { { 3, -1 }, { 4, -2 } };
	char id[GENERATION_ID_MAX];
	struct gen_event ev;

	(void)state;
	generation_put_text(g, GEN_EV_REASONING, 0, "a", 1);
	generation_put_text(g, GEN_EV_REASONING, 0, "bc", 2);
	generation_put_text(g, GEN_EV_CONTENT, 0, "d", 1);
	generation_put_logprob(g, &lp, &(struct gen_place){ GEN_TEXT_REASONING, 7 }, top, 2);
	generation_put_text(g, GEN_EV_CONTENT, 0, "e", 1);
	generation_put_tool(g, 0, "f", 1, id);
	generation_put_text(g, GEN_EV_TOOL_ARGS, 0, "{", 1);
	generation_put_text(g, GEN_EV_TOOL_ARGS, 0, "}", 1);
	generation_put_tool_end(g, 0);
	generation_put_text(g, GEN_EV_TOOL_ARGS, 1, "{}", 2);
	generation_finish(g, GEN_STOP, 0, "eos");
	generation_release(&engine);
	generation_expect(g, GEN_EV_REASONING, 0, "abc");
	generation_expect(g, GEN_EV_CONTENT, 0, "d");
	assert_true(generation_next(g, &ev));
	assert_int_equal(ev.kind, GEN_EV_LOGPROB);
	assert_true(ev.lp_place.text == GEN_TEXT_REASONING && ev.lp_place.character == 7 && ev.n_top == 2 &&
		    ev.top[1].token == 4);
	gen_event_fini(&ev);
	generation_expect(g, GEN_EV_CONTENT, 0, "e");
	generation_expect(g, GEN_EV_TOOL_BEGIN, 0, "f");
	generation_expect(g, GEN_EV_TOOL_ARGS, 0, "{}");
	generation_expect(g, GEN_EV_TOOL_END, 0, NULL);
	generation_expect(g, GEN_EV_TOOL_ARGS, 1, "{}");
	generation_expect(g, GEN_EV_FINISH, 0, "eos");
	assert_false(generation_next(g, &ev));
	generation_unref(&g);
	assert_null(g);
}

static void waiting_ends_in_time(void **state)
{
	struct generation *g = generation_make(NULL, NULL), *engine = g;
	struct gen_event ev;

	(void)state;
	assert_int_equal(generation_wait(g, &ev, 1), -ETIMEDOUT);
	generation_finish(g, GEN_ERROR, -ENOMEM, "no memory");
	assert_int_equal(generation_wait(g, &ev, -1), 0);
	assert_int_equal(ev.rc, -ENOMEM);
	gen_event_fini(&ev);
	generation_release(&engine);
	generation_unref(&g);
}

static void generation_count(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* The consumer's own cancel silences notify; someone else's does not. Events come either way. */
static void cancel_mutes_and_stop_does_not(void **state)
{
	atomic_int calls = 0;
	struct generation *g = generation_make(generation_count, &calls), *engine = g;

	(void)state;
	generation_put_text(g, GEN_EV_CONTENT, 0, "x", 1);
	generation_flush(g);
	generation_flush(g); /* nothing new */
	assert_int_equal(calls, 1);
	generation_stop(g, RC_DRAINING);
	generation_stop(g, RC_CANCELLED);
	assert_int_equal(generation_stopped(g), RC_DRAINING);
	generation_put_text(g, GEN_EV_CONTENT, 0, "y", 1);
	generation_flush(g);
	assert_int_equal(calls, 2);
	generation_cancel(g);
	generation_cancel(g);
	generation_finish(g, GEN_CANCELLED, 0, "cancelled");
	assert_int_equal(calls, 2);
	generation_expect(g, GEN_EV_CONTENT, 0, "xy");
	generation_expect(g, GEN_EV_FINISH, 0, "cancelled");
	generation_release(&engine);
	generation_unref(&g);
}

static void a_full_backlog_wakes_when_read(void **state)
{
	atomic_int wakes = 0;
	struct generation_setup s = { .id = "g", .wake = generation_count, .wake_arg = &wakes };
	struct generation *g = generation_new(&s), *engine = g;
	int i;

	(void)state;
	for (i = 0; i < GENERATION_MAX_BACKLOG; i++) {
		assert_false(generation_backlogged(g));
		generation_put_tool_end(g, i);
	}
	assert_true(generation_backlogged(g));
	assert_int_equal(wakes, 0);
	generation_expect(g, GEN_EV_TOOL_END, 0, NULL);
	assert_false(generation_backlogged(g));
	assert_int_equal(wakes, 1);
	generation_expect(g, GEN_EV_TOOL_END, 1, NULL);
	assert_int_equal(wakes, 1);
	generation_unref(&g);
	generation_put_tool_end(engine, 0); /* dropped: nobody reads any more */
	assert_false(generation_backlogged(engine));
	generation_release(&engine);
}

static void bytes_fill_a_backlog_too(void **state)
{
	struct generation *g = generation_make(NULL, NULL), *engine = g;
	char text[GENERATION_MAX_BACKLOG_BYTES / 4];

	(void)state;
	memset(text, 'x', sizeof text);
	for (int i = 0; i < 4; i++) { /* one event: texts are merged */
		assert_false(generation_backlogged(g));
		generation_put_text(g, GEN_EV_CONTENT, 0, text, sizeof text);
	}
	assert_true(generation_backlogged(g));
	generation_unref(&g);
	assert_false(generation_backlogged(engine));
	generation_release(&engine);
}

static bool generation_full(void *arg)
{
	(void)arg;
	return true;
}

static void a_consumer_that_is_full_pauses_at_the_first_unread_event(void **state)
{
	atomic_int n[2] = { 0 }; /* notify's and full's; wake's */
	struct generation_setup s = { .id = "g", .notify = generation_count, .full = generation_full, .arg = &n[0],
				      .wake = generation_count, .wake_arg = &n[1] };
	struct generation *g = generation_new(&s), *engine = g;

	(void)state;
	for (int i = 0; i < 3; i++) {
		generation_put_tool_end(g, i);
		assert_false(generation_backlogged(g)); /* not asked yet */
		generation_flush(g);
		assert_true(generation_backlogged(g));
		assert_int_equal(n[1], i);
		generation_expect(g, GEN_EV_TOOL_END, i, NULL);
		assert_int_equal(n[1], i + 1);
		assert_false(generation_backlogged(g));
	}
	generation_unref(&g);
	generation_release(&engine);
}

static void *generation_produce(void *arg)
{
	struct generation *g = arg;
	int i;

	for (i = 0; i < 50 && !generation_stopped(g); i++) {
		generation_put_text(g, GEN_EV_CONTENT, 0, "t", 1);
		generation_flush(g);
	}
	generation_finish(g, generation_stopped(g) ? GEN_CANCELLED : GEN_STOP, 0, "eos");
	generation_release(&g);
	return NULL;
}

/* What the consumer's notify uses; freed the moment generation_unref returns. */
struct generation_client {
	struct lock lock;
	int calls;
	struct generation *drop; /* unref'd from inside notify */
};

static void generation_client_notify(void *arg)
{
	struct generation_client *c = arg;
	struct generation *drop;

	lock_take(&c->lock);
	c->calls++;
	drop = c->drop;
	c->drop = NULL;
	lock_drop(&c->lock);
	if (drop)
		generation_unref(&drop);
}

/* The classic race: the consumer goes away, with what notify uses, while the engine is about to notify. */
static void no_notify_after_unref(void **state)
{
	int i, k;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		struct generation_client *c = calloc(1, sizeof *c);
		struct generation *g;
		struct gen_event ev;
		pthread_t t;
		bool ended;

		lock_init(&c->lock, "client");
		g = generation_make(generation_client_notify, c);
		assert_int_equal(pthread_create(&t, NULL, generation_produce, g), 0);
		for (k = 0, ended = false; k < i % 7 && !ended; k++) {
			assert_int_equal(generation_wait(g, &ev, -1), 0);
			ended = ev.kind == GEN_EV_FINISH;
			gen_event_fini(&ev);
		}
		if (i % 3 == 0)
			generation_cancel(g);
		generation_unref(&g);
		lock_fini(&c->lock);
		memset(c, 0xff, sizeof *c);
		free(c);
		assert_int_equal(pthread_join(t, NULL), 0);
	}
}

static void unref_from_inside_notify(void **state)
{
	struct generation_client c = { 0 };
	struct generation *engine;

	(void)state;
	lock_init(&c.lock, "client");
	c.drop = engine = generation_make(generation_client_notify, &c);
	assert_null(generation_produce(engine));
	assert_int_equal(c.calls, 1);
	lock_fini(&c.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adjacent_texts_merge_and_order_stays),
		cmocka_unit_test(waiting_ends_in_time),
		cmocka_unit_test(cancel_mutes_and_stop_does_not),
		cmocka_unit_test(a_full_backlog_wakes_when_read),
		cmocka_unit_test(bytes_fill_a_backlog_too),
		cmocka_unit_test(a_consumer_that_is_full_pauses_at_the_first_unread_event),
		cmocka_unit_test(no_notify_after_unref),
		cmocka_unit_test(unref_from_inside_notify),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
