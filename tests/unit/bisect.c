/* SPDX-License-Identifier: MIT
 * bisect.c - the search for the change that makes a verdict bad, against oracles that know it.
 * Threads: the test's. */
#include "daemon/probes/bisect.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BIT(i) ((uint64_t)1 << (i))
#define ALL(n) (BIT(n) - 1)

/* ---- oracles ---- */

struct test_oracle {
	uint64_t culprit[2];       /* bad is what has all of one of these; 0: none */
	uint64_t together;         /* without a verdict where some of these are there and some are not */
	uint64_t key;              /* not 0: bad as a hash of the candidate falls, but for the ends */
	unsigned noise, seed;      /* so many of 1000 verdicts are the other one */
	int n, bad;                /* changes; the level of bad, by default 2 */
	int fail_at;               /* the run that fails; 0: none */
	int runs;
	uint64_t asked[BISECT_MAX_RUNS];
};

static unsigned test_random(unsigned *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 12;
}

static bool test_truth(const struct test_oracle *t, uint64_t c)
{
	uint64_t h = (c + t->key) * 0x9e3779b97f4a7c15u;

	if (t->key)
		return c == ALL(t->n) || (c != 0 && (h >> 40) % 2);
	return (t->culprit[0] && (c & t->culprit[0]) == t->culprit[0]) ||
		(t->culprit[1] && (c & t->culprit[1]) == t->culprit[1]);
}

static int test_ask(void *arg, uint64_t candidate, int *ret_level)
{
	struct test_oracle *t = arg;
	uint64_t some = candidate & t->together;
	bool bad = test_truth(t, candidate);

	assert_int_equal(candidate & ~ALL(t->n), 0);
	assert_true(t->runs < BISECT_MAX_RUNS);
	t->asked[t->runs++] = candidate;
	if (t->runs == t->fail_at)
		return RC_CANCELLED;
	if (t->noise)
		bad ^= test_random(&t->seed) % 1000 < t->noise;
	*ret_level = some && some != t->together ? BISECT_NO_LEVEL : bad ? t->bad ? t->bad : 2 : 0;
	return 0;
}

static struct bisect_result test_run(struct test_oracle *t, struct bisect_options o)
{
	struct bisect_result r;

	o.n = t->n;
	o.repeat = o.repeat ? o.repeat : 1;
	o.max_runs = o.max_runs ? o.max_runs : 40;
	o.oracle = test_ask;
	o.arg = t;
	t->runs = 0;
	assert_int_equal(bisect_run(&o, &r), 0);
	assert_int_equal(r.runs, t->runs);
	assert_true(r.runs <= o.max_runs);
	return r;
}

/* What names 10 % wrong verdicts end at, of 2000 searches among eight. */
static int test_wrong_names(unsigned noise, int repeat, int *ret_found)
{
	int wrong = 0;

	*ret_found = 0;
	for (unsigned seed = 1; seed <= 2000; seed++) {
		uint64_t culprit = BIT(seed % 8);
		struct test_oracle t = { .culprit = { culprit }, .n = 8, .noise = noise, .seed = seed * 7919 };
		struct bisect_result r = test_run(&t, (struct bisect_options){ .sampled = true, .repeat = repeat,
									       .confirm = true });

		*ret_found += r.outcome == BISECT_FOUND;
		wrong += r.outcome == BISECT_FOUND && (r.n_culprit != 1 || r.culprit[0].changes != culprit);
		assert_true(r.outcome == BISECT_FOUND || r.n_culprit == 0 || r.left || r.fix != BISECT_FIX_GOOD);
	}
	return wrong;
}

