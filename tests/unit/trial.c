/* SPDX-License-Identifier: MIT
 * trial.c - tests of the trial child: each fixture's fault ends in its name, and the parent is unharmed.
 * Threads: one; the children have their own. Locks: none. */
#include "daemon/kernels/trial.h"
#include "daemon/kernels/trial_shape.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char copies[64], fixtures[64];

static int set_up(void **state)
{
	char command[240];

	(void)state;
	strcpy(copies, "/tmp/dsv4-copies-XXXXXX");
	strcpy(fixtures, "/tmp/dsv4-fixtures-XXXXXX");
	assert_non_null(mkdtemp(copies));
	assert_non_null(mkdtemp(fixtures));
	snprintf(command, sizeof command, "cp tests/plugins/*.so %s/ && chmod 0644 %s/*", fixtures, fixtures);
	return system(command);
}

static int tear_down(void **state)
{
	char command[240];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s %s", copies, fixtures);
	return system(command);
}

static int try(const char *name, const struct trial_options *o, struct buf *why)
{
	struct plugin_file *pf = NULL;
	int rc = plugin_file_open(fixtures, name, geteuid(), &pf, why);

	if (rc)
		fail_msg("%s: %s", name, buf_str(why));
	rc = trial_run(pf, copies, o, why);
	plugin_file_free(&pf);
	return rc;
}

