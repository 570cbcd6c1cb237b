/* SPDX-License-Identifier: MIT
 * engine_own.c - tests of requests that bring a kernel set or numerics of their own: they have the bits of exactly
 * those, and nothing else of the engine takes notice.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/warmkit.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* ---- kernels ---- */

static int scaled_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	int rc = ref_attn(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->n_head * a->dim; i++)
		a->out[i] *= 1.25f;
	return rc;
}

static int failing_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	(void)x, (void)host, (void)a;
	return -5;
}

ODDPLUG(scaled, ODDPLUG_OP(attn, LOSSY, "scaled", scaled_attn));
ODDPLUG(failing, ODDPLUG_OP(attn, LOSSY, "failing", failing_attn));
ODDPLUG(same, ODDPLUG_OP(attn, EXACT, "fp32", ref_attn));
static struct provider *test_plugins[] = { &scaled, &failing, &same, NULL };

static int test_init(void **state)
{
	(void)state;
	oddplug_init(test_plugins);
	return 0;
}

static struct kset *test_set(struct provider *p)
{
	return warm_kset(&(struct kset_overlay){ .family = DSV4_ATTENTION, .phase = -1, .provider = p }, 1);
}

/* ---- engines ---- */

static struct engine *test_open(void)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = 96 };

	return warm_open(&o);
}

/* The kernels that warm_open() takes may have other numbers than those before. */
static uint64_t test_epoch(struct engine *e)
{
	struct engine_status s;

	engine_status(e, &s);
	return s.epoch;
}

static void test_change(struct engine *e, struct provider *p, const struct numerics *n, bool at_step, bool keep)
{
	struct engine_change c = { .numerics = n, .at_step = at_step, .keep_cache = keep };
	struct kset *ks = p ? test_set(p) : engine_kset(e);
	struct buf why = { 0 };

	if (engine_change(e, &ks, &c, &why))
		fail_msg("%s", buf_str(&why));
}

/* What an engine without a cache answers that has these in force. */
static struct warm_answer test_in_force(struct provider *p, const struct numerics *n, const struct warm_prompt *prompt,
	int max_tokens)
{
	struct engine *e = warm_open(&(struct engine_options){ 0 });
	struct warm_answer a;

	test_change(e, p, n, false, false);
	a = warm_ask(e, prompt, max_tokens);
	engine_close(&e);
	return a;
}

static struct warm_answer test_ask(struct engine *e, const struct generation_spec *s)
{
	struct generation *g = warm_submit(e, s);

	return warm_read(e, &g);
}

static struct numerics test_few_rows(struct engine *e)
{
	struct numerics n;

	engine_numerics(e, &n);
	assert_int_equal(numerics_set(&n, "index_topk", "1", NULL), 0);
	assert_int_equal(numerics_set(&n, "act_quant", "none", NULL), 0);
	return n;
}

/* ---- bits, and the cache ---- */

static void an_own_set_has_the_bits_it_has_when_active_and_a_cache_of_its_own(void **state)
{
	struct engine *e = test_open();
	struct kset *ks, *before = engine_kset(e), *after;
	uint64_t epoch = test_epoch(e);
	struct warm_prompt p = { .n = 0 };
	struct warm_answer plain, want, a;
	struct generation_spec s;

	(void)state;
	warm_grow(&p, 1, 300);
	plain = warm_ask(e, &p, 4);
	want = test_in_force(&scaled, NULL, &p, 4);
	ks = test_set(&scaled);
	s = warm_spec(&p, 4);
	s.set = ks;
	for (int i = 0; i < 2; i++) {
		a = test_ask(e, &s);
		warm_same(&a, &want);
		assert_int_equal(a.usage.cached_tokens, i ? 256 : 0);
		assert_string_equal(a.view.miss_reason, i ? "hit" : "numbers");
		assert_int_equal(a.view.kset_generation, kset_generation(ks));
		assert_int_equal(a.view.epoch, 0);
	}
	assert_memory_not_equal(a.logprob, plain.logprob, sizeof *a.logprob);
	a = warm_ask(e, &p, 4);
	warm_same(&a, &plain);
	assert_int_equal(a.usage.cached_tokens, 256);
	assert_int_equal(test_epoch(e), epoch);
	assert_int_equal(a.view.epoch, epoch);
	after = engine_kset(e);
	assert_ptr_equal(after, before);
	kset_unpin(&before);
	kset_unpin(&after);
	kset_unpin(&ks);
	warm_idle(e);
	engine_close(&e);
}

