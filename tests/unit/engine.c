/* SPDX-License-Identifier: MIT
 * engine.c - tests of the engine's boundary on the tiny model: limits, ends, pins, faults of one and of all.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "engine/engine.h"
#include "plugins/ref/ref.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int32_t test_prompt[] = { 300, 301, 302, 303, 304, 305, 306, 307 };

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

/* Greedy, from raw tokens, never ended by the end-of-sentence token. */
static struct generation_spec test_spec(int max_tokens)
{
	struct generation_spec s = { .tokens = test_prompt, .n_tokens = 8, .max_tokens = max_tokens };

	s.sampling.top_p = 1;
	s.sampling.repetition_penalty = 1;
	s.sampling.ignore_eos = true;
	return s;
}

static struct generation *test_submit(struct engine *e, const struct generation_spec *s)
{
	struct generation *g = NULL;
	struct buf why = { 0 };

	if (engine_submit(e, s, &g, &why))
		fail_msg("%s", buf_str(&why));
	return g;
}

struct test_answer {
	struct buf text;
	enum gen_finish finish;
	int rc, n_logprob, finishes;
	double logprob;            /* sum */
	char detail[128];
};

/* Reads to the end and lets go. */
static struct test_answer test_read(struct generation **g)
{
	struct test_answer a = { 0 };
	struct gen_event ev;

	while (!a.finishes) {
		assert_int_equal(generation_wait(*g, &ev, -1), 0);
		if (ev.kind == GEN_EV_CONTENT)
			buf_add(&a.text, ev.text, ev.len);
		if (ev.kind == GEN_EV_LOGPROB) {
			a.n_logprob++;
			a.logprob += (double)ev.lp.logprob;
		}
		if (ev.kind == GEN_EV_FINISH) {
			a.finishes++;
			a.finish = ev.finish;
			a.rc = ev.rc;
			snprintf(a.detail, sizeof a.detail, "%s", ev.text);
		}
		gen_event_fini(&ev);
	}
	assert_false(generation_next(*g, &ev));
	generation_unref(g);
	return a;
}

static struct test_answer test_ask(struct engine *e, const struct generation_spec *s)
{
	struct generation *g = test_submit(e, s);

	return test_read(&g);
}

static void test_refused(struct engine *e, const struct generation_spec *s, int rc, const char *text)
{
	struct generation *g = NULL;
	struct buf why = { 0 };

	assert_int_equal(engine_submit(e, s, &g, &why), rc);
	assert_null(g);
	if (!strstr(buf_str(&why), text))
		fail_msg("'%s' lacks '%s'", buf_str(&why), text);
	buf_fini(&why);
}

/* ---- ends and limits ---- */

