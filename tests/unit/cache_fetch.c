/* SPDX-License-Identifier: MIT
 * cache_fetch.c - the prefix cache over its disk: what comes back after a restart, and what happens when it does not.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/fetchkit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void file_of(const struct kit_prompt *p, int i, enum cache_file_kind kind, char out[256])
{
	struct cache_disk_name n;
	char name[CACHE_DISK_NAME];

	fetch_name(p, i, kind, &n);
	snprintf(out, 256, "%s/%s", fetch.disk.dir, cache_disk_name_print(&n, name));
}

static void flip(const char *path)
{
	int fd = open(path, O_RDWR);
	char c;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, 750), 1);
	c ^= 4;
	assert_int_equal(pwrite(fd, &c, 1, 750), 1);
	close(fd);
}

/* ---- all is well ---- */

static void after_a_restart_all_is_there(void **state)
{
	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 1 | 1 << 3);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
	assert_int_equal(fetch_stats().fetched, 0); /* memory has it */
	fetch_restart(20);
	assert_int_equal(fetch_stats().blocks, 0);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
	assert_int_equal(fetch_stats().fetched, 4);
	assert_int_equal(fetch_stats().hits, 1);
	assert_int_equal(fetch_stats().lookups, 1);
	assert_int_equal(fetch_stats().miss[CACHE_HIT], 1);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
	assert_int_equal(fetch_stats().fetched, 4); /* and now memory has it again */
}

/* The prompt's last token is computed, whatever is on fetch.disk. */
static void a_whole_prompt_is_never_all_reused(void **state)
{
	struct kit_prompt three = { .n_block = 3 };

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 15);
	fetch_restart(20);
	fetch_expect(&three, 2, 2, CACHE_HIT);
}

static void blocks_after_the_last_state_are_not_read(void **state)
{
	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 1);
	fetch_restart(20);
	fetch_expect(&fetch_four, 2, 2, CACHE_ENDED);
	assert_int_equal(fetch_stats().fetched, 2);
}

static void of_a_branch_only_the_rest_is_read(void **state)
{
	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	kit_serve(&fetch.kit, &fetch_branch, 1 << 3);
	fetch_restart(20);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
	fetch_expect(&fetch_branch, 4, 4, CACHE_HIT);
	assert_int_equal(fetch_stats().fetched, 6);
	assert_int_equal(fetch_stats().blocks, 6);
}

static void other_numbers_find_nothing(void **state)
{
	struct kit_prompt other = fetch_four;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	fetch_restart(20);
	other.numbers = 1;
	fetch_expect(&other, 0, 0, CACHE_COLD);
}

/* Memory kept the blocks and evicted the state, which the disk still has. */
static void only_a_state_can_be_missing(void **state)
{
	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 2);
	diskkit_drain(&fetch.disk);
	cache_set_budget(fetch.kit.cache, cachekit_room(&fetch.kit, 4, 0));
	assert_int_equal(fetch_stats().states, 0);
	assert_int_equal(fetch_stats().blocks, 4);
	cache_set_budget(fetch.kit.cache, cachekit_room(&fetch.kit, 20, 20));
	fetch_expect(&fetch_four, 3, 4, CACHE_NO_STATE);
	assert_int_equal(fetch_stats().fetched, 0);
	assert_int_equal(fetch_stats().blocks, 4);
}

static void as_much_is_read_as_there_is_room_for(void **state)
{
	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 15);
	fetch_restart(20);
	cache_set_budget(fetch.kit.cache, cachekit_room(&fetch.kit, 2, 1) + 10);
	fetch_expect(&fetch_four, 2, 2, CACHE_ENDED);
	cache_set_budget(fetch.kit.cache, cachekit_room(&fetch.kit, 0, 1));
	fetch_expect(&fetch_four, 0, 0, CACHE_COLD);
	cache_set_budget(fetch.kit.cache, 0);
	fetch_expect(&fetch_four, 0, 0, CACHE_OFF);
	assert_int_equal(fetch_stats().bytes, 0);
}

/* A queue that was full left a hole: who goes on from behind it fills it. */
static void a_hole_is_filled_by_who_passes(void **state)
{
	struct kit_prompt longer = { .n_block = 5, .extra = 9 };
	struct cache_disk_name n;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	diskkit_drain(&fetch.disk);
	fetch_name(&fetch_four, 1, CACHE_FILE_BLOCK, &n);
	cache_disk_drop(fetch.disk.d, &n.key);
	kit_serve(&fetch.kit, &longer, 1 << 4);
	fetch_restart(20);
	fetch_expect(&longer, 5, 5, CACHE_HIT);
}

