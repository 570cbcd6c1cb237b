/* SPDX-License-Identifier: MIT
 * cache_disk_hang.c - a disk that hangs: who may wait for it, for how long, and what becomes of the rest.
 * Threads: the test's and the disk's. Locks: none. */
#include "engine/base/rc.h"
#include "tests/unit/diskkit.h"
#include "tests/unit/hangkit.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOMENT 0.05 /* s; the patience where it is to run out */
#define MOST 256    /* reads that may wait */

static struct diskkit kit;

/* A read, and what was heard of it. Ended twice, or after it had ended, it fails. */
struct reader {
	atomic_int blocks, ends;
	atomic_bool abandoned;
};

static bool heard(void *arg, struct cache_disk_item *item)
{
	struct reader *r = arg;

	if (atomic_load(&r->ends))
		abort();
	if (!item) {
		atomic_fetch_add(&r->ends, 1);
		return false;
	}
	atomic_fetch_add(&r->blocks, 1);
	diskkit_item_fini(item, 1);
	return true;
}

/* Of a path of n blocks that were written. */
static void ask(struct reader *r, uint32_t seed, int n)
{
	struct cache_disk_item item[DISKKIT_MAX];
	struct cache_key key[DISKKIT_MAX];

	diskkit_path(&kit, DISKKIT_MODEL, seed, n, 0, item);
	for (int i = 0; i < n; i++)
		key[i] = item[i].key;
	diskkit_item_fini(item, n);
	cache_disk_read(kit.d, &(struct cache_disk_ask){ .key = key, .n = n, .fn = heard, .arg = r,
							 .abandoned = &r->abandoned });
}

static void ended(struct reader *r)
{
	while (!atomic_load(&r->ends))
		sched_yield();
}

/* Of whoever closed it a thread is left; when that is gone, too, the directory can be had again. */
static void open_when_free(void)
{
	struct buf why = { 0 };

	while (cache_disk_open(&kit.options, &kit.d, &why) < 0) {
		sched_yield();
		buf_clear(&why);
	}
	buf_fini(&why);
}

static int setup(void **state)
{
	(void)state;
	diskkit_init(&kit);
	diskkit_open(&kit);
	diskkit_write(&kit, 1, 4, 1 << 3);
	diskkit_close(&kit);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hangkit_let_go();
	if (!kit.d)
		open_when_free();
	diskkit_fini(&kit);
	return 0;
}

static void find_key(uint32_t seed, int i, struct cache_key *ret_k)
{
	struct cache_disk_item item[DISKKIT_MAX];

	diskkit_path(&kit, DISKKIT_MODEL, seed, i + 1, 0, item);
	*ret_k = item[i].key;
	diskkit_item_fini(item, i + 1);
}

/* ---- opening ---- */

/* The daemon did not come up for as long as locking the directory took. */
static void opening_does_not_wait_for_a_directory_that_hangs(void **state)
{
	struct buf why = { 0 };
	struct reader r = { 0 };
	struct cache_key k;
	bool st;

	(void)state;
	find_key(1, 3, &k);
	kit.options.patience = MOMENT;
	hangkit_hang(HANGKIT_OPEN);
	assert_int_equal(cache_disk_open(&kit.options, &kit.d, &why), 0);
	assert_non_null(strstr(buf_str(&why), "hangs"));
	assert_false(cache_disk_has(kit.d, &k, &st));
	ask(&r, 1, 4);
	assert_int_equal(atomic_load(&r.ends), 1);
	hangkit_let_go();
	while (!cache_disk_has(kit.d, &k, &st))
		sched_yield();
	cache_disk_close(&kit.d, 600);
	open_when_free();
	diskkit_whole(&kit, 1, 4, 3);
	buf_fini(&why);
}

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void an_end_before_it_was_opened_does_not_wait(void **state)
{
	struct buf why = { 0 };
	int before = threads();

	(void)state;
	kit.options.patience = MOMENT;
	hangkit_hang(HANGKIT_OPEN);
	assert_int_equal(cache_disk_open(&kit.options, &kit.d, &why), 0);
	diskkit_write(&kit, 2, 4, 0);
	cache_disk_close(&kit.d, 600);
	hangkit_let_go();
	while (threads() > before) /* it may open the directory yet */
		sched_yield();
	open_when_free();
	diskkit_whole(&kit, 1, 4, 3);
	buf_fini(&why);
}

