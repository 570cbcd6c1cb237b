/* SPDX-License-Identifier: MIT
 * cache_fetch_wait.c - who waits for what comes back from the prefix cache's disk: it comes, others wait for it too,
 * it takes too long, or others leave it meanwhile.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/fetchkit.h"

#include <sched.h>
#include <stdatomic.h>

static atomic_int readies;

static void a_path_let_go_stops_reading(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	fetch_restart(20);
	diskkit_hold(&fetch.disk, &hold);
	fetch_lookup(&r, &fetch_four);
	assert_true(r.find.waiting);
	assert_int_equal(r.find.reused, 0);
	assert_false(cache_ready(fetch.kit.cache, r.path, &r.find));
	assert_int_equal(fetch_stats().lookups, 0); /* counted when it is known */
	kit_release(&fetch.kit, &r);
	assert_int_equal(fetch_stats().lookups, 1);
	diskkit_let_go(&hold);
	cachekit_fini(&fetch.kit); /* waits for the disk's thread */
	assert_int_equal(diskkit_stats(&fetch.disk).read, 0); /* nobody waits for what it was about to read */
	cachekit_init(&fetch.kit, 20);
}

static void who_gives_up_goes_on_with_what_there_is(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	fetch_restart(20);
	kit_serve(&fetch.kit, &(struct kit_prompt){ .n_block = 1, .extra = 1, .choice = { 1 } }, 1);
	diskkit_hold(&fetch.disk, &hold);
	fetch_lookup(&r, &fetch_four);
	assert_true(r.find.waiting);
	cache_give_up(fetch.kit.cache, r.path, &r.find);
	assert_false(r.find.waiting);
	assert_true(cache_ready(fetch.kit.cache, r.path, &r.find));
	assert_int_equal(r.find.reused, 0);
	diskkit_let_go(&hold);
	kit_resume(&fetch.kit, &r);
	for (int i = 0; i < 4; i++)
		kit_publish(&fetch.kit, &r, i == 3);
	kit_release(&fetch.kit, &r);
	fetch_expect(&fetch_four, 4, 4, CACHE_HIT);
}

/* Blocks that come are told at once: what is slow is told from what hangs. */
static void who_waits_sees_blocks_come(void **state)
{
	struct diskkit_hold first, second;
	struct cache_disk_name n;
	struct kit_run r;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 1 | 1 << 3);
	fetch_restart(20);
	fetch_name(&fetch_four, 2, CACHE_FILE_BLOCK, &n);
	diskkit_hold(&fetch.disk, &first);
	fetch_lookup(&r, &fetch_four);
	diskkit_hold_after(&fetch.disk, &second);
	assert_int_equal(r.find.matched, 0);
	cache_disk_disown(fetch.disk.d, &n.key); /* so that it asks twice, and is held between */
	diskkit_let_go(&first);
	diskkit_held(&second);
	assert_false(cache_ready(fetch.kit.cache, r.path, &r.find));
	assert_int_equal(r.find.matched, 2 * SEQUENCE_BLOCK);
	assert_true(r.find.waiting);
	diskkit_let_go(&second);
	while (!cache_ready(fetch.kit.cache, r.path, &r.find))
		sched_yield();
	assert_int_equal(r.find.reused, 2 * SEQUENCE_BLOCK);
	kit_release(&fetch.kit, &r);
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
	struct cache_options o = { .layout = &fetch.kit.layout, .model_id = kit_model, .bytes = 1 << 20,
				   .ready = count_ready, .ready_arg = &readies };

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	fetch_restart(20);
	cache_free(&fetch.kit.cache);
	o.disk = fetch.disk.d;
	fetch.kit.cache = cache_new(&o);
	diskkit_hold(&fetch.disk, &hold);
	fetch_lookup(&a, &fetch_four);
	fetch_lookup(&b, &fetch_four);
	assert_true(a.find.waiting && b.find.waiting);
	readies = 0;
	diskkit_let_go(&hold);
	while (!cache_ready(fetch.kit.cache, a.path, &a.find) || !cache_ready(fetch.kit.cache, b.path, &b.find) ||
			readies < 2)
		sched_yield();
	assert_int_equal(a.find.reused, 4 * SEQUENCE_BLOCK);
	assert_int_equal(b.find.reused, 4 * SEQUENCE_BLOCK);
	kit_resume(&fetch.kit, &a);
	kit_resume(&fetch.kit, &b);
	assert_int_equal(fetch_stats().fetched, 4);
	assert_int_equal(fetch_stats().states, 1);
	kit_release(&fetch.kit, &a);
	kit_release(&fetch.kit, &b);
	assert_int_equal(readies, 2);
}

