/* SPDX-License-Identifier: MIT
 * engine_cache.c - tests of the prefix cache in the engine, on the tiny model: a warm answer has a cold one's bits,
 * wherever requests branch, are cut, change their kernels or meet a full cache; and what requests say of it is true.
 * Threads: this one and the engine's. */
#include "engine/base/rc.h"
#include "plugins/ref/ref.h"
#include "tests/unit/warmkit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

#define TEST_MARK 299 /* a token on which the router cancels the request `cut` */

static struct engine *_Atomic test_cut;

static int test_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct engine *e = atomic_load(&test_cut);

	for (int t = 0; t < a->n_tok && e; t++)
		if (a->token[t] == TEST_MARK)
			engine_cancel(e, "cut", RC_CANCELLED);
	return ref_moe_route(x, host, a);
}

#define TEST_PLUGIN(var, name_, op_, tag_, f) \
	static const struct dsv4_op_entry var##_ops[] = { \
		{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##op_, .phases = 3, .wfmts = ~0u, \
		  .numerics = tag_, .tag = "test", .fn = (dsv4_any_f *)f }, \
	}; \
	static const struct dsv4_plugin var##_plugin = { \
		.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR, \
		.abi_minor = DSV4_ABI_MINOR, .n_op = 1, .signature = DSV4_BUILD_SIGNATURE, .name = name_, \
		.version = "1", .cpu = "", .gpu = "", .op = var##_ops, \
	}; \
	static struct provider var

TEST_PLUGIN(cutting, "cutting", moe_route, DSV4_EXACT, test_route);

/* ---- engines ---- */

/* The answers of an engine without a cache; it is asked once per test, not opened anew. */
static struct engine *cold;

static int test_init(void **state)
{
	struct engine_options o = { 0 };

	(void)state;
	cold = warm_open(&o);
	provider_init(&cutting, &cutting_plugin, NULL);
	return 0;
}

static int test_fini(void **state)
{
	(void)state;
	engine_close(&cold);
	return 0;
}

static struct engine *test_open(size_t cache_bytes, int prefill_chunk)
{
	struct engine_options o = { .cache_bytes = cache_bytes, .prefill_chunk = prefill_chunk };

	return warm_open(&o);
}

/* Asks both engines; the answers must be the same. Returns the warm one. */
static struct warm_answer test_ask(struct engine *e, const struct warm_prompt *p, int max_tokens)
{
	struct warm_answer a = warm_ask(e, p, max_tokens), b = warm_ask_cold(cold, p, max_tokens);

	warm_same(&a, &b);
	assert_int_equal(b.usage.cached_tokens, 0);
	assert_string_equal(b.view.miss_reason, "off");
	return a;
}

/* ---- the same prompt, the next turn, another branch ---- */

static void the_same_prompt_again_gives_the_same_bits(void **state)
{
	static const int length[] = { 1, 127, 128, 129, 130, 255, 256, 257, 258, 383, 384, 385, 511, 512, 513 };
	struct engine *e = test_open(WARM_ENOUGH, 0);

	(void)state;
	for (size_t i = 0; i < sizeof length / sizeof *length; i += WARM_STEP) {
		struct warm_prompt p = { .n = 0 };
		struct warm_answer a;

		warm_grow(&p, 100 + (uint32_t)i, length[i]);
		a = test_ask(e, &p, 4);
		assert_int_equal(a.usage.cached_tokens, 0);
		assert_string_equal(a.view.miss_reason, length[i] > 128 ? "cold" : "short");
		a = test_ask(e, &p, 4);
		assert_int_equal(a.usage.cached_tokens, warm_most(length[i]));
		assert_string_equal(a.view.miss_reason, length[i] > 128 ? "hit" : "short");
		assert_int_equal(a.view.first_diff_byte, -1);
	}
	warm_idle(e);
	engine_close(&e);
}

