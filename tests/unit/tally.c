/* SPDX-License-Identifier: MIT
 * tally.c - tests of tally.c: which bucket a value falls into, and what is counted as what.
 * Threads: one. */
#include "engine/serve/tally.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
	struct tally *t = mem_new(sizeof *t);

	tally_init(t);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	tally_fini(*state);
	free(*state);
	return 0;
}

/* The bucket of the only value; -1 when there is not exactly one. */
static int bucket(struct tally *t, enum tally_name h)
{
	struct tally_view v;
	int at = -1, n = 0;

	tally_read(t, &v);
	for (int i = 0; i <= TALLY_MAX_BOUNDS; i++) {
		n += (int)v.hist[h].n[i];
		at = v.hist[h].n[i] ? i : at;
	}
	return n == 1 ? at : -1;
}

static void a_value_belongs_to_the_first_bound_that_holds_it(void **state)
{
	static const struct {
		double seconds;
		int bucket;
	} row[] = { { 0, 0 }, { 0.001, 0 }, { 0.0011, 1 }, { 1, 9 }, { 1.5, 10 }, { 1000, 18 }, { 1001, 19 } };

	for (size_t i = 0; i < mem_countof(row); i++) {
		teardown(state);
		setup(state);
		tally_step(*state, row[i].seconds, 0);
		assert_int_equal(bucket(*state, TALLY_step), row[i].bucket);
	}
}

static void bounds_rise(void **state)
{
	(void)state;
	for (int h = 0; h < TALLY_N; h++) {
		int n;
		const double *b = tally_bounds((enum tally_name)h, &n);

		assert_in_range(n, 2, TALLY_MAX_BOUNDS);
		for (int i = 1; i < n; i++)
			assert_true(b[i] > b[i - 1]);
	}
}

static void the_first_token_is_apart(void **state)
{
	struct tally_view v;

	tally_token(*state, true, 0.5, 1);
	tally_token(*state, false, 0.25, 1);
	tally_token(*state, false, 0.25, 0);
	tally_read(*state, &v);
	assert_true(v.hist[TALLY_first_token].sum == 0.5);
	assert_true(v.hist[TALLY_output_token].sum == 0.5);
	assert_int_equal(v.reasoning_tokens, 2);
}

static void batches_count_by_phase(void **state)
{
	struct tally_view v;

	tally_batch(*state, DSV4_PREFILL, 2, 300);
	tally_batch(*state, DSV4_DECODE, 5, 5);
	tally_batch(*state, DSV4_DECODE, 64, 64);
	tally_read(*state, &v);
	assert_int_equal(v.tokens[DSV4_PREFILL], 300);
	assert_int_equal(v.tokens[DSV4_DECODE], 69);
	assert_int_equal(bucket(*state, TALLY_batch_prefill), 1);
	assert_true(v.hist[TALLY_batch_decode].sum == 69);
}

static void steps_beside_decoding_count_their_prompts(void **state)
{
	struct tally_view v;

	tally_step(*state, 0.1, 40);
	tally_step(*state, 0.1, 0);
	tally_step(*state, 0.1, 2);
	tally_read(*state, &v);
	assert_int_equal(v.beside_steps, 2);
	assert_int_equal(v.beside_tokens, 42);
}

static void who_stopped_it(void **state)
{
	static const struct {
		int rc;
		bool left;
		enum tally_stop want;
	} row[] = {
		{ RC_CANCELLED, true, TALLY_CLIENT }, { RC_CANCELLED, false, TALLY_OPERATOR },
		{ RC_DRAINING, false, TALLY_DRAIN },  { RC_DRAINING, true, TALLY_DRAIN },
	};
	struct tally_view v;

	for (size_t i = 0; i < mem_countof(row); i++) {
		teardown(state);
		setup(state);
		tally_ended(*state, GEN_CANCELLED, row[i].rc, row[i].left, 1);
		tally_read(*state, &v);
		assert_int_equal(v.stopped[row[i].want], 1);
		assert_int_equal(v.finished[GEN_CANCELLED], 1);
	}
}

static void every_error_has_its_place(void **state)
{
	struct tally_view v;

	for (int e = 0; e < TALLY_ERRNO; e++)
		tally_refused(*state, tally_error_rc((enum tally_error)e));
	tally_refused(*state, -ENOMEM);
	tally_refused(*state, -EIO);
	tally_read(*state, &v);
	for (int e = 0; e < TALLY_ERRNO; e++)
		assert_int_equal(v.refused[e], 1);
	assert_int_equal(v.refused[TALLY_ERRNO], 2);
	assert_int_equal(tally_error_rc(TALLY_RC_BUSY), RC_BUSY);
}

/* An answer that ended well is neither an error nor stopped, whatever its client did since. */
static void a_good_end_is_no_error(void **state)
{
	struct tally_view v, none = { 0 };

	tally_ended(*state, GEN_STOP, 0, true, 2);
	tally_ended(*state, GEN_ERROR, RC_TIMEOUT, false, 2);
	tally_read(*state, &v);
	assert_int_equal(v.finished[GEN_STOP], 1);
	assert_memory_equal(v.stopped, none.stopped, sizeof v.stopped);
	assert_int_equal(v.errors[TALLY_RC_TIMEOUT], 1);
	v.errors[TALLY_RC_TIMEOUT] = 0;
	assert_memory_equal(v.errors, none.errors, sizeof v.errors);
	assert_true(v.hist[TALLY_request].sum == 4);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_value_belongs_to_the_first_bound_that_holds_it),
		CASE(bounds_rise),
		CASE(the_first_token_is_apart),
		CASE(batches_count_by_phase),
		CASE(steps_beside_decoding_count_their_prompts),
		CASE(who_stopped_it),
		CASE(every_error_has_its_place),
		CASE(a_good_end_is_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
