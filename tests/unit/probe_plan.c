/* SPDX-License-Identifier: MIT
 * probe_plan.c - the schedule of probes on a clock of our own: what is due, what rests, what is put off and counted.
 * Threads: one. Locks: none. */
#include "daemon/probes/probe_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MINUTE 60000LL

static struct probe_plan plan;
static long long now;

/* A plan of its own from an odd time on. */
static int fresh(void **state)
{
	(void)state;
	plan = (struct probe_plan){ 0 };
	now = 12345;
	return 0;
}

static void every(const char *probe, long long ms, long long age, double luck)
{
	probe_plan_set(&plan, probe, ms, age, luck, now);
}

static const char *due(void)
{
	const char *p = probe_plan_due(&plan, PLAN_FREE, now);

	return p ? p : "none";
}

static long long put_off(const char *probe, enum plan_reason why)
{
	return (long long)probe_plan_row(&plan, probe)->postponed[why];
}

static long long put_off_at_all(const char *probe)
{
	long long n = 0;

	for (int i = 0; i < PLAN_REASONS; i++)
		n += put_off(probe, (enum plan_reason)i);
	return n;
}

static void ran(const char *probe, long long took, double max_load)
{
	now += took;
	probe_plan_ended(&plan, probe, took, max_load, true, false, now);
}

static void nothing_runs_that_has_no_period(void **state)
{
	(void)state;
	every("a", 0, -1, 0);
	now += 1000 * MINUTE;
	assert_string_equal(due(), "none");
	every("a", MINUTE, -1, 0);
	assert_string_equal(due(), "a");
	every("a", 0, -1, 0);
	now += 1000 * MINUTE;
	assert_string_equal(due(), "none");
}

static void it_runs_once_in_each_period(void **state)
{
	int runs = 0;

	(void)state;
	every("a", MINUTE, -1, 0.5);
	for (int s = 0; s < 600; s++, now += 1000)
		if (probe_plan_due(&plan, PLAN_FREE, now))
			runs++;
	assert_int_equal(runs, 10);
	assert_int_equal(put_off_at_all("a"), 0);
}

static void luck_spreads_what_begins_together(void **state)
{
	(void)state;
	every("a", MINUTE, -1, 0);
	every("b", MINUTE, -1, 0.25);
	every("c", MINUTE, -1, 1);
	assert_string_equal(due(), "a");
	assert_string_equal(due(), "none");
	now += MINUTE / 4;
	assert_string_equal(due(), "b");
	now += MINUTE / 2;
	assert_string_equal(due(), "none");
	now += MINUTE / 4;
	assert_string_equal(due(), "a");
	assert_string_equal(due(), "c");
}

/* After a restart: what the history has of the last run counts on. */
static void a_restart_keeps_the_period(void **state)
{
	(void)state;
	every("a", MINUTE, MINUTE / 3, 0.9);
	now += MINUTE * 2 / 3 - 1;
	assert_string_equal(due(), "none");
	now++;
	assert_string_equal(due(), "a");
}

static void what_is_overdue_at_the_start_comes_soon_but_not_at_once(void **state)
{
	(void)state;
	every("a", 10 * MINUTE, 1000 * MINUTE, 0.5);
	assert_string_equal(due(), "none");
	now += MINUTE / 2;
	assert_string_equal(due(), "a");
}

/* The configuration is looked at again and again. */
static void a_reload_that_changes_nothing_moves_no_time(void **state)
{
	(void)state;
	every("a", MINUTE, -1, 0.5);
	for (int i = 0; i < 29; i++, now += 1000) {
		every("a", MINUTE, -1, 0.9);
		assert_string_equal(due(), "none");
	}
	now += 1000;
	assert_string_equal(due(), "a");
	every("a", 2 * MINUTE, 0, 0.5);
	now += 2 * MINUTE - 1;
	assert_string_equal(due(), "none");
	now++;
	assert_string_equal(due(), "a");
}