static int test_log2(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

/* ---- one culprit ---- */

static void one_culprit_of_n_takes_two_ends_a_halving_and_a_proof(void **state)
{
	(void)state;
	for (int n = 1; n <= 24; n++)
		for (int i = 0; i < n; i++) {
			struct test_oracle t = { .culprit = { BIT(i) }, .n = n };
			struct bisect_result r = test_run(&t, (struct bisect_options){ 0 });

			assert_int_equal(r.outcome, BISECT_FOUND);
			assert_int_equal(r.n_culprit, 1);
			assert_int_equal(r.culprit[0].changes, BIT(i));
			assert_true(r.culprit[0].alone && r.culprit[0].minimal);
			assert_int_not_equal(r.fix, BISECT_FIX_BAD);
			assert_true(r.runs <= 2 + test_log2(n) + 1);
		}
}

/* What is believed exact comes later, and costs no run for it. */
static void believed_changes_among_eight_cost_no_run_more(void **state)
{
	(void)state;
	for (int believed = 0; believed < 256; believed++)
		for (int i = 0; i < 8; i++) {
			double weight[8];
			struct test_oracle t = { .culprit = { BIT(i) }, .n = 8 };
			struct bisect_result r;

			for (int k = 0; k < 8; k++)
				weight[k] = believed >> k & 1 ? 0.01 : 1;
			for (int confirm = 0; confirm < 2; confirm++) {
				r = test_run(&t, (struct bisect_options){ .weight = weight, .confirm = confirm });
				assert_int_equal(r.outcome, BISECT_FOUND);
				assert_int_equal(r.culprit[0].changes, BIT(i));
				assert_true(r.runs <= 6);
			}
		}
}

static void the_planted_culprit_among_eight_is_named_in_six_runs(void **state)
{
	int most = 0, fixes = 0;

	(void)state;
	for (int i = 0; i < 8; i++) {
		struct test_oracle t = { .culprit = { BIT(i) }, .n = 8 };
		struct bisect_result r = test_run(&t, (struct bisect_options){ 0 });

		most = r.runs > most ? r.runs : most;
		fixes += r.fix == BISECT_FIX_GOOD;
	}
	assert_int_equal(most, 6);
	assert_true(fixes >= 1);
}

static void confirming_names_it_in_six_runs_too(void **state)
{
	(void)state;
	for (int n = 1; n <= 24; n++)
		for (int i = 0; i < n; i++) {
			struct test_oracle t = { .culprit = { BIT(i) }, .n = n };
			struct bisect_result r = test_run(&t, (struct bisect_options){ .confirm = true });

			assert_int_equal(r.outcome, BISECT_FOUND);
			assert_int_equal(r.culprit[0].changes, BIT(i));
			assert_true(r.fix == BISECT_FIX_GOOD || r.fix == BISECT_FIX_IMPLIED);
			assert_true(r.culprit[0].alone || r.fix == BISECT_FIX_GOOD);
			assert_true(r.runs <= 2 + test_log2(n) + 1);
		}
}

/* Of 28 pairs 12 were named by half, with a fix that mended nothing. */
static void a_fix_that_does_not_mend_is_not_the_end(void **state)
{
	(void)state;
	for (int a = 0; a < 8; a++)
		for (int b = a + 1; b < 8; b++)
			for (int together = 0; together < 2; together++) {
				uint64_t both = BIT(a) | BIT(b), named = 0;
				struct test_oracle t = { .culprit = { together ? both : BIT(a), together ? 0 : BIT(b) },
							 .n = 8 };
				struct bisect_result r = test_run(&t, (struct bisect_options){ .confirm = true });

				assert_int_equal(r.outcome, BISECT_FOUND);
				for (int i = 0; i < r.n_culprit; i++)
					named |= r.culprit[i].changes;
				assert_int_equal(named, both);
				assert_int_equal(r.n_culprit, together ? 1 : 2);
				assert_false(test_truth(&t, ALL(8) & ~named));
			}
}

/* A budget that ends before the fix is tried settles nothing. */
static void a_fix_that_no_run_was_left_for_is_not_settled(void **state)
{
	int untried = 0;

	(void)state;
	for (int max = 6; max < 16; max++)
		for (int a = 0; a < 8; a++)
			for (int b = a + 1; b < 8; b++) {
				struct test_oracle t = { .culprit = { BIT(a), BIT(b) }, .n = 8 };
				struct bisect_result r =
					test_run(&t, (struct bisect_options){ .confirm = true, .max_runs = max });

				untried += r.n_culprit == 1 && r.outcome == BISECT_UNSETTLED;
				assert_true(r.outcome != BISECT_FOUND || r.n_culprit == 2);
			}
	assert_true(untried > 0);
}

static void no_candidate_is_run_twice(void **state)
{
	(void)state;
	for (int i = 0; i < 24; i++) {
		struct test_oracle t = { .culprit = { BIT(i), BIT(23 - i) | BIT(3) }, .n = 24 };

		test_run(&t, (struct bisect_options){ .confirm = true });
		for (int a = 0; a < t.runs; a++)
			for (int b = 0; b < a; b++)
				assert_int_not_equal(t.asked[a], t.asked[b]);
	}
}

/* Many that nobody suspects cost nothing, or one run where one of them is it. */
static void the_likely_ones_are_looked_at_first(void **state)
{
	double weight[40];

	(void)state;
	for (int i = 0; i < 40; i++)
		weight[i] = i % 5 == 0 ? 1 : 0.01;
	for (int i = 0; i < 40; i++) {
		struct test_oracle t = { .culprit = { BIT(i) }, .n = 40 };
		struct bisect_result r = test_run(&t, (struct bisect_options){ .weight = weight });

		assert_int_equal(r.culprit[0].changes, BIT(i));
		assert_true(r.culprit[0].alone);
		if (i % 5 == 0)
			assert_true(r.runs <= 7);
	}
}

static void sixty_four_changes_are_not_too_many(void **state)
{
	struct test_oracle t = { .culprit = { BIT(63) }, .n = 64 };
	struct bisect_options o = { .n = 64, .repeat = 1, .max_runs = 40 };
	struct bisect_result r;

	(void)state;
	t.n = 63; /* for ALL(), which the bits of 64 overflow */
	t.culprit[0] = BIT(62);
	r = test_run(&t, o);
	assert_int_equal(r.culprit[0].changes, BIT(62));
	assert_true(r.runs <= 9);
}

/* ---- several ---- */

static void two_that_are_needed_together_are_both_named(void **state)
{
	int most = 0;

	(void)state;
	for (int n = 2; n <= 24; n++)
		for (int a = 0; a < n; a++)
			for (int b = a + 1; b < n; b++) {
				struct test_oracle t = { .culprit = { BIT(a) | BIT(b) }, .n = n };
				struct bisect_result r = test_run(&t, (struct bisect_options){ 0 });

				assert_int_equal(r.outcome, BISECT_FOUND);
				assert_int_equal(r.n_culprit, 1);
				assert_int_equal(r.culprit[0].changes, BIT(a) | BIT(b));
				assert_true(r.culprit[0].alone && r.culprit[0].minimal);
				most = r.runs > most ? r.runs : most;
			}
	/* after the halving that took it for one */
	assert_true(most <= 2 + 2 * (test_log2(24) + 2) + 3 + test_log2(24) + 1);
}

static void two_that_do_it_each_are_both_named_when_the_fix_is_confirmed(void **state)
{
	(void)state;
	for (int a = 0; a < 12; a++)
		for (int b = a + 1; b < 12; b++) {
			struct test_oracle t = { .culprit = { BIT(a), BIT(b) }, .n = 12 };
			struct bisect_result r = test_run(&t, (struct bisect_options){ .confirm = true });

			assert_int_equal(r.outcome, BISECT_FOUND);
			assert_int_equal(r.n_culprit, 2);
			assert_int_equal(r.culprit[0].changes | r.culprit[1].changes, BIT(a) | BIT(b));
			assert_int_equal(r.fix, BISECT_FIX_GOOD);
			r = test_run(&t, (struct bisect_options){ 0 });
			assert_true(r.culprit[0].changes == BIT(a) || r.culprit[0].changes == BIT(b));
			assert_true(r.fix != BISECT_FIX_GOOD || r.n_culprit == 2);
		}
}

static void three_of_twenty_four_are_named(void **state)
{
	(void)state;
	for (int i = 0; i < 22; i++) {
		struct test_oracle t = { .culprit = { BIT(i) | BIT((i * 7 + 1) % 24) | BIT((i * 5 + 2) % 24) },
					 .n = 24 };
		struct bisect_result r = test_run(&t, (struct bisect_options){ 0 });

		assert_int_equal(r.culprit[0].changes, t.culprit[0]);
		assert_true(r.culprit[0].minimal);
	}
}

/* Verdicts in no order at all: what is told is what was run. */
static void what_is_told_is_true_of_any_oracle(void **state)
{
	(void)state;
	for (uint64_t key = 1; key <= 500; key++) {
		struct test_oracle t = { .key = key, .n = 3 + (int)(key % 14) };
		struct bisect_result r = test_run(&t, (struct bisect_options){ .confirm = true, .max_runs = 200 });
		uint64_t rest = ALL(t.n);

		assert_true(r.n_culprit > 0);
		for (int i = 0; i < r.n_culprit; i++) {
			uint64_t c = r.culprit[i].changes;

			assert_int_equal(c & ~rest, 0);
			rest &= ~c;
			assert_true(!r.culprit[i].alone || test_truth(&t, c));
			for (int k = 0; k < t.n && r.culprit[i].minimal; k++)
				assert_true(!(c & BIT(k)) || c == BIT(k) || !test_truth(&t, c & ~BIT(k)));
		}
		if (r.outcome == BISECT_FOUND)
			assert_true(r.fix == BISECT_FIX_GOOD || r.fix == BISECT_FIX_IMPLIED);
		assert_true(r.fix != BISECT_FIX_GOOD || !test_truth(&t, rest));
	}
}

/* ---- what comes to no verdict ---- */

static void changes_that_only_run_together_are_named_together(void **state)
{
	(void)state;
	for (int a = 0; a < 10; a++)
		for (int b = a + 1; b < 10; b++)
			for (int i = 0; i < 10; i++) {
				struct test_oracle t = { .culprit = { BIT(i) }, .together = BIT(a) | BIT(b), .n = 10 };
				struct bisect_result r = test_run(&t, (struct bisect_options){ .max_runs = 100 });
				bool pair = i == a || i == b; /* may be one or both: that cannot be told */

				assert_int_equal(r.outcome, BISECT_FOUND);
				assert_int_equal(r.culprit[0].changes, pair ? t.together : BIT(i));
				assert_true(r.culprit[0].alone);
				assert_int_equal(r.culprit[0].minimal, !pair);
			}
}

static void ends_that_agree_end_it_after_two_runs(void **state)
{
	struct test_oracle none = { .n = 9 };
	struct test_oracle pair = { .culprit = { BIT(1) }, .together = ALL(8) | BIT(8), .n = 9 };
	struct bisect_result r = test_run(&none, (struct bisect_options){ 0 });

	(void)state;
	assert_int_equal(r.outcome, BISECT_AGREE);
	assert_int_equal(r.runs, 2);
	assert_int_equal(r.good_level, 0);
	assert_int_equal(r.bad_level, 0);
	assert_int_equal(r.n_culprit, 0);
	/* Nothing can be taken apart: all are named, and it is said that they may be too many. */
	r = test_run(&pair, (struct bisect_options){ 0 });
	assert_int_equal(r.outcome, BISECT_FOUND);
	assert_int_equal(r.culprit[0].changes, ALL(9));
	assert_false(r.culprit[0].minimal);
}

static int test_no_verdict(void *arg, uint64_t candidate, int *ret_level)
{
	++*(int *)arg;
	*ret_level = candidate ? BISECT_NO_LEVEL : 0;
	return 0;
}

static void an_end_without_a_verdict_is_tried_again_and_then_told(void **state)
{
	struct bisect_result r;
	int runs = 0;
	struct bisect_options o = { .n = 4, .repeat = 3, .max_runs = 40, .oracle = test_no_verdict, .arg = &runs };

	(void)state;
	assert_int_equal(bisect_run(&o, &r), 0);
	assert_int_equal(r.outcome, BISECT_NO_VERDICT);
	assert_int_equal(r.good_level, 0);
	assert_int_equal(r.bad_level, BISECT_NO_LEVEL);
	assert_int_equal(runs, 4); /* the good end once, it is no sample */
}

/* As bad as the bad end is what counts: a warning is no failure, and can be what is looked for. */
static int test_warns(void *arg, uint64_t candidate, int *ret_level)
{
	(void)arg;
	*ret_level = (candidate & 4 ? 2 : candidate & 8 ? 1 : 0);
	return 0;
}

static void a_warning_on_the_way_is_not_the_failure(void **state)
{
	struct bisect_options o = { .n = 4, .repeat = 1, .max_runs = 40, .oracle = test_warns };
	struct test_oracle t = { .culprit = { BIT(5) }, .n = 7, .bad = 1 };
	struct bisect_result r;

	(void)state;
	assert_int_equal(bisect_run(&o, &r), 0);
	assert_int_equal(r.culprit[0].changes, 4);
	r = test_run(&t, (struct bisect_options){ 0 });
	assert_int_equal(r.culprit[0].changes, BIT(5));
	assert_int_equal(r.bad_level, 1);
}

/* ---- noise, budget, failure ---- */

static void noisy_verdicts_are_repeated_until_most_agree(void **state)
{
	int right = 0, runs = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 200; seed++) {
		struct test_oracle t = { .culprit = { BIT(seed % 16) }, .n = 16, .noise = 100, .seed = seed * 7919 };
		struct bisect_result r = test_run(&t, (struct bisect_options){ .sampled = true, .repeat = 5,
									       .max_runs = 60 });

		right += r.outcome == BISECT_FOUND && r.n_culprit == 1 && r.culprit[0].changes == BIT(seed % 16);
		runs += r.runs;
	}
	assert_true(right >= 160);
	assert_true(runs < 200 * 7 * 4); /* a vote that is decided stops */
}