/* ---- it is not ---- */

static void with_a_bad_block_an_earlier_state_serves(void **state)
{
	char path[256];

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 1 | 1 << 3);
	fetch_restart(20);
	file_of(&fetch_four, 2, CACHE_FILE_BLOCK, path);
	flip(path);
	fetch_expect(&fetch_four, 2, 2, CACHE_BROKEN);
	assert_int_equal(fetch_stats().miss[CACHE_BROKEN], 1);
	assert_int_equal(diskkit_stats(&fetch.disk).bad, 1);
	fetch_expect(&fetch_four, 2, 2, CACHE_ENDED); /* it is gone */
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);   /* and computed and written again */
	fetch_restart(20);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
}

static void with_a_bad_state_an_earlier_one_serves(void **state)
{
	char path[256];

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 1 | 1 << 3);
	fetch_restart(20);
	file_of(&fetch_four, 3, CACHE_FILE_STATE, path);
	flip(path);
	fetch_expect(&fetch_four, 2, 4, CACHE_BROKEN);
}

static void with_all_bad_everything_is_computed(void **state)
{
	char path[256];

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 15);
	fetch_restart(20);
	file_of(&fetch_four, 0, CACHE_FILE_BLOCK, path);
	flip(path);
	fetch_expect(&fetch_four, 0, 0, CACHE_BROKEN);
	assert_int_equal(fetch_stats().blocks, 0);
}

/* Whole, and of the right tokens, but made to stand elsewhere: a state of that length would be read beyond its end. */
static void a_block_of_another_depth_is_not_taken(void **state)
{
	uint8_t bytes[4096];
	char path[256];
	ssize_t n;
	int fd;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 1 | 1 << 3);
	fetch_restart(20);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++) {
		file_of(&fetch_four, 3, (enum cache_file_kind)kind, path);
		fd = open(path, O_RDWR);
		n = read(fd, bytes, sizeof bytes);
		assert_true(n > CACHE_FILE_HEADER && n < (ssize_t)sizeof bytes);
		bytes[177] = 4; /* its edge: 4 * 256 tokens */
		cache_file_seal(bytes, (size_t)n);
		assert_int_equal(pwrite(fd, bytes, (size_t)n, 0), n);
		close(fd);
	}
	fetch_expect(&fetch_four, 0, 3, CACHE_BROKEN);
}

/* ---- room ---- */

/* Twice the budget in one prompt: what was kept of it can be gone on from, in memory and after a restart. */
static void a_prompt_larger_than_the_budget_comes_back_from_disk(void **state)
{
	struct kit_prompt six = { .n_block = 6, .extra = 9 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct kit_run r;
		bool last;

		cache_set_budget(fetch.kit.cache, cachekit_room(&fetch.kit, 3, 1));
		kit_lookup(&fetch.kit, &r, &six);
		assert_int_equal(r.find.reused, i * 3 * SEQUENCE_BLOCK);
		kit_resume(&fetch.kit, &r);
		while (cache_publish_room(fetch.kit.cache, r.path, r.token + cache_path_blocks(r.path) * SEQUENCE_BLOCK,
			1, &last))
			kit_publish(&fetch.kit, &r, last);
		assert_int_equal(cache_path_blocks(r.path), 3);
		kit_release(&fetch.kit, &r);
		fetch_expect(&six, 3, 3, CACHE_ENDED);
		fetch_restart(20);
	}
}

/* Two that want all the room there is: each has the state as well, and what comes to it, and both go on. */
static void two_large_ones_from_disk_share_the_room(void **state)
{
	struct kit_prompt other = { .n_block = 4, .extra = 9, .choice = { 1, 1, 1, 1 } };
	struct diskkit_hold hold;
	struct kit_run a, b;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 15);
	kit_serve(&fetch.kit, &other, 15);
	fetch_restart(20);
	cache_set_budget(fetch.kit.cache, cachekit_room(&fetch.kit, 5, 2));
	diskkit_hold(&fetch.disk, &hold);
	fetch_lookup(&a, &fetch_four);
	fetch_lookup(&b, &other);
	diskkit_let_go(&hold);
	fetch_wait(&a);
	fetch_wait(&b);
	assert_int_equal(a.find.reused, 3 * SEQUENCE_BLOCK); /* the other's next two were promised */
	assert_int_equal(b.find.reused, 2 * SEQUENCE_BLOCK);
	kit_resume(&fetch.kit, &a);
	kit_resume(&fetch.kit, &b);
	kit_release(&fetch.kit, &a);
	kit_release(&fetch.kit, &b);
}

