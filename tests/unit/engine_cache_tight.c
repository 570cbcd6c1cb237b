/* SPDX-License-Identifier: MIT
 * engine_cache_tight.c - the prefix cache in the engine, on the tiny model, where it has little room, where requests
 * wait for each other, and where kernels or cached rows fail: what is reused has a cold answer's bits, and failures
 * end.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "engine/serve/generation_put.h"
#include "plugins/ref/ref.h"
#include "tests/unit/oddplug.h"
#include "tests/unit/warmkit.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- a kernel that fails where it is told ---- */

#define TEST_MARK 299 /* a token */

static atomic_bool test_fails;

static int test_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	for (int t = 0; t < a->n_tok && atomic_load(&test_fails); t++)
		if (a->token[t] == TEST_MARK)
			return -1;
	return ref_moe_route(x, host, a);
}

ODDPLUG(failing, ODDPLUG_OP(moe_route, EXACT, "test", test_route));

static void test_use_failing(struct engine *e)
{
	provider_init(&failing, &failing_plugin, NULL);
	warm_use(e, DSV4_MOE, &failing);
}

/* ---- engines ---- */

/* The answers of an engine without a cache; it is asked once per test, not opened anew. */
static struct engine *cold;
static struct sequence_layout layout;
static char dir[64];

static int test_init(void **state)
{
	struct engine_options o = { 0 };

	(void)state;
	cold = warm_open(&o);
	sequence_layout_init(&layout, engine_config(cold));
	strcpy(dir, "/tmp/engine_cache_tight.XXXXXX");
	return mkdtemp(dir) == NULL;
}

static int test_fini(void **state)
{
	struct buf cmd = { 0 };
	int rc;

	(void)state;
	engine_close(&cold);
	buf_printf(&cmd, "rm -rf '%s'", dir);
	rc = system(buf_str(&cmd));
	buf_fini(&cmd);
	return rc;
}

/* Room for that many blocks and states, and not one more. */
static size_t test_room(int n_block, int n_state)
{
	return (size_t)n_block * (sequence_block_bytes(&layout) + 1000) +
		(size_t)n_state * sequence_state_bytes(&layout, 1024) + 900;
}

static struct warm_answer test_ask(struct engine *e, const struct warm_prompt *p, int max_tokens)
{
	struct warm_answer a = warm_ask(e, p, max_tokens), b = warm_ask_cold(cold, p, max_tokens);

	warm_same(&a, &b);
	return a;
}

/* Several at once, submitted before any is begun, so that they grow side by side however busy the machine is; each has
 * a cold one's bits. Returns the fewest tokens that one of them reused. */
static int test_ask_together(struct engine *e, const struct warm_prompt *p, int n)
{
	struct warm_gate gate = { 0 };
	struct warm_prompt small = { .n = 0 };
	struct generation *first, *g[4];
	struct generation_spec s;
	int fewest = WARM_MAX_PROMPT;

	warm_grow(&small, 99, 8);
	first = warm_hold(e, warm_spec(&small, 1), &gate);
	for (int i = 0; i < n; i++) {
		s = warm_spec(&p[i], 3);
		g[i] = warm_submit(e, &s);
	}
	warm_gate_open(&gate);
	warm_read(e, &first);
	for (int i = 0; i < n; i++) {
		struct warm_answer a = warm_read(e, &g[i]), b = warm_ask_cold(cold, &p[i], 3);

		warm_same(&a, &b);
		fewest = a.usage.cached_tokens < fewest ? a.usage.cached_tokens : fewest;
	}
	return fewest;
}

/* ---- little room ---- */

static void a_prompt_of_twice_the_budget_is_reused(void **state)
{
	struct engine_options o = { .cache_bytes = test_room(4, 1), .prefill_chunk = 300 };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };
	struct cache_stats c;

	(void)state;
	warm_grow(&p, 1, 8 * SEQUENCE_BLOCK + 20);
	assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 0);
	cache_stats(engine_cache(e), &c);
	assert_true(c.blocks < 8 && c.bytes <= o.cache_bytes);
	assert_in_range(test_ask(e, &p, 3).usage.cached_tokens, 3 * SEQUENCE_BLOCK, 4 * SEQUENCE_BLOCK);
	assert_in_range(test_ask(e, &p, 3).usage.cached_tokens, 3 * SEQUENCE_BLOCK, 4 * SEQUENCE_BLOCK);
	warm_idle(e);
	engine_close(&e);
}

