/* SPDX-License-Identifier: MIT
 * cache_fetch.c - the prefix cache over its disk: what comes back after a restart, and what happens when it does not.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/cachekit.h"
#include "tests/unit/diskkit.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct diskkit disk;
static struct cachekit kit;
static atomic_int readies;

static const struct kit_prompt four = { .n_block = 4, .extra = 9 };
static const struct kit_prompt branch = { .n_block = 4, .extra = 9, .choice = { 0, 0, 1, 2 } };

/* Both from nothing but the directory; memory has room for n blocks with states. */
static void start(int n)
{
	disk.options.model_id = kit_model;
	diskkit_open(&disk);
	kit = (struct cachekit){ .disk = disk.d };
	cachekit_init(&kit, n);
}

static void stop(void)
{
	cachekit_fini(&kit);
	diskkit_close(&disk);
}

static void restart(int n)
{
	stop();
	start(n);
}

static int setup(void **state)
{
	(void)state;
	diskkit_init(&disk);
	start(20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stop();
	diskkit_fini(&disk);
	return 0;
}

static void expect(const struct kit_prompt *p, int reused, int matched, enum cache_miss miss)
{
	struct kit_run r;

	kit_lookup(&kit, &r, p);
	if (r.find.reused != reused * SEQUENCE_BLOCK || r.find.matched != matched * SEQUENCE_BLOCK || r.find.miss != miss)
		fail_msg("%lld reused, %lld matched, %s", (long long)r.find.reused, (long long)r.find.matched,
			cache_miss_name(r.find.miss));
	kit_resume(&kit, &r); /* which checks what is in it */
	kit_release(&kit, &r);
}

static struct cache_stats stats(void)
{
	struct cache_stats s;

	cache_stats(kit.cache, &s);
	return s;
}

/* Of the prompt's block i. */
static void name_of(const struct kit_prompt *p, int i, enum cache_file_kind kind, struct cache_disk_name *ret_n)
{
	uint8_t numbers[32] = { p->numbers };
	int32_t token[KIT_TOKENS];

	ret_n->model = cache_disk_name_model(kit_model);
	ret_n->kind = kind;
	kit_tokens(p, token);
	cache_key_root(kit_model, numbers, &ret_n->key);
	for (int b = 0; b <= i; b++)
		cache_key_next(&ret_n->key, token + b * SEQUENCE_BLOCK, &ret_n->key);
}

static void file_of(const struct kit_prompt *p, int i, enum cache_file_kind kind, char out[256])
{
	struct cache_disk_name n;
	char name[CACHE_DISK_NAME];

	name_of(p, i, kind, &n);
	snprintf(out, 256, "%s/%s", disk.dir, cache_disk_name_print(&n, name));
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
	kit_serve(&kit, &four, 1 << 1 | 1 << 3);
	expect(&four, 4, 4, CACHE_HIT);
	assert_int_equal(stats().fetched, 0); /* memory has it */
	restart(20);
	assert_int_equal(stats().blocks, 0);
	expect(&four, 4, 4, CACHE_HIT);
	assert_int_equal(stats().fetched, 4);
	assert_int_equal(stats().hits, 1);
	assert_int_equal(stats().lookups, 1);
	assert_int_equal(stats().miss[CACHE_HIT], 1);
	expect(&four, 4, 4, CACHE_HIT);
	assert_int_equal(stats().fetched, 4); /* and now memory has it again */
}

/* The prompt's last token is computed, whatever is on disk. */
static void a_whole_prompt_is_never_all_reused(void **state)
{
	struct kit_prompt three = { .n_block = 3 };

	(void)state;
	kit_serve(&kit, &four, 15);
	restart(20);
	expect(&three, 2, 2, CACHE_HIT);
}

static void blocks_after_the_last_state_are_not_read(void **state)
{
	(void)state;
	kit_serve(&kit, &four, 1 << 1);
	restart(20);
	expect(&four, 2, 2, CACHE_ENDED);
	assert_int_equal(stats().fetched, 2);
}

static void of_a_branch_only_the_rest_is_read(void **state)
{
	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	kit_serve(&kit, &branch, 1 << 3);
	restart(20);
	expect(&four, 4, 4, CACHE_HIT);
	expect(&branch, 4, 4, CACHE_HIT);
	assert_int_equal(stats().fetched, 6);
	assert_int_equal(stats().blocks, 6);
}

static void other_numbers_find_nothing(void **state)
{
	struct kit_prompt other = four;

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	restart(20);
	other.numbers = 1;
	expect(&other, 0, 0, CACHE_COLD);
}

/* Memory kept the blocks and evicted the state, which the disk still has. */
static void only_a_state_can_be_missing(void **state)
{
	(void)state;
	kit_serve(&kit, &four, 1 << 2);
	diskkit_drain(&disk);
	cache_set_budget(kit.cache, cachekit_room(&kit, 4, 0));
	assert_int_equal(stats().states, 0);
	assert_int_equal(stats().blocks, 4);
	cache_set_budget(kit.cache, cachekit_room(&kit, 20, 20));
	expect(&four, 3, 4, CACHE_NO_STATE);
	assert_int_equal(stats().fetched, 0);
	assert_int_equal(stats().blocks, 4);
}

static void as_much_is_read_as_there_is_room_for(void **state)
{
	(void)state;
	kit_serve(&kit, &four, 15);
	restart(20);
	cache_set_budget(kit.cache, cachekit_room(&kit, 2, 1) + 10);
	expect(&four, 2, 2, CACHE_ENDED);
	cache_set_budget(kit.cache, cachekit_room(&kit, 0, 1));
	expect(&four, 0, 0, CACHE_COLD);
	cache_set_budget(kit.cache, 0);
	expect(&four, 0, 0, CACHE_OFF);
	assert_int_equal(stats().bytes, 0);
}

/* A queue that was full left a hole: who goes on from behind it fills it. */
static void a_hole_is_filled_by_who_passes(void **state)
{
	struct kit_prompt longer = { .n_block = 5, .extra = 9 };
	struct cache_disk_name n;

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	diskkit_drain(&disk);
	name_of(&four, 1, CACHE_FILE_BLOCK, &n);
	cache_disk_drop(disk.d, &n.key);
	kit_serve(&kit, &longer, 1 << 4);
	restart(20);
	expect(&longer, 5, 5, CACHE_HIT);
}

/* ---- it is not ---- */

static void with_a_bad_block_an_earlier_state_serves(void **state)
{
	char path[256];

	(void)state;
	kit_serve(&kit, &four, 1 << 1 | 1 << 3);
	restart(20);
	file_of(&four, 2, CACHE_FILE_BLOCK, path);
	flip(path);
	expect(&four, 2, 2, CACHE_BROKEN);
	assert_int_equal(stats().miss[CACHE_BROKEN], 1);
	assert_int_equal(diskkit_stats(&disk).bad, 1);
	expect(&four, 2, 2, CACHE_ENDED); /* it is gone */
	kit_serve(&kit, &four, 1 << 3);   /* and computed and written again */
	restart(20);
	expect(&four, 4, 4, CACHE_HIT);
}

static void with_a_bad_state_an_earlier_one_serves(void **state)
{
	char path[256];

	(void)state;
	kit_serve(&kit, &four, 1 << 1 | 1 << 3);
	restart(20);
	file_of(&four, 3, CACHE_FILE_STATE, path);
	flip(path);
	expect(&four, 2, 4, CACHE_BROKEN);
}

static void with_all_bad_everything_is_computed(void **state)
{
	char path[256];

	(void)state;
	kit_serve(&kit, &four, 15);
	restart(20);
	file_of(&four, 0, CACHE_FILE_BLOCK, path);
	flip(path);
	expect(&four, 0, 0, CACHE_BROKEN);
	assert_int_equal(stats().blocks, 0);
}

/* Whole, and of the right tokens, but made to stand elsewhere: a state of that length would be read beyond its end. */
static void a_block_of_another_depth_is_not_taken(void **state)
{
	uint8_t bytes[4096];
	char path[256];
	ssize_t n;
	int fd;

	(void)state;
	kit_serve(&kit, &four, 1 << 1 | 1 << 3);
	restart(20);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++) {
		file_of(&four, 3, (enum cache_file_kind)kind, path);
		fd = open(path, O_RDWR);
		n = read(fd, bytes, sizeof bytes);
		assert_true(n > CACHE_FILE_HEADER && n < (ssize_t)sizeof bytes);
		bytes[177] = 4; /* its edge: 4 * 256 tokens */
		cache_file_seal(bytes, (size_t)n);
		assert_int_equal(pwrite(fd, bytes, (size_t)n, 0), n);
		close(fd);
	}
	expect(&four, 0, 3, CACHE_BROKEN);
}

