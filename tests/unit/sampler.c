/* SPDX-License-Identifier: MIT
 * sampler.c - tests of sampler.c and rng.h: each setting on logits small enough to check by hand.
 * Threads: one. */
#include "engine/base/rc.h"
#include "engine/serve/rng.h"
#include "engine/serve/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DRAWS 4000
#define LARGE 3001

static struct gen_sampling sampler_neutral(void)
{
	return (struct gen_sampling){ .temperature = 1, .top_p = 1, .repetition_penalty = 1, .has_seed = true,
				      .seed = 7 };
}

/* How often each of n tokens was drawn; every draw starts afresh. */
static void sampler_histogram(const struct gen_sampling *set, const float *logits, int n, int *ret_count)
{
	struct sampler_work *w;
	struct sampler_choice c;
	int i;

	assert_int_equal(sampler_work_new(n, &w), 0);
	memset(ret_count, 0, (size_t)n * sizeof *ret_count);
	for (i = 0; i < DRAWS; i++) {
		struct sampler *s;

		assert_int_equal(sampler_new(set, n, &s), 0);
		assert_int_equal(sampler_pick(s, w, logits, NULL, (uint64_t)i, &c, NULL), 0);
		ret_count[c.token]++;
		sampler_free(&s);
	}
	sampler_work_free(&w);
}

/* The last of `rounds` tokens picked after a prompt of one token (none if negative). */
static int sampler_nth(const struct gen_sampling *set, const float *logits, int n, int32_t prompt, int rounds)
{
	struct sampler_work *w;
	struct sampler *s;
	struct sampler_choice c = { 0 };
	int i;

	assert_int_equal(sampler_work_new(n, &w), 0);
	assert_int_equal(sampler_new(set, n, &s), 0);
	if (prompt >= 0)
		sampler_prompt(s, &prompt, 1);
	for (i = 0; i < rounds; i++)
		assert_int_equal(sampler_pick(s, w, logits, NULL, (uint64_t)i, &c, NULL), 0);
	sampler_free(&s);
	sampler_work_free(&w);
	return c.token;
}

/* The known answer of Philox4x32-10 for an all-zero key and counter, as its authors publish it. */
static void rng_known_answer(void **state)
{
	static const uint32_t want[4] = { 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u };
	uint32_t x[4];
	double u;
	int i;

	(void)state;
	rng_block(0, 0, x);
	assert_memory_equal(x, want, sizeof want);
	for (i = 0; i < 1000; i++) {
		u = rng_uniform(3, (uint64_t)i);
		assert_true(u >= 0 && u < 1);
		assert_true(u == rng_uniform(3, (uint64_t)i));
		assert_true(u != rng_uniform(4, (uint64_t)i));
	}
}

static void greedy_takes_the_largest_and_the_lower_of_equals(void **state)
{
	static const float logits[5] = { 0, 3, 1, 3, 2 };
	struct gen_sampling set = sampler_neutral();

	(void)state;
	set.temperature = 0;
	assert_int_equal(sampler_nth(&set, logits, 5, -1, 1), 1);
	for (int i = 0; i < 19; i++) {
		float many[19] = { 0 };

		many[i] = many[18] = 1;
		assert_int_equal(sampler_nth(&set, many, 19, -1, 1), i);
		many[i] = many[18] = -1;
		assert_int_equal(sampler_nth(&set, many, 19, -1, 1), i == 0);
	}
}

static void temperature_gives_the_softmax(void **state)
{
	static const float logits[3] = { 0, 0.6931472f, 1.3862944f }; /* 1 : 2 : 4 */
	struct gen_sampling set = sampler_neutral();
	int n[3];

	(void)state;
	sampler_histogram(&set, logits, 3, n);
	assert_in_range(n[0], DRAWS / 7 - 120, DRAWS / 7 + 120);
	assert_in_range(n[1], 2 * DRAWS / 7 - 120, 2 * DRAWS / 7 + 120);
	set.temperature = 0.5f; /* 1 : 4 : 16 */
	sampler_histogram(&set, logits, 3, n);
	assert_in_range(n[0], DRAWS / 21 - 60, DRAWS / 21 + 60);
	assert_in_range(n[1], 4 * DRAWS / 21 - 100, 4 * DRAWS / 21 + 100);
	set.temperature = 1e-30f;
	sampler_histogram(&set, logits, 3, n);
	assert_int_equal(n[2], DRAWS);
}