static void two_at_once_of_twice_the_budget_are_reused(void **state)
{
	struct engine_options o = { .cache_bytes = test_room(6, 2), .prefill_chunk = 300 };
	struct engine *e = warm_open(&o);
	struct warm_prompt p[2] = { { .n = 0 } };

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		warm_grow(&p[i], 20 + i, 8 * SEQUENCE_BLOCK + 20);
	assert_int_equal(test_ask_together(e, p, 2), 0);
	for (int again = 0; again < 2; again++)
		assert_true(test_ask_together(e, p, 2) >= 2 * SEQUENCE_BLOCK);
	p[1] = p[0]; /* and the same one twice */
	assert_true(test_ask_together(e, p, 2) >= 2 * SEQUENCE_BLOCK);
	warm_idle(e);
	engine_close(&e);
}

static void after_a_restart_what_did_not_fit_is_reused(void **state)
{
	struct engine_options o = { .cache_bytes = test_room(4, 1), .cache_dir = dir, .cache_disk_bytes = 1 << 30 };
	struct warm_prompt p = { .n = 0 };

	(void)state;
	warm_grow(&p, 2, 8 * SEQUENCE_BLOCK + 20);
	for (int run = 0; run < 3; run++) {
		struct engine *e = warm_open(&o);
		int cached = test_ask(e, &p, 3).usage.cached_tokens;

		assert_non_null(engine_cache_disk(e));
		assert_in_range(cached, run ? 3 * SEQUENCE_BLOCK : 0, run ? 4 * SEQUENCE_BLOCK : 0);
		warm_idle(e);
		engine_close(&e);
	}
}

/* ---- waiting ---- */

/* Nothing was there when they were submitted; when their turn comes, the first has left all of it. */
static void who_waits_behind_the_same_prompt_is_not_cold(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .max_running = 1 };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };
	struct generation *g[4];

	(void)state;
	warm_grow(&p, 3, 300);
	for (int i = 0; i < 4; i++) {
		struct generation_spec s = warm_spec(&p, 3);

		g[i] = warm_submit(e, &s);
	}
	for (int i = 0; i < 4; i++) {
		struct warm_answer a = warm_read(e, &g[i]), b = warm_ask_cold(cold, &p, 3);

		warm_same(&a, &b);
		assert_int_equal(a.usage.cached_tokens, i ? 256 : 0);
		assert_int_equal(a.view.reused_tokens, a.usage.cached_tokens);
		assert_string_equal(a.view.miss_reason, i ? "hit" : "cold");
	}
	warm_idle(e);
	engine_close(&e);
}

struct test_flood {
	struct generation *_Atomic g;
	bool done;
};

/* On the engine thread, at the first event: as much as a consumer that does not read lets pile up. */
static void test_flood(void *arg)
{
	const struct gen_token_logprob lp = { .token = 1 };
	struct test_flood *f = arg;

	while (!f->g) /* its submission has yet to return */
		sched_yield();
	for (int i = 0; i < GENERATION_MAX_BACKLOG && !f->done; i++)
		generation_put_logprob(f->g, &lp, &(struct gen_place){ 0 }, NULL, 0);
	f->done = true;
}

static void a_deadline_ends_a_request_that_nobody_reads(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };
	struct test_flood flood = { .g = NULL };
	struct gen_event ev = { .kind = GEN_EV_CONTENT };
	struct generation_spec s;
	struct engine_status st;
	struct gen_usage usage;
	struct generation *g;
	struct buf why = { 0 };

	(void)state;
	warm_grow(&p, 4, 140);
	s = warm_spec(&p, 0); /* all that fits */
	s.deadline = 1;
	s.notify = test_flood;
	s.arg = &flood;
	assert_int_equal(engine_submit(e, &s, &g, &why), 0);
	atomic_store(&flood.g, g);
	do {
		sched_yield();
		engine_status(e, &st);
	} while (st.running + st.queued);
	assert_int_equal(st.errors, 1);
	assert_true(generation_backlogged(g)); /* it was paused to the end */
	while (ev.kind != GEN_EV_FINISH) {
		gen_event_fini(&ev);
		assert_int_equal(generation_wait(g, &ev, -1), 0);
	}
	assert_int_equal(ev.finish, GEN_ERROR);
	assert_int_equal(ev.rc, RC_TIMEOUT);
	gen_event_fini(&ev);
	generation_usage(g, &usage);
	assert_in_range(usage.completion_tokens, 1, 200);
	generation_unref(&g);
	warm_idle(e);
	assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 128);
	engine_close(&e);
}

/* ---- failures ---- */

static struct warm_answer test_failing(struct engine *e, const struct warm_prompt *p)
{
	struct generation_spec s = warm_spec(p, 3);
	struct generation *g = warm_submit(e, &s);
	struct warm_answer a = warm_read(e, &g);

	assert_int_equal(a.finish, GEN_ERROR);
	assert_int_equal(a.rc, RC_KERNEL);
	return a;
}

static uint64_t test_blocks(struct engine *e)
{
	struct cache_stats c;

	cache_stats(engine_cache(e), &c);
	return c.blocks;
}

