/* SPDX-License-Identifier: MIT
 * cache_disk.c - the disk cache: what is put comes back, once on disk; its limits, its queue, and many callers at once.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/diskkit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct diskkit kit;

static int setup(void **state)
{
	(void)state;
	diskkit_init(&kit);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	diskkit_fini(&kit);
	return 0;
}

static bool has(uint32_t seed, int i, bool *ret_state)
{
	struct cache_disk_item item[DISKKIT_MAX];
	bool there;

	diskkit_path(&kit, kit.options.model_id, seed, i + 1, 0, item);
	there = cache_disk_has(kit.d, &item[i].key, ret_state);
	diskkit_item_fini(item, i + 1);
	return there;
}

/* What `du` would say of the cached files. */
static uint64_t bytes_there(void)
{
	uint64_t sum = 0;
	DIR *dir = opendir(kit.dir);
	struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		char path[512];
		struct stat st;

		if (!strstr(e->d_name, ".block") && !strstr(e->d_name, ".state"))
			continue;
		snprintf(path, sizeof path, "%s/%s", kit.dir, e->d_name);
		assert_int_equal(lstat(path, &st), 0);
		sum += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	}
	closedir(dir);
	return sum;
}

/* ---- there and back ---- */

static void what_was_put_comes_back(void **state)
{
	bool st;

	(void)state;
	diskkit_open(&kit);
	assert_false(has(1, 0, &st));
	diskkit_write(&kit, 1, 5, 1 << 2 | 1 << 3);
	for (int again = 0; again < 2; again++) {
		diskkit_reopen(&kit);
		assert_int_equal(diskkit_stats(&kit).files, 7);
		assert_int_equal(diskkit_stats(&kit).bytes, bytes_there());
		assert_true(has(1, 2, &st) && st);
		assert_true(has(1, 4, &st) && !st);
		assert_false(has(2, 0, &st));
		diskkit_whole(&kit, 1, 5, 3);
		diskkit_whole(&kit, 1, 3, 2);
		diskkit_whole(&kit, 1, 2, -1);
		assert_int_equal(diskkit_stats(&kit).read, 5 + 1 + 3 + 1 + 2);
		assert_int_equal(diskkit_stats(&kit).errors, 0);
	}
}

static void of_a_path_only_so_much_comes_as_there_is(void **state)
{
	int at;

	(void)state;
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 3, 1);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_read(&kit, 1, 6, &at), 3);
	assert_int_equal(at, 0);
	assert_int_equal(diskkit_read(&kit, 2, 6, &at), 0);
	assert_int_equal(diskkit_read(&kit, 1, 0, &at), 0);
	assert_int_equal(diskkit_stats(&kit).bad, 0);
}

static void a_state_can_come_later(void **state)
{
	struct cache_disk_item item[2];
	bool st;

	(void)state;
	diskkit_open(&kit);
	diskkit_path(&kit, DISKKIT_MODEL, 1, 2, 3, item);
	sequence_block_unref(&item[1].block);
	diskkit_put(&kit, item + 1, 1); /* of a block that is not there: of no use */
	diskkit_write(&kit, 1, 1, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).dropped, 1);
	assert_true(has(1, 0, &st) && !st);
	diskkit_put(&kit, item, 1);
	diskkit_drain(&kit);
	assert_true(has(1, 0, &st) && st);
	assert_int_equal(diskkit_stats(&kit).files, 2);
	diskkit_item_fini(item, 2);
}

static void nothing_is_written_twice(void **state)
{
	uint64_t written, bytes;

	(void)state;
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 4, 15);
	diskkit_write(&kit, 1, 4, 15);
	diskkit_drain(&kit);
	written = diskkit_stats(&kit).written;
	bytes = diskkit_stats(&kit).written_bytes;
	assert_int_equal(written, 8);
	assert_int_equal(bytes, bytes_there());
	diskkit_write(&kit, 1, 4, 15);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).written, written);
	diskkit_reopen(&kit);
	diskkit_write(&kit, 1, 4, 15);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).written, 0);
	assert_int_equal(diskkit_stats(&kit).raw_bytes, 0);
}

static void what_was_dropped_does_not_come_back(void **state)
{
	struct cache_disk_item item[3];
	struct diskkit_hold hold;
	bool st;
	int at;

	(void)state;
	diskkit_open(&kit);
	diskkit_path(&kit, DISKKIT_MODEL, 1, 3, 7, item);
	diskkit_put(&kit, item, 2);
	diskkit_drain(&kit);
	diskkit_hold(&kit, &hold);
	diskkit_put(&kit, item + 2, 1);
	cache_disk_disown(kit.d, &item[2].key); /* still waiting */
	cache_disk_disown(kit.d, &item[1].key); /* on disk */
	diskkit_let_go(&hold);
	assert_true(has(1, 0, &st));
	assert_false(has(1, 1, &st));
	diskkit_reopen(&kit);
	assert_int_equal(diskkit_stats(&kit).files, 2);
	assert_int_equal(diskkit_read(&kit, 1, 3, &at), 1);
	diskkit_item_fini(item, 3);
}

