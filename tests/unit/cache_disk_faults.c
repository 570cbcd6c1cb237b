/* SPDX-License-Identifier: MIT
 * cache_disk_faults.c - the disk cache among broken and foreign files, on full and read-only disks, and killed.
 * Threads: the test's and the disk's. Locks: none. */
#include "engine/base/rc.h"
#include "tests/unit/child.h"
#include "tests/unit/diskkit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void put_path(uint32_t seed, int n, uint64_t states)
{
	diskkit_open(&kit);
	diskkit_write(&kit, seed, n, states);
	diskkit_close(&kit);
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	char c;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, at), 1);
	c ^= 1;
	assert_int_equal(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

static void expect(int read, uint64_t bad, uint64_t errors, int seed, int n)
{
	int at;

	assert_int_equal(diskkit_read(&kit, (uint32_t)seed, n, &at), read);
	assert_int_equal(diskkit_stats(&kit).bad, bad);
	assert_int_equal(diskkit_stats(&kit).errors, errors);
}

/* ---- broken files ---- */

enum damage { FLIP_FIRST, FLIP_HEADER, FLIP_LAST, CUT, EMPTY, LONGER, N_DAMAGE };

static void do_damage(const char *path, int damage)
{
	struct stat st;
	int fd;

	assert_int_equal(stat(path, &st), 0);
	switch (damage) {
	case FLIP_FIRST: flip(path, 0); break;
	case FLIP_HEADER: flip(path, 300); break;
	case FLIP_LAST: flip(path, st.st_size - 1); break;
	case CUT: assert_int_equal(truncate(path, st.st_size - 1), 0); break;
	case EMPTY: assert_int_equal(truncate(path, 0), 0); break;
	default:
		fd = open(path, O_WRONLY | O_APPEND);
		assert_int_equal(write(fd, "x", 1), 1);
		close(fd);
	}
}

/* Moved to bad/, and what it held is written again when it comes again. */
static void a_broken_block_is_moved_and_replaced(void **state)
{
	char path[256], bad[256];

	(void)state;
	put_path(1, 4, 0);
	for (int i = 0; i < N_DAMAGE; i++) {
		diskkit_open(&kit);
		do_damage(diskkit_file(&kit, 1, 2, CACHE_FILE_BLOCK, false, path), i);
		expect(2, 1, 0, 1, 4);
		assert_non_null(strstr(diskkit_stats(&kit).error, ".block: "));
		assert_false(diskkit_exists(path));
		assert_true(diskkit_exists(diskkit_file(&kit, 1, 2, CACHE_FILE_BLOCK, true, bad)));
		expect(2, 1, 0, 1, 4); /* gone now, and not bad again */
		diskkit_write(&kit, 1, 4, 0);
		diskkit_drain(&kit);
		diskkit_whole(&kit, 1, 4, -1);
		diskkit_close(&kit);
	}
}

static void with_a_broken_state_an_earlier_one_serves(void **state)
{
	char path[256];

	(void)state;
	put_path(1, 5, 1 << 1 | 1 << 3 | 1 << 4);
	diskkit_open(&kit);
	flip(diskkit_file(&kit, 1, 4, CACHE_FILE_STATE, false, path), 800);
	flip(diskkit_file(&kit, 1, 3, CACHE_FILE_STATE, false, path), 800);
	diskkit_whole(&kit, 1, 5, 1);
	assert_int_equal(diskkit_stats(&kit).bad, 2);
	diskkit_whole(&kit, 1, 5, 1);
	assert_int_equal(diskkit_stats(&kit).bad, 2);
}

static void of_bad_files_a_few_are_kept(void **state)
{
	char path[256];
	int n = 0;

	(void)state;
	put_path(1, 40, 0);
	diskkit_open(&kit);
	for (int i = 39; i >= 0; i--) {
		flip(diskkit_file(&kit, 1, i, CACHE_FILE_BLOCK, false, path), 100);
		expect(i, (uint64_t)(40 - i), 0, 1, i + 1);
	}
	diskkit_reopen(&kit); /* of which the index knows */
	for (int i = 0; i < 40; i++)
		n += diskkit_exists(diskkit_file(&kit, 1, i, CACHE_FILE_BLOCK, true, path));
	assert_int_equal(n, 16);
	assert_int_equal(diskkit_stats(&kit).files, 16);
}

static void a_file_under_anothers_name_is_bad(void **state)
{
	char a[256], b[256];

	(void)state;
	put_path(1, 3, 0);
	diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, a);
	diskkit_file(&kit, 1, 1, CACHE_FILE_BLOCK, false, b);
	assert_int_equal(rename(a, b), 0);
	assert_int_equal(link(b, a), 0);
	diskkit_open(&kit);
	expect(1, 1, 0, 1, 3);
}

