/* SPDX-License-Identifier: MIT
 * activate.c - tests of engine_activate() on the tiny model: set and numerics as one, and running requests that
 * go on with another set between two steps, or are told why they cannot.
 * Threads: this one and the engine's, which a test holds inside a step. */
#include "engine/base/rc.h"
#include "engine/engine.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int32_t test_prompt[] = { 300, 301, 302, 303, 304, 305, 306, 307 };

/* ---- a kernel that stops the engine in the middle of a step ---- */

/* hc_head runs once in every step that ends in a token. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int calls, hold_at;        /* the call that waits, counted from 1; 0: none */
	bool held;
} gate = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static int gate_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	pthread_mutex_lock(&gate.mutex);
	if (++gate.calls == gate.hold_at) {
		gate.held = true;
		pthread_cond_broadcast(&gate.cond);
		while (gate.held)
			pthread_cond_wait(&gate.cond, &gate.mutex);
	}
	pthread_mutex_unlock(&gate.mutex);
	return ref_hc_head(x, host, a);
}

static void gate_set(int hold_at)
{
	pthread_mutex_lock(&gate.mutex);
	gate.calls = 0;
	gate.hold_at = hold_at;
	pthread_mutex_unlock(&gate.mutex);
}

static void gate_wait(void)
{
	pthread_mutex_lock(&gate.mutex);
	while (!gate.held)
		pthread_cond_wait(&gate.cond, &gate.mutex);
	pthread_mutex_unlock(&gate.mutex);
}

static void gate_open(void)
{
	pthread_mutex_lock(&gate.mutex);
	gate.held = false;
	gate.hold_at = 0;
	pthread_cond_broadcast(&gate.cond);
	pthread_mutex_unlock(&gate.mutex);
}

static int failing_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	(void)x, (void)host, (void)a;
	return -5;
}

/* ---- sets ---- */

ODDPLUG(gated, ODDPLUG_OP(hc_head, EXACT, "fp32", gate_hc_head));
ODDPLUG(other, ODDPLUG_OP(hc_head, EXACT, "fp32", ref_hc_head));
ODDPLUG(lossy, ODDPLUG_OP(attn, EXACT, "bf16-scores", ref_attn));
ODDPLUG(failing, ODDPLUG_OP(hc_head, EXACT, "fp32", failing_hc_head));
static struct provider *test_plugins[] = { &gated, &other, &lossy, &failing, NULL };

static int test_init(void **state)
{
	(void)state;
	oddplug_init(test_plugins);
	return 0;
}

/* ---- the engine ---- */

static struct engine *test_open(const struct engine_options *with)
{
	const char *top = getenv("top_srcdir");
	struct engine_options o = with ? *with : (struct engine_options){ 0 };
	struct engine *e = NULL;
	struct buf why = { 0 };
	char dir[4096];

	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	o.model_dir = dir;
	if (engine_open(&o, &e, &why))
		fail_msg("%s", buf_str(&why));
	return e;
}

static struct generation *test_submit(struct engine *e, const char *id, int max_tokens)
{
	struct generation_spec s = { .id = id, .tokens = test_prompt, .n_tokens = 8, .max_tokens = max_tokens };
	struct generation *g = NULL;
	struct buf why = { 0 };

	s.sampling.top_p = 1;
	s.sampling.repetition_penalty = 1;
	s.sampling.ignore_eos = true;
	s.sampling.logprobs = true;
	if (engine_submit(e, &s, &g, &why))
		fail_msg("%s", buf_str(&why));
	return g;
}

/* Reads to the end and lets go; the sum of the logprobs tells answers apart. */
static double test_read(struct generation **g, enum gen_finish finish)
{
	struct gen_event ev;
	double sum = 0;
	bool end = false;

	while (!end) {
		assert_int_equal(generation_wait(*g, &ev, -1), 0);
		if (ev.kind == GEN_EV_LOGPROB)
			sum += (double)ev.lp.logprob;
		end = ev.kind == GEN_EV_FINISH;
		if (end)
			assert_int_equal(ev.finish, finish);
		gen_event_fini(&ev);
	}
	generation_unref(g);
	return sum;
}

static void test_activate(struct engine *e, const char *spec, bool at_step)
{
	struct kset *ks = oddplug_set(test_plugins, spec);
	struct buf why = { 0 };

	if (engine_activate(e, &ks, NULL, at_step, &why))
		fail_msg("%s", buf_str(&why));
	assert_null(ks);
}

