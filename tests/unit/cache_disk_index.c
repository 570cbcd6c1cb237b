/* SPDX-License-Identifier: MIT
 * cache_disk_index.c - names of cached files, and which of them is the longest unused.
 * Threads: main. Locks: none. */
#include "engine/base/mem.h"
#include "engine/cache/cache_disk_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000LL
#define NOW (1000000 * SECOND)

static struct cache_disk_index x;

static int empty(void **state)
{
	(void)state;
	cache_disk_index_fini(&x);
	return 0;
}

static struct cache_disk_name name(int i, enum cache_file_kind kind)
{
	struct cache_disk_name n = { .model = 7, .kind = kind };

	memcpy(n.key.byte, &i, sizeof i);
	return n;
}

static struct cache_disk_entry *add(int i, enum cache_file_kind kind, int64_t stamp)
{
	struct cache_disk_name n = name(i, kind);

	return cache_disk_index_add(&x, &n, CACHE_DISK_OWN, 10, stamp);
}

/* As writing does: block i below block i - 1. */
static void add_below(int i, int64_t now)
{
	struct cache_disk_name up = name(i - 1, CACHE_FILE_BLOCK), n = name(i, CACHE_FILE_BLOCK);
	struct cache_disk_entry *e = add(i, CACHE_FILE_BLOCK, cache_disk_index_stamp(&x, &up, now));

	e->parent = up.key;
	e->has_parent = true;
	cache_disk_index_touch(&x, &n, now);
}

static int oldest(void)
{
	struct cache_disk_entry *e = cache_disk_index_oldest(&x);
	int i = -1;

	if (e)
		memcpy(&i, e->name.key.byte, sizeof i);
	cache_disk_index_remove(&x, &e);
	return i;
}

static void a_name_has_one_spelling(void **state)
{
	static const char *const junk[] = {
		"", "x", "bad", "..", "000102030405060708090a0b0c0d0e0f",
		"000102030405060708090a0b0c0d0e0f.0000002a.blocks",
		"000102030405060708090a0b0c0d0e0f.0000002a.block ",
		"000102030405060708090a0b0c0d0e0f.0000002a.block.tm",
		"000102030405060708090a0b0c0d0e0f.0000002a.block.tmp.tmp",
		"000102030405060708090A0b0c0d0e0f.0000002a.block",
		"000102030405060708090a0b0c0d0e0.0000002a.block",
		"000102030405060708090a0b0c0d0e0f0.0000002a.block",
		"000102030405060708090a0b0c0d0e0f.2a.block",
		"000102030405060708090a0b0c0d0e0f.-000002a.block",
		"000102030405060708090a0b0c0d0e0f.0x00002a.block",
		" 000102030405060708090a0b0c0d0e0f.0000002a.block",
		"000102030405060708090a0b0c0d0e0f.0000002a.", "000102030405060708090a0b0c0d0e0f.0000002a.bad",
	};
	struct cache_disk_name n = { .model = 42, .kind = CACHE_FILE_STATE }, got;
	char text[CACHE_DISK_NAME], tmp[CACHE_DISK_NAME + 8];
	bool is_tmp;

	(void)state;
	for (int i = 0; i < CACHE_KEY_BYTES; i++)
		n.key.byte[i] = (uint8_t)i;
	assert_string_equal(cache_disk_name_print(&n, text), "000102030405060708090a0b0c0d0e0f.0000002a.state");
	assert_true(cache_disk_name_parse(text, &got, &is_tmp));
	assert_true(cache_key_equal(&got.key, &n.key) && got.model == 42 && got.kind == CACHE_FILE_STATE && !is_tmp);
	strcat(strcpy(tmp, text), CACHE_DISK_TMP);
	assert_true(cache_disk_name_parse(tmp, &got, &is_tmp));
	assert_true(is_tmp);
	for (size_t i = 0; i < mem_countof(junk); i++)
		if (cache_disk_name_parse(junk[i], &got, &is_tmp))
			fail_msg("\"%s\" is no name", junk[i]);
}

