/* SPDX-License-Identifier: MIT
 * numerics.c - the numerics parameters: names, values, refusals; and that each value runs and matters.
 * Threads: main. Locks: none. */
#include "engine/kernels/numerics.h"
#include "engine/base/rc.h"
#include "tests/unit/tinykit.h"

#include <stdlib.h>
#include <string.h>

#define N_TOK 150 /* 37 rows of ratio 4: more than the tiny model's top-k of 32 */

static const struct numerics_row *row(const char *name)
{
	const struct numerics_row *found = numerics_find(name, strlen(name));

	if (!found)
		fail_msg("no row %s", name);
	return found;
}

static void test_profiles(void **state)
{
	static const struct { const char *name, *native, *exact; } want[] = {
		{ "index_topk", "512", "512" },       { "index_key", "fp4", "f32" },
		{ "kv_format", "fp8", "f32" },        { "act_quant", "fp8", "none" },
		{ "mhc_precision", "fp32", "fp32" },  { "attn_scores", "fp32", "fp32" },
		{ "routed_scaling", "weights", "weights" }, { "drop_thinking", "auto", "auto" },
	};
	struct numerics native, exact;
	char text[32];

	(void)state;
	numerics_init(&native, NUMERICS_NATIVE, 512);
	numerics_init(&exact, NUMERICS_EXACT, 512);
	assert_int_equal(numerics_count, sizeof want / sizeof *want);
	for (int i = 0; i < numerics_count; i++) {
		assert_string_equal(numerics_get(&native, row(want[i].name), text), want[i].native);
		assert_string_equal(numerics_get(&exact, row(want[i].name), text), want[i].exact);
	}
	assert_int_equal(numerics_index_round(&native), DSV4_ROUND_FP4);
	assert_int_equal(numerics_index_round(&exact), DSV4_ROUND_NONE);
	assert_int_equal(numerics_kv_round(&native), DSV4_ROUND_FP8);
	assert_int_equal(numerics_act(&native), DSV4_ACT_FP8);
	assert_int_equal(numerics_act(&exact), DSV4_ACT_NONE);
}

static void test_find(void **state)
{
	const char *assigned = "index_key=fp8";

	(void)state;
	assert_ptr_equal(numerics_find(assigned, strlen("index_key")), row("index_key"));
	assert_null(numerics_find(assigned, strlen("index_ke")));
	assert_null(numerics_find(assigned, strlen(assigned)));
}

static void test_set(void **state)
{
	static const struct { const char *name, *value; int rc; const char *says; } cases[] = {
		{ "index_topk", "1", 0, "" },
		{ "index_topk", "1048576", 0, "" },
		{ "index_topk", "0", RC_INVALID,
		  "index_topk: \"0\" is not a whole number from 1 to 1048576" },
		{ "index_topk", "1048577", RC_INVALID, "from 1 to" },
		{ "index_topk", "-1", RC_INVALID, "from 1 to" },
		{ "index_topk", " 4", RC_INVALID, "from 1 to" },
		{ "index_topk", "4x", RC_INVALID, "from 1 to" },
		{ "index_topk", "99999999999999999999", RC_INVALID, "from 1 to" },
		{ "index_key", "bf16", 0, "" },
		{ "index_key", "fp", RC_INVALID, "index_key: \"fp\" is none of fp4|fp8|bf16|f32" },
		{ "index_key", "", RC_INVALID, "none of" },
		{ "index_key", "fp4|fp8", RC_INVALID, "none of" },
		{ "kv_format", "fp4", RC_INVALID, "none of fp8|bf16|f32" },
		{ "indexkey", "fp4", RC_NOT_FOUND,
		  "no parameter \"indexkey\"; there are: index_topk, index_key" },
	};
	struct buf why = { 0 };
	struct numerics n;

	(void)state;
	numerics_init(&n, NUMERICS_NATIVE, 512);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct numerics before = n;

		buf_clear(&why);
		assert_int_equal(numerics_set(&n, cases[i].name, cases[i].value, &why), cases[i].rc);
		if (!strstr(buf_str(&why), cases[i].says))
			fail_msg("%s=%s: %s", cases[i].name, cases[i].value, buf_str(&why));
		if (cases[i].rc < 0)
			assert_memory_equal(&n, &before, sizeof n);
	}
	assert_int_equal(numerics_index_round(&n), DSV4_ROUND_BF16);
	buf_fini(&why);
}