static void every_end_has_its_detail(void **state)
{
	struct engine_options o = { .max_context = 12 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(3);
	struct test_answer a = test_ask(e, &s);
	char first[2] = { 0 };
	const char *stop[1] = { first };

	(void)state;
	assert_int_equal(a.finish, GEN_LENGTH);
	assert_string_equal(a.detail, "max_tokens");
	assert_true(a.text.len > 0);
	memcpy(first, a.text.data + a.text.len - 1, 1);
	buf_fini(&a.text);
	s.max_tokens = 0;
	a = test_ask(e, &s);
	assert_int_equal(a.finish, GEN_LENGTH);
	assert_string_equal(a.detail, "context");
	buf_fini(&a.text);
	s.max_tokens = 3;
	s.sampling.stop = stop;
	s.sampling.n_stop = 1;
	a = test_ask(e, &s);
	assert_int_equal(a.finish, GEN_STOP);
	assert_string_equal(a.detail, "stop_string");
	assert_null(strstr(buf_str(&a.text), first));
	buf_fini(&a.text);
	engine_close(&e);
}

static void what_cannot_be_served_is_refused_by_name(void **state)
{
	static const int32_t bad[] = { 5, -1 };
	static int32_t many[64];
	struct engine_options o = { .max_context = 40, .state_bytes = 1 << 20 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(3);

	(void)state;
	s.tokens = bad;
	s.n_tokens = 2;
	test_refused(e, &s, RC_INVALID, "prompt[1]");
	s.n_tokens = 0;
	test_refused(e, &s, RC_INVALID, "prompt: empty");
	s.tokens = NULL;
	test_refused(e, &s, RC_INVALID, "messages");
	s.tokens = many;
	s.n_tokens = 64;
	test_refused(e, &s, RC_CONTEXT, "prompt 64 exceeds context 40");
	s.n_tokens = 40;
	test_refused(e, &s, RC_CONTEXT, "prompt 40 exceeds context 40");
	s = test_spec(3);
	s.sampling.temperature = NAN;
	test_refused(e, &s, RC_INVALID, "temperature");
	engine_close(&e);
	o = (struct engine_options){ .state_bytes = 1 << 16 };
	e = test_open(&o);
	s = test_spec(16000);
	test_refused(e, &s, RC_TOO_LARGE, "max_tokens");
	engine_close(&e);
}

static void a_full_queue_is_busy_and_drain_is_draining(void **state)
{
	struct engine_options o = { .max_running = 1, .max_queued = 2 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(200);
	struct generation *g[16] = { NULL };
	struct engine_status st;
	struct buf why = { 0 };
	struct test_answer a;
	int n = 0, rc;

	(void)state;
	do
		rc = engine_submit(e, &s, &g[n++], &why);
	while (rc == 0 && n < 16);
	assert_int_equal(rc, RC_BUSY); /* one may run, two wait */
	assert_true(n == 3 || n == 4);
	engine_drain(e);
	test_refused(e, &s, RC_DRAINING, "draining");
	engine_status(e, &st);
	assert_true(st.draining && st.running + st.queued == n - 1);
	while (--n > 0) {
		generation_cancel(g[n - 1]);
		a = test_read(&g[n - 1]);
		assert_int_equal(a.finish, GEN_CANCELLED);
		buf_fini(&a.text);
	}
	engine_resume(e);
	s.max_tokens = 2;
	a = test_ask(e, &s);
	assert_int_equal(a.finish, GEN_LENGTH);
	buf_fini(&a.text);
	engine_status(e, &st);
	assert_int_equal(st.state_bytes, 0);
	buf_fini(&why);
	engine_close(&e);
}

static void several_answers_are_admitted_all_or_none(void **state)
{
	struct engine_options o = { .max_running = 1, .max_queued = 3 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(2), of_four = test_spec(2);
	struct generation *g[4];
	struct engine_status st;
	struct buf why = { 0 };
	struct test_answer a;

	(void)state;
	of_four.reserved = true;
	assert_int_equal(engine_reserve(e, 5, &why), RC_INVALID); /* one may run, three wait */
	assert_int_equal(engine_reserve(e, 2, &why), 0);
	assert_int_equal(engine_reserve(e, 3, &why), RC_BUSY);
	assert_int_equal(engine_reserve(e, 2, &why), 0);
	engine_status(e, &st);
	assert_int_equal(st.queued, 0);             /* nobody waits that is not there */
	test_refused(e, &s, RC_BUSY, "waiting");    /* and nobody takes what is held */
	for (int i = 0; i < 4; i++)
		g[i] = test_submit(e, &of_four);
	for (int i = 0; i < 4; i++) {
		a = test_read(&g[i]);
		assert_int_equal(a.finish, GEN_LENGTH);
		buf_fini(&a.text);
	}
	assert_int_equal(engine_reserve(e, 3, &why), 0);
	engine_unreserve(e, 3);
	a = test_ask(e, &s);
	assert_int_equal(a.finish, GEN_LENGTH);
	buf_fini(&a.text);
	engine_drain(e);
	assert_int_equal(engine_reserve(e, 1, &why), RC_DRAINING);
	buf_fini(&why);
	engine_close(&e);
}

static void as_many_answers_as_there_are_free_places_are_not_refused_for_a_short_queue(void **state)
{
	struct engine_options o = { .max_running = 4, .max_queued = 1 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(2);
	struct generation *g[5];
	struct buf why = { 0 };
	struct test_answer a;

	(void)state;
	s.reserved = true;
	assert_int_equal(engine_reserve(e, 6, &why), RC_INVALID);
	assert_int_equal(engine_reserve(e, 5, &why), 0);
	for (int i = 0; i < 5; i++)
		g[i] = test_submit(e, &s);
	for (int i = 0; i < 5; i++) {
		a = test_read(&g[i]);
		assert_int_equal(a.finish, GEN_LENGTH);
		buf_fini(&a.text);
	}
	buf_fini(&why);
	engine_close(&e);
}

/* Who read the first to its end may keep it, as one that waits for all answers to a request does. */
static void a_place_that_is_free_wakes_who_waits_though_nothing_runs(void **state)
{
	struct engine_options o = { .max_running = 1 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(2);
	struct generation *g[2] = { test_submit(e, &s), test_submit(e, &s) };
	struct engine_status st;

	(void)state;
	do
		engine_status(e, &st);
	while (st.finished < 2);
	generation_unref(&g[0]);
	generation_unref(&g[1]);
	engine_close(&e);
}

/* Memory for one at a time: all are answered, one after the other. */
static void admission_waits_for_memory(void **state)
{
	struct engine_options o = { .state_bytes = 700 << 10 };
	struct engine *e = test_open(&o);
	struct generation_spec s = test_spec(40);
	struct generation *g[4];
	struct test_answer a;
	int i;

	(void)state;
	for (i = 0; i < 4; i++)
		g[i] = test_submit(e, &s);
	for (i = 0; i < 4; i++) {
		struct engine_status st;

		engine_status(e, &st);
		assert_true(st.state_bytes <= o.state_bytes);
		a = test_read(&g[i]);
		assert_int_equal(a.finish, GEN_LENGTH);
		buf_fini(&a.text);
	}
	engine_close(&e);
}

static void test_count(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void cancel_by_id_tells_the_consumer(void **state)
{
	struct engine *e = test_open(NULL);
	struct generation_spec s = test_spec(0);
	struct record_view v;
	struct record *r;
	struct generation *g;
	struct test_answer a;
	atomic_int calls = 0;

	(void)state;
	s.id = "mine";
	s.notify = test_count;
	s.arg = &calls;
	assert_int_equal(engine_cancel(e, "mine", RC_CANCELLED), RC_NOT_FOUND);
	g = test_submit(e, &s);
	assert_string_equal(generation_id(g), "mine");
	assert_int_equal(engine_cancel(e, "mine", RC_CANCELLED), 0);
	a = test_read(&g);
	assert_int_equal(a.finish, GEN_CANCELLED);
	assert_true(calls > 0);
	r = engine_record(e, "mine");
	record_view(r, &v);
	assert_int_equal(v.finish, GEN_CANCELLED);
	record_unref(&r);
	buf_fini(&a.text);
	engine_close(&e);
}

/* ---- pins, seeds, records ---- */

static void numerics_are_pinned_and_recorded(void **state)
{
	struct engine *e = test_open(NULL);
	struct generation_spec s = test_spec(2);
	struct engine_status st;
	struct record_view v;
	struct record *r;
	struct test_answer a;
	struct buf why = { 0 }, kernels = { 0 };

	(void)state;
	assert_int_equal(engine_numerics_set(e, "index_topk", "5", &why), 0);
	engine_status(e, &st);
	assert_int_equal(st.epoch, 2);
	assert_int_equal(engine_numerics_set(e, "index_topk", "5", &why), 0);
	assert_int_equal(engine_numerics_set(e, "drop_thinking", "never", &why), 0);
	engine_status(e, &st);
	assert_int_equal(st.epoch, 2); /* neither changes a number */
	assert_int_equal(engine_numerics_set(e, "nonsense", "5", &why), RC_NOT_FOUND);
	assert_int_equal(engine_numerics_set(e, "index_topk", "x", &why), RC_INVALID);
	s.id = "pinned";
	s.label = "test";
	a = test_ask(e, &s);
	buf_fini(&a.text);
	r = engine_record(e, "pinned");
	assert_non_null(r);
	record_view(r, &v);
	assert_int_equal(v.numerics.index_topk, 5);
	assert_int_equal(v.epoch, 2);
	record_kernels(r, &kernels);
	assert_string_equal(buf_str(&kernels), "ref");
	buf_fini(&kernels);
	assert_string_equal(v.label, "test");
	assert_int_equal(v.usage.prompt_tokens, 8);
	assert_int_equal(v.usage.completion_tokens, 2);
	assert_int_equal(v.finish, GEN_LENGTH);
	record_unref(&r);
	buf_fini(&why);
	engine_close(&e);
}

/* The same seed gives the same text alone, among others, and with another chunk size; the logprobs' bits
 * tell. */
static void a_seed_gives_the_same_text_in_any_batch(void **state)
{
	struct engine_options tiny_chunk = { .prefill_chunk = 3 };
	struct engine *e = test_open(NULL);
	struct generation_spec s = test_spec(12);
	struct generation *others[6], *g;
	struct test_answer alone, among, chunked;
	int i;

	(void)state;
	s.sampling.temperature = 1;
	s.sampling.has_seed = true;
	s.sampling.seed = 42;
	s.sampling.logprobs = true;
	alone = test_ask(e, &s);
	assert_int_equal(alone.n_logprob, 12);
	for (i = 0; i < 6; i++) {
		struct generation_spec o = test_spec(20);

		o.n_tokens = 3 + i % 5;
		o.sampling.temperature = 1;
		others[i] = test_submit(e, &o);
	}
	g = test_submit(e, &s);
	among = test_read(&g);
	for (i = 0; i < 6; i++)
		generation_unref(&others[i]);
	engine_close(&e);
	e = test_open(&tiny_chunk);
	chunked = test_ask(e, &s);
	engine_close(&e);
	assert_string_equal(buf_str(&alone.text), buf_str(&among.text));
	assert_string_equal(buf_str(&alone.text), buf_str(&chunked.text));
	assert_true(alone.logprob == among.logprob && alone.logprob == chunked.logprob);
	buf_fini(&alone.text);
	buf_fini(&among.text);
	buf_fini(&chunked.text);
}

/* ---- faults ---- */

#define TEST_FAILS 333   /* a token on which the router fails */
#define TEST_NAN 334     /* and one whose weights become NaN */

static atomic_bool test_all_fail;

static int test_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	int rc = ref_moe_route(x, host, a), t, k;

	for (t = 0; t < a->n_tok && rc == 0; t++) {
		if (a->token[t] == TEST_FAILS || atomic_load(&test_all_fail))
			return -5;
		for (k = 0; k < a->k && a->token[t] == TEST_NAN; k++)
			a->weight[t * a->k + k] = NAN;
	}
	return rc;
}

static const struct dsv4_op_entry test_ops[] = {
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_moe_route, .phases = 3, .wfmts = ~0u,
	  .numerics = DSV4_EXACT, .tag = "faulty", .fn = (dsv4_any_f *)test_route },
};
static const struct dsv4_plugin test_plugin = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof test_plugin, .abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR, .n_op = 1, .signature = DSV4_BUILD_SIGNATURE, .name = "faulty",
	.version = "1", .cpu = "", .op = test_ops,
};

static struct engine *test_open_faulty(void)
{
	static struct provider p;
	const struct kset_overlay ov = { .family = DSV4_MOE, .phase = -1, .provider = &p };
	struct engine *e = test_open(NULL);
	struct kset *ks;
	struct buf why = { 0 };

	provider_init(&p, &test_plugin, NULL);
	if (kset_build(&ov, 1, &ks, &why))
		fail_msg("%s", buf_str(&why));
	assert_int_equal(engine_activate(e, &ks, NULL, false, &why), 0);
	assert_null(ks);
	return e;
}

static void one_bad_request_fails_alone(void **state)
{
	static const int32_t fails[] = { 300, TEST_FAILS, 302 }, nan_[] = { 300, TEST_NAN, 302 };
	struct engine *e = test_open_faulty();
	struct generation_spec s = test_spec(6);
	struct test_answer good = test_ask(e, &s), a;
	struct generation *g[9];
	struct engine_status st;
	int i;

	(void)state;
	for (i = 0; i < 9; i++) {
		s = test_spec(6);
		if (i % 3) {
			s.tokens = i % 3 == 1 ? fails : nan_;
			s.n_tokens = 3;
		}
		g[i] = test_submit(e, &s);
	}
	for (i = 0; i < 9; i++) {
		a = test_read(&g[i]);
		if (i % 3) {
			assert_int_equal(a.finish, GEN_ERROR);
			assert_int_equal(a.rc, RC_KERNEL);
			assert_non_null(strstr(a.detail, i % 3 == 1 ? "moe_route" : "logit"));
		} else {
			assert_int_equal(a.finish, GEN_LENGTH);
			assert_string_equal(buf_str(&a.text), buf_str(&good.text));
		}
		buf_fini(&a.text);
	}
	engine_status(e, &st);
	assert_int_equal(st.errors, 6);
	assert_int_equal(st.failed, 0);
	assert_int_equal(st.state_bytes, 0);
	buf_fini(&good.text);
	engine_close(&e);
}

static void a_broken_engine_says_so_to_everyone(void **state)
{
	struct engine *e = test_open_faulty();
	struct generation_spec s = test_spec(100);
	struct generation *g[20];
	struct engine_status st;
	struct test_answer a;
	int i;

	(void)state;
	for (i = 0; i < 20; i++)
		g[i] = test_submit(e, &s);
	atomic_store(&test_all_fail, true);
	for (i = 0; i < 20; i++) {
		a = test_read(&g[i]);
		assert_int_equal(a.finish, GEN_ERROR);
		assert_int_equal(a.rc, RC_KERNEL);
		buf_fini(&a.text);
	}
	engine_status(e, &st);
	assert_int_equal(st.failed, 1);
	assert_non_null(strstr(st.why_failed, "moe_route"));
	test_refused(e, &s, RC_NOT_READY, "moe_route");
	atomic_store(&test_all_fail, false);
	engine_close(&e);
}

static void closing_ends_what_runs(void **state)
{
	struct engine *e = test_open(NULL);
	struct generation_spec s = test_spec(0);
	struct generation *g = test_submit(e, &s);

	(void)state;
	generation_unref(&g);
	engine_close(&e);
	assert_null(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_end_has_its_detail),
		cmocka_unit_test(what_cannot_be_served_is_refused_by_name),
		cmocka_unit_test(a_full_queue_is_busy_and_drain_is_draining),
		cmocka_unit_test(several_answers_are_admitted_all_or_none),
		cmocka_unit_test(as_many_answers_as_there_are_free_places_are_not_refused_for_a_short_queue),
		cmocka_unit_test(a_place_that_is_free_wakes_who_waits_though_nothing_runs),
		cmocka_unit_test(admission_waits_for_memory),
		cmocka_unit_test(cancel_by_id_tells_the_consumer),
		cmocka_unit_test(numerics_are_pinned_and_recorded),
		cmocka_unit_test(a_seed_gives_the_same_text_in_any_batch),
		cmocka_unit_test(one_bad_request_fails_alone),
		cmocka_unit_test(a_broken_engine_says_so_to_everyone),
		cmocka_unit_test(closing_ends_what_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