static void a_file_of_another_layout_is_bad(void **state)
{
	static struct sequence_layout other;

	(void)state;
	put_path(1, 3, 0);
	other = kit.layout;
	other.window++;
	kit.options.layout = &other;
	diskkit_open(&kit);
	expect(0, 1, 0, 1, 3);
	assert_non_null(strstr(diskkit_stats(&kit).error, "another layout"));
}

/* ---- reading back, to check ---- */

static int check(uint32_t seed, int i, struct cache_disk_item *ret_item, struct buf *why)
{
	struct cache_disk_item item[DISKKIT_MAX];
	int rc;

	diskkit_path(&kit, kit.options.model_id, seed, i + 1, UINT64_MAX, item);
	rc = cache_disk_check(kit.d, &item[i].key, ret_item, why);
	if (rc == 0)
		diskkit_same(&kit, item + i, ret_item);
	diskkit_item_fini(item, i + 1);
	return rc;
}

static void check_says(uint32_t seed, int i, int want, const char *text)
{
	struct cache_disk_item item = { .block = NULL };
	struct buf why = { 0 };

	assert_int_equal(check(seed, i, &item, &why), want);
	assert_null(item.block);
	if (!strstr(buf_str(&why), text))
		fail_msg("%s", buf_str(&why));
	buf_fini(&why);
}

static void a_block_is_read_back_to_check_it(void **state)
{
	struct cache_disk_item item;
	struct buf why = { 0 };
	char path[256];

	(void)state;
	put_path(1, 4, 1 << 1 | 1 << 3);
	diskkit_open(&kit);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(check(1, i, &item, &why), 0);
		assert_non_null(item.block);
		assert_int_equal(item.state != NULL, i & 1);
		diskkit_item_fini(&item, 1);
	}
	buf_fini(&why);
	check_says(2, 0, RC_NOT_FOUND, "no such block");
	flip(diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, path), 900);
	check_says(1, 0, RC_INVALID, "CRC");
	assert_false(diskkit_exists(path));
	flip(diskkit_file(&kit, 1, 3, CACHE_FILE_STATE, false, path), 900);
	check_says(1, 3, RC_INVALID, "CRC");
	assert_int_equal(diskkit_stats(&kit).bad, 2);
	assert_int_equal(unlink(diskkit_file(&kit, 1, 2, CACHE_FILE_BLOCK, false, path)), 0);
	check_says(1, 2, RC_NOT_FOUND, "no such block");
}

/* ---- another model's ---- */

static void another_models_files_are_left_alone(void **state)
{
	(void)state;
	put_path(1, 3, 4);
	kit.options.model_id = DISKKIT_OTHER;
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).foreign, 4);
	diskkit_write(&kit, 1, 3, 4);
	diskkit_drain(&kit);
	diskkit_whole(&kit, 1, 3, 2);
	diskkit_close(&kit);
	kit.options.model_id = DISKKIT_MODEL;
	diskkit_open(&kit);
	assert_int_equal(diskkit_stats(&kit).foreign, 4);
	diskkit_whole(&kit, 1, 3, 2);
	assert_int_equal(diskkit_stats(&kit).bad, 0);
}

/* The limit is the disk's: models that nobody serves any more do not keep the room for ever. */
static void another_models_files_make_room_when_they_are_oldest(void **state)
{
	(void)state;
	put_path(1, 10, 0);
	kit.options.model_id = DISKKIT_OTHER;
	kit.options.bytes = 20000;
	diskkit_open(&kit);
	diskkit_write(&kit, 2, 8, 0);
	diskkit_drain(&kit);
	diskkit_whole(&kit, 2, 8, -1);
	assert_in_range(diskkit_stats(&kit).foreign, 1, 3);
	assert_true(diskkit_stats(&kit).bytes <= 20000);
}