/* ---- limits ---- */

static void bytes_on_disk_have_a_limit(void **state)
{
	uint64_t most = 0;

	(void)state;
	kit.options.bytes = 40000;
	diskkit_open(&kit);
	for (uint32_t seed = 1; seed <= 30; seed++) {
		diskkit_write(&kit, seed, 4, 8);
		diskkit_drain(&kit);
		most = bytes_there() > most ? bytes_there() : most;
	}
	assert_true(most <= 40000);
	assert_true(most > 30000);
	assert_true(diskkit_stats(&kit).deleted > 50);
	diskkit_whole(&kit, 30, 4, 3);
	assert_int_equal(diskkit_stats(&kit).errors, 0);
}

/* Each path has room; a third would not. Whichever was read last stays, whole. */
static void the_longest_unused_is_deleted_first(void **state)
{
	uint64_t one;
	bool st;

	(void)state;
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 4, 8);
	diskkit_drain(&kit);
	one = bytes_there();
	diskkit_close(&kit);
	kit.options.bytes = 2 * one + one / 2;
	diskkit_open(&kit);
	diskkit_write(&kit, 2, 4, 8);
	diskkit_drain(&kit);
	diskkit_write(&kit, 3, 4, 8);
	diskkit_drain(&kit);
	diskkit_whole(&kit, 2, 4, 3);
	diskkit_whole(&kit, 3, 4, 3);
	assert_false(has(1, 3, &st)); /* the end goes before the beginning */
	diskkit_reopen(&kit);
	diskkit_write(&kit, 4, 4, 8);
	diskkit_drain(&kit);
	diskkit_whole(&kit, 3, 4, 3); /* order survives a restart */
	diskkit_whole(&kit, 4, 4, 3);
	assert_false(has(2, 3, &st));
}

/* Of a path, in the past, with blocks an hour apart, the last one written first. */
static void age(uint32_t seed, int n)
{
	for (int i = 0; i < n; i++) {
		struct timespec t[2] = { { .tv_sec = 1000000 + 3600 * i }, { .tv_sec = 1000000 + 3600 * i } };
		char path[256];

		diskkit_file(&kit, seed, i, CACHE_FILE_BLOCK, false, path);
		assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
	}
}

static int64_t mtime(uint32_t seed, int i)
{
	char path[256];
	struct stat st;

	assert_int_equal(stat(diskkit_file(&kit, seed, i, CACHE_FILE_BLOCK, false, path), &st), 0);
	return st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
}

/* As it is deleted from its end, and however long writing it took. */
static void a_path_is_newest_at_its_beginning(void **state)
{
	(void)state;
	diskkit_open(&kit);
	for (int n = 1; n <= 6; n++) {
		diskkit_write(&kit, 1, n, 1);
		diskkit_drain(&kit);
	}
	for (int i = 1; i < 6; i++)
		assert_true(mtime(1, i) < mtime(1, i - 1));
}

/* Reading, or being put again, makes a path new, its beginning newest; nothing is written for it. */
static void uses_survive_a_restart(void **state)
{
	(void)state;
	diskkit_open(&kit);
	for (uint32_t seed = 1; seed <= 3; seed++)
		diskkit_write(&kit, seed, 4, 0);
	diskkit_close(&kit);
	for (uint32_t seed = 1; seed <= 3; seed++)
		age(seed, 4);
	diskkit_open(&kit);
	diskkit_whole(&kit, 1, 4, -1);
	diskkit_write(&kit, 2, 4, 0);
	diskkit_close(&kit);
	for (uint32_t seed = 1; seed <= 2; seed++)
		for (int i = 1; i < 4; i++) {
			assert_true(mtime(seed, i) > mtime(3, 3));
			assert_true(mtime(seed, i) < mtime(seed, i - 1));
		}
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).files, 12);
}

static void a_lower_limit_holds_at_once(void **state)
{
	(void)state;
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 20, 0);
	diskkit_close(&kit);
	kit.options.bytes = 10000;
	diskkit_open(&kit);
	diskkit_reopen(&kit);
	assert_true(bytes_there() <= 10000 && bytes_there() > 5000);
	assert_true(diskkit_stats(&kit).files < 20);
	diskkit_whole(&kit, 1, (int)diskkit_stats(&kit).files, -1);
}

static void with_no_room_for_one_file_nothing_is_written(void **state)
{
	(void)state;
	kit.options.bytes = 700;
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 3, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).dropped, 3);
	assert_int_equal(bytes_there(), 0);
}