/* What was sampled last has not been computed; all before is there, decoded blocks included. */
static void a_conversation_grows_from_its_last_whole_block(void **state)
{
	struct engine *e = test_open(WARM_ENOUGH, 100);
	struct warm_prompt p = { .n = 0 };
	struct engine_status st;
	int computed = 0, reused = 0;

	(void)state;
	for (uint32_t turn = 0; turn < 8; turn++) {
		int answer = turn % 3 ? 5 : 150;
		struct warm_answer a;

		warm_grow(&p, turn, 31 + 17 * (int)turn);
		a = test_ask(e, &p, answer);
		assert_int_equal(a.usage.cached_tokens, computed / SEQUENCE_BLOCK * SEQUENCE_BLOCK);
		reused += a.usage.cached_tokens;
		computed = p.n + answer - 1;
		warm_grow_answer(&p, &a);
	}
	engine_status(e, &st);
	assert_int_equal(st.cached_tokens, reused);
	assert_true(reused > 8 * SEQUENCE_BLOCK);
	warm_idle(e);
	engine_close(&e);
}

/* The first that branches off finds blocks but no state there, and leaves one for the second. */
static void the_second_branch_resumes_where_the_first_left(void **state)
{
	struct engine *e = test_open(WARM_ENOUGH, 0);
	struct warm_prompt common = { .n = 0 }, p;
	struct warm_answer a;

	(void)state;
	warm_grow(&common, 1, 300);
	for (uint32_t branch = 0; branch < 4; branch++) {
		p = common;
		warm_grow(&p, 10 + branch, 300);
		a = test_ask(e, &p, 3);
		assert_int_equal(a.usage.cached_tokens, branch < 2 ? 0 : 256);
		assert_string_equal(a.view.miss_reason, branch == 0 ? "cold" : branch == 1 ? "no-state" : "differs");
	}
	warm_idle(e);
	engine_close(&e);
}

/* ---- cuts ---- */

static void test_use(struct engine *e, struct provider *p, enum dsv4_family family, int phase)
{
	const struct kset_overlay ov = { .family = family, .phase = phase, .provider = p };
	struct buf why = { 0 };
	struct kset *ks;

	ks = warm_kset(&ov, p ? 1 : 0);
	if (engine_activate(e, &ks, NULL, false, &why))
		fail_msg("%s", buf_str(&why));
}

/* The first chunk, of `cut` tokens, is computed and committed; then the request is cancelled. */
static void test_cut_prefill(int cut)
{
	struct engine *e = test_open(WARM_ENOUGH, cut);
	struct warm_prompt p = { .token = { TEST_MARK }, .n = 1 };
	struct generation_spec s;
	struct generation *g;
	struct warm_answer a;
	struct cache_stats c;

	warm_grow(&p, (uint32_t)cut, 520);
	test_use(e, &cutting, DSV4_MOE, -1);
	atomic_store(&test_cut, e);
	s = warm_spec(&p, 4);
	s.id = "cut";
	g = warm_submit(e, &s);
	a = warm_read(e, &g);
	atomic_store(&test_cut, NULL);
	assert_int_equal(a.finish, GEN_CANCELLED);
	assert_int_equal(a.n, 0);
	warm_idle(e);
	cache_stats(engine_cache(e), &c);
	assert_int_equal(c.blocks, cut / SEQUENCE_BLOCK); /* what was committed, and no more */
	a = test_ask(e, &p, 4);
	assert_int_equal(a.usage.cached_tokens, cut / SEQUENCE_BLOCK * SEQUENCE_BLOCK); /* and can be gone on from */
	a = test_ask(e, &p, 4);
	assert_int_equal(a.usage.cached_tokens, 512);
	warm_idle(e);
	engine_close(&e);
}

static void a_cut_in_prefill_leaves_what_was_committed(void **state)
{
	static const int cut[] = { 1, 127, 128, 129, 255, 256, 257, 190, 383, 384, 385, 477, 511, 512, 513 };

	(void)state;
	for (size_t i = 0; i < sizeof cut / sizeof *cut; i += WARM_STEP)
		test_cut_prefill(cut[i]);
}

struct test_stopper {
	struct generation *g;
	int tokens;
};