/* What was to go before it was known to be there is not found either. */
static void what_was_cleared_before_it_was_opened_is_not_found(void **state)
{
	struct buf why = { 0 };
	char path[256];
	int at;

	(void)state;
	kit.options.patience = MOMENT;
	hangkit_hang(HANGKIT_OPEN);
	assert_int_equal(cache_disk_open(&kit.options, &kit.d, &why), 0);
	cache_disk_clear(kit.d);
	hangkit_let_go();
	diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, path);
	while (diskkit_exists(path) || diskkit_stats(&kit).bytes)
		sched_yield();
	cache_disk_close(&kit.d, 600);
	open_when_free();
	assert_int_equal(diskkit_read(&kit, 1, 4, &at), 0);
	assert_int_equal(diskkit_stats(&kit).files, 0);
	buf_fini(&why);
}

static void a_directory_that_cannot_be_had_late_is_told_of(void **state)
{
	struct buf why = { 0 };
	struct cache_key k;
	struct cache_disk_item got;
	bool st;

	(void)state;
	find_key(1, 0, &k);
	kit.options.patience = MOMENT;
	hangkit_hang(HANGKIT_OPEN);
	assert_int_equal(cache_disk_open(&kit.options, &kit.d, &why), 0);
	assert_int_equal(chmod(kit.dir, 0770), 0);
	hangkit_let_go();
	while (!diskkit_stats(&kit).errors)
		sched_yield();
	assert_non_null(strstr(diskkit_stats(&kit).error, "may be written by others"));
	diskkit_write(&kit, 2, 4, 0);
	assert_int_equal(diskkit_stats(&kit).queued, 0);
	assert_false(cache_disk_has(kit.d, &k, &st));
	buf_clear(&why);
	assert_int_equal(cache_disk_check(kit.d, &k, &got, &why), RC_DRAINING);
	cache_disk_close(&kit.d, 0);
	assert_int_equal(chmod(kit.dir, 0700), 0);
	buf_fini(&why);
}

/* ---- others' threads ---- */

/* cache verify --disk hung in it, and the daemon's end waited for that. */
static void a_check_does_not_wait_for_a_read_that_hangs(void **state)
{
	struct cache_disk_item got;
	struct buf why = { 0 };
	struct cache_key k;

	(void)state;
	find_key(1, 3, &k);
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_READ);
	assert_int_equal(cache_disk_check(kit.d, &k, &got, &why), RC_TIMEOUT);
	assert_int_equal(cache_disk_check(kit.d, &k, &got, &why), RC_TIMEOUT); /* not even begun */
	cache_disk_close(&kit.d, 0);
	hangkit_let_go();
	open_when_free();
	diskkit_whole(&kit, 1, 4, 3);
	buf_fini(&why);
}

/* cache clear and cache evict did the same. */
static void clearing_does_not_wait_for_a_removal_that_hangs(void **state)
{
	struct cache_key k;
	char path[256];

	(void)state;
	find_key(1, 3, &k);
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_REMOVE);
	cache_disk_drop(kit.d, &k);
	cache_disk_clear(kit.d);
	assert_true(diskkit_stats(&kit).bytes > 0); /* it is still there */
	hangkit_let_go();
	diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, path);
	while (diskkit_stats(&kit).bytes)
		sched_yield();
	assert_false(diskkit_exists(path));
}

/* The files stayed, counted by nobody, until the next start. */
static void what_is_disowned_counts_until_it_is_gone(void **state)
{
	struct cache_key k;
	char path[256];
	uint64_t bytes;
	bool st;

	(void)state;
	find_key(1, 3, &k);
	kit.options.patience = 600;
	diskkit_open(&kit);
	bytes = diskkit_stats(&kit).bytes;
	hangkit_hang(HANGKIT_REMOVE);
	cache_disk_disown(kit.d, &k);
	assert_false(cache_disk_has(kit.d, &k, &st));
	assert_int_equal(diskkit_stats(&kit).bytes, bytes);
	assert_true(diskkit_exists(diskkit_file(&kit, 1, 3, CACHE_FILE_BLOCK, false, path)));
	hangkit_let_go();
	while (diskkit_exists(path) || diskkit_stats(&kit).bytes == bytes)
		sched_yield();
	diskkit_whole(&kit, 1, 3, -1);
}

/* ---- closing ---- */

/* It hung, and so did the stop of the daemon, for as long as the disk did. */
static void closing_does_not_wait_for_a_read_that_hangs(void **state)
{
	struct reader in = { 0 }, waiting = { 0 };

	(void)state;
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_READ);
	ask(&in, 1, 4);
	hangkit_hangs();
	diskkit_write(&kit, 2, 4, 0);
	cache_disk_stop(kit.d, 0);
	assert_int_equal(atomic_load(&in.ends), 1);
	assert_int_equal(atomic_load(&in.blocks), 0);
	ask(&waiting, 1, 4); /* too late: it ends at once */
	assert_int_equal(atomic_load(&waiting.ends), 1);
	cache_disk_close(&kit.d, 0);
	hangkit_let_go();
	open_when_free();
	assert_int_equal(atomic_load(&in.blocks), 0); /* nobody was called back */
	diskkit_whole(&kit, 1, 4, 3);
}