static void the_oldest_comes_first(void **state)
{
	enum { N = 1000 };
	int64_t last = -1;

	(void)state;
	for (int i = 0; i < N; i++)
		add(i, CACHE_FILE_BLOCK, (int64_t)(i * 7919LL % N));
	assert_int_equal(x.n, N);
	assert_int_equal(x.bytes, 10 * N);
	for (int i = 0; i < N; i++) {
		int64_t stamp = oldest() * 7919LL % N;

		assert_true(stamp > last);
		last = stamp;
	}
	assert_int_equal(x.bytes, 0);
	assert_int_equal(x.count[CACHE_DISK_OWN], 0);
	assert_null(cache_disk_index_oldest(&x));
}

static void of_one_name_there_is_one_entry(void **state)
{
	struct cache_disk_name n = name(1, CACHE_FILE_BLOCK);

	(void)state;
	add(1, CACHE_FILE_BLOCK, 1);
	add(1, CACHE_FILE_BLOCK, 2);
	add(1, CACHE_FILE_STATE, 3);
	cache_disk_index_add(&x, &n, CACHE_DISK_BAD, 5, 4);
	assert_int_equal(x.n, 3);
	assert_int_equal(x.bytes, 25);
	assert_int_equal(cache_disk_index_find(&x, &n, CACHE_DISK_OWN)->stamp, 2);
	assert_int_equal(cache_disk_index_oldest_bad(&x)->bytes, 5);
}

/* Written within a moment or over hours: the end of a path always goes before what it needs. */
static void a_path_goes_from_its_end(void **state)
{
	(void)state;
	for (int step = 0; step < 2; step++) {
		for (int i = 1; i <= 50; i++)
			add_below(i, NOW + i * (step ? 3600 : 1) * SECOND);
		for (int i = 50; i >= 1; i--)
			assert_int_equal(oldest(), i);
	}
}

static void a_path_that_is_used_stays(void **state)
{
	struct cache_disk_name end = name(3, CACHE_FILE_BLOCK), st = name(2, CACHE_FILE_STATE);

	(void)state;
	for (int i = 1; i <= 3; i++)
		add_below(i, NOW);
	add(2, CACHE_FILE_STATE, NOW);
	add(100, CACHE_FILE_BLOCK, NOW + 1000 * SECOND);
	cache_disk_index_touch(&x, &end, NOW + 2000 * SECOND);
	assert_int_equal(cache_disk_index_find(&x, &st, CACHE_DISK_OWN)->stamp, NOW + 2000 * SECOND + 1);
	assert_int_equal(oldest(), 100);
	assert_int_equal(oldest(), 3);
	assert_int_equal(oldest(), 2);
}

/* A use costs a write of an inode only when the file's own time has become far too old. */
static void uses_are_saved_now_and_then(void **state)
{
	struct cache_disk_name end = name(40, CACHE_FILE_BLOCK);
	struct cache_disk_stamp s[64];
	int n, all = 0;

	(void)state;
	for (int i = 1; i <= 40; i++)
		add_below(i, NOW);
	for (int i = 1; i <= 40; i++)
		add(i, CACHE_FILE_STATE, NOW);
	cache_disk_index_touch(&x, &end, NOW + 300 * SECOND);
	assert_int_equal(cache_disk_index_unsaved(&x, &end, s, 64), 0);
	cache_disk_index_touch(&x, &end, NOW + 700 * SECOND);
	while ((n = cache_disk_index_unsaved(&x, &end, s, 64)))
		for (all += n; n; n--)
			assert_true(s[n - 1].stamp >= NOW + 700 * SECOND);
	assert_int_equal(all, 80);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_name_has_one_spelling, empty),
		cmocka_unit_test_teardown(the_oldest_comes_first, empty),
		cmocka_unit_test_teardown(of_one_name_there_is_one_entry, empty),
		cmocka_unit_test_teardown(a_path_goes_from_its_end, empty),
		cmocka_unit_test_teardown(a_path_that_is_used_stays, empty),
		cmocka_unit_test_teardown(uses_are_saved_now_and_then, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