/* ---- while it waits ---- */

static void lookup_only(struct kit_run *r, const struct kit_prompt *p)
{
	uint8_t numbers[32] = { p->numbers };

	*r = (struct kit_run){ .prompt = *p };
	r->n = kit_tokens(p, r->token);
	assert_int_equal(sequence_new(&kit.layout, &r->seq), 0);
	cache_lookup(kit.cache, numbers, r->token, r->n, &r->path, &r->find);
}

static void a_path_let_go_stops_reading(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	restart(20);
	diskkit_hold(&disk, &hold);
	lookup_only(&r, &four);
	assert_true(r.find.waiting);
	assert_int_equal(r.find.reused, 0);
	assert_false(cache_ready(kit.cache, r.path, &r.find));
	assert_int_equal(stats().lookups, 0); /* counted when it is known */
	kit_release(&kit, &r);
	assert_int_equal(stats().lookups, 1);
	diskkit_let_go(&hold);
	cachekit_fini(&kit); /* waits for the disk's thread */
	assert_int_equal(diskkit_stats(&disk).read, 0); /* nobody waits for what it was about to read */
	cachekit_init(&kit, 20);
}

static void who_gives_up_goes_on_with_what_there_is(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	restart(20);
	kit_serve(&kit, &(struct kit_prompt){ .n_block = 1, .extra = 1, .choice = { 1 } }, 1);
	diskkit_hold(&disk, &hold);
	lookup_only(&r, &four);
	assert_true(r.find.waiting);
	cache_give_up(kit.cache, r.path, &r.find);
	assert_false(r.find.waiting);
	assert_true(cache_ready(kit.cache, r.path, &r.find));
	assert_int_equal(r.find.reused, 0);
	diskkit_let_go(&hold);
	kit_resume(&kit, &r);
	for (int i = 0; i < 4; i++)
		kit_publish(&kit, &r, i == 3);
	kit_release(&kit, &r);
	expect(&four, 4, 4, CACHE_HIT);
}