static void after_a_run_there_is_rest(void **state)
{
	(void)state;
	every("a", MINUTE, -1, 0);
	every("b", MINUTE, -1, 0.5);
	assert_string_equal(due(), "a");
	ran("a", 20000, 0.05);
	now += 20000 * 20 - 1;
	assert_string_equal(due(), "none");
	assert_int_equal(put_off("a", PLAN_LOAD), 1);
	assert_int_equal(put_off("b", PLAN_LOAD), 1);
	now++;
	assert_string_equal(due(), "b"); /* due for longest */
	assert_string_equal(due(), "a");
}

/* However short the periods and long the runs: never a larger share of the time. */
static void no_periods_and_runs_exceed_the_share(void **state)
{
	long long start = now, busy = 0;
	uint64_t x = 88172645463325252u;

	(void)state;
	every("a", 1000, -1, 0.3);
	every("b", 7000, -1, 0.6);
	every("c", 500, -1, 0.9);
	while (now - start < 100000 * MINUTE) {
		const char *p = probe_plan_due(&plan, PLAN_FREE, now);

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		if (p) {
			long long took = (long long)(x % 60000);

			busy += took;
			ran(p, took, 0.1);
		}
		now += 1000;
	}
	assert_true(busy > 0);
	assert_true((double)busy <= 0.1 * (double)(now - start));
	for (int i = 0; i < plan.n; i++)
		assert_true(put_off(plan.row[i].probe, PLAN_LOAD) > 0);
}

static void what_is_put_off_is_counted_once_and_begins_when_it_may(void **state)
{
	(void)state;
	every("a", MINUTE, -1, 0);
	every("b", MINUTE, -1, 1);
	for (int i = 0; i < 30; i++, now += 1000)
		assert_null(probe_plan_due(&plan, i % 5 ? PLAN_WAITING : PLAN_BUSY, now));
	assert_int_equal(put_off("a", PLAN_WAITING), 1); /* for each reason */
	assert_int_equal(put_off("a", PLAN_BUSY), 1);
	assert_int_equal(put_off_at_all("a"), 2);
	assert_int_equal(put_off_at_all("b"), 0);
	assert_string_equal(due(), "a");
	now += MINUTE;
	assert_null(probe_plan_due(&plan, PLAN_BUSY, now));
	assert_int_equal(put_off("a", PLAN_BUSY), 2);
	assert_int_equal(put_off("b", PLAN_BUSY), 1);
}

static void who_gave_way_is_due_again_after_the_rest(void **state)
{
	(void)state;
	every("a", 100 * MINUTE, -1, 0);
	assert_string_equal(due(), "a");
	now += 3000;
	probe_plan_ended(&plan, "a", 3000, 0.5, false, true, now);
	now += 5999;
	assert_string_equal(due(), "none");
	now++;
	assert_string_equal(due(), "a");
	assert_int_equal(put_off("a", PLAN_GAVE_WAY), 1);
	assert_int_equal(put_off_at_all("a"), 1);
	/* and cut short by a drain it has not been put off by anybody */
	probe_plan_ended(&plan, "a", 0, 0.5, false, false, now);
	assert_string_equal(due(), "a");
	assert_int_equal(put_off_at_all("a"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_runs_that_has_no_period, fresh),
		cmocka_unit_test_setup(it_runs_once_in_each_period, fresh),
		cmocka_unit_test_setup(luck_spreads_what_begins_together, fresh),
		cmocka_unit_test_setup(a_restart_keeps_the_period, fresh),
		cmocka_unit_test_setup(what_is_overdue_at_the_start_comes_soon_but_not_at_once, fresh),
		cmocka_unit_test_setup(a_reload_that_changes_nothing_moves_no_time, fresh),
		cmocka_unit_test_setup(after_a_run_there_is_rest, fresh),
		cmocka_unit_test_setup(no_periods_and_runs_exceed_the_share, fresh),
		cmocka_unit_test_setup(what_is_put_off_is_counted_once_and_begins_when_it_may, fresh),
		cmocka_unit_test_setup(who_gave_way_is_due_again_after_the_rest, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
