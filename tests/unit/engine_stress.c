/* SPDX-License-Identifier: MIT
 * engine_stress.c - 200 random requests from several threads, cancelled at random, must leave nothing behind.
 * Threads: four consumers and the engine's; made for the sanitizer builds. */
#include "engine/base/lock.h"
#include "engine/base/rc.h"
#include "engine/engine.h"
#include "engine/serve/rng.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 4
#define REQUESTS 50 /* per thread */
#define PROMPT 24
#define COMMON 150 /* tokens with which every other prompt begins, so that the cache has something to share */
#define ANSWER 8

/* What the stress wants of one request, drawn from its number. */
enum stress_manner {
	STRESS_READ,       /* to the end */
	STRESS_LEAVE,      /* unref after some events */
	STRESS_CANCEL,     /* generation_cancel, then read on to FINISH */
	STRESS_CANCEL_ID,  /* as the control socket does */
	STRESS_N_MANNER
};

struct stress_thread {
	struct engine *engine;
	pthread_t thread;
	int number;
	atomic_int finishes, broken; /* FINISH events seen; rules found broken */
};

/* Freed as soon as the generation is unref'd, so that a late notify call shows. */
struct stress_client {
	struct lock lock;
	int calls;
};

static uint32_t stress_random(uint64_t seed, uint32_t below)
{
	uint32_t x[4];

	rng_block(seed, 99, x);
	return x[0] % below;
}

static void stress_notify(void *arg)
{
	struct stress_client *c = arg;

	lock_take(&c->lock);
	c->calls++;
	lock_drop(&c->lock);
}

static void stress_read(struct stress_thread *t, struct generation *g, int events)
{
	struct gen_event ev;
	bool end = false;

	while (!end && events-- != 0) {
		if (generation_wait(g, &ev, 120000)) {
			atomic_fetch_add(&t->broken, 1);
			return;
		}
		end = ev.kind == GEN_EV_FINISH;
		gen_event_fini(&ev);
	}
	atomic_fetch_add(&t->finishes, end);
	atomic_fetch_add(&t->broken, end && generation_next(g, &ev));
}

static void stress_spec(uint64_t seed, struct generation_spec *s, int32_t *prompt)
{
	int i;

	memset(s, 0, sizeof *s);
	s->tokens = prompt;
	if (stress_random(seed + 13, 2))
		while (s->n_tokens < COMMON)
			prompt[s->n_tokens++] = 300;
	for (i = 1 + (int)stress_random(seed, PROMPT); i > 0; i--)
		prompt[s->n_tokens++] = 260 + (int32_t)stress_random(seed + 7 * (uint64_t)i, 1700);
	s->max_tokens = 1 + (int)stress_random(seed + 1, ANSWER);
	s->parse = stress_random(seed + 2, 2);
	s->sampling.temperature = (float)stress_random(seed + 3, 3) / 2;
	s->sampling.top_p = 0.5f + (float)stress_random(seed + 4, 2) / 2;
	s->sampling.top_k = (int)stress_random(seed + 5, 3) * 20;
	s->sampling.repetition_penalty = 1 + (float)stress_random(seed + 6, 2) / 4;
	s->sampling.logprobs = stress_random(seed + 8, 2);
	s->sampling.top_logprobs = s->sampling.logprobs ? (int)stress_random(seed + 9, 5) : 0;
	s->sampling.ignore_eos = stress_random(seed + 10, 2);
}

static void stress_consume(struct stress_thread *t, struct generation *g, uint64_t seed)
{
	switch ((enum stress_manner)stress_random(seed + 11, STRESS_N_MANNER)) {
	case STRESS_LEAVE:
		stress_read(t, g, (int)stress_random(seed + 12, 4));
		return;
	case STRESS_CANCEL:
		generation_cancel(g);
		break;
	case STRESS_CANCEL_ID:
		engine_cancel(t->engine, generation_id(g), RC_CANCELLED);
		break;
	case STRESS_READ:
	case STRESS_N_MANNER:
		break;
	}
	stress_read(t, g, -1);
}

