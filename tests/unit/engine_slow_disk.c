/* SPDX-License-Identifier: MIT
 * engine_slow_disk.c - the tiny model with its prefix cache on a disk that hangs: requests end in time.
 * Threads: the test's, the engine's and the disk's. Locks: none. */
#include "engine/base/rc.h"
#include "tests/unit/hangkit.h"
#include "tests/unit/warmkit.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOMENT 0.05 /* s; the patience where it is to run out */

static char dir[64];
static struct warm_prompt prompt;
static struct warm_answer cold;

static struct engine *open_with(double patience)
{
	const struct engine_options o = { .cache_disk_bytes = 1 << 30, .cache_dir = dir, .cache_bytes = WARM_ENOUGH,
					  .cache_disk_patience = patience };

	return warm_open(&o);
}

/* A prompt of a block and some tokens whose answer without any cache is known, and is on disk. */
static int setup(void **state)
{
	struct engine_options none = { .cache_bytes = 0 };
	struct engine *e = warm_open(&none);

	(void)state;
	prompt.n = 0;
	warm_grow(&prompt, 7, 140);
	cold = warm_ask(e, &prompt, 3);
	engine_close(&e);
	strcpy(dir, "/tmp/engine_slow_disk.XXXXXX");
	assert_non_null(mkdtemp(dir));
	e = open_with(0);
	warm_ask(e, &prompt, 3);
	engine_close(&e); /* writes what is queued */
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st;
	(void)flag;
	(void)f;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The disk works again; a thread that was left behind has let go of the directory. */
static int recover(void **state)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	(void)state;
	hangkit_let_go();
	while (flock(fd, LOCK_EX | LOCK_NB) < 0)
		sched_yield();
	return close(fd);
}

/* What all the rest is compared with: the disk works, and is asked. */
static void a_disk_that_works_is_used(void **state)
{
	struct engine *e = open_with(0);
	struct warm_answer a = warm_ask(e, &prompt, 3);

	(void)state;
	warm_same(&a, &cold);
	assert_int_equal(a.usage.cached_tokens, 128);
	engine_close(&e);
}

/* It was not up for as long as the disk's lock hung. */
static void the_start_does_not_wait_for_a_disk_that_hangs(void **state)
{
	struct engine *e;
	struct warm_answer a;

	(void)state;
	hangkit_hang(HANGKIT_OPEN);
	e = open_with(MOMENT);
	assert_non_null(strstr(engine_cache_disk_why(e), "hangs"));
	a = warm_ask(e, &prompt, 3);
	warm_same(&a, &cold);
	assert_int_equal(a.usage.cached_tokens, 0);
	engine_close(&e);
}

static void who_waits_for_a_disk_that_hangs_computes_after_a_while(void **state)
{
	struct engine *e = open_with(MOMENT);
	struct warm_answer a;

	(void)state;
	hangkit_hang(HANGKIT_READ);
	a = warm_ask(e, &prompt, 3); /* one that waited for ever would hang here */
	warm_same(&a, &cold);
	assert_int_equal(a.usage.cached_tokens, 0);
	a = warm_ask(e, &prompt, 3); /* what was computed is in memory */
	warm_same(&a, &cold);
	assert_int_equal(a.usage.cached_tokens, 128);
	engine_close(&e); /* nor does the end wait; it did, for as long as the disk hung */
}

/* 504: the deadline holds while a request waits for the disk, too. */
static void a_deadline_passes_while_the_disk_hangs(void **state)
{
	struct engine *e = open_with(600);
	struct generation_spec s = warm_spec(&prompt, 3);
	struct generation *g;
	struct warm_answer a;

	(void)state;
	hangkit_hang(HANGKIT_READ);
	s.deadline = 1;
	g = warm_submit(e, &s);
	hangkit_hangs();
	a = warm_read(e, &g);
	assert_int_equal(a.finish, GEN_ERROR);
	assert_int_equal(a.rc, RC_TIMEOUT);
	assert_int_equal(rc_http(a.rc), 504);
	assert_int_equal(a.n, 0);
	warm_idle(e);
	hangkit_let_go();
	a = warm_ask(e, &prompt, 3); /* what was not waited for is there for the next */
	warm_same(&a, &cold);
	assert_int_equal(a.usage.cached_tokens, 128);
	engine_close(&e);
}

/* Who leaves while it waits is gone at once. */
static void a_client_leaves_while_the_disk_hangs(void **state)
{
	struct engine *e = open_with(600);
	struct generation_spec s = warm_spec(&prompt, 3);
	struct generation *g;
	struct warm_answer a;

	(void)state;
	hangkit_hang(HANGKIT_READ);
	g = warm_submit(e, &s);
	hangkit_hangs();
	generation_cancel(g);
	a = warm_read(e, &g);
	assert_int_equal(a.finish, GEN_CANCELLED);
	warm_idle(e);
	hangkit_let_go();
	engine_close(&e);
}

/* Written is what was answered long ago: nobody waits for it. */
static void a_disk_that_hangs_in_writing_holds_nobody_up(void **state)
{
	struct engine *e = open_with(MOMENT);
	struct warm_prompt other = { .n = 0 };
	struct warm_answer a, b;

	(void)state;
	warm_grow(&other, 8, 140);
	hangkit_hang(HANGKIT_WRITE);
	a = warm_ask(e, &other, 3);
	hangkit_hangs();
	b = warm_ask(e, &other, 3);
	warm_same(&a, &b);
	assert_int_equal(b.usage.cached_tokens, 128);
	engine_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_teardown(test, recover)
		T(a_disk_that_works_is_used),
		T(the_start_does_not_wait_for_a_disk_that_hangs),
		T(who_waits_for_a_disk_that_hangs_computes_after_a_while),
		T(a_deadline_passes_while_the_disk_hangs),
		T(a_client_leaves_while_the_disk_hangs),
		T(a_disk_that_hangs_in_writing_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