/* ---- sizes, and what a crash left ---- */

/* A size that no memory has, in the directory or in a header, is not believed. */
static void huge_files_are_not_read(void **state)
{
	char path[256];

	(void)state;
	put_path(1, 2, 0);
	diskkit_file(&kit, 1, 1, CACHE_FILE_BLOCK, false, path);
	assert_int_equal(truncate(path, 1LL << 25), 0);
	diskkit_open(&kit);
	expect(1, 1, 0, 1, 2);
	assert_non_null(strstr(diskkit_stats(&kit).error, "larger than the layout"));
	diskkit_close(&kit);
	put_path(1, 2, 0);
	assert_int_equal(truncate(path, 1LL << 40), 0); /* beyond the limit: it goes, and nothing else for it */
	diskkit_open(&kit);
	diskkit_reopen(&kit);
	assert_false(diskkit_exists(path));
	diskkit_whole(&kit, 1, 1, -1);
}

static void what_was_half_written_is_removed(void **state)
{
	char path[256], tmp[300];

	(void)state;
	put_path(1, 1, 0);
	snprintf(tmp, sizeof tmp, "%s" CACHE_DISK_TMP, diskkit_file(&kit, 2, 0, CACHE_FILE_BLOCK, false, path));
	close(open(tmp, O_CREAT | O_WRONLY, 0600));
	diskkit_open(&kit);
	assert_false(diskkit_exists(tmp));
	assert_int_equal(diskkit_stats(&kit).files, 1);
}

/* ---- directories ---- */

static void open_fails(int want, const char *text)
{
	struct cache_disk *d = NULL;
	struct buf why = { 0 };

	assert_int_equal(cache_disk_open(&kit.options, &d, &why), want);
	assert_null(d);
	if (!strstr(buf_str(&why), text))
		fail_msg("%s", buf_str(&why));
	buf_fini(&why);
}

static void a_directory_must_be_ours_alone(void **state)
{
	char path[256];

	(void)state;
	diskkit_open(&kit);
	open_fails(-EBUSY, "another process has it");
	diskkit_close(&kit);
	assert_int_equal(chmod(kit.dir, 0770), 0);
	open_fails(-EPERM, "may be written by others");
	assert_int_equal(chmod(kit.dir, 0755), 0);
	diskkit_open(&kit);
	diskkit_close(&kit);
	snprintf(path, sizeof path, "%s/a/b", kit.dir);
	kit.options.dir = path;
	open_fails(-ENOENT, "a/b");
	snprintf(path, sizeof path, "%s/file", kit.dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	open_fails(-ENOTDIR, "file");
	snprintf(path, sizeof path, "%s/new", kit.dir);
	diskkit_open(&kit);
	assert_true(diskkit_exists(path));
}

static void full_disk(void)
{
	struct rlimit small = { .rlim_cur = 1000, .rlim_max = 1000 };

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	diskkit_open(&kit);
	diskkit_write(&kit, 2, 3, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).errors, 1);
	assert_int_equal(diskkit_stats(&kit).dropped, 2); /* of no use without the first */
	assert_int_equal(diskkit_stats(&kit).written, 0);
	assert_non_null(strstr(diskkit_stats(&kit).error, strerror(EFBIG)));
	assert_int_equal(diskkit_stats(&kit).files, 1);
	diskkit_whole(&kit, 1, 1, -1);
	diskkit_close(&kit);
}

/* A disk of 64 KiB, which only root can make. */
static void full_tmpfs(void)
{
	char path[100];

	snprintf(path, sizeof path, "%s/small", kit.dir);
	kit.options.dir = path;
	assert_int_equal(mkdir(path, 0700), 0);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", path, "tmpfs", 0, "size=64k,mode=0700") < 0)
		_exit(77);
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 40, 0);
	diskkit_drain(&kit);
	assert_in_range(diskkit_stats(&kit).written, 10, 39);
	assert_int_equal(diskkit_stats(&kit).errors, 1);
	assert_int_equal(diskkit_stats(&kit).written + 1 + diskkit_stats(&kit).dropped, 40);
	assert_non_null(strstr(diskkit_stats(&kit).error, strerror(ENOSPC)));
	diskkit_whole(&kit, 1, (int)diskkit_stats(&kit).written, -1);
	diskkit_reopen(&kit);
	diskkit_whole(&kit, 1, (int)diskkit_stats(&kit).files, -1);
	diskkit_close(&kit);
}