/* Blocks that come are told at once: what is slow is told from what hangs. */
static void who_waits_sees_blocks_come(void **state)
{
	struct diskkit_hold first, second;
	struct cache_disk_name n;
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &four, 1 << 1 | 1 << 3);
	restart(20);
	name_of(&four, 2, CACHE_FILE_BLOCK, &n);
	diskkit_hold(&disk, &first);
	lookup_only(&r, &four);
	diskkit_hold_after(&disk, &second);
	assert_int_equal(r.find.matched, 0);
	cache_disk_drop(disk.d, &n.key); /* so that it asks twice, and is held between */
	diskkit_let_go(&first);
	diskkit_held(&second);
	assert_false(cache_ready(kit.cache, r.path, &r.find));
	assert_int_equal(r.find.matched, 2 * SEQUENCE_BLOCK);
	assert_true(r.find.waiting);
	diskkit_let_go(&second);
	while (!cache_ready(kit.cache, r.path, &r.find))
		sched_yield();
	assert_int_equal(r.find.reused, 2 * SEQUENCE_BLOCK);
	kit_release(&kit, &r);
}

static void count_ready(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* Two that wait for the same share what comes, and each is told. */
static void two_can_wait_for_the_same(void **state)
{
	struct diskkit_hold hold;
	struct kit_run a, b;
	struct cache_options o = { .layout = &kit.layout, .model_id = kit_model, .bytes = 1 << 20, .ready = count_ready,
				   .ready_arg = &readies };

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	restart(20);
	cache_free(&kit.cache);
	o.disk = disk.d;
	assert_int_equal(cache_new(&o, &kit.cache), 0);
	diskkit_hold(&disk, &hold);
	lookup_only(&a, &four);
	lookup_only(&b, &four);
	assert_true(a.find.waiting && b.find.waiting);
	readies = 0;
	diskkit_let_go(&hold);
	while (!cache_ready(kit.cache, a.path, &a.find) || !cache_ready(kit.cache, b.path, &b.find) || readies < 2)
		sched_yield();
	assert_int_equal(a.find.reused, 4 * SEQUENCE_BLOCK);
	assert_int_equal(b.find.reused, 4 * SEQUENCE_BLOCK);
	kit_resume(&kit, &a);
	kit_resume(&kit, &b);
	assert_int_equal(stats().fetched, 4);
	assert_int_equal(stats().states, 1);
	kit_release(&kit, &a);
	kit_release(&kit, &b);
	assert_int_equal(readies, 2);
}

static void wait_for(struct kit_run *r)
{
	while (!cache_ready(kit.cache, r->path, &r->find))
		sched_yield();
}

/* However many wait, and for whatever ends: each file is read once. */
static void thirty_that_wait_read_each_file_once(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r[30];

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	kit_serve(&kit, &branch, 1 << 3);
	restart(20);
	diskkit_hold(&disk, &hold);
	for (int i = 0; i < 30; i++) {
		lookup_only(&r[i], i % 2 ? &branch : &four);
		assert_true(r[i].find.waiting);
	}
	kit_release(&kit, &r[0]); /* who reads may leave */
	kit_release(&kit, &r[7]); /* and who waits */
	diskkit_let_go(&hold);
	for (int i = 1; i < 30; i++) {
		if (i == 7)
			continue;
		wait_for(&r[i]);
		assert_int_equal(r[i].find.reused, 4 * SEQUENCE_BLOCK);
		assert_string_equal(cache_miss_name(r[i].find.miss), "hit");
	}
	for (int i = 1; i < 30; i++)
		if (i != 7) {
			kit_resume(&kit, &r[i]);
			kit_release(&kit, &r[i]);
		}
	assert_int_equal(stats().fetched, 6);
	/* the one that left had begun with its state and a block */
	assert_in_range(diskkit_stats(&disk).read, 6 + 2, 6 + 2 + 2);
}

/* Another, that did not wait, publishes what is being waited for. */
static void publish_meanwhile(const struct kit_prompt *p)
{
	struct kit_run r;

	lookup_only(&r, p);
	cache_give_up(kit.cache, r.path, &r.find);
	kit_resume(&kit, &r);
	for (int i = 0; i < p->n_block; i++)
		kit_publish(&kit, &r, i == p->n_block - 1);
	kit_release(&kit, &r);
}

static void who_gives_up_has_what_others_left_meanwhile(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	restart(20);
	diskkit_hold(&disk, &hold);
	lookup_only(&r, &four);
	publish_meanwhile(&four);
	cache_give_up(kit.cache, r.path, &r.find);
	assert_int_equal(r.find.reused, 4 * SEQUENCE_BLOCK);
	diskkit_let_go(&hold);
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
}

static void what_others_left_meanwhile_is_not_read(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &four, 1 << 3);
	restart(20);
	diskkit_hold(&disk, &hold);
	lookup_only(&r, &four);
	publish_meanwhile(&four);
	diskkit_let_go(&hold);
	wait_for(&r);
	assert_int_equal(r.find.reused, 4 * SEQUENCE_BLOCK);
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
	assert_in_range(diskkit_stats(&disk).read, 0, 3); /* it stops where it sees that */
	assert_int_equal(stats().fetched, 0);
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

		cache_set_budget(kit.cache, cachekit_room(&kit, 3, 1));
		kit_lookup(&kit, &r, &six);
		assert_int_equal(r.find.reused, i * 3 * SEQUENCE_BLOCK);
		kit_resume(&kit, &r);
		while (cache_publish_room(kit.cache, r.path, r.token + cache_path_blocks(r.path) * SEQUENCE_BLOCK, 1, &last))
			kit_publish(&kit, &r, last);
		assert_int_equal(cache_path_blocks(r.path), 3);
		kit_release(&kit, &r);
		expect(&six, 3, 3, CACHE_ENDED);
		restart(20);
	}
}