static void own_numerics_count_and_those_in_force_stay(void **state)
{
	struct engine *e = test_open();
	struct numerics n = test_few_rows(e), now;
	struct warm_prompt p = { .n = 0 };
	struct warm_answer want, a;
	struct generation_spec s;

	(void)state;
	warm_grow(&p, 2, 300);
	warm_ask(e, &p, 3);
	want = test_in_force(NULL, &n, &p, 3);
	s = warm_spec(&p, 3);
	s.numerics = &n;
	a = test_ask(e, &s);
	warm_same(&a, &want);
	assert_int_equal(a.view.numerics.index_topk, 1);
	assert_int_equal(a.usage.cached_tokens, 0);
	engine_numerics(e, &now);
	assert_true(now.index_topk > 1);
	engine_close(&e);
}

static void the_numbers_in_force_brought_along_are_in_their_epoch(void **state)
{
	struct engine *e = test_open();
	struct kset *ks = engine_kset(e);
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct warm_answer a;

	(void)state;
	warm_grow(&p, 3, 200);
	warm_ask(e, &p, 2);
	s = warm_spec(&p, 2);
	s.set = ks;
	a = test_ask(e, &s);
	assert_int_equal(a.usage.cached_tokens, 128);
	assert_int_equal(a.view.epoch, test_epoch(e));
	kset_unpin(&ks);
	engine_close(&e);
}

static void cache_off_neither_looks_up_nor_publishes(void **state)
{
	struct engine *e = test_open();
	struct warm_prompt p = { .n = 0 }, q = { .n = 0 };
	struct cache_stats before, after;
	struct warm_answer want, a;
	struct generation_spec s;

	(void)state;
	warm_grow(&p, 4, 300);
	warm_grow(&q, 5, 300);
	want = warm_ask(e, &p, 4);
	cache_stats(engine_cache(e), &before);
	s = warm_spec(&p, 4);
	s.cache_off = true;
	a = test_ask(e, &s);
	warm_same(&a, &want);
	assert_int_equal(a.usage.cached_tokens, 0);
	assert_string_equal(a.view.miss_reason, "off");
	s = warm_spec(&q, 140);
	s.cache_off = true;
	test_ask(e, &s);
	cache_stats(engine_cache(e), &after);
	assert_memory_equal(&after, &before, sizeof after);
	engine_close(&e);
}

static void rows_lent_by_keep_cache_are_not_for_a_request_with_its_own(void **state)
{
	struct engine *e = test_open();
	struct warm_prompt p = { .n = 0 };
	struct warm_answer want, a;
	struct generation_spec s;
	struct kset *ks;

	(void)state;
	warm_grow(&p, 6, 300);
	warm_ask(e, &p, 2);
	want = test_in_force(&scaled, NULL, &p, 2);
	test_change(e, &scaled, NULL, false, true);
	ks = engine_kset(e);
	s = warm_spec(&p, 2);
	s.set = ks; /* the very one */
	a = test_ask(e, &s);
	warm_same(&a, &want);
	assert_int_equal(a.usage.cached_tokens, 0);
	assert_false(a.view.kept);
	kset_unpin(&ks);
	engine_close(&e);
}