static void read_only(void)
{
	char path[256];

	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	diskkit_open(&kit);
	diskkit_write(&kit, 2, 3, 0);
	diskkit_drain(&kit);
	assert_int_equal(diskkit_stats(&kit).errors, 1);
	assert_int_equal(diskkit_stats(&kit).files, 2);
	diskkit_whole(&kit, 1, 1, -1);
	expect(0, 1, 2, 3, 1); /* the broken one cannot even be moved */
	expect(0, 1, 2, 3, 1); /* and is not read again */
	assert_true(diskkit_exists(diskkit_file(&kit, 3, 0, CACHE_FILE_BLOCK, false, path)));
	diskkit_close(&kit);
}

/* 77: it could not do what it should. */
static void in_a_child(void (*fn)(void))
{
	struct buf err = { 0 };
	int status = child_run(fn, &err);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("status %x: %s", (unsigned)status, buf_str(&err));
	buf_fini(&err);
}

static void a_full_disk_costs_only_the_cache(void **state)
{
	(void)state;
	put_path(1, 1, 0);
	in_a_child(full_disk);
	diskkit_open(&kit); /* nothing half written is left */
	assert_int_equal(diskkit_stats(&kit).files, 1);
}

static void a_small_disk_holds_what_fits(void **state)
{
	(void)state;
	in_a_child(full_tmpfs);
}

static void a_read_only_directory_is_read(void **state)
{
	char path[256];

	(void)state;
	put_path(1, 1, 0);
	put_path(3, 1, 0);
	diskkit_file(&kit, 3, 0, CACHE_FILE_BLOCK, false, path);
	flip(path, 50);
	if (geteuid() == 0) {
		assert_int_equal(chmod(path, 0644), 0);
		assert_int_equal(chmod(diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, path), 0644), 0);
	}
	assert_int_equal(chmod(kit.dir, 0555), 0);
	in_a_child(read_only);
}

/* ---- kill -9 ---- */

static _Noreturn void write_for_ever(int fd)
{
	diskkit_open(&kit);
	for (uint32_t seed = 1;; seed = seed % 10 + 1) {
		diskkit_write(&kit, seed, 6, 0x2a);
		diskkit_drain(&kit);
		if (write(fd, "x", 1) != 1)
			_exit(1);
	}
}

/* Whatever is there afterwards is right: diskkit_read() compares all that comes. */
static void check_survivors(uint64_t *n)
{
	int at;

	diskkit_open(&kit);
	for (uint32_t seed = 1; seed <= 10; seed++)
		*n += (uint64_t)diskkit_read(&kit, seed, 6, &at);
	assert_int_equal(diskkit_stats(&kit).bad, 0);
	diskkit_close(&kit);
}

static void killed_at_any_moment_no_file_is_wrong(void **state)
{
	uint64_t n = 0;

	(void)state;
	kit.options.bytes = 60000; /* files come and go all the time */
	for (int i = 0; i < 40; i++) {
		int fd[2];
		char c;
		pid_t pid;

		assert_int_equal(pipe(fd), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			write_for_ever(fd[1]);
		close(fd[1]);
		assert_int_equal(read(fd[0], &c, 1), 1); /* it is at it */
		usleep((useconds_t)(i * 271 % 5000)); /* the moment */
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		close(fd[0]);
		check_survivors(&n);
	}
	assert_true(n > 40 * 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		T(a_broken_block_is_moved_and_replaced),
		T(with_a_broken_state_an_earlier_one_serves),
		T(of_bad_files_a_few_are_kept),
		T(a_file_under_anothers_name_is_bad),
		T(a_file_of_another_layout_is_bad),
		T(a_block_is_read_back_to_check_it),
		T(another_models_files_are_left_alone),
		T(another_models_files_make_room_when_they_are_oldest),
		T(huge_files_are_not_read),
		T(what_was_half_written_is_removed),
		T(a_directory_must_be_ours_alone),
		T(a_full_disk_costs_only_the_cache),
		T(a_small_disk_holds_what_fits),
		T(a_read_only_directory_is_read),
		T(killed_at_any_moment_no_file_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