static void filters_keep_what_they_should(void **state)
{
	static const float logits[4] = { 1.3862944f, -50, 0.6931472f, 0 }; /* 4 : 0 : 2 : 1 */
	struct gen_sampling set = sampler_neutral();
	int n[4];

	(void)state;
	set.top_k = 2;
	sampler_histogram(&set, logits, 4, n);
	assert_int_equal(n[0] + n[2], DRAWS);
	assert_in_range(n[2], DRAWS / 3 - 120, DRAWS / 3 + 120);
	set.top_p = 0.6f; /* of 4 : 2, the first alone has 0.67 */
	sampler_histogram(&set, logits, 4, n);
	assert_int_equal(n[0], DRAWS);
	set = sampler_neutral();
	set.top_p = 0.6f; /* of 4 : 2 : 1, the first alone has 0.57 */
	sampler_histogram(&set, logits, 4, n);
	assert_int_equal(n[0] + n[2], DRAWS);
	assert_true(n[2] > 0);
	set.top_p = 0;
	sampler_histogram(&set, logits, 4, n);
	assert_int_equal(n[0], DRAWS);
	set = sampler_neutral();
	set.min_p = 0.3f;
	sampler_histogram(&set, logits, 4, n);
	assert_int_equal(n[0] + n[2], DRAWS);
	set.min_p = 1;
	sampler_histogram(&set, logits, 4, n);
	assert_int_equal(n[0], DRAWS);
	set = sampler_neutral();
	set.top_k = 99; /* more than there are */
	sampler_histogram(&set, logits, 4, n);
	assert_true(n[3] > 0);
}

struct sampler_naive {
	double weight;
	int32_t token;
};

static int sampler_naive_order(const void *a, const void *b)
{
	const struct sampler_naive *x = a, *y = b;

	return x->weight > y->weight ? -1 : x->weight < y->weight ? 1 : x->token - y->token;
}

/* What sampler.h says, by sorting everything. */
static int32_t sampler_naive(const struct gen_sampling *set, const float *logits, int n, double u)
{
	struct sampler_naive c[LARGE];
	double max = -1000, total = 0, sum = 0, at = 0;
	int i, k = set->top_k > 0 && set->top_k < n ? set->top_k : n, kept;

	for (i = 0; i < n; i++)
		max = fmax(max, (double)logits[i]);
	for (i = 0; i < n; i++)
		c[i] = (struct sampler_naive){ exp(((double)logits[i] - max) / (double)set->temperature), i };
	qsort(c, (size_t)n, sizeof *c, sampler_naive_order);
	for (i = 0; i < k; i++)
		total += c[i].weight;
	for (kept = 0; kept < k && c[kept].weight >= (double)set->min_p; kept++) {
		if (kept && set->top_p < 1 && sum >= (double)set->top_p * total)
			break;
		sum += c[kept].weight;
	}
	for (i = 0; i < kept - 1; i++) {
		at += c[i].weight;
		if (at > u * sum)
			break;
	}
	return c[i].token;
}

/* Only a few of many candidates get sorted; that must not show. Every 64th logit is the same,
 * so that there are ties. */
static void filters_do_as_if_everything_was_sorted(void **state)
{
	static const struct gen_sampling filter[] = {
		{ .top_k = 1, .top_p = 1 }, { .top_k = 40, .top_p = 1 }, { .top_k = 40, .top_p = 0.5f },
		{ .top_k = 2000, .top_p = 0.99f, .min_p = 0.01f }, { .top_p = 0.9f },
		{ .top_p = 0.999f, .min_p = 1e-4f },
		{ .top_p = 1, .min_p = 0.05f }, { .top_p = 1, .min_p = 1e-30f }, { .top_k = LARGE, .top_p = 0.8f },
	};
	struct sampler_work *w;
	static float logits[LARGE];

	(void)state;
	assert_int_equal(sampler_work_new(LARGE, &w), 0);
	for (unsigned f = 0; f < 4 * sizeof filter / sizeof *filter; f++) {
		struct gen_sampling set = filter[f / 4];
		struct sampler *s;
		struct sampler_choice c;

		set.temperature = (float[]){ 0.05f, 0.7f, 1, 3 }[f % 4];
		set.repetition_penalty = 1;
		set.seed = 11;
		assert_int_equal(sampler_new(&set, LARGE, &s), 0);
		for (int i = 0; i < 50; i++) {
			for (int k = 0; k < LARGE; k++)
				logits[k] = k % 64 ? (float)(20 * rng_uniform((uint64_t)i, (uint64_t)k)) : 19;
			assert_int_equal(sampler_pick(s, w, logits, NULL, (uint64_t)i, &c, NULL), 0);
			assert_int_equal(c.token, sampler_naive(&set, logits, LARGE, rng_uniform(11, (uint64_t)i)));
		}
		sampler_free(&s);
	}
	sampler_work_free(&w);
}