static void one_wrong_verdict_of_ten_names_hardly_ever_the_wrong_one(void **state)
{
	int found;

	(void)state;
	assert_true(test_wrong_names(100, 3, &found) < 20);
	assert_true(found > 1600);
	assert_int_equal(test_wrong_names(0, 3, &found), 0);
	assert_int_equal(found, 2000);
}

static void without_noise_three_of_five_votes_are_enough(void **state)
{
	struct test_oracle t = { .culprit = { BIT(3) }, .n = 8 };
	struct bisect_result r = test_run(&t, (struct bisect_options){ .sampled = true, .repeat = 5 });

	(void)state;
	assert_int_equal(r.culprit[0].changes, BIT(3));
	assert_int_equal(r.runs % 3, 0);
	assert_true(r.runs <= 21); /* both ends, three halves, alone and without */
}

static void the_budget_holds_and_what_is_left_has_the_culprit(void **state)
{
	(void)state;
	for (int max = 2; max < 9; max++)
		for (int i = 0; i < 24; i++) {
			struct test_oracle t = { .culprit = { BIT(i) }, .n = 24 };
			struct bisect_result r = test_run(&t, (struct bisect_options){ .max_runs = max });

			if (r.outcome == BISECT_FOUND) {
				assert_int_equal(r.culprit[0].changes, BIT(i));
				continue;
			}
			assert_int_equal(r.outcome, BISECT_UNSETTLED);
			assert_int_equal(r.runs, max);
			assert_true(r.left & BIT(i));
			assert_true(max < 8);
		}
}