static void closing_does_not_wait_for_a_write_that_hangs(void **state)
{
	struct reader r = { 0 };

	(void)state;
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_WRITE);
	diskkit_write(&kit, 2, 4, 0);
	hangkit_hangs();
	ask(&r, 1, 4);
	cache_disk_close(&kit.d, 600); /* nothing more is written in them */
	assert_int_equal(atomic_load(&r.ends), 1);
	hangkit_let_go();
	open_when_free();
	diskkit_whole(&kit, 2, 1, -1); /* what it had in hand came to its end */
	diskkit_whole(&kit, 1, 4, 3);
}

/* The directory is not another's while the file may still be written there. */
static void a_thread_left_behind_keeps_the_directory(void **state)
{
	struct buf why = { 0 };

	(void)state;
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_WRITE);
	diskkit_write(&kit, 2, 4, 0);
	hangkit_hangs();
	cache_disk_close(&kit.d, 0);
	assert_true(cache_disk_open(&kit.options, &kit.d, &why) < 0);
	assert_non_null(strstr(buf_str(&why), "another process has it"));
	buf_fini(&why);
}

/* Slow is not hung: what takes less than the patience is waited for. */
static void closing_waits_for_a_read_that_comes_back(void **state)
{
	struct reader r = { 0 };

	(void)state;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_READ);
	ask(&r, 1, 4);
	hangkit_hangs();
	hangkit_let_go();
	diskkit_close(&kit);
	assert_int_equal(atomic_load(&r.ends), 1);
	diskkit_open(&kit); /* at once: nobody was left behind */
}

/* ---- the queue ---- */

static void the_queue_of_reads_has_an_end(void **state)
{
	static struct reader in, r[MOST], more;
	struct cache_disk_stats s;

	(void)state;
	kit.options.patience = 600;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_READ);
	ask(&in, 1, 4);
	hangkit_hangs();
	for (int i = 0; i < MOST; i++)
		ask(r + i, 1, 1);
	assert_int_equal(diskkit_stats(&kit).reads_refused, 0);
	ask(&more, 1, 1);
	assert_int_equal(atomic_load(&more.ends), 1);
	assert_int_equal(diskkit_stats(&kit).reads_refused, 1);
	hangkit_let_go();
	for (int i = 0; i < MOST; i++) {
		ended(r + i);
		assert_int_equal(atomic_load(&r[i].blocks), 1);
	}
	s = diskkit_stats(&kit);
	assert_int_equal(s.bad + s.errors, 0);
	diskkit_whole(&kit, 1, 4, 3);
}

/* They stayed, and whoever came later waited for what nobody wanted. */
static void reads_that_nobody_wants_make_room(void **state)
{
	static struct reader in, r[MOST], more;

	(void)state;
	kit.options.patience = 600;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_READ);
	ask(&in, 1, 4);
	hangkit_hangs();
	for (int i = 0; i < MOST; i++)
		ask(r + i, 1, 4);
	for (int i = 0; i < MOST; i++)
		atomic_store(&r[i].abandoned, true);
	atomic_store(&in.abandoned, true);
	ask(&more, 1, 4);
	for (int i = 0; i < MOST; i++) /* with the disk still hanging */
		assert_int_equal(atomic_load(&r[i].ends), 1);
	assert_int_equal(atomic_load(&more.ends), 0);
	hangkit_let_go();
	ended(&more);
	assert_int_equal(atomic_load(&more.blocks), 4);
	assert_int_equal(atomic_load(&in.ends), 1);
	assert_true(atomic_load(&in.blocks) <= 1); /* the file in hand */
	assert_int_equal(diskkit_stats(&kit).reads_refused, 0);
}

/* 65536 keys wait at most, 16384 of one read. */
static void one_read_is_of_so_many_blocks(void **state)
{
	static struct cache_key none[20000];
	static struct reader in, r[5];

	(void)state;
	kit.options.patience = 600;
	diskkit_open(&kit);
	hangkit_hang(HANGKIT_READ);
	ask(&in, 1, 4);
	hangkit_hangs();
	for (int i = 0; i < 5; i++)
		cache_disk_read(kit.d, &(struct cache_disk_ask){ .key = none, .n = 20000, .fn = heard, .arg = r + i });
	assert_int_equal(diskkit_stats(&kit).reads_refused, 1);
	assert_int_equal(atomic_load(&r[4].ends), 1);
	assert_int_equal(atomic_load(&r[3].ends), 0);
	hangkit_let_go();
	ended(r + 3);
}