static void what_memory_lends_is_lent_to_others_still(void **state)
{
	struct engine *e = test_open();
	struct warm_prompt p = { .n = 0 };
	struct warm_answer a;

	(void)state;
	warm_grow(&p, 6, 300);
	warm_ask(e, &p, 2);
	test_change(e, &scaled, NULL, false, true);
	a = warm_ask(e, &p, 2);
	assert_true(a.view.kept);
	engine_close(&e);
}

/* ---- beside others ---- */

static void requests_of_several_sets_at_once_have_the_bits_they_have_alone(void **state)
{
	struct engine *e = test_open();
	struct numerics n = test_few_rows(e);
	struct kset *ks = test_set(&scaled);
	struct warm_gate gate = { 0 };
	struct warm_prompt first = { .n = 0 }, p = { .n = 0 };
	struct warm_answer want[3], a;
	struct generation *g[3], *held;
	struct generation_spec s;

	(void)state;
	warm_grow(&first, 7, 10);
	warm_grow(&p, 8, 150);
	want[0] = test_in_force(NULL, NULL, &p, 6);
	want[1] = test_in_force(&scaled, NULL, &p, 6);
	want[2] = test_in_force(&scaled, &n, &p, 6);
	held = warm_hold(e, warm_spec(&first, 1), &gate);
	for (int i = 0; i < 3; i++) {
		s = warm_spec(&p, 6);
		s.set = i > 0 ? ks : NULL;
		s.numerics = i > 1 ? &n : NULL;
		g[i] = warm_submit(e, &s);
	}
	kset_unpin(&ks);
	warm_gate_open(&gate);
	warm_read(e, &held);
	for (int i = 0; i < 3; i++) {
		a = warm_read(e, &g[i]);
		warm_same(&a, &want[i]);
	}
	warm_idle(e);
	engine_close(&e);
}

/* It differs from what is activated in tag and set, and neither hinders nor follows. */
static void a_change_at_a_step_passes_by_what_has_its_own_set(void **state)
{
	struct engine *e = test_open();
	struct kset *ks = test_set(&scaled);
	struct warm_gate gate = { 0 };
	struct warm_prompt p = { .n = 0 };
	struct warm_answer want, a;
	struct generation_spec s;
	struct generation *g;
	struct record_set *sets;
	struct record *r;

	(void)state;
	warm_grow(&p, 9, 20);
	want = test_in_force(&scaled, NULL, &p, 6);
	s = warm_spec(&p, 6);
	s.set = ks;
	s.id = "own";
	g = warm_hold(e, s, &gate);
	test_change(e, &same, NULL, true, false);
	warm_gate_open(&gate);
	a = warm_read(e, &g);
	warm_same(&a, &want);
	r = engine_record(e, "own");
	assert_int_equal(record_sets(r, &sets), 1);
	assert_string_equal(sets[0].name, kset_name(ks));
	free(sets);
	record_unref(&r);
	kset_unpin(&ks);
	engine_close(&e);
}

static void failing_kernels_that_were_brought_along_never_stop_the_engine(void **state)
{
	struct engine *e = test_open();
	struct kset *ks = test_set(&failing);
	struct warm_prompt p = { .n = 0 };
	struct engine_status st;
	struct generation_spec s;

	(void)state;
	warm_grow(&p, 10, 8);
	s = warm_spec(&p, 2);
	s.set = ks;
	for (int i = 0; i < 20; i++) {
		struct warm_answer a = test_ask(e, &s);

		assert_int_equal(a.finish, GEN_ERROR);
		assert_int_equal(a.rc, RC_KERNEL);
	}
	warm_ask(e, &p, 2);
	engine_status(e, &st);
	assert_int_equal(st.failed, 0);
	assert_int_equal(st.kernel_failures, 20);
	assert_int_equal(st.set_failures, 0);
	kset_unpin(&ks);
	engine_close(&e);
}

/* ---- pins ---- */

static atomic_int test_gone;