/* ---- what is no numbers, what something failed on ---- */

static void spoil(struct cache_copy *copy, bool in_state)
{
	float *x = in_state ? sequence_state_rows(&fetch.kit.layout, copy->state, 1, SEQUENCE_WINDOW, &(int64_t){ 0 })
			    : sequence_block_rows(&fetch.kit.layout, copy->block[2], 1, SEQUENCE_ROWS_KEY);

	x[1] = in_state ? INFINITY : NAN;
}

static void what_is_no_numbers_is_not_taken_from_disk(void **state)
{
	(void)state;
	for (int in_state = 0; in_state < 2; in_state++) {
		struct diskkit_hold hold;
		struct cache_entry *e;
		struct cache_copy copy;

		cache_clear(fetch.kit.cache);
		diskkit_hold(&fetch.disk, &hold);
		kit_serve(&fetch.kit, &fetch_four, 1 << 1 | 1 << 3);
		assert_int_equal(cache_tree(fetch.kit.cache, &e, 10), 4);
		assert_int_equal(cache_get(fetch.kit.cache, &e[3].key, &copy), 0);
		spoil(&copy, in_state);
		cache_copy_fini(&copy);
		free(e);
		diskkit_let_go(&hold);
		fetch_restart(20);
		fetch_expect(&fetch_four, 2, in_state ? 3 : 2, CACHE_BROKEN);
		fetch_expect(&fetch_four, 2, in_state ? 3 : 2,
			     in_state ? CACHE_NO_STATE : CACHE_ENDED); /* the file is gone */
	}
}

static void what_was_distrusted_does_not_come_back_from_disk(void **state)
{
	struct kit_run r;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 15);
	diskkit_drain(&fetch.disk);
	kit_lookup(&fetch.kit, &r, &fetch_four);
	assert_int_equal(r.find.reused, 4 * SEQUENCE_BLOCK);
	kit_resume(&fetch.kit, &r);
	cache_distrust(fetch.kit.cache, r.path);
	kit_release(&fetch.kit, &r);
	fetch_expect(&fetch_four, 3, 3, CACHE_ENDED);
	kit_serve(&fetch.kit, &fetch_four, 15); /* computed, and written, again */
	fetch_restart(20);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
}

/* ---- cleaning up ---- */

static void what_was_evicted_on_purpose_does_not_come_back(void **state)
{
	struct cache_entry *e;
	struct cache_key third;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 15);
	diskkit_drain(&fetch.disk);
	assert_int_equal(cache_tree(fetch.kit.cache, &e, 10), 4);
	third = e[2].key;
	free(e);
	assert_int_equal(cache_evict(fetch.kit.cache, &third), 0);
	fetch_expect(&fetch_four, 2, 2, CACHE_ENDED);
	fetch_restart(20);
	fetch_expect(&fetch_four, 2, 2, CACHE_ENDED);
	cache_clear(fetch.kit.cache);
	assert_int_equal(diskkit_stats(&fetch.disk).files, 0);
	fetch_restart(20);
	fetch_expect(&fetch_four, 0, 0, CACHE_COLD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, fetch_setup, fetch_teardown)
		T(after_a_restart_all_is_there),
		T(a_whole_prompt_is_never_all_reused),
		T(blocks_after_the_last_state_are_not_read),
		T(of_a_branch_only_the_rest_is_read),
		T(other_numbers_find_nothing),
		T(only_a_state_can_be_missing),
		T(as_much_is_read_as_there_is_room_for),
		T(a_hole_is_filled_by_who_passes),
		T(with_a_bad_block_an_earlier_state_serves),
		T(with_a_bad_state_an_earlier_one_serves),
		T(with_all_bad_everything_is_computed),
		T(a_block_of_another_depth_is_not_taken),
		T(a_prompt_larger_than_the_budget_comes_back_from_disk),
		T(two_large_ones_from_disk_share_the_room),
		T(what_is_no_numbers_is_not_taken_from_disk),
		T(what_was_distrusted_does_not_come_back_from_disk),
		T(what_was_evicted_on_purpose_does_not_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
