/* SPDX-License-Identifier: MIT
 * cache_disk_rate.c - what writing costs the disk: a rate, no block without the one before it, and the figure of both.
 * Threads: the test's and the disk's. Locks: cache_disk, to let time pass without waiting for it. */
#include "engine/base/clock.h"
#include "engine/cache/cache_disk_priv.h"
#include "tests/unit/diskkit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void a_day_passes(void)
{
	diskkit_drain(&kit);
	lock_take(&kit.d->lock);
	kit.d->refilled -= 86400;
	lock_drop(&kit.d->lock);
}

/* Puts blocks [from, to) of a path. */
static void put_blocks(uint32_t seed, int from, int to, uint64_t states)
{
	struct cache_disk_item item[DISKKIT_MAX];

	diskkit_path(&kit, DISKKIT_MODEL, seed, to, states, item);
	diskkit_put(&kit, item + from, to - from);
	diskkit_item_fini(item, to);
	diskkit_drain(&kit);
}

/* What the files are, and what their headers say of the rows in them. */
struct found { uint64_t files, bytes, raw, most; };

static void found_file(int dir, const char *name, struct found *f)
{
	struct stat st;
	uint64_t raw;
	int fd = openat(dir, name, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pread(fd, &raw, sizeof raw, 184), sizeof raw); /* cache_file.h */
	close(fd);
	f->files++;
	f->bytes += (uint64_t)st.st_size;
	f->raw += raw;
	f->most = (uint64_t)st.st_size > f->most ? (uint64_t)st.st_size : f->most;
}

static struct found find_files(void)
{
	struct found f = { 0 };
	DIR *dir = opendir(kit.dir);
	struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		if (strstr(e->d_name, ".block") || strstr(e->d_name, ".state"))
			found_file(dirfd(dir), e->d_name, &f);
	closedir(dir);
	return f;
}

/* Of a process that has written all there is. */
static void figures_are_those_of_the_files(void)
{
	struct cache_disk_stats s = diskkit_stats(&kit);
	struct found f = find_files();

	assert_int_equal(s.written, f.files);
	assert_int_equal(s.written_bytes, f.bytes);
	assert_int_equal(s.raw_bytes, f.raw);
	assert_int_equal(s.bytes, f.bytes);
	assert_true(f.bytes <= f.raw + f.raw / 1000 + f.files * (CACHE_FILE_HEADER + 13));
}

/* ---- the rate ---- */

static void writing_has_a_rate(void **state)
{
	double begin;

	(void)state;
	kit.options.write_rate = 1; /* the first file overdraws the minute's 60 bytes */
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 5, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).written, 1);
	assert_int_equal(diskkit_stats(&kit).over_rate, 1);
	assert_int_equal(diskkit_stats(&kit).dropped, 3);
	diskkit_close(&kit);
	kit.options.write_rate = 1000; /* 60000 bytes: some, not all of them */
	diskkit_open(&kit);
	begin = clock_s();
	diskkit_write(&kit, 2, 64, 0);
	diskkit_drain(&kit);
	assert_in_range(diskkit_stats(&kit).written, 20, 60);
	assert_true((double)diskkit_stats(&kit).written_bytes <=
		1000 * (60 + clock_s() - begin) + (double)find_files().most);
	assert_int_equal(diskkit_stats(&kit).written + diskkit_stats(&kit).over_rate + diskkit_stats(&kit).dropped, 64);
}

/* Block 1 came when nothing more could be written, 2 to 5 when it could again: they were files that nothing reached. */
static void over_the_rate_no_block_is_written_without_the_one_before(void **state)
{
	bool st;
	struct cache_disk_item item[6];

	(void)state;
	kit.options.write_rate = 1;
	diskkit_open(&kit);
	put_blocks(1, 0, 2, 3);
	assert_int_equal(diskkit_stats(&kit).written, 1);
	for (int i = 2; i < 6; i++) {
		a_day_passes();
		put_blocks(1, i, i + 1, UINT64_MAX);
	}
	assert_int_equal(diskkit_stats(&kit).written, 1);
	assert_int_equal(find_files().files, 1);
	diskkit_path(&kit, DISKKIT_MODEL, 1, 6, 0, item);
	for (int i = 1; i < 6; i++)
		assert_false(cache_disk_has(kit.d, &item[i].key, &st));
	diskkit_item_fini(item, 6);
	for (int i = 1; i < 6; i++) { /* who passes closes the gap, one file a day */
		a_day_passes();
		put_blocks(1, i, i + 1, 0);
	}
	diskkit_whole(&kit, 1, 6, -1);
	figures_are_those_of_the_files();
}

/* Its end pushed out what was before it: a file that nothing reached, and another one with every pass. */
static void of_a_path_longer_than_the_limit_the_beginning_is_kept(void **state)
{
	struct cache_disk_stats s;

	(void)state;
	kit.options.bytes = 10000;
	diskkit_open(&kit);
	for (int again = 0; again < 5; again++) {
		diskkit_write(&kit, 1, 20, 0);
		diskkit_drain(&kit);
		s = diskkit_stats(&kit);
		assert_in_range(s.files, 3, 19);
		diskkit_whole(&kit, 1, (int)s.files, -1);
		assert_int_equal(s.written, s.files);
		assert_int_equal(s.deleted, 0);
	}
	figures_are_those_of_the_files();
	diskkit_write(&kit, 2, 3, 4); /* what is used later goes first all the same */
	diskkit_drain(&kit);
	diskkit_whole(&kit, 2, 3, 2);
}

/* ---- the figure ---- */

static void write_amplification_is_that_of_the_files(void **state)
{
	(void)state;
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 12, 0xa5a);
	diskkit_drain(&kit);
	figures_are_those_of_the_files();
	diskkit_write(&kit, 1, 12, 0xfff);
	diskkit_drain(&kit);
	figures_are_those_of_the_files();
}

/* They counted what was asked for: the figure fell with every block that was left out. */
static void what_is_not_written_is_in_no_figure(void **state)
{
	struct diskkit_hold hold;

	(void)state;
	kit.options.max_queued = 3;
	diskkit_open(&kit);
	diskkit_hold(&kit, &hold);
	diskkit_write(&kit, 1, 10, 7); /* seven more than may wait */
	diskkit_let_go(&hold);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).written, 6);
	figures_are_those_of_the_files();
	diskkit_close(&kit);
	kit.options.max_queued = 0;
	kit.options.write_rate = 1;
	diskkit_open(&kit);
	for (int again = 0; again < 5; again++)
		put_blocks(2, 0, 4, 15);
	assert_int_equal(diskkit_stats(&kit).written, 1);
	assert_true(diskkit_stats(&kit).raw_bytes <= diskkit_stats(&kit).written_bytes);
	assert_true(diskkit_stats(&kit).raw_bytes > diskkit_stats(&kit).written_bytes / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		T(writing_has_a_rate),
		T(over_the_rate_no_block_is_written_without_the_one_before),
		T(of_a_path_longer_than_the_limit_the_beginning_is_kept),
		T(write_amplification_is_that_of_the_files),
		T(what_is_not_written_is_in_no_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