/* No copy lies there any more, and no child runs. */
static void nothing_is_left(void)
{
	DIR *d = opendir(copies);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	assert_int_equal(n, 2);
	assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void ends(const char *name, const struct trial_options *o, enum plugin_refusal expected, const char *words)
{
	struct buf why = { 0 };
	int rc = try(name, o, &why);

	if (rc != (expected ? RC_PLUGIN : 0) || plugin_refusal_find(buf_str(&why)) != expected)
		fail_msg("%s: %d %s", name, rc, buf_str(&why));
	if (!strstr(buf_str(&why), words))
		fail_msg("%s: %s, but nothing of %s", name, buf_str(&why), words);
	nothing_is_left();
	buf_fini(&why);
}

/* ---- each fault, and where it shows ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRASH(signal) "" /* the sanitizer reports it and exits */
#else
#define CRASH(signal) signal " in "
#endif

static const struct {
	const char *name;
	enum plugin_refusal refusal;
	const char *words;
} rows[] = {
	{ "good.so", PLUGIN_ACCEPTED, "" },
	{ "wrong-major.so", PLUGIN_REFUSED_major, "ABI" },
	{ "newer-minor.so", PLUGIN_REFUSED_minor, "ABI" },
	{ "older-minor.so", PLUGIN_ACCEPTED, "" },
	{ "bad-signature.so", PLUGIN_REFUSED_signature, DSV4_BUILD_SIGNATURE },
	{ "needs-cpu.so", PLUGIN_REFUSED_cpu, "needs" },
	{ "needs-gpu.so", PLUGIN_REFUSED_gpu, "needs" },
	{ "undefined.so", PLUGIN_REFUSED_map, "undefined symbol" },
	{ "no-symbol.so", PLUGIN_REFUSED_no_symbol, DSV4_PLUGIN_SYMBOL },
	{ "facts-lie-name.so", PLUGIN_REFUSED_facts_lie, "name" },
	{ "facts-lie-count.so", PLUGIN_REFUSED_facts_lie, "number of ops" },
	{ "facts-lie-phase.so", PLUGIN_REFUSED_facts_lie, "phases of op row 0" },
	{ "facts-lie-tag.so", PLUGIN_REFUSED_facts_lie, "tag of op row 0" },
	{ "crash-ctor.so", PLUGIN_REFUSED_crashed, CRASH("SIGABRT") "map" },
	{ "crash-open.so", PLUGIN_REFUSED_crashed, CRASH("SIGABRT") "open" },
	{ "crash-close.so", PLUGIN_REFUSED_crashed, CRASH("SIGABRT") "close" },
	{ "fails-open.so", PLUGIN_REFUSED_open_failed, "-19" },
	{ "fails-warm.so", PLUGIN_REFUSED_warm_failed, "-5" },
	{ "wrong-result.so", PLUGIN_REFUSED_wrong_result, "rms_norm prefill" },
	{ "batch.so", PLUGIN_REFUSED_not_identical, "rms_norm" },
	{ "threads.so", PLUGIN_REFUSED_not_identical, "rms_norm" },
	{ "between-rows.so", PLUGIN_REFUSED_out_of_bounds, "rms_norm" },
	{ "past-end.so", PLUGIN_REFUSED_out_of_bounds, "rms_norm" },
	{ "before-start.so", PLUGIN_REFUSED_out_of_bounds, "rms_norm" },
	{ "restores-input.so", PLUGIN_REFUSED_crashed, CRASH("SIGSEGV") "check rms_norm, rms_norm tiny" },
	{ "reads-past.so", PLUGIN_REFUSED_crashed, CRASH("SIGSEGV") "check rms_norm, rms_norm tiny" },
	{ "leaks.so", PLUGIN_REFUSED_leaks, "4096 bytes in 1 piece" },
	{ "leaves-thread.so", PLUGIN_REFUSED_leaks, "1 thread running" },
	{ "leaves-library.so", PLUGIN_REFUSED_stays_mapped, "libanl" },
	{ "pinned.so", PLUGIN_REFUSED_stays_mapped, "pinned" },
	{ "pinned-nodelete.so", PLUGIN_REFUSED_stays_mapped, "pinned-nodelete" },
};

static void test_each_fault_has_its_name(void **state)
{
	const struct trial_options o = { 0 };

	(void)state;
	for (size_t i = 0; i < mem_countof(rows); i++)
		ends(rows[i].name, &o, rows[i].refusal, rows[i].words);
}

#ifndef __SANITIZE_THREAD__ /* its malloc counts nothing, and it does not look for leaks */
static void test_memory_of_libc_that_close_forgets(void **state)
{
	const struct trial_options o = { 0 };

	(void)state;
	ends("leaks-malloc.so", &o, PLUGIN_REFUSED_leaks, "");
}
#endif

static void test_other_seeds_and_shapes(void **state)
{
	struct check_shape shape[2] = { check_shape_tiny, check_shape_tiny };
	struct trial_options o = { .seed = 7, .shape = shape, .n_shape = 2 };

	(void)state;
	shape[1].name = "odd";
	shape[1].hidden = 77;
	ends("good.so", &o, PLUGIN_ACCEPTED, "");
	o = (struct trial_options){ .shape = &shape[1], .n_shape = 1 };
	ends("wrong-result.so", &o, PLUGIN_REFUSED_wrong_result, "odd");
}

static void test_shapes_as_text(void **state)
{
	static const char *const bad[] = { "", "x", "x 1 2 3", "x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 -17",
					   "x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",
					   "x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 99999999999" };
	struct check_shape s;
	struct buf text = { 0 };

	(void)state;
	trial_shape_put(&text, &check_shape_flash);
	assert_true(trial_shape_get(text.data, &s));
	assert_string_equal(s.name, check_shape_flash.name);
	s.name = check_shape_flash.name;
	assert_memory_equal(&s, &check_shape_flash, sizeof s);
	for (size_t i = 0; i < mem_countof(bad); i++) {
		buf_clear(&text);
		buf_printf(&text, "%s", bad[i]);
		buf_reserve(&text, 1);
		text.data[text.len] = '\0';
		assert_false(trial_shape_get(text.data, &s));
	}
	buf_fini(&text);
}

/* ---- silence ---- */

static void test_a_stage_that_does_not_end_is_killed(void **state)
{
	const struct trial_options o = { .stage_ms = 3000 };

	(void)state;
	ends("hang-open.so", &o, PLUGIN_REFUSED_timeout, "open after 3 s");
}

static atomic_bool cancelled;

static void cancel(int sig)
{
	(void)sig;
	atomic_store(&cancelled, true);
}

static void test_a_trial_can_be_cancelled(void **state)
{
	const struct trial_options o = { .cancel = &cancelled };
	const struct itimerval soon = { .it_value.tv_usec = 200000 };
	struct buf why = { 0 };

	(void)state;
	signal(SIGALRM, cancel);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(try("hang-open.so", &o, &why), RC_CANCELLED);
	nothing_is_left();
	buf_fini(&why);
}

/* The first child of a process, 0 while there is none. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	int child = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	if (fscanf(f, "%d", &child) != 1)
		child = 0;
	fclose(f);
	return child;
}

static void test_a_trial_ends_with_its_parent(void **state)
{
	const struct trial_options o = { 0 };
	struct buf why = { 0 };
	pid_t parent, child;
	int status;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0)
		_exit(try("hang-open.so", &o, &why));
	while ((child = child_of(parent)) == 0)
		sched_yield();
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	/* By the death signal, or by the broken pipe when it had not asked for that yet. */
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_true(WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGPIPE);
}

/* ---- what it is called with ---- */

static void test_nobody_else_starts_one(void **state)
{
	static char *args[] = { (char *)(uintptr_t) "/nonexistent/x.so", (char *)(uintptr_t) "1",
				(char *)(uintptr_t) "tiny", NULL };

	(void)state;
	close(TRIAL_FD);
	assert_int_equal(trial_child(3, args), 2);
	assert_int_equal(trial_child(0, args + 3), 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_fault_has_its_name),
#ifndef __SANITIZE_THREAD__
		TEST(test_memory_of_libc_that_close_forgets),
#endif
		TEST(test_other_seeds_and_shapes),
		cmocka_unit_test(test_shapes_as_text),
		TEST(test_a_stage_that_does_not_end_is_killed),
		TEST(test_a_trial_can_be_cancelled),
		TEST(test_a_trial_ends_with_its_parent),
		cmocka_unit_test(test_nobody_else_starts_one),
	};

	if (argc > 1 && !strcmp(argv[1], TRIAL_FLAG))
		return trial_child(argc - 2, argv + 2);
	return cmocka_run_group_tests_name("trial", tests, NULL, NULL);
}