static void an_oracle_that_fails_ends_it(void **state)
{
	(void)state;
	for (int at = 1; at <= 5; at++) {
		struct test_oracle t = { .culprit = { BIT(6) }, .n = 8, .fail_at = at };
		struct bisect_options o = { .n = 8, .repeat = 3, .max_runs = 40, .oracle = test_ask, .arg = &t };
		struct bisect_result r;

		assert_int_equal(bisect_run(&o, &r), RC_CANCELLED);
		assert_int_equal(t.runs, at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_culprit_of_n_takes_two_ends_a_halving_and_a_proof),
		cmocka_unit_test(the_planted_culprit_among_eight_is_named_in_six_runs),
		cmocka_unit_test(believed_changes_among_eight_cost_no_run_more),
		cmocka_unit_test(confirming_names_it_in_six_runs_too),
		cmocka_unit_test(a_fix_that_does_not_mend_is_not_the_end),
		cmocka_unit_test(a_fix_that_no_run_was_left_for_is_not_settled),
		cmocka_unit_test(no_candidate_is_run_twice),
		cmocka_unit_test(the_likely_ones_are_looked_at_first),
		cmocka_unit_test(sixty_four_changes_are_not_too_many),
		cmocka_unit_test(two_that_are_needed_together_are_both_named),
		cmocka_unit_test(two_that_do_it_each_are_both_named_when_the_fix_is_confirmed),
		cmocka_unit_test(three_of_twenty_four_are_named),
		cmocka_unit_test(what_is_told_is_true_of_any_oracle),
		cmocka_unit_test(changes_that_only_run_together_are_named_together),
		cmocka_unit_test(ends_that_agree_end_it_after_two_runs),
		cmocka_unit_test(an_end_without_a_verdict_is_tried_again_and_then_told),
		cmocka_unit_test(a_warning_on_the_way_is_not_the_failure),
		cmocka_unit_test(noisy_verdicts_are_repeated_until_most_agree),
		cmocka_unit_test(one_wrong_verdict_of_ten_names_hardly_ever_the_wrong_one),
		cmocka_unit_test(without_noise_three_of_five_votes_are_enough),
		cmocka_unit_test(the_budget_holds_and_what_is_left_has_the_culprit),
		cmocka_unit_test(an_oracle_that_fails_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
