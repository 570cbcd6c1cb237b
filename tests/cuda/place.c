/* SPDX-License-Identifier: MIT
 * place.c - weights are copied to all GPUs of a list at once: none is done before each has all of its own queued. On
 * the stand-in for a GPU; nothing here ran on a real one.
 * Threads: the test's and those that copy. Locks: of the meeting. */
#include "tests/cuda/stepkit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLACE_PATIENCE 120 /* seconds until somebody will not come */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t all_here;
	int here;
	bool late;
} meet = { .mutex = PTHREAD_MUTEX_INITIALIZER, .all_here = PTHREAD_COND_INITIALIZER };

int __real_device_kept(struct device *d, struct buf *why);
int __wrap_device_kept(struct device *d, struct buf *why);

/* Each waits for the other with all its copies queued. */
int __wrap_device_kept(struct device *d, struct buf *why)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PLACE_PATIENCE;
	pthread_mutex_lock(&meet.mutex);
	if (++meet.here == 2)
		pthread_cond_broadcast(&meet.all_here);
	while (meet.here < 2 && !meet.late)
		meet.late = pthread_cond_timedwait(&meet.all_here, &meet.mutex, &end) == ETIMEDOUT;
	pthread_mutex_unlock(&meet.mutex);
	return __real_device_kept(d, why);
}

static void place_moved(void *arg, const char *stage)
{
	assert_string_equal(stage, "copying weights to the GPU");
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void test_all_are_copied_to_at_once(void **state)
{
	struct device_view v[2];
	struct model *m = NULL;
	struct ranks *r = NULL;
	struct buf why = { 0 };
	atomic_int moved = 0;

	(void)state;
	if (ranks_open("cuda:0-1", 60, &r, &why) || model_open(getenv("PLACE_MODEL"), &m, &why))
		fail_msg("%s", buf_str(&why));
	m->progress = place_moved;
	m->progress_arg = &moved;
	if (model_place_ranks(m, r, &why))
		fail_msg("%s", buf_str(&why));
	assert_true(moved > m->config->n_layers * m->config->n_experts); /* every tensor is a sign of life */
	assert_false(meet.late);
	assert_int_equal(meet.here, 2);
	for (int i = 0; i < 2; i++)
		device_view(ranks_device(r, i), &v[i]);
	assert_true(v[0].weights > 1000000 && v[1].weights > 1000000);
	model_free(&m);
	ranks_close(&r);
	buf_fini(&why);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_are_copied_to_at_once) };
	const char *top = getenv("top_srcdir"), *run = stepkit_run(argv, "two");
	char dir[4096];

	(void)argc;
	if (!run)
		return 77;
	snprintf(dir, sizeof dir, "%s/etc/tiny", top ? top : ".");
	setenv("PLACE_MODEL", dir, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
