/* SPDX-License-Identifier: MIT
 * ops.c - tests of daemon/ops.c: notes and ends of jobs reach the control thread, which gets to everything else.
 * Threads: the test's own is control; ops. */
#include "daemon/ops.h"
#include "engine/base/must.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	struct loop loop;
	struct ops *ops;
	struct ops_note note;
	struct ops_job job;
	struct loop_source other;
	int notes, ended;
	bool stop;
};

static struct world world;

static int setup(void **state)
{
	(void)state;
	world = (struct world){ .notes = 0 };
	assert_int_equal(loop_init(&world.loop), 0);
	assert_int_equal(ops_open(&world.ops, &world.loop), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ops_stop(world.ops);
	ops_close(&world.ops);
	loop_fini(&world.loop);
	return 0;
}

/* Says the same again until it is told to stop, as those who ask over HTTP do. */
static void note_again(struct ops_note *n)
{
	world.notes++;
	if (!world.stop)
		ops_post(world.ops, n);
}

static void other_comes(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	world.stop = true;
	world.loop.quit = true;
}

static void a_flood_of_notes_leaves_room_for_others(void **state)
{
	(void)state;
	world.other = (struct loop_source){ eventfd(1, EFD_CLOEXEC), other_comes, NULL };
	world.note.fn = note_again;
	ops_post(world.ops, &world.note);
	assert_int_equal(loop_add(&world.loop, &world.other, EPOLLIN), 0);
	loop_run(&world.loop);
	assert_in_range(world.notes, 0, 10);
	loop_del(&world.loop, &world.other);
	close(world.other.fd);
}

static void job_run(struct ops_job *j)
{
	world.note.fn = note_again;
	world.stop = true;
	ops_post(world.ops, &world.note);
	must(!atomic_load(&j->cancel));
}

/* What a job said before its end comes before its end. */
static void job_done(struct ops_job *j)
{
	(void)j;
	assert_int_equal(world.notes, 1);
	world.ended++;
	world.loop.quit = true;
}

static void a_job_ends_after_what_it_said(void **state)
{
	(void)state;
	world.job = (struct ops_job){ .run = job_run, .done = job_done };
	assert_int_equal(ops_submit(world.ops, &world.job, NULL), 0);
	loop_run(&world.loop);
	assert_int_equal(world.ended, 1);
}

static void job_count(struct ops_job *j)
{
	(void)j;
	world.ended++;
}

static void job_nothing(struct ops_job *j)
{
	(void)j;
}

static void at_the_stop_every_job_ends(void **state)
{
	struct ops_job job[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		job[i] = (struct ops_job){ .run = job_nothing, .done = job_count };
		assert_int_equal(ops_submit(world.ops, &job[i], NULL), 0);
	}
	ops_stop(world.ops);
	assert_int_equal(world.ended, 3);
	ops_close(&world.ops);
	assert_int_equal(ops_open(&world.ops, &world.loop), 0); /* for teardown */
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_flood_of_notes_leaves_room_for_others),
		CASE(a_job_ends_after_what_it_said),
		CASE(at_the_stop_every_job_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
