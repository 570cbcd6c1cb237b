/* SPDX-License-Identifier: MIT
 * pool.c - the worker pool: every index once, whatever the grain; scratch memory.
 * Threads: main and the pool's. Locks: the pool's. */
#include "engine/kernels/pool.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_MAX 1000

static void count(void *arg, int64_t begin, int64_t end)
{
	unsigned char *seen = arg;

	for (int64_t i = begin; i < end; i++)
		seen[i]++;
}

static struct pool *pool_of(int threads, bool hot)
{
	struct pool *p;

	assert_int_equal(pool_new(threads, &p), 0);
	if (hot)
		pool_hot(p, POOL_PIN_CPU);
	return p;
}

static void test_every_index_once(void **state)
{
	static const int64_t sizes[] = { 0, 1, 2, 3, 7, 64, 999, N_MAX }, grains[] = { 0, 1, 3, 64, 5000 };

	(void)state;
	for (int threads = 1; threads <= 4; threads++) {
		struct pool *p = pool_of(threads, threads % 2 == 0);

		assert_int_equal(pool_threads(p), threads);
		assert_int_equal(pool_n_threads(pool_exec(p)), threads);
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			for (size_t j = 0; j < sizeof grains / sizeof *grains; j++) {
				unsigned char seen[N_MAX + 1] = { 0 };

				pool_parallel_for(pool_exec(p), sizes[i], grains[j], count, seen);
				for (int64_t k = 0; k <= N_MAX; k++)
					assert_int_equal(seen[k], k < sizes[i]);
			}
		pool_free(&p);
		assert_null(p);
	}
}

/* Jobs so short that workers come when they are over, now watching for the next and now asleep. */
static void many_short_jobs(struct pool *p)
{
	for (int i = 0; i < 5000; i++) {
		unsigned char seen[8] = { 0 };

		pool_parallel_for(pool_exec(p), 8, 1, count, seen);
		assert_memory_equal(seen, ((unsigned char[8]){ 1, 1, 1, 1, 1, 1, 1, 1 }), 8);
		if (i % 500 == 0)
			usleep(200);
	}
	pool_free(&p);
}

static void test_many_short_jobs(void **state)
{
	(void)state;
	many_short_jobs(pool_of(3, false));
	many_short_jobs(pool_of(2, true));
}

static pthread_t caller;

/* Slow on a worker, so that the caller runs out of slices first. */
static void count_slowly(void *arg, int64_t begin, int64_t end)
{
	if (!pthread_equal(pthread_self(), caller))
		usleep(3000);
	else
		usleep(300);
	count(arg, begin, end);
}

static void slow_slices(struct pool *p)
{
	for (int i = 0; i < 20; i++) {
		unsigned char seen[8] = { 0 };

		pool_parallel_for(pool_exec(p), 8, 1, count_slowly, seen);
		assert_memory_equal(seen, ((unsigned char[8]){ 1, 1, 1, 1, 1, 1, 1, 1 }), 8);
	}
	pool_free(&p);
}

static void test_waits_for_slow_slices(void **state)
{
	(void)state;
	caller = pthread_self();
	slow_slices(pool_of(2, false));
	slow_slices(pool_of(2, true));
}

/* Places are asked for only where there are CPUs enough; the mask is as it was but for `cpu`. */
static void test_places(void **state)
{
	cpu_set_t before, after;
	struct pool *p;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	for (int more = 0; more < 2; more++) {
		assert_int_equal(pool_new(CPU_COUNT(&before) + more, &p), 0);
		pool_hot(p, more ? POOL_PIN_CPU : POOL_PIN_NO);
		assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
		assert_true(CPU_EQUAL(&before, &after));
		pool_free(&p);
	}
	p = pool_of(CPU_COUNT(&before), true);
	assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
	assert_int_equal(CPU_COUNT(&after), 1);
	pool_free(&p);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void test_scratch(void **state)
{
	static const size_t sizes[] = { 1, 63, 64, 1000, 1 << 20, 3 << 20, 0 };
	struct pool *p;

	(void)state;
	assert_int_equal(pool_new(1, &p), 0);
	for (int round = 0; round < 3; round++) {
		char *at[7];

		pool_scratch_reset(p);
		for (int i = 0; i < 7; i++) {
			at[i] = pool_scratch(pool_exec(p), sizes[i]);
			assert_non_null(at[i]);
			assert_int_equal((uintptr_t)at[i] % 64, 0);
			memset(at[i], i, sizes[i]);
		}
		for (int i = 0; i < 7; i++)
			for (size_t k = 0; k < sizes[i]; k++)
				assert_int_equal(at[i][k], i);
	}
	assert_null(pool_scratch(pool_exec(p), SIZE_MAX));
	pool_free(&p);
}

/* After one op of a size, the next of that size takes nothing from the system. */
static void test_scratch_settles(void **state)
{
	size_t held = 0;
	struct pool *p;

	(void)state;
	assert_int_equal(pool_new(1, &p), 0);
	for (int round = 0; round < 4; round++) {
		pool_scratch_reset(p);
		for (int i = 0; i < 5; i++)
			assert_non_null(pool_scratch(pool_exec(p), (size_t)1 << 20));
		assert_true(round == 0 || pool_scratch_bytes(p) == held);
		held = pool_scratch_bytes(p);
	}
	pool_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_index_once),
		cmocka_unit_test(test_many_short_jobs),
		cmocka_unit_test(test_waits_for_slow_slices),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_scratch),
		cmocka_unit_test(test_scratch_settles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