static void penalties_count_what_was_seen(void **state)
{
	static const float pos[2] = { 2, 1.5f }, neg[2] = { -1, -1.5f };
	struct gen_sampling set = sampler_neutral();

	(void)state;
	set.temperature = 0;
	set.repetition_penalty = 2;
	assert_int_equal(sampler_nth(&set, pos, 2, -1, 1), 0);
	assert_int_equal(sampler_nth(&set, pos, 2, 0, 1), 1); /* the prompt counts: 1 against 1.5 */
	assert_int_equal(sampler_nth(&set, neg, 2, 0, 1), 1); /* a negative logit moves down, not up */
	set.repetition_penalty = 1;
	set.presence_penalty = 0.4f;
	assert_int_equal(sampler_nth(&set, pos, 2, 0, 1), 0);  /* the prompt does not count */
	assert_int_equal(sampler_nth(&set, pos, 2, -1, 9), 0); /* once, however often */
	set.presence_penalty = 0;
	set.frequency_penalty = 0.4f;
	assert_int_equal(sampler_nth(&set, pos, 2, -1, 2), 0);
	assert_int_equal(sampler_nth(&set, pos, 2, -1, 3), 1); /* twice 0.4 */
}

static void bias_moves_a_token(void **state)
{
	static const float logits[3] = { 5, 0, 0 };
	static const struct gen_logit_bias bias[2] = { { 2, 10 }, { 0, -100 } };
	struct gen_sampling set = sampler_neutral();

	(void)state;
	set.temperature = 0;
	set.bias = bias;
	set.n_bias = 2;
	assert_int_equal(sampler_nth(&set, logits, 3, -1, 1), 2);
}

/* The same seed and index give the same token, whatever else this thread sampled in between. */
static void seed_decides_alone(void **state)
{
	float logits[50] = { 0 };
	struct gen_sampling set = sampler_neutral(), other = sampler_neutral();
	struct sampler_work *w;
	struct sampler *a, *b, *c;
	struct sampler_choice x, y, z;
	int i, differ = 0;

	(void)state;
	other.seed = 8;
	assert_int_equal(sampler_work_new(50, &w), 0);
	assert_int_equal(sampler_new(&set, 50, &a) | sampler_new(&set, 50, &b), 0);
	assert_int_equal(sampler_new(&other, 50, &c), 0);
	for (i = 0; i < 100; i++) {
		assert_int_equal(sampler_pick(a, w, logits, NULL, (uint64_t)i, &x, NULL), 0);
		assert_int_equal(sampler_pick(c, w, logits, NULL, (uint64_t)i, &z, NULL), 0);
		assert_int_equal(sampler_pick(b, w, logits, NULL, (uint64_t)i, &y, NULL), 0);
		assert_int_equal(x.token, y.token);
		differ += x.token != z.token;
	}
	assert_true(differ > 80);
	sampler_free(&a);
	sampler_free(&b);
	sampler_free(&c);
	sampler_work_free(&w);
}

static void logprobs_are_of_the_raw_logits(void **state)
{
	static const float logits[4] = { 1, 3, 2, 3 };
	static const struct gen_logit_bias bias[1] = { { 0, 50 } };
	struct gen_sampling set = sampler_neutral();
	double sum = exp(1) + exp(3) + exp(2) + exp(3);
	struct sampler_work *w;
	struct sampler *s;
	struct sampler_choice c;

	(void)state;
	set.temperature = 0;
	set.bias = bias;
	set.n_bias = 1;
	set.logprobs = true;
	set.top_logprobs = 3;
	assert_int_equal(sampler_work_new(4, &w), 0);
	assert_int_equal(sampler_new(&set, 4, &s), 0);
	assert_int_equal(sampler_pick(s, w, logits, NULL, 0, &c, NULL), 0);
	assert_int_equal(c.token, 0);
	assert_true(fabs((double)c.logprob - (1 - log(sum))) < 1e-6);
	assert_int_equal(c.n_top, 3);
	assert_int_equal(c.top[0].token, 1);
	assert_int_equal(c.top[1].token, 3);
	assert_int_equal(c.top[2].token, 2);
	assert_true(fabs((double)c.top[2].logprob - (2 - log(sum))) < 1e-6);
	sampler_free(&s);
	sampler_work_free(&w);
}

