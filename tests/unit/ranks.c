/* SPDX-License-Identifier: MIT
 * ranks.c - ranks in the CPU's memory agree and gather, pass after pass; one rank needs no other; rows are moved.
 * Threads: main, and one per rank. Locks: none. */
#include "engine/device/ranks.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MAX 4
#define ROUNDS 2000
#define N 37

/* A thread of a rank; what it saw wrong is told by main. */
struct rank {
	pthread_t thread;
	struct ranks *ranks;
	int rank, wrong;
	int (*run)(struct rank *r);
};

static void *rank_main(void *arg)
{
	struct rank *r = arg;

	r->wrong = r->run(r);
	return NULL;
}

static void ranks_run(int n, int (*run)(struct rank *r))
{
	struct ranks *all = ranks_cpu(n);
	struct rank r[RANKS_MAX];

	assert_int_equal(ranks_n(all), n);
	for (int i = 0; i < n; i++) {
		r[i] = (struct rank){ .ranks = all, .rank = i, .run = run };
		assert_ptr_equal(ranks_device(all, i), device_cpu());
		assert_int_equal(pthread_create(&r[i].thread, NULL, rank_main, &r[i]), 0);
	}
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_join(r[i].thread, NULL), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(r[i].wrong, 0);
	ranks_close(&all);
	assert_null(all);
}

/* ---- agreeing ---- */

/* What each rank says in a round, by a rule all know; now and then somebody is late, so that the others sleep. */
static int said(int rank, int round)
{
	return round % 7 == 3 && rank >= round % RANKS_MAX ? -(1000 + rank) : round % 11 == 5 && rank == 0 ? -EIO : 0;
}

static int agrees(struct rank *r)
{
	int wrong = 0;

	for (int i = 0; i < ROUNDS; i++) {
		int want = 0;

		for (int k = ranks_n(r->ranks) - 1; k >= 0; k--)
			want = said(k, i) ? said(k, i) : want;
		if (i % 500 == 0 && r->rank == i / 500 % ranks_n(r->ranks))
			usleep(2000);
		wrong += ranks_agree(r->ranks, r->rank, said(r->rank, i)) != want;
	}
	return wrong;
}

static void test_all_get_the_lowest_ranks_error(void **state)
{
	(void)state;
	for (int n = 1; n <= RANKS_MAX; n++)
		ranks_run(n, agrees);
}

/* ---- gathering ---- */

/* The source is written anew as soon as the gather is over; a rank that is behind must have had the old numbers. */
static int gathers(struct rank *r)
{
	int n = ranks_n(r->ranks), wrong = 0;
	float src[N], dst[RANKS_MAX + 1][N];

	for (int i = 0; i < ROUNDS / 4; i++) {
		struct queue *q = queue_new(ranks_device(r->ranks, r->rank), NULL);

		for (int k = 0; k < N; k++) {
			src[k] = (float)(i * 1000 + r->rank * 100 + k);
			dst[n][k] = -1;
		}
		if (i % 100 == 0 && r->rank == i / 100 % n)
			usleep(2000);
		wrong += ranks_agree(r->ranks, r->rank, 0) != 0;
		ranks_gather(r->ranks, r->rank, q, dst, src, sizeof src);
		wrong += queue_end(q, NULL) != 0;
		for (int k = 0; k < (n + 1) * N; k++)
			wrong += dst[k / N][k % N] != (k / N == n ? -1 : (float)(i * 1000 + k / N * 100 + k % N));
		ranks_gather(r->ranks, r->rank, q, NULL, NULL, 0);
		queue_free(&q);
	}
	return wrong;
}

static void test_every_rank_has_what_each_had(void **state)
{
	(void)state;
	for (int n = 1; n <= RANKS_MAX; n++)
		ranks_run(n, gathers);
}

/* ---- passes ---- */

static bool inside;      /* no lock but the pass itself */
static bool in_its_turn;

static int passes(struct rank *r)
{
	int wrong = 0;

	for (int i = 0; i < ROUNDS; i++) {
		ranks_begin(r->ranks);
		wrong += inside;
		inside = true;
		(void)sched_yield();
		wrong += !inside;
		inside = false;
		ranks_end(r->ranks);
	}
	return wrong;
}

/* Each is one of several callers here. */
static void test_one_pass_at_a_time(void **state)
{
	(void)state;
	ranks_run(RANKS_MAX, passes);
}

static void *second_caller(void *arg)
{
	ranks_begin(arg);
	in_its_turn = true;
	ranks_end(arg);
	return NULL;
}

/* Whoever computes step after step lets others in between. */
static void test_who_waits_gets_its_turn(void **state)
{
	struct ranks *r = ranks_cpu(2);
	pthread_t thread;

	(void)state;
	ranks_begin(r);
	assert_int_equal(pthread_create(&thread, NULL, second_caller, r), 0);
	for (bool seen = false; !seen;) {
		ranks_end(r);
		ranks_begin(r);
		seen = in_its_turn;
	}
	ranks_end(r);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ranks_close(&r);
}

/* ---- names ---- */

static void test_names(void **state)
{
	struct ranks *r = NULL;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(ranks_open("cpu", 60, &r, &why), 0);
	assert_int_equal(ranks_n(r), 1);
	assert_ptr_equal(ranks_device(r, 0), device_cpu());
	assert_int_equal(ranks_agree(r, 0, -EIO), -EIO);
	ranks_close(&r);
	assert_int_equal(ranks_open("cuda:0,0", 60, &r, &why), RC_INVALID);
	assert_non_null(strstr(buf_str(&why), "unknown device \"cuda:0,0\""));
	buf_fini(&why);
	ranks_close(&r);
}

/* ---- rows ---- */

static void test_rows_are_moved(void **state)
{
	struct queue *q = queue_new(device_cpu(), NULL);
	char src[3][8], dst[4][5];

	(void)state;
	memset(dst, 'x', sizeof dst);
	memset(src, 'y', sizeof src);
	for (int i = 0; i < 3; i++)
		memcpy(src[i], (char[]){ 'a', (char)('a' + i), '!' }, 3);
	queue_move_rows(q, dst[0] + 1, sizeof dst[0], src, sizeof src[0], 3, 3);
	assert_memory_equal(dst, "xaa!xxab!xxac!xxxxxx", sizeof dst);
	queue_move_rows(q, dst, sizeof dst[0], src, sizeof src[0], 0, 3);
	queue_move_rows(q, dst, sizeof dst[0], src, sizeof src[0], 3, 0);
	assert_memory_equal(dst, "xaa!xxab!xxac!xxxxxx", sizeof dst);
	queue_free(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_get_the_lowest_ranks_error),
		cmocka_unit_test(test_every_rank_has_what_each_had),
		cmocka_unit_test(test_one_pass_at_a_time),
		cmocka_unit_test(test_who_waits_gets_its_turn),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_rows_are_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