/* On the engine thread, after each token. */
static void test_stop(void *arg)
{
	struct test_stopper *s = arg;

	if (--s->tokens == 0)
		generation_cancel(s->g);
}

/* Cancelled after so many tokens of the answer, of which the last was not computed. */
static void test_cut_decode(struct engine *e, const struct warm_prompt *p, int tokens)
{
	struct test_stopper stop = { .tokens = tokens };
	struct generation_spec s = warm_spec(p, 150);
	struct warm_answer a;
	struct buf why = { 0 };

	s.notify = test_stop;
	s.arg = &stop;
	if (engine_submit(e, &s, &stop.g, &why))
		fail_msg("%s", buf_str(&why));
	a = warm_read(e, &stop.g);
	assert_int_equal(a.finish, GEN_CANCELLED);
	assert_int_equal(a.n, tokens);
}

static void test_cut_answer(int n_prompt, int at)
{
	struct engine *e = test_open(WARM_ENOUGH, 0);
	struct warm_prompt p = { .n = 0 };
	struct cache_stats c;
	struct warm_answer a;

	warm_grow(&p, 77, n_prompt);
	test_cut_decode(e, &p, at);
	warm_idle(e);
	cache_stats(engine_cache(e), &c);
	assert_int_equal(c.blocks, (n_prompt + at - 1) / SEQUENCE_BLOCK);
	a = test_ask(e, &p, 100);
	assert_int_equal(a.usage.cached_tokens, warm_most(n_prompt));
	warm_grow_answer(&p, &a);
	a = test_ask(e, &p, 3);
	assert_int_equal(a.usage.cached_tokens, (n_prompt + 99) / SEQUENCE_BLOCK * SEQUENCE_BLOCK); /* were computed */
	warm_idle(e);
	engine_close(&e);
}

/* Cut when 255 to 258, 383 to 385, 511 to 513 and any number of tokens were computed. */
static void a_cut_answer_is_continued_with_the_same_bits(void **state)
{
	static const struct { int n_prompt, at; } cut[] = {
		{ 228, 1 }, { 228, 28 }, { 228, 29 }, { 228, 30 }, { 228, 31 }, { 228, 99 },
		{ 300, 84 }, { 300, 85 }, { 300, 86 }, { 484, 28 }, { 484, 29 }, { 484, 30 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cut / sizeof *cut; i += WARM_STEP)
		test_cut_answer(cut[i].n_prompt, cut[i].at);
}

/* ---- budgets ---- */

static void any_budget_gives_the_same_bits(void **state)
{
	static const size_t budget[] = { 0, 1, 100 << 10, 400 << 10, 1 << 20, 2 << 20, WARM_ENOUGH };

	(void)state;
	for (size_t i = 0; i < sizeof budget / sizeof *budget; i += WARM_STEP) {
		struct engine *e = test_open(budget[i], 200);
		struct warm_prompt p[3] = { { .n = 0 } };
		struct cache_stats c;

		for (uint32_t turn = 0; turn < 4; turn++)
			for (uint32_t k = 0; k < 3; k++) {
				struct warm_answer a;

				warm_grow(&p[k], 10 * turn + k, 140);
				a = test_ask(e, &p[k], 3);
				warm_grow_answer(&p[k], &a);
				cache_stats(engine_cache(e), &c);
				assert_true(c.bytes <= budget[i]);
			}
		if (budget[i] == WARM_ENOUGH)
			assert_true(c.tokens_reused > 0 && c.evicted_blocks == 0);
		if (i <= 1)
			assert_int_equal(c.blocks, 0);
		warm_idle(e);
		engine_close(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_prompt_again_gives_the_same_bits),
		cmocka_unit_test(a_conversation_grows_from_its_last_whole_block),
		cmocka_unit_test(the_second_branch_resumes_where_the_first_left),
		cmocka_unit_test(a_cut_in_prefill_leaves_what_was_committed),
		cmocka_unit_test(a_cut_answer_is_continued_with_the_same_bits),
		cmocka_unit_test(any_budget_gives_the_same_bits),
	};
	return cmocka_run_group_tests(tests, test_init, test_fini);
}
