/* SPDX-License-Identifier: MIT
 * engine_cache_kernels.c - the prefix cache in the engine while kernel sets change: what is kept, what is not
 * published, and what a request with the same prompt then has.
 * Threads: this one and the engine's; made for the sanitizer builds, too. */
#include "plugins/ref/ref.h"
#include "tests/unit/warmkit.h"

/* ---- kernels ---- */

/* Other numbers than ref's, so that a mixture shows. */
static int test_scaled_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	int rc = ref_attn(x, host, a);

	for (int64_t i = 0; i < (int64_t)a->n_tok * a->n_head * a->dim; i++)
		a->out[i] *= 1.25f;
	return rc;
}

#define TEST_PLUGIN(var, name_, numerics_, tag_, f) \
	static const struct dsv4_op_entry var##_ops[] = { \
		{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_attn, .phases = 3, .wfmts = ~0u, \
		  .numerics = numerics_, .tag = tag_, .fn = (dsv4_any_f *)f }, \
	}; \
	static const struct dsv4_plugin var##_plugin = { \
		.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR, \
		.abi_minor = DSV4_ABI_MINOR, .n_op = 1, .signature = DSV4_BUILD_SIGNATURE, .name = name_, \
		.version = "1", .cpu = "", .gpu = "", .op = var##_ops, \
	}; \
	static struct provider var

TEST_PLUGIN(exact, "exact", DSV4_EXACT, "fp32", ref_attn);
TEST_PLUGIN(scaled, "scaled", DSV4_LOSSY, "scaled", test_scaled_attn);
TEST_PLUGIN(rescaled, "rescaled", DSV4_LOSSY, "scaled", test_scaled_attn);

/* The attention of this provider in a phase, -1: in both; NULL: none. */
static void test_use(struct engine *e, struct provider *p, int phase, bool at_step)
{
	const struct kset_overlay ov = { .family = DSV4_ATTENTION, .phase = phase, .provider = p };
	struct buf why = { 0 };
	struct kset *ks;

	ks = warm_kset(&ov, p ? 1 : 0);
	if (engine_activate(e, &ks, NULL, at_step, &why))
		fail_msg("%s", buf_str(&why));
}

static struct engine *cold;

static int test_init(void **state)
{
	struct engine_options o = { 0 };

	(void)state;
	provider_init(&exact, &exact_plugin, NULL);
	provider_init(&scaled, &scaled_plugin, NULL);
	provider_init(&rescaled, &rescaled_plugin, NULL);
	cold = warm_open(&o);
	return 0;
}

/* Each test begins with the same kernels on the cold one. */
static int test_setup(void **state)
{
	(void)state;
	test_use(cold, NULL, -1, false);
	return 0;
}

static int test_fini(void **state)
{
	(void)state;
	engine_close(&cold);
	return 0;
}

static struct engine *test_open(size_t cache_bytes)
{
	struct engine_options o = { .cache_bytes = cache_bytes, .prefill_chunk = 96 };

	return warm_open(&o);
}

static uint64_t test_epoch(struct engine *e)
{
	struct engine_status s;

	engine_status(e, &s);
	return s.epoch;
}

/* Asks under the engine's set; the answer must be that of a cold engine with the same set. */
static struct warm_answer test_ask(struct engine *e, const struct warm_prompt *p, int max_tokens)
{
	struct kset *ks = engine_kset(e);
	struct warm_answer a = warm_ask(e, p, max_tokens), b;

	assert_int_equal(engine_activate(cold, &ks, NULL, false, NULL), 0);
	b = warm_ask(cold, p, max_tokens);
	warm_same(&a, &b);
	return a;
}

/* ---- kernel sets between turns ---- */