static void a_kernel_that_fails_in_the_middle_leaves_what_was_committed(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = 64 };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };

	(void)state;
	warm_grow(&p, 5, 400);
	p.token[250] = TEST_MARK; /* in the chunk from 192 to 256 */
	test_use_failing(e);
	for (int again = 0; again < 2; again++) {
		atomic_store(&test_fails, true);
		test_failing(e, &p);
		assert_int_equal(test_blocks(e), 1);
	}
	atomic_store(&test_fails, false);
	assert_true(test_ask(e, &p, 3).usage.cached_tokens <= 128);
	assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 384);
	warm_idle(e);
	engine_close(&e);
}

/* At every block's edge and on both sides of it, and in between: blocks before the chunk that failed may be there, none
 * after; and what is computed next has the cold bits. */
static void a_kernel_that_fails_anywhere_publishes_nothing_from_there(void **state)
{
	static const int at[] = { 1, 127, 128, 129, 203, 255, 256, 257, 310, 383, 384, 385, 399 };
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = 100 };
	struct engine *e = warm_open(&o);

	(void)state;
	test_use_failing(e);
	for (size_t i = 0; i < sizeof at / sizeof *at; i += WARM_STEP) {
		struct warm_prompt p = { .n = 0 };

		cache_clear(engine_cache(e));
		warm_grow(&p, 8, 400);
		p.token[at[i]] = TEST_MARK;
		atomic_store(&test_fails, true);
		test_failing(e, &p);
		assert_in_range(test_blocks(e), 0, at[i] / 100 * 100 / SEQUENCE_BLOCK);
		atomic_store(&test_fails, false);
		assert_in_range(test_ask(e, &p, 3).usage.cached_tokens, 0, at[i]);
		assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 384);
	}
	warm_idle(e);
	engine_close(&e);
}

/* Rows that went bad in memory: the first that resumes from them fails, the next one is computed. */
static void a_failure_from_cached_rows_does_not_repeat(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };

	(void)state;
	warm_grow(&p, 6, 300);
	for (int block = 0; block < 2; block++) {
		struct cache_entry *entry;
		struct cache_copy copy;

		cache_clear(engine_cache(e));
		test_ask(e, &p, 3);
		assert_int_equal(cache_tree(engine_cache(e), &entry, 10), 2);
		assert_int_equal(cache_get(engine_cache(e), &entry[1].key, &copy), 0);
		for (int y = 0; y < layout.n_layer; y++) {
			float *x = sequence_block_rows(&layout, copy.block[block], y, SEQUENCE_ROWS_KV);

			for (int i = 0;
			     x && i < SEQUENCE_BLOCK / layout.layer[y].ratio * layout.layer[y].dim[SEQUENCE_ROWS_KV];
			     i++)
				x[i] = NAN;
		}
		cache_copy_fini(&copy);
		free(entry);
		assert_int_equal(test_failing(e, &p).usage.cached_tokens, 256);
		assert_int_equal(test_blocks(e), block); /* the bad one and what continues it are gone */
		assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 0);
		assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 256);
	}
	warm_idle(e);
	engine_close(&e);
}

/* Nothing tells whether the rows or the kernel were at fault: what it was resumed from is not tried again. */
static void what_a_request_failed_on_is_computed_again(void **state)
{
	struct engine_options o = { .cache_bytes = WARM_ENOUGH, .prefill_chunk = 64 };
	struct engine *e = warm_open(&o);
	struct warm_prompt p = { .n = 0 };

	(void)state;
	warm_grow(&p, 7, 300);
	p.token[280] = TEST_MARK;
	test_use_failing(e);
	test_ask(e, &p, 3);
	atomic_store(&test_fails, true);
	assert_int_equal(test_failing(e, &p).usage.cached_tokens, 256);
	assert_int_equal(test_failing(e, &p).usage.cached_tokens, 0);
	atomic_store(&test_fails, false);
	assert_int_equal(test_ask(e, &p, 3).usage.cached_tokens, 256); /* the second left it, freshly computed */
	warm_idle(e);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prompt_of_twice_the_budget_is_reused),
		cmocka_unit_test(two_at_once_of_twice_the_budget_are_reused),
		cmocka_unit_test(after_a_restart_what_did_not_fit_is_reused),
		cmocka_unit_test(who_waits_behind_the_same_prompt_is_not_cold),
		cmocka_unit_test(a_deadline_ends_a_request_that_nobody_reads),
		cmocka_unit_test(a_kernel_that_fails_in_the_middle_leaves_what_was_committed),
		cmocka_unit_test(a_kernel_that_fails_anywhere_publishes_nothing_from_there),
		cmocka_unit_test(a_failure_from_cached_rows_does_not_repeat),
		cmocka_unit_test(what_a_request_failed_on_is_computed_again),
	};
	return cmocka_run_group_tests(tests, test_init, test_fini);
}