/* Whatever bias, penalties and filters make of the allowed tokens, one of them comes, with its raw probability. */
static void only_allowed_tokens_come_whatever_else_is_set(void **state)
{
	static const float logits[70] = { [2] = 9, [3] = 1, [68] = 1 };
	static const uint64_t both[2] = { 1 << 3, 1 << 4 }, one[2] = { 0, 1 << 4 };
	struct gen_logit_bias bias[] = { { 3, -100 }, { 68, -100 }, { 2, 100 } };
	struct gen_sampling set = sampler_neutral();
	int32_t first[2] = { 0 };
	struct sampler_choice c;
	struct sampler_work *w;
	struct sampler *s;

	(void)state;
	set.bias = bias;
	set.n_bias = 3;
	set.top_p = 0.9f;
	set.min_p = 0.1f;
	set.presence_penalty = 2;
	set.repetition_penalty = 2;
	set.logprobs = true;
	assert_int_equal(sampler_work_new(70, &w), 0);
	for (int i = 0; i < 200; i++) {
		set.top_k = i % 3;
		set.temperature = (float)(i % 5);
		assert_int_equal(sampler_new(&set, 70, &s), 0);
		assert_int_equal(sampler_pick(s, w, logits, both, (uint64_t)i, &c, NULL), 0);
		assert_true(c.token == 3 || c.token == 68);
		first[c.token == 68]++;
		assert_true(c.logprob < -7); /* of all 70, where token 2 has nearly everything */
		assert_int_equal(sampler_pick(s, w, logits, one, (uint64_t)i, &c, NULL), 0);
		assert_int_equal(c.token, 68);
		sampler_free(&s);
	}
	assert_true(first[0] > 0 && first[1] > 0);
	sampler_work_free(&w);
}

static void a_logit_that_is_not_finite_is_an_error(void **state)
{
	static const float bad[3] = { NAN, INFINITY, -INFINITY };
	struct gen_sampling set = sampler_neutral();
	struct sampler_work *w;
	struct sampler *s;
	struct sampler_choice c;
	struct buf why = { 0 };
	int i;

	(void)state;
	assert_int_equal(sampler_work_new(4, &w), 0);
	assert_int_equal(sampler_new(&set, 4, &s), 0);
	for (i = 0; i < 3; i++) {
		float logits[4] = { 0, 0, bad[i], 0 };

		assert_int_equal(sampler_pick(s, w, logits, NULL, 0, &c, &why), RC_KERNEL);
		assert_non_null(strstr(buf_str(&why), "token 2"));
	}
	buf_fini(&why);
	sampler_free(&s);
	sampler_work_free(&w);
}

#define SAMPLER_REFUSES(field, value) \
	do { \
		struct gen_sampling set_ = sampler_neutral(); \
		set_.field = (value); \
		assert_int_equal(sampler_check(&set_, 100, &why), RC_INVALID); \
		assert_ptr_equal(strstr(buf_str(&why), #field), buf_str(&why)); \
	} while (0)

static void settings_out_of_range_are_named(void **state)
{
	static const struct gen_logit_bias bias[1] = { { 100, 0 } };
	static const char *const stop[1] = { "" };
	struct gen_sampling set = sampler_neutral();
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(sampler_check(&set, 100, &why), 0);
	SAMPLER_REFUSES(temperature, -1);
	SAMPLER_REFUSES(temperature, NAN);
	SAMPLER_REFUSES(top_p, 1.5f);
	SAMPLER_REFUSES(min_p, -0.1f);
	SAMPLER_REFUSES(top_k, -1);
	SAMPLER_REFUSES(repetition_penalty, 0);
	SAMPLER_REFUSES(presence_penalty, 3);
	SAMPLER_REFUSES(frequency_penalty, INFINITY);
	SAMPLER_REFUSES(top_logprobs, 21);
	set.bias = bias;
	set.n_bias = 1;
	assert_int_equal(sampler_check(&set, 100, &why), RC_INVALID);
	set.n_bias = 0;
	set.stop = stop;
	set.n_stop = 1;
	assert_int_equal(sampler_check(&set, 100, &why), RC_INVALID);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rng_known_answer),
		cmocka_unit_test(greedy_takes_the_largest_and_the_lower_of_equals),
		cmocka_unit_test(temperature_gives_the_softmax),
		cmocka_unit_test(filters_keep_what_they_should),
		cmocka_unit_test(filters_do_as_if_everything_was_sorted),
		cmocka_unit_test(penalties_count_what_was_seen),
		cmocka_unit_test(bias_moves_a_token),
		cmocka_unit_test(seed_decides_alone),
		cmocka_unit_test(logprobs_are_of_the_raw_logits),
		cmocka_unit_test(only_allowed_tokens_come_whatever_else_is_set),
		cmocka_unit_test(a_logit_that_is_not_finite_is_an_error),
		cmocka_unit_test(settings_out_of_range_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