static void *stress_run(void *arg)
{
	struct stress_thread *t = arg;
	int i;

	for (i = 0; i < REQUESTS; i++) {
		uint64_t seed = ((uint64_t)t->number << 32) + 1000 * (uint64_t)i;
		struct stress_client *c = calloc(1, sizeof *c);
		struct generation_spec s;
		struct generation *g;
		int32_t prompt[COMMON + PROMPT];
		int rc;

		lock_init(&c->lock, "client");
		stress_spec(seed, &s, prompt);
		s.notify = stress_notify;
		s.arg = c;
		while ((rc = engine_submit(t->engine, &s, &g, NULL)) == RC_BUSY)
			sched_yield();
		if (rc == 0) {
			stress_consume(t, g, seed);
			generation_unref(&g);
		}
		atomic_fetch_add(&t->broken, rc != 0);
		lock_fini(&c->lock);
		memset(c, 0xff, sizeof *c);
		free(c);
	}
	return NULL;
}

/* While it runs, someone looks at everything there is to see. */
static void stress_watch(struct engine *e)
{
	struct record *r[64];
	struct record_view v;
	struct engine_status st;
	struct buf b = { 0 };
	int n, i, n_prompt;

	engine_status(e, &st);
	n = engine_records(e, r, 64);
	for (i = 0; i < n; i++) {
		int32_t *ids;

		record_view(r[i], &v);
		record_tokens(r[i], &ids, &n_prompt);
		record_output(r[i], &b);
		free(ids);
		record_unref(&r[i]);
	}
	buf_fini(&b);
}

static void nothing_is_left_behind(void **state)
{
	const char *top = getenv("top_srcdir");
	struct engine_options o = { .prefill_chunk = 32, .max_running = 6, .max_queued = 3, .n_threads = 2,
				    .ring_requests = 20, .cache_bytes = 500 << 10 };
	struct stress_thread t[THREADS];
	struct engine *e = NULL;
	struct engine_status st;
	struct cache_stats c;
	struct buf why = { 0 };
	char dir[4096];
	int i;

	(void)state;
	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	o.model_dir = dir;
	if (engine_open(&o, &e, &why))
		fail_msg("%s", buf_str(&why));
	memset(t, 0, sizeof t);
	for (i = 0; i < THREADS; i++) {
		t[i].engine = e;
		t[i].number = i;
		assert_int_equal(pthread_create(&t[i].thread, NULL, stress_run, &t[i]), 0);
	}
	for (i = 0; i < 200; i++) {
		struct kset *ks;

		stress_watch(e);
		engine_numerics_set(e, "index_topk", i % 2 ? "8" : "32", NULL);
		engine_speculate(e, i % 3, NULL);
		/* At a step it is refused as long as a request has the other top-k; then its pin is still ours. */
		assert_int_equal(kset_build(NULL, 0, &ks, &why), 0);
		engine_activate(e, &ks, NULL, i % 4 > 1, NULL);
		kset_unpin(&ks);
		sched_yield();
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(t[i].thread, NULL), 0);
		assert_int_equal(t[i].broken, 0);
		assert_true(t[i].finishes > 0);
	}
	/* The last to leave may not have been noticed yet. */
	for (engine_status(e, &st); st.running + st.queued > 0; engine_status(e, &st))
		sched_yield();
	assert_int_equal(st.requests, THREADS * REQUESTS);
	assert_int_equal(st.finished, st.requests);
	assert_int_equal(st.errors, 0);
	assert_true(st.cancelled > 0);
	assert_int_equal(st.state_bytes, 0);
	cache_stats(engine_cache(e), &c);
	assert_int_equal(c.pinned, 0);
	assert_true(c.bytes <= c.budget && c.published > 0 && c.tokens_reused > 0);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