static struct reader of_many, of_one;
static int before_the_one;

static bool heard_one(void *arg, struct cache_disk_item *item)
{
	before_the_one = atomic_load(&of_many.blocks);
	return heard(arg, item);
}

/* It waited until the long one was through, and had given up by then. */
static void a_short_read_has_its_turn_beside_a_long_one(void **state)
{
	struct cache_key k;

	(void)state;
	find_key(1, 0, &k);
	kit.options.patience = 600;
	diskkit_open(&kit);
	diskkit_write(&kit, 3, 60, 0);
	diskkit_drain(&kit);
	hangkit_hang(HANGKIT_READ);
	ask(&of_many, 3, 60);
	hangkit_hangs();
	cache_disk_read(kit.d, &(struct cache_disk_ask){ .key = &k, .n = 1, .fn = heard_one, .arg = &of_one });
	hangkit_let_go();
	ended(&of_one);
	ended(&of_many);
	assert_int_equal(atomic_load(&of_one.blocks), 1);
	assert_int_equal(atomic_load(&of_many.blocks), 60); /* all the same */
	assert_in_range(before_the_one, 1, 20);
}

/* Asks until it is refused: the disk is known to hang. Returns the read that was. */
static struct reader *known_to_hang(struct reader *in, struct reader r[MOST])
{
	int n = 0;

	hangkit_hang(HANGKIT_READ);
	ask(in, 1, 4);
	hangkit_hangs();
	for (ask(r, 1, 4); !diskkit_stats(&kit).reads_refused; ask(r + n, 1, 4)) {
		atomic_store(&r[n].abandoned, true); /* or the queue would be full some time */
		n = (n + 1) % MOST;
		if (atomic_load(&r[n].ends))
			memset(r + n, 0, sizeof r[n]);
	}
	return r + n;
}

/* Once it is known to hang, no request waits for it any more; once it does not, all do. */
static void a_disk_that_hangs_is_not_asked(void **state)
{
	static struct reader in, r[MOST];

	(void)state;
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	assert_int_equal(atomic_load(&known_to_hang(&in, r)->ends), 1);
	hangkit_let_go();
	ended(&in);
	diskkit_whole(&kit, 1, 4, 3);
}

/* An operator's command was stuck, and with it the end of the daemon. */
static void what_is_removed_from_a_disk_that_hangs_goes_later(void **state)
{
	static struct reader in, r[MOST];
	struct cache_disk_item item[4], got;
	struct buf why = { 0 };
	char path[2][256];
	bool st;
	int at;

	(void)state;
	kit.options.patience = MOMENT;
	diskkit_open(&kit);
	diskkit_path(&kit, DISKKIT_MODEL, 1, 4, 0, item);
	known_to_hang(&in, r);
	hangkit_hang(HANGKIT_REMOVE);
	cache_disk_drop(kit.d, &item[3].key);
	assert_false(cache_disk_has(kit.d, &item[3].key, &st));
	assert_int_equal(cache_disk_check(kit.d, &item[0].key, &got, &why), RC_TIMEOUT);
	cache_disk_clear(kit.d);
	assert_true(diskkit_exists(diskkit_file(&kit, 1, 3, CACHE_FILE_BLOCK, false, path[0])));
	assert_true(diskkit_exists(diskkit_file(&kit, 1, 0, CACHE_FILE_BLOCK, false, path[1])));
	hangkit_let_go();
	ended(&in);
	diskkit_reopen(&kit); /* what was to go is gone before the thread is */
	assert_false(diskkit_exists(path[0]) || diskkit_exists(path[1]));
	assert_int_equal(diskkit_read(&kit, 1, 4, &at), 0);
	diskkit_item_fini(item, 4);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		T(opening_does_not_wait_for_a_directory_that_hangs),
		T(an_end_before_it_was_opened_does_not_wait),
		T(what_was_cleared_before_it_was_opened_is_not_found),
		T(a_directory_that_cannot_be_had_late_is_told_of),
		T(a_check_does_not_wait_for_a_read_that_hangs),
		T(clearing_does_not_wait_for_a_removal_that_hangs),
		T(what_is_disowned_counts_until_it_is_gone),
		T(a_short_read_has_its_turn_beside_a_long_one),
		T(closing_does_not_wait_for_a_read_that_hangs),
		T(closing_does_not_wait_for_a_write_that_hangs),
		T(a_thread_left_behind_keeps_the_directory),
		T(closing_waits_for_a_read_that_comes_back),
		T(the_queue_of_reads_has_an_end),
		T(reads_that_nobody_wants_make_room),
		T(one_read_is_of_so_many_blocks),
		T(a_disk_that_hangs_is_not_asked),
		T(what_is_removed_from_a_disk_that_hangs_goes_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
