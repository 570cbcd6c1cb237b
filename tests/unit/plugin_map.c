/* SPDX-License-Identifier: MIT
 * plugin_map.c - tests of mappings: several of one plugin, each gone when it is freed, and what is left is told.
 * Threads: one. Locks: none. */
#include "engine/base/rc.h"
#include "engine/plugin/plugin_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[64], path[3][160];

static int set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/dsv4-maps-XXXXXX");
	assert_non_null(mkdtemp(dir));
	return 0;
}

/* Nothing may lie there any more. */
static int tear_down(void **state)
{
	(void)state;
	return rmdir(dir);
}

/* Straight from the build tree, whose directories may belong to anybody: not what the daemon does. */
static struct plugin_file *fixture(const char *name)
{
	struct plugin_file *pf = NULL;
	struct buf why = { 0 };
	char from[160], to[160], command[500];

	snprintf(from, sizeof from, "tests/plugins/%s", name);
	snprintf(to, sizeof to, "%s/%s", dir, name);
	snprintf(command, sizeof command, "cp %s %s && chmod 0600 %s", from, to, to);
	assert_int_equal(system(command), 0);
	if (plugin_file_open(dir, name, geteuid(), &pf, &why))
		fail_msg("%s", buf_str(&why));
	unlink(to);
	return pf;
}

static int map(const struct plugin_file *pf, char where[160], struct plugin_map **ret_m, struct buf *why)
{
	char *copy = NULL;

	assert_int_equal(plugin_file_copy(pf, dir, &copy, NULL), 0);
	snprintf(where, 160, "%s", copy);
	return plugin_map_new(copy, pf, NULL, ret_m, why);
}

static bool is_mapped(const char *file)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false;

	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		found |= strstr(line, file) != NULL;
	fclose(f);
	return found;
}

static void refused(int rc, const struct buf *why, enum plugin_refusal r)
{
	assert_int_equal(rc, RC_PLUGIN);
	if (plugin_refusal_find(buf_str(why)) != r)
		fail_msg("%s, not %s", buf_str(why), plugin_refusal_name(r));
}

/* ---- life ---- */

static void test_mapped_several_times_at_once(void **state)
{
	struct plugin_file *pf = fixture("good.so");
	struct plugin_map *m[3] = { 0 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(map(pf, path[i], &m[i], NULL), 0);
		assert_true(is_mapped(path[i]));
		assert_int_equal(plugin_map_open(m[i], NULL), 0);
		assert_int_equal(plugin_map_warm(m[i], NULL), 0);
	}
	/* Each is a library of its own. */
	assert_ptr_not_equal(m[0]->provider.plugin, m[1]->provider.plugin);
	assert_ptr_not_equal(m[1]->provider.plugin, m[2]->provider.plugin);
	assert_int_equal(plugin_map_free(&m[1], NULL), 0);
	assert_null(m[1]);
	assert_false(is_mapped(path[1]));
	assert_int_equal(access(path[1], F_OK), -1);
	assert_true(is_mapped(path[0]) && is_mapped(path[2]));
	assert_string_equal(m[0]->provider.plugin->name, "good");
	assert_string_equal(m[0]->provider.sha256, pf->sha256);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(plugin_map_free(&m[i], NULL), 0);
		assert_false(is_mapped(path[i]));
	}
	plugin_file_free(&pf);
}

static void test_opened_and_closed_again(void **state)
{
	struct plugin_file *pf = fixture("good.so");
	struct plugin_map *m = NULL;

	(void)state;
	assert_int_equal(map(pf, path[0], &m, NULL), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(plugin_map_open(m, NULL), 0);
		assert_int_equal(plugin_map_close(m, NULL), 0);
	}
	/* Closed already, and never opened: both are fine. */
	assert_int_equal(plugin_map_free(&m, NULL), 0);
	assert_int_equal(map(pf, path[0], &m, NULL), 0);
	assert_int_equal(plugin_map_free(&m, NULL), 0);
	assert_false(is_mapped(path[0]));
	plugin_file_free(&pf);
}

/* ---- refusals leave nothing ---- */

static void no_map(const char *name, enum plugin_refusal r)
{
	struct plugin_file *pf = fixture(name);
	struct plugin_map *m = NULL;
	struct buf why = { 0 };

	refused(map(pf, path[0], &m, &why), &why, r);
	assert_null(m);
	assert_false(is_mapped(path[0]));
	assert_int_equal(access(path[0], F_OK), -1);
	buf_fini(&why);
	plugin_file_free(&pf);
}

static void test_what_cannot_be_mapped(void **state)
{
	(void)state;
	no_map("undefined.so", PLUGIN_REFUSED_map);
	no_map("no-symbol.so", PLUGIN_REFUSED_no_symbol);
	no_map("facts-lie-name.so", PLUGIN_REFUSED_facts_lie);
}

static void test_open_and_warm_that_fail(void **state)
{
	static const char *const names[] = { "fails-open.so", "fails-warm.so" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct plugin_file *pf = fixture(names[i]);
		struct plugin_map *m = NULL;
		struct buf why = { 0 };

		assert_int_equal(map(pf, path[0], &m, NULL), 0);
		if (i == 0) {
			refused(plugin_map_open(m, &why), &why, PLUGIN_REFUSED_open_failed);
		} else {
			assert_int_equal(plugin_map_open(m, NULL), 0);
			refused(plugin_map_warm(m, &why), &why, PLUGIN_REFUSED_warm_failed);
		}
		assert_int_equal(plugin_map_free(&m, NULL), 0);
		assert_false(is_mapped(path[0]));
		buf_fini(&why);
		plugin_file_free(&pf);
	}
}

/* ---- what is left is told ---- */

#ifndef __SANITIZE_ADDRESS__ /* which tells of it too, at the end */
static void test_memory_that_close_keeps(void **state)
{
	struct plugin_file *pf = fixture("leaks.so");
	struct plugin_map *m = NULL;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(map(pf, path[0], &m, NULL), 0);
	assert_int_equal(plugin_map_open(m, NULL), 0);
	refused(plugin_map_free(&m, &why), &why, PLUGIN_REFUSED_leaks);
	assert_non_null(strstr(buf_str(&why), "4096 bytes"));
	assert_null(m);
	assert_false(is_mapped(path[0]));
	buf_fini(&why);
	plugin_file_free(&pf);
}
#endif

static void test_a_library_that_stays(void **state)
{
	struct plugin_file *pf = fixture("pinned-nodelete.so");
	struct plugin_map *m = NULL;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(map(pf, path[0], &m, NULL), 0);
	refused(plugin_map_free(&m, &why), &why, PLUGIN_REFUSED_stays_mapped);
	assert_null(m);
	assert_true(is_mapped(path[0]));
	assert_int_equal(access(path[0], F_OK), -1);
	buf_fini(&why);
	plugin_file_free(&pf);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_mapped_several_times_at_once),
		TEST(test_opened_and_closed_again),
		TEST(test_what_cannot_be_mapped),
		TEST(test_open_and_warm_that_fail),
#ifndef __SANITIZE_ADDRESS__
		TEST(test_memory_that_close_keeps),
#endif
		TEST(test_a_library_that_stays),
	};

	return cmocka_run_group_tests_name("plugin_map", tests, NULL, NULL);
}