static void test_refused(struct engine *e, const char *spec, const char *text)
{
	struct kset *ks = oddplug_set(test_plugins, spec), *mine = ks, *before = engine_kset(e), *after;
	struct engine_status s, t;
	struct buf why = { 0 };

	engine_status(e, &s);
	assert_int_equal(engine_activate(e, &ks, NULL, true, &why), RC_INVALID);
	assert_string_equal(buf_str(&why), text);
	assert_ptr_equal(ks, mine);
	engine_status(e, &t);
	assert_int_equal(t.epoch, s.epoch);
	after = engine_kset(e);
	assert_ptr_equal(after, before);
	kset_unpin(&ks);
	kset_unpin(&before);
	kset_unpin(&after);
	buf_fini(&why);
}

static void test_kernels(struct engine *e, const char *id, const char *text)
{
	struct record *r = engine_record(e, id);
	struct buf b = { 0 };

	assert_non_null(r);
	record_kernels(r, &b);
	assert_string_equal(buf_str(&b), text);
	record_unref(&r);
	buf_fini(&b);
}

static uint64_t test_epoch(struct engine *e)
{
	struct engine_status s;

	engine_status(e, &s);
	return s.epoch;
}

/* ---- set and numerics ---- */

static void set_and_numerics_are_one_change(void **state)
{
	struct engine *e = test_open(NULL);
	struct kset *ks = oddplug_set(test_plugins, "mhc=other"), *again = oddplug_set(test_plugins, "mhc=other"), *now;
	struct numerics n;

	(void)state;
	engine_numerics(e, &n);
	assert_int_equal(numerics_set(&n, "index_topk", "5", NULL), 0);
	assert_int_equal(numerics_set(&n, "act_quant", "none", NULL), 0);
	assert_int_equal(engine_activate(e, &ks, &n, false, NULL), 0);
	assert_int_equal(test_epoch(e), 2);
	engine_numerics(e, &n);
	assert_int_equal(n.index_topk, 5);
	ks = again;
	assert_int_equal(engine_activate(e, &again, &n, false, NULL), 0);
	assert_int_equal(test_epoch(e), 2); /* built anew, but slot by slot the same */
	now = engine_kset(e);
	assert_ptr_equal(now, ks);
	kset_unpin(&now);
	assert_int_equal(numerics_set(&n, "drop_thinking", "never", NULL), 0);
	ks = engine_kset(e);
	assert_int_equal(engine_activate(e, &ks, &n, false, NULL), 0);
	assert_int_equal(test_epoch(e), 2); /* renders prompts; gives no other numbers */
	assert_int_equal(numerics_set(&n, "index_topk", "6", NULL), 0);
	ks = engine_kset(e);
	assert_int_equal(engine_activate(e, &ks, &n, false, NULL), 0);
	assert_int_equal(test_epoch(e), 3);
	engine_close(&e);
}

/* ---- at a step ---- */

static atomic_int test_gone;

static void test_unused(void *arg, struct kset *ks)
{
	atomic_fetch_add(&test_gone, 1);
	*(struct kset **)arg = ks;
}

static void a_running_answer_goes_on_with_the_new_set(void **state)
{
	struct engine *e = test_open(NULL);
	struct generation *g = test_submit(e, "plain", 12);
	double plain = test_read(&g, GEN_LENGTH);
	struct kset *ks = oddplug_set(test_plugins, "mhc=gated"), *freed = NULL;
	struct record_set *sets;
	struct record *r;

	(void)state;
	test_kernels(e, "plain", "ref");
	kset_when_unused(ks, test_unused, &freed);
	assert_int_equal(engine_activate(e, &ks, NULL, false, NULL), 0);
	gate_set(5);
	g = test_submit(e, "swapped", 12);
	gate_wait(); /* the fifth token is being computed */
	test_activate(e, "mhc=other", true);
	assert_int_equal(atomic_load(&test_gone), 0);
	gate_open();
	assert_true(test_read(&g, GEN_LENGTH) == plain);
	assert_int_equal(atomic_load(&test_gone), 1); /* told of, not freed, by whoever let go last */
	kset_free(&freed);
	test_kernels(e, "swapped", "mhc=gated, from output token 5 mhc=other");
	r = engine_record(e, "swapped");
	assert_int_equal(record_sets(r, &sets), 2);
	assert_int_equal(sets[0].output, 0);
	assert_int_equal(sets[1].prompt, 8);
	assert_int_equal(sets[1].output, 5);
	assert_int_equal(sets[1].epoch, test_epoch(e));
	assert_true(sets[1].generation > sets[0].generation);
	free(sets);
	record_unref(&r);
	engine_close(&e);
}