/* However many wait, and for whatever ends: each file is read once. */
static void thirty_that_wait_read_each_file_once(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r[30];

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	kit_serve(&fetch.kit, &fetch_branch, 1 << 3);
	fetch_restart(20);
	diskkit_hold(&fetch.disk, &hold);
	for (int i = 0; i < 30; i++) {
		fetch_lookup(&r[i], i % 2 ? &fetch_branch : &fetch_four);
		assert_true(r[i].find.waiting);
	}
	kit_release(&fetch.kit, &r[0]); /* who reads may leave */
	kit_release(&fetch.kit, &r[7]); /* and who waits */
	diskkit_let_go(&hold);
	for (int i = 1; i < 30; i++) {
		if (i == 7)
			continue;
		fetch_wait(&r[i]);
		assert_int_equal(r[i].find.reused, 4 * SEQUENCE_BLOCK);
		assert_string_equal(cache_miss_name(r[i].find.miss), "hit");
	}
	for (int i = 1; i < 30; i++)
		if (i != 7) {
			kit_resume(&fetch.kit, &r[i]);
			kit_release(&fetch.kit, &r[i]);
		}
	assert_int_equal(fetch_stats().fetched, 6);
	/* the one that left had begun with its state and a block */
	assert_in_range(diskkit_stats(&fetch.disk).read, 6 + 2, 6 + 2 + 2);
}

/* Another, that did not wait, publishes what is being waited for. */
static void publish_meanwhile(const struct kit_prompt *p)
{
	struct kit_run r;

	fetch_lookup(&r, p);
	cache_give_up(fetch.kit.cache, r.path, &r.find);
	kit_resume(&fetch.kit, &r);
	for (int i = 0; i < p->n_block; i++)
		kit_publish(&fetch.kit, &r, i == p->n_block - 1);
	kit_release(&fetch.kit, &r);
}

static void who_gives_up_has_what_others_left_meanwhile(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	fetch_restart(20);
	diskkit_hold(&fetch.disk, &hold);
	fetch_lookup(&r, &fetch_four);
	publish_meanwhile(&fetch_four);
	cache_give_up(fetch.kit.cache, r.path, &r.find);
	assert_int_equal(r.find.reused, 4 * SEQUENCE_BLOCK);
	diskkit_let_go(&hold);
	kit_resume(&fetch.kit, &r);
	kit_release(&fetch.kit, &r);
}

static void what_others_left_meanwhile_is_not_read(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r;

	(void)state;
	kit_serve(&fetch.kit, &fetch_four, 1 << 3);
	fetch_restart(20);
	diskkit_hold(&fetch.disk, &hold);
	fetch_lookup(&r, &fetch_four);
	publish_meanwhile(&fetch_four);
	diskkit_let_go(&hold);
	fetch_wait(&r);
	assert_int_equal(r.find.reused, 4 * SEQUENCE_BLOCK);
	kit_resume(&fetch.kit, &r);
	kit_release(&fetch.kit, &r);
	assert_in_range(diskkit_stats(&fetch.disk).read, 0, 3); /* it stops where it sees that */
	assert_int_equal(fetch_stats().fetched, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, fetch_setup, fetch_teardown)
		T(a_path_let_go_stops_reading),
		T(who_gives_up_goes_on_with_what_there_is),
		T(who_waits_sees_blocks_come),
		T(two_can_wait_for_the_same),
		T(thirty_that_wait_read_each_file_once),
		T(who_gives_up_has_what_others_left_meanwhile),
		T(what_others_left_meanwhile_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
