/* SPDX-License-Identifier: MIT
 * state.c - the state directory: how the last run ended, who runs on it, and files that are replaced as one.
 * Threads: main. Locks: none. */
#include "daemon/state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], at[128];

static const char *in(const char *name)
{
	snprintf(at, sizeof at, "%s/%s", dir, name);
	return at;
}

static struct state *opened(void)
{
	struct buf why = { 0 };
	struct state *s = NULL;

	if (state_open(dir, &s, &why))
		fail_msg("%s", buf_str(&why));
	buf_fini(&why);
	return s;
}

static void put(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fclose(f);
}

static void only_an_end_in_order_is_clean(void **state)
{
	struct state *s = opened();

	(void)state;
	assert_int_equal(state_unclean(s), 0);
	state_close(&s, true);
	s = opened();
	assert_int_equal(state_unclean(s), 0);
	state_close(&s, false);
	s = opened();
	assert_int_equal(state_unclean(s), 1);
	state_close(&s, true);
	s = opened();
	assert_int_equal(state_unclean(s), 0);
	state_close(&s, true);
	assert_null(s);
	state_close(&s, true);
}

/* A run that ended in order, or had proven itself before it ended otherwise, starts the count anew. */
static void unclean_ends_in_a_row_are_counted(void **state)
{
	struct buf why = { 0 };
	struct state *s;

	(void)state;
	for (int before = 0; before < 4; before++) {
		s = opened();
		assert_int_equal(state_unclean(s), before);
		state_close(&s, false);
	}
	s = opened();
	assert_int_equal(state_proven(s, &why), 0);
	assert_int_equal(state_unclean(s), 4);
	state_close(&s, false);
	s = opened();
	assert_int_equal(state_unclean(s), 1);
	state_close(&s, false);
	s = opened();
	assert_int_equal(state_unclean(s), 2);
	state_close(&s, true);
	s = opened();
	assert_int_equal(state_unclean(s), 0);
	state_close(&s, true);
	assert_int_equal(state_proven(s, &why), 0);
}

static void a_marker_that_says_nothing_is_one_unclean_end(void **state)
{
	static const char *const texts[] = { "", "17\n", "17 -3\n", "17 99999999999\n", "x" };

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		FILE *f = fopen(in("running"), "w");
		struct state *s;

		assert_non_null(f);
		assert_true(fputs(texts[i], f) >= 0);
		fclose(f);
		s = opened();
		assert_int_equal(state_unclean(s), 1);
		state_close(&s, true);
	}
}

static void one_daemon_at_a_time(void **state)
{
	struct state *s = opened(), *other = NULL;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(state_open(dir, &other, &why), -EBUSY);
	assert_non_null(strstr(buf_str(&why), dir));
	assert_null(other);
	/* and the other's try has not taken our marker away */
	assert_int_equal(access(in("running"), F_OK), 0);
	state_close(&s, true);
	assert_int_equal(access(in("running"), F_OK), -1);
	buf_fini(&why);
}

static void copies_of_plugins_are_ours_alone(void **state)
{
	struct state *s = opened();
	struct stat st;

	(void)state;
	assert_string_equal(state_plugins(s), in("plugins"));
	put(in("plugins/x.1.1.so"));
	chmod(in("plugins"), 0777);
	state_close(&s, false);
	s = opened();
	assert_int_equal(access(in("plugins/x.1.1.so"), F_OK), -1);
	assert_int_equal(stat(in("plugins"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	state_close(&s, true);
}

static void files_are_replaced_as_one(void **state)
{
	struct state *s = opened();
	struct buf text = { 0 }, why = { 0 };

	(void)state;
	assert_int_equal(state_read(s, "x", &text, &why), -ENOENT);
	assert_int_equal(state_write(s, "x", "one, which is longer", 20, &why), 0);
	assert_int_equal(state_write(s, "x", "two", 3, &why), 0);
	assert_int_equal(state_read(s, "x", &text, &why), 0);
	assert_string_equal(buf_str(&text), "two");
	assert_int_equal(access(in("x.new"), F_OK), -1);
	/* a write that cannot be finished leaves what was there */
	assert_int_equal(mkdir(in("x.new"), 0700), 0);
	assert_int_equal(state_write(s, "x", "three", 5, &why), -EISDIR);
	assert_non_null(strstr(buf_str(&why), in("x")));
	buf_clear(&text);
	assert_int_equal(state_read(s, "x", &text, &why), 0);
	assert_string_equal(buf_str(&text), "two");
	assert_int_equal(rmdir(in("x.new")), 0);
	buf_fini(&text);
	buf_fini(&why);
	state_close(&s, true);
}

static void what_is_set_aside_can_be_looked_at(void **state)
{
	struct state *s = opened();
	struct buf why = { 0 }, text = { 0 };

	(void)state;
	assert_int_equal(state_set_aside(s, "y", &why), -ENOENT);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(state_write(s, "y", i ? "new" : "old", 3, NULL), 0);
		assert_int_equal(state_set_aside(s, "y", NULL), 0);
		assert_int_equal(state_read(s, "y", &text, NULL), -ENOENT);
	}
	assert_int_equal(state_read(s, "y.bad", &text, NULL), 0);
	assert_string_equal(buf_str(&text), "new");
	assert_int_equal(unlink(in("y.bad")), 0);
	buf_fini(&text);
	buf_fini(&why);
	state_close(&s, true);
}

static void without_a_directory(void **state)
{
	struct state *s = NULL;
	struct buf why = { 0 }, text = { 0 };

	(void)state;
	assert_true(state_open("/proc/nothing/here", &s, &why) < 0);
	assert_non_null(strstr(buf_str(&why), "/proc/nothing/here"));
	assert_null(s);
	assert_int_equal(state_unclean(s), 0);
	assert_string_equal(state_plugins(s), "");
	assert_true(state_write(s, "x", "y", 1, &why) < 0);
	assert_int_equal(state_read(s, "x", &text, &why), -ENOENT);
	buf_fini(&why);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/dsv4-state-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const left[] = { "x", "running", "plugins" };

	(void)state;
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		remove(in(left[i]));
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_an_end_in_order_is_clean),
		cmocka_unit_test(unclean_ends_in_a_row_are_counted),
		cmocka_unit_test(a_marker_that_says_nothing_is_one_unclean_end),
		cmocka_unit_test(one_daemon_at_a_time),
		cmocka_unit_test(copies_of_plugins_are_ours_alone),
		cmocka_unit_test(files_are_replaced_as_one),
		cmocka_unit_test(what_is_set_aside_can_be_looked_at),
		cmocka_unit_test(without_a_directory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