static void the_queue_has_an_end(void **state)
{
	struct diskkit_hold hold;

	(void)state;
	kit.options.max_queued = 3;
	diskkit_open(&kit);
	diskkit_hold(&kit, &hold);
	diskkit_write(&kit, 1, 10, 0);
	diskkit_write(&kit, 1, 3, 7); /* what waits gets a state as well, and no place of its own */
	assert_int_equal(diskkit_stats(&kit).queued, 3);
	assert_int_equal(diskkit_stats(&kit).dropped, 7);
	diskkit_let_go(&hold);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).files, 6);
	diskkit_whole(&kit, 1, 3, 2);
}

static bool note_written(void *arg, struct cache_disk_item *item)
{
	uint64_t *written = arg;

	assert_null(item);
	*written = diskkit_stats(&kit).written;
	return true;
}

/* Asked for after ten writes, while the thread cannot have begun any. */
static void reads_go_first(void **state)
{
	uint64_t written = 99;
	struct diskkit_hold hold;

	(void)state;
	diskkit_open(&kit);
	diskkit_hold(&kit, &hold);
	diskkit_write(&kit, 1, 10, 0);
	cache_disk_read(kit.d, &(struct cache_disk_ask){ .key = NULL, .n = 0, .fn = note_written, .arg = &written });
	diskkit_let_go(&hold);
	diskkit_drain(&kit);
	assert_int_equal(written, 0);
	assert_int_equal(diskkit_stats(&kit).written, 10);
}

static void closing_at_once_drops_what_waits(void **state)
{
	struct diskkit_hold hold;

	(void)state;
	diskkit_open(&kit);
	diskkit_hold(&kit, &hold);
	diskkit_write(&kit, 1, 10, 0);
	diskkit_let_go(&hold);
	cache_disk_close(&kit.d, 0);
	diskkit_open(&kit);
	assert_true(diskkit_stats(&kit).files <= 10);
	diskkit_whole(&kit, 1, (int)diskkit_stats(&kit).files, -1);
}

/* ---- all at once ---- */

struct caller { pthread_t thread; uint32_t seed; int n_end; };

static bool count_end(void *arg, struct cache_disk_item *item)
{
	struct caller *c = arg;

	if (item)
		diskkit_item_fini(item, 1);
	else
		c->n_end++;
	return true;
}

/* Puts, reads and drops the blocks of one path that all callers share. */
static void *call(void *arg)
{
	struct caller *c = arg;
	struct cache_disk_item item[8];
	struct cache_key key[8];
	uint32_t r = c->seed;
	bool st;

	diskkit_path(&kit, DISKKIT_MODEL, 77, 8, 0xaa, item);
	for (int i = 0; i < 8; i++)
		key[i] = item[i].key;
	for (int i = 0; i < 400; i++) {
		r = r * 1664525u + 1013904223u;
		if (r >> 30 == 0)
			cache_disk_drop(kit.d, key + (r >> 20) % 8);
		else if (r >> 30 == 1)
			cache_disk_read(kit.d, &(struct cache_disk_ask){ .key = key, .n = (r >> 20) % 9,
									 .fn = count_end, .arg = c });
		else
			cache_disk_put(kit.d, item + (r >> 20) % 8);
		cache_disk_has(kit.d, key + (r >> 10) % 8, &st);
	}
	diskkit_item_fini(item, 8);
	return NULL;
}

static void many_callers_at_once(void **state)
{
	struct caller c[4];

	(void)state;
	kit.options.bytes = 15000;
	diskkit_open(&kit);
	memset(c, 0, sizeof c);
	for (uint32_t i = 0; i < 4; i++) {
		c[i].seed = i + 1;
		assert_int_equal(pthread_create(&c[i].thread, NULL, call, c + i), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(c[i].thread, NULL);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).bad, 0);
	assert_true(diskkit_stats(&kit).written > 0);
	diskkit_close(&kit);
	assert_true(bytes_there() <= 15000);
	for (int i = 0; i < 4; i++)
		assert_true(c[i].n_end > 0);
	diskkit_open(&kit);
	diskkit_write(&kit, 77, 8, 0xaa);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		T(what_was_put_comes_back),
		T(of_a_path_only_so_much_comes_as_there_is),
		T(a_state_can_come_later),
		T(nothing_is_written_twice),
		T(what_was_dropped_does_not_come_back),
		T(bytes_on_disk_have_a_limit),
		T(the_longest_unused_is_deleted_first),
		T(a_path_is_newest_at_its_beginning),
		T(uses_survive_a_restart),
		T(a_lower_limit_holds_at_once),
		T(with_no_room_for_one_file_nothing_is_written),
		T(the_queue_has_an_end),
		T(reads_go_first),
		T(closing_at_once_drops_what_waits),
		T(many_callers_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