/* Two that want all the room there is: the one that is promised it has the state as well, and both go on. */
static void two_large_ones_from_disk_share_the_room(void **state)
{
	struct kit_prompt other = { .n_block = 4, .extra = 9, .choice = { 1, 1, 1, 1 } };
	struct diskkit_hold hold;
	struct kit_run a, b;

	(void)state;
	kit_serve(&kit, &four, 15);
	kit_serve(&kit, &other, 15);
	restart(20);
	cache_set_budget(kit.cache, cachekit_room(&kit, 5, 2));
	diskkit_hold(&disk, &hold);
	lookup_only(&a, &four);
	lookup_only(&b, &other);
	diskkit_let_go(&hold);
	wait_for(&a);
	wait_for(&b);
	assert_int_equal(a.find.reused, 4 * SEQUENCE_BLOCK);
	assert_int_equal(b.find.reused, SEQUENCE_BLOCK);
	kit_resume(&kit, &a);
	kit_resume(&kit, &b);
	kit_release(&kit, &a);
	kit_release(&kit, &b);
}

/* ---- what is no numbers, what something failed on ---- */

static void spoil(struct cache_copy *copy, bool in_state)
{
	float *x = in_state ? sequence_state_rows(&kit.layout, copy->state, 1, SEQUENCE_WINDOW, &(int64_t){ 0 })
			    : sequence_block_rows(&kit.layout, copy->block[2], 1, SEQUENCE_ROWS_KEY);

	x[1] = in_state ? INFINITY : NAN;
}