static void test_same_state(void **state)
{
	struct numerics a, b;

	(void)state;
	numerics_init(&a, NUMERICS_NATIVE, 512);
	b = a;
	assert_int_equal(numerics_set(&b, "drop_thinking", "never", NULL), 0);
	assert_true(numerics_same_state(&a, &b));
	assert_int_equal(numerics_set(&b, "index_topk", "511", NULL), 0);
	assert_false(numerics_same_state(&a, &b));
}

/* ---- each value runs ---- */

static float *run(struct tinykit *k, const char *name, const char *value, const int32_t *token)
{
	struct numerics n = k->native;

	assert_int_equal(numerics_set(&n, name, value, &k->why), 0);
	return tinykit_prefill(k, k->ref, &n, token, N_TOK);
}

static double distance(const float *a, const float *b, size_t n)
{
	double num = 0, den = 0;

	for (size_t i = 0; i < n; i++) {
		num += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		den += (double)b[i] * b[i];
	}
	return num / den;
}

/* Every word but the default changes the logits, and not beyond recognition. */
static void test_words_run(void **state)
{
	static const struct { const char *name, *value; } cases[] = {
		{ "index_key", "fp8" },     { "index_key", "bf16" },       { "index_key", "f32" },
		{ "kv_format", "bf16" },    { "kv_format", "f32" },        { "act_quant", "none" },
		{ "mhc_precision", "bf16" }, { "attn_scores", "bf16" },    { "routed_scaling", "output" },
		{ "index_topk", "1" },      { "index_topk", "31" },
	};
	struct tinykit *k = *state;
	size_t n = N_TOK * (size_t)k->vocab;
	int32_t token[N_TOK];
	float *native;

	tinykit_tokens(k, 5, token, N_TOK);
	native = run(k, "index_topk", "32", token);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float *logits = run(k, cases[i].name, cases[i].value, token);
		double d = distance(logits, native, n);

		if (!(d > 0) || !(d < 0.1))
			fail_msg("%s=%s: relative distance %g", cases[i].name, cases[i].value, d);
		free(logits);
	}
	free(native);
}

/* Where no rounding follows, the factor's place moves only the last bits. */
static void test_routed_scaling_is_the_same_sum(void **state)
{
	struct tinykit *k = *state;
	struct numerics n = k->exact;
	size_t count = N_TOK * (size_t)k->vocab;
	int32_t token[N_TOK];
	float *weights, *output;

	tinykit_tokens(k, 6, token, N_TOK);
	weights = tinykit_prefill(k, k->ref, &n, token, N_TOK);
	assert_int_equal(numerics_set(&n, "routed_scaling", "output", &k->why), 0);
	output = tinykit_prefill(k, k->ref, &n, token, N_TOK);
	assert_true(distance(output, weights, count) < 1e-10);
	free(weights);
	free(output);
}

/* A top-k beyond every row keeps all of them, however large (buffers follow the rows, not the parameter). */
static void test_topk_beyond_rows(void **state)
{
	static const char *const values[] = { "37", "64", "1048576" };
	struct tinykit *k = *state;
	size_t bytes = N_TOK * (size_t)k->vocab * sizeof(float);
	float *all[3], *fewer;
	int32_t token[N_TOK];

	tinykit_tokens(k, 7, token, N_TOK);
	fewer = run(k, "index_topk", "8", token);
	for (int i = 0; i < 3; i++)
		all[i] = run(k, "index_topk", values[i], token);
	assert_memory_equal(all[0], all[1], bytes);
	assert_memory_equal(all[0], all[2], bytes);
	assert_memory_not_equal(all[0], fewer, bytes);
	assert_true(forward_bytes(k->forward) < (size_t)64 << 20);
	for (int i = 0; i < 3; i++)
		free(all[i]);
	free(fewer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_profiles),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_same_state),
		cmocka_unit_test(test_words_run),
		cmocka_unit_test(test_routed_scaling_is_the_same_sum),
		cmocka_unit_test(test_topk_beyond_rows),
	};

	return cmocka_run_group_tests(tests, tinykit_setup, tinykit_teardown);
}