static void test_unused(void *arg, struct kset *ks)
{
	*(struct kset **)arg = ks;
	atomic_fetch_add(&test_gone, 1);
}

enum test_end { TEST_ENDS, TEST_CANCELLED, TEST_DRAINED, TEST_LEFT, TEST_N_END };

/* Nobody but the request has the set any more; its plugin is in use as long as the request is there. */
static void test_pins(struct engine *e, enum test_end how)
{
	struct kset *ks = test_set(&scaled), *freed = NULL;
	struct warm_gate gate = { 0 };
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct generation *g;

	warm_grow(&p, 11 + (uint32_t)how, 20);
	atomic_store(&test_gone, 0);
	kset_when_unused(ks, test_unused, &freed);
	s = warm_spec(&p, 40);
	s.set = ks;
	s.id = "pinned";
	g = warm_hold(e, s, &gate);
	kset_unpin(&ks);
	assert_int_equal(atomic_load(&test_gone), 0);
	assert_int_equal(atomic_load(&scaled.users), 1);
	if (how == TEST_CANCELLED || how == TEST_DRAINED)
		assert_int_equal(engine_cancel(e, "pinned", how == TEST_DRAINED ? RC_DRAINING : RC_CANCELLED), 0);
	if (how == TEST_DRAINED)
		engine_drain(e);
	if (how == TEST_LEFT)
		generation_cancel(g);
	assert_int_equal(atomic_load(&test_gone), 0);
	warm_gate_open(&gate);
	assert_int_equal(warm_read(e, &g).finish, how == TEST_ENDS ? GEN_LENGTH : GEN_CANCELLED);
	while (!atomic_load(&test_gone)) /* the consumer is told before the request is freed */
		sched_yield();
	kset_free(&freed);
	assert_int_equal(atomic_load(&scaled.users), 0);
	engine_resume(e);
}

static void the_set_is_pinned_until_the_request_has_gone_however_it_ends(void **state)
{
	struct engine *e = test_open();

	(void)state;
	for (int how = 0; how < TEST_N_END; how++)
		test_pins(e, (enum test_end)how);
	warm_idle(e);
	engine_close(&e);
}

static void a_refused_request_leaves_no_pin(void **state)
{
	struct engine *e = test_open();
	struct kset *ks = test_set(&scaled);
	struct warm_prompt p = { .n = 1, .token = { -1 } };
	struct generation_spec s = warm_spec(&p, 2);
	struct generation *g = NULL;

	(void)state;
	s.set = ks;
	assert_int_equal(engine_submit(e, &s, &g, NULL), RC_INVALID);
	p.token[0] = 300;
	engine_drain(e);
	assert_int_equal(engine_submit(e, &s, &g, NULL), RC_DRAINING);
	assert_int_equal(kset_pins(ks), 1);
	kset_unpin(&ks);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_own_set_has_the_bits_it_has_when_active_and_a_cache_of_its_own),
		cmocka_unit_test(own_numerics_count_and_those_in_force_stay),
		cmocka_unit_test(the_numbers_in_force_brought_along_are_in_their_epoch),
		cmocka_unit_test(cache_off_neither_looks_up_nor_publishes),
		cmocka_unit_test(rows_lent_by_keep_cache_are_not_for_a_request_with_its_own),
		cmocka_unit_test(what_memory_lends_is_lent_to_others_still),
		cmocka_unit_test(requests_of_several_sets_at_once_have_the_bits_they_have_alone),
		cmocka_unit_test(a_change_at_a_step_passes_by_what_has_its_own_set),
		cmocka_unit_test(failing_kernels_that_were_brought_along_never_stop_the_engine),
		cmocka_unit_test(the_set_is_pinned_until_the_request_has_gone_however_it_ends),
		cmocka_unit_test(a_refused_request_leaves_no_pin),
	};

	return cmocka_run_group_tests(tests, test_init, NULL);
}