static void without_at_step_a_running_answer_keeps_its_set(void **state)
{
	struct engine *e = test_open(NULL);
	struct generation *g;

	(void)state;
	test_activate(e, "mhc=gated", false);
	gate_set(2);
	g = test_submit(e, "kept", 6);
	gate_wait();
	test_activate(e, "mhc=other", false);
	gate_open();
	test_read(&g, GEN_LENGTH);
	test_kernels(e, "kept", "mhc=gated");
	g = test_submit(e, "next", 2);
	test_read(&g, GEN_LENGTH);
	test_kernels(e, "next", "mhc=other");
	engine_close(&e);
}

static void a_waiting_request_never_runs_under_the_old_set(void **state)
{
	struct engine_options o = { .max_running = 1 };
	struct engine *e = test_open(&o);
	struct generation *g, *waits;

	(void)state;
	test_activate(e, "mhc=gated", false);
	gate_set(1);
	g = test_submit(e, "runs", 3);
	gate_wait();
	waits = test_submit(e, "waits", 2);
	test_activate(e, "mhc=other", true);
	test_activate(e, "mhc=ref", true); /* before anything ran under the other */
	gate_open();
	test_read(&g, GEN_LENGTH);
	test_read(&waits, GEN_LENGTH);
	test_kernels(e, "runs", "mhc=gated, from output token 1 ref");
	test_kernels(e, "waits", "ref");
	engine_close(&e);
}

static void what_differs_is_named_and_nothing_changes(void **state)
{
	struct engine *e = test_open(NULL);
	struct generation *g;

	(void)state;
	test_refused(e, "attention.decode=lossy",
		"attention.decode: fp32 in the active set, bf16-scores in the new one");
	test_activate(e, "attention.decode=lossy", false);
	test_refused(e, "mhc=other",
		"attention.decode: bf16-scores in the active set, fp32 in the new one");
	test_activate(e, "mhc=gated", false);
	gate_set(2);
	g = test_submit(e, "old", 4);
	gate_wait();
	test_activate(e, "attention.decode=lossy", false);
	test_refused(e, "attention.decode=lossy",
		"attention.decode: fp32 in the set of request old, bf16-scores in the new one");
	test_activate(e, "mhc=other", false);
	assert_int_equal(engine_numerics_set(e, "index_topk", "7", NULL), 0);
	test_refused(e, "mhc=ref", "index_topk: 32 in the set of request old, 7 in the new one");
	gate_open();
	test_read(&g, GEN_LENGTH);
	test_kernels(e, "old", "mhc=gated");
	test_activate(e, "mhc=ref", true); /* the request is gone, and with it the reason */
	engine_close(&e);
}

/* ---- what a set has shown ---- */

static void steps_and_failures_are_the_active_sets(void **state)
{
	struct engine *e = test_open(NULL);
	struct engine_status s;
	struct generation *g;

	(void)state;
	test_activate(e, "mhc=other", false);
	g = test_submit(e, NULL, 5);
	test_read(&g, GEN_LENGTH);
	engine_status(e, &s);
	assert_int_equal(s.set_steps, 5); /* the prompt's gives the first token */
	assert_int_equal(s.set_failures, 0);
	test_activate(e, "mhc=failing", false);
	g = test_submit(e, NULL, 5);
	test_read(&g, GEN_ERROR);
	engine_status(e, &s);
	assert_int_equal(s.set_steps, 0);
	assert_int_equal(s.set_failures, 1);
	test_activate(e, "mhc=ref", true);
	engine_status(e, &s);
	assert_int_equal(s.set_failures, 0);
	assert_int_equal(s.kernel_failures, 1);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_and_numerics_are_one_change),
		cmocka_unit_test(a_running_answer_goes_on_with_the_new_set),
		cmocka_unit_test(without_at_step_a_running_answer_keeps_its_set),
		cmocka_unit_test(a_waiting_request_never_runs_under_the_old_set),
		cmocka_unit_test(what_differs_is_named_and_nothing_changes),
		cmocka_unit_test(steps_and_failures_are_the_active_sets),
	};
	return cmocka_run_group_tests(tests, test_init, NULL);
}