static void exact_kernels_keep_the_cache_and_lossy_ones_have_their_own(void **state)
{
	static const struct {
		struct provider *use;
		int epoch, cached;
		const char *miss;
	} turn[] = {
		{ NULL,      1, 0,   "cold" },
		{ &exact,    1, 256, "hit" },     /* the same bits */
		{ &scaled,   2, 0,   "numbers" },
		{ &scaled,   2, 256, "hit" },
		{ &rescaled, 3, 0,   "numbers" }, /* the same tag, but another's */
		{ NULL,      4, 256, "hit" },
		{ &scaled,   5, 256, "hit" },
	};
	struct engine *e = test_open(WARM_ENOUGH);
	struct warm_prompt p = { .n = 0 };
	uint64_t before = test_epoch(e) - 1;

	(void)state;
	warm_grow(&p, 3, 300);
	for (size_t i = 0; i < sizeof turn / sizeof *turn; i++) {
		struct warm_answer a;

		test_use(e, turn[i].use, -1, false);
		assert_int_equal(test_epoch(e) - before, turn[i].epoch);
		a = test_ask(e, &p, 3);
		assert_int_equal(a.usage.cached_tokens, turn[i].cached);
		assert_string_equal(a.view.miss_reason, turn[i].miss);
	}
	warm_idle(e);
	engine_close(&e);
}

/* A prompt would have been prefilled: where decoding has other bits, its blocks are not published. */
static void decoded_blocks_are_kept_only_if_prefill_has_their_bits(void **state)
{
	struct provider *use[] = { NULL, &scaled };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct engine *e = test_open(WARM_ENOUGH);
		struct warm_prompt p = { .n = 0 };
		struct warm_answer a;

		test_use(e, use[i], DSV4_DECODE, false);
		warm_grow(&p, 4, 150);
		a = test_ask(e, &p, 120);
		warm_grow_answer(&p, &a);
		warm_grow(&p, 5, 20);
		a = test_ask(e, &p, 3);
		assert_int_equal(a.usage.cached_tokens, i ? 128 : 256);
		engine_close(&e);
	}
}

/* ---- kernel sets at a step ---- */

struct test_swap {
	struct engine *engine;
	struct provider *to;
	int tokens;
};

/* On the engine thread, after each token. */
static void test_swap(void *arg)
{
	struct test_swap *s = arg;

	if (--s->tokens == 0)
		test_use(s->engine, s->to, -1, true);
}

static void test_swapped(struct provider *from, struct provider *to, int cached)
{
	struct engine *e = test_open(WARM_ENOUGH);
	struct test_swap swap = { e, to, 60 };
	struct warm_prompt p = { .n = 0 };
	struct generation_spec s;
	struct generation *g;
	struct warm_answer a;

	test_use(e, from, -1, false);
	warm_grow(&p, 6, 150);
	s = warm_spec(&p, 150);
	s.notify = test_swap;
	s.arg = &swap;
	g = warm_submit(e, &s);
	a = warm_read(e, &g);
	assert_int_equal(a.finish, GEN_LENGTH);
	assert_true(swap.tokens <= 0);
	warm_idle(e);
	test_use(e, from, -1, false);
	warm_grow_answer(&p, &a);
	a = test_ask(e, &p, 3);
	assert_int_equal(a.usage.cached_tokens, cached);
	engine_close(&e);
}

static void after_a_swap_at_a_step_only_the_same_numbers_are_published(void **state)
{
	(void)state;
	test_swapped(NULL, &exact, 256);
	test_swapped(&scaled, &rescaled, 128);
}

int main(void)
{
	const struct CMUnitTest together[] = {
		cmocka_unit_test_setup(after_a_swap_at_a_step_only_the_same_numbers_are_published, test_setup),
	};
	/* One request after the other: nothing there to race. */
	const struct CMUnitTest alone[] = {
		cmocka_unit_test_setup(exact_kernels_keep_the_cache_and_lossy_ones_have_their_own, test_setup),
		cmocka_unit_test_setup(decoded_blocks_are_kept_only_if_prefill_has_their_bits, test_setup),
	};
	int failed = cmocka_run_group_tests(together, test_init, test_fini);

	return WARM_RACES_ONLY ? failed : failed + cmocka_run_group_tests(alone, test_init, test_fini);
}