static void what_is_no_numbers_is_not_taken_from_disk(void **state)
{
	(void)state;
	for (int in_state = 0; in_state < 2; in_state++) {
		struct diskkit_hold hold;
		struct cache_entry *e;
		struct cache_copy copy;

		cache_clear(kit.cache);
		diskkit_hold(&disk, &hold);
		kit_serve(&kit, &four, 1 << 1 | 1 << 3);
		assert_int_equal(cache_tree(kit.cache, &e, 10), 4);
		assert_int_equal(cache_get(kit.cache, &e[3].key, &copy), 0);
		spoil(&copy, in_state);
		cache_copy_fini(&copy);
		free(e);
		diskkit_let_go(&hold);
		restart(20);
		expect(&four, 2, in_state ? 3 : 2, CACHE_BROKEN);
		expect(&four, 2, in_state ? 3 : 2, in_state ? CACHE_NO_STATE : CACHE_ENDED); /* the file is gone */
	}
}

static void what_was_distrusted_does_not_come_back_from_disk(void **state)
{
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &four, 15);
	diskkit_drain(&disk);
	kit_lookup(&kit, &r, &four);
	assert_int_equal(r.find.reused, 4 * SEQUENCE_BLOCK);
	kit_resume(&kit, &r);
	cache_distrust(kit.cache, r.path);
	kit_release(&kit, &r);
	expect(&four, 3, 3, CACHE_ENDED);
	kit_serve(&kit, &four, 15); /* computed, and written, again */
	restart(20);
	expect(&four, 4, 4, CACHE_HIT);
}

/* ---- cleaning up ---- */

static void what_was_evicted_on_purpose_does_not_come_back(void **state)
{
	struct cache_entry *e;
	struct cache_key third;

	(void)state;
	kit_serve(&kit, &four, 15);
	diskkit_drain(&disk);
	assert_int_equal(cache_tree(kit.cache, &e, 10), 4);
	third = e[2].key;
	free(e);
	assert_int_equal(cache_evict(kit.cache, &third), 0);
	expect(&four, 2, 2, CACHE_ENDED);
	restart(20);
	expect(&four, 2, 2, CACHE_ENDED);
	cache_clear(kit.cache);
	assert_int_equal(diskkit_stats(&disk).files, 0);
	restart(20);
	expect(&four, 0, 0, CACHE_COLD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
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
		T(a_path_let_go_stops_reading),
		T(who_gives_up_goes_on_with_what_there_is),
		T(who_waits_sees_blocks_come),
		T(two_can_wait_for_the_same),
		T(thirty_that_wait_read_each_file_once),
		T(who_gives_up_has_what_others_left_meanwhile),
		T(what_others_left_meanwhile_is_not_read),
		T(a_prompt_larger_than_the_budget_comes_back_from_disk),
		T(two_large_ones_from_disk_share_the_room),
		T(what_is_no_numbers_is_not_taken_from_disk),
		T(what_was_distrusted_does_not_come_back_from_disk),
		T(what_was_evicted_on_purpose_does_not_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
