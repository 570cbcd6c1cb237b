/* SPDX-License-Identifier: MIT
 * pace.c - tests of pace.c on machines whose costs the tests name: no clock is asked.
 * Threads: one. */
#include "engine/serve/pace.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A machine: seconds of a step's decoding, of any chunk of a prompt, and of each token of one. */
struct machine {
	double decode, chunk, token;
};

/* One step of it; returns its seconds, and in *ret_n the prompt tokens that it computed. */
static double step(struct pace *p, const struct machine *m, int *ret_n)
{
	double prefill;

	*ret_n = pace_tokens(p);
	prefill = m->chunk + *ret_n * m->token;
	pace_ran(p, m->decode, prefill, *ret_n);
	return m->decode + prefill;
}

static int after(struct pace *p, const struct machine *m, int steps)
{
	int n = 0;

	while (steps--)
		step(p, m, &n);
	return n;
}

static void without_a_gap_nothing_is_limited(void **state)
{
	struct pace p = { 0 };

	(void)state;
	assert_int_equal(pace_tokens(&p), INT_MAX);
	pace_ran(&p, 3, 5, 1);
	assert_int_equal(pace_tokens(&p), INT_MAX);
	p.gap = 1e9; /* more tokens than any number has room for */
	pace_ran(&p, 0, 0, 1);
	for (int i = 0; i < 100; i++)
		pace_ran(&p, 1e-9, 1e-9, 1);
	assert_int_equal(pace_tokens(&p), INT_MAX);
}

static void it_begins_with_the_least(void **state)
{
	struct pace p = { .gap = 0.25 };

	(void)state;
	assert_int_equal(pace_tokens(&p), PACE_FLOOR);
	pace_ran(&p, 0.05, 0, 0); /* decoding alone says nothing about prompts */
	assert_int_equal(pace_tokens(&p), PACE_FLOOR);
}

/* Chunks grow to what fits, and no step on the way is too long. */
static void the_gap_is_filled_and_never_passed(void **state)
{
	static const struct machine machines[] = {
		{ 0.05, 0, 0.001 }, { 0.05, 0.02, 0.0045 }, { 0.1, 0.1, 0.001 }, { 0.01, 0.001, 0.00001 },
		{ 0.12, 0.03, 0.003 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		const struct machine *m = &machines[i];
		struct pace p = { .gap = 0.25 };
		double best = (p.gap - m->decode - m->chunk) / m->token;
		int n;

		for (int k = 0; k < 40; k++)
			assert_true(step(&p, m, &n) <= p.gap + 1e-9);
		assert_in_range(n, (int)(0.95 * best), (int)best);
	}
}

/* Where decoding takes most of the gap or all of it, prompts get as long as the decoding. */
static void a_slow_machine_shares_its_time(void **state)
{
	struct pace p = { .gap = 0.25 };

	(void)state;
	assert_int_equal(after(&p, &(struct machine){ 0.601, 0, 0.02 }, 20), 30);
	assert_in_range(after(&p, &(struct machine){ 0.2, 0, 0.002 }, 20), 99, 100);
}

static void prefill_never_starves(void **state)
{
	struct pace p = { .gap = 0.001 };

	(void)state;
	assert_int_equal(after(&p, &(struct machine){ 0.01, 5, 1 }, 20), PACE_FLOOR);
}

static void what_changes_is_followed(void **state)
{
	struct machine m = { 0.05, 0.01, 0.001 };
	struct pace p = { .gap = 0.25 };

	(void)state;
	assert_in_range(after(&p, &m, 20), 185, 190);
	m.token = 0.004; /* deep in a context */
	assert_in_range(after(&p, &m, 20), 45, 47);
	m.decode = 0.15; /* more streams */
	assert_in_range(after(&p, &m, 20), 34, 35); /* the decoding's own time: 0.15 */
	m = (struct machine){ 0.05, 0.01, 0.001 };
	assert_in_range(after(&p, &m, 20), 180, 190);
}

/* A step that waited for a disk, or for another program, a hundred times as long as it is. */
static void one_late_step_is_soon_forgotten(void **state)
{
	const struct machine m = { 0.05, 0, 0.001 };
	struct pace p = { .gap = 0.25 };

	(void)state;
	assert_in_range(after(&p, &m, 20), 199, 200);
	pace_ran(&p, 0.05, 0.3, 200);
	assert_in_range(pace_tokens(&p), 158, 162); /* half way */
	assert_in_range(after(&p, &m, 8), 198, 200);
	pace_ran(&p, 0.05, 20, 200);
	assert_in_range(pace_tokens(&p), 99, 100); /* at most twice the estimate */
	assert_in_range(after(&p, &m, 8), 198, 200);
	pace_ran(&p, 5, 0, 0);
	assert_in_range(pace_tokens(&p), 140, 150);
	assert_in_range(after(&p, &m, 8), 198, 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_gap_nothing_is_limited),
		cmocka_unit_test(it_begins_with_the_least),
		cmocka_unit_test(the_gap_is_filled_and_never_passed),
		cmocka_unit_test(a_slow_machine_shares_its_time),
		cmocka_unit_test(prefill_never_starves),
		cmocka_unit_test(what_changes_is_followed),
		cmocka_unit_test(one_late_step_is_soon_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
