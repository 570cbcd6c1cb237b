/* SPDX-License-Identifier: MIT
 * cache_reads.c - the prefix cache while its disk reads: what others have meanwhile, what is told of a read that failed
 * or was refused, and a disk that hangs at the end.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/cachekit.h"
#include "tests/unit/diskkit.h"
#include "tests/unit/hangkit.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct diskkit disk;
static struct cachekit kit;

static const struct kit_prompt six = { .n_block = 6, .extra = 9 };
static const struct kit_prompt other = { .n_block = 2, .extra = 9, .choice = { 1, 1 } };

static void start(void)
{
	disk.options.model_id = kit_model;
	diskkit_open(&disk);
	kit = (struct cachekit){ .disk = disk.d };
	cachekit_init(&kit, 20);
}

static int setup(void **state)
{
	(void)state;
	diskkit_init(&disk);
	start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cachekit_fini(&kit);
	diskkit_fini(&disk);
	return 0;
}

/* A thread that was left behind has the directory until it is gone. */
static void start_when_free(void)
{
	struct buf why = { 0 };

	while (cache_disk_open(&disk.options, &disk.d, &why) < 0) {
		buf_clear(&why);
		sched_yield();
	}
	buf_fini(&why);
	kit = (struct cachekit){ .disk = disk.d };
	cachekit_init(&kit, 20);
}

/* Memory is empty then. */
static void restart(void)
{
	cachekit_fini(&kit);
	diskkit_close(&disk);
	start();
}

static void lookup_only(struct kit_run *r, const struct kit_prompt *p)
{
	uint8_t numbers[32] = { p->numbers };

	*r = (struct kit_run){ .prompt = *p };
	r->n = kit_tokens(p, r->token);
	assert_int_equal(sequence_new(&kit.layout, &r->seq), 0);
	cache_lookup(kit.cache, numbers, r->token, r->n, &r->path, &r->find);
}

static void wait_for(struct kit_run *r)
{
	while (!cache_ready(kit.cache, r->path, &r->find))
		sched_yield();
}

/* A prompt of which the third block's rows are no numbers on the disk, and none of it is in memory. */
static void spoilt(const struct kit_prompt *p, unsigned states)
{
	struct diskkit_hold hold;
	struct cache_copy copy;
	struct cache_entry *e;

	diskkit_hold(&disk, &hold);
	kit_serve(&kit, p, states);
	assert_true(cache_tree(kit.cache, &e, 10) >= 3);
	assert_int_equal(cache_get(kit.cache, &e[2].key, &copy), 0);
	sequence_block_rows(&kit.layout, copy.block[2], 1, SEQUENCE_ROWS_KEY)[1] = NAN;
	cache_copy_fini(&copy);
	free(e);
	diskkit_let_go(&hold);
	restart();
}

/* ---- room ---- */

static void while_a_long_one_is_read_others_stay_warm(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r, warm;

	(void)state;
	kit_serve(&kit, &six, 1 << 5);
	restart();
	kit_serve(&kit, &other, 1 << 1);
	cache_set_budget(kit.cache, cachekit_room(&kit, 7, 2)); /* not for both together */
	diskkit_hold(&disk, &hold);
	lookup_only(&r, &six);
	assert_true(r.find.waiting);
	kit_lookup(&kit, &warm, &other);
	assert_int_equal(warm.find.reused, 2 * SEQUENCE_BLOCK);
	kit_resume(&kit, &warm);
	kit_release(&kit, &warm);
	diskkit_let_go(&hold);
	wait_for(&r);
	assert_int_equal(r.find.reused, 6 * SEQUENCE_BLOCK); /* and it has all there is, once they are done */
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
}

/* Others took the room for the last blocks while it read: an earlier state serves. */
static void who_finds_no_room_for_the_end_goes_on_from_before(void **state)
{
	struct diskkit_hold hold;
	struct kit_run r, held;

	(void)state;
	kit_serve(&kit, &six, 1 << 2 | 1 << 5);
	restart();
	kit_serve(&kit, &other, 1 << 1);
	cache_set_budget(kit.cache, cachekit_room(&kit, 7, 2));
	diskkit_hold(&disk, &hold);
	lookup_only(&r, &six);
	kit_lookup(&kit, &held, &other);
	diskkit_let_go(&hold);
	wait_for(&r);
	assert_int_equal(r.find.reused, 3 * SEQUENCE_BLOCK);
	assert_string_equal(cache_miss_name(r.find.miss), "no-state");
	kit_resume(&kit, &r);
	kit_resume(&kit, &held);
	kit_release(&kit, &r);
	kit_release(&kit, &held);
}

/* ---- why no more ---- */

static void all_reused_after_all_is_not_broken(void **state)
{
	struct cache_stats s;
	struct kit_run r;

	(void)state;
	spoilt(&six, 1 << 1 | 1 << 5);
	lookup_only(&r, &six);
	wait_for(&r);
	assert_int_equal(r.find.reused, 2 * SEQUENCE_BLOCK);
	assert_string_equal(cache_miss_name(r.find.miss), "broken");
	kit_serve(&kit, &six, 1 << 5); /* another computed the rest while it waited in the queue */
	cache_look_again(kit.cache, r.path, r.token, r.n, &r.find);
	assert_int_equal(r.find.reused, 6 * SEQUENCE_BLOCK);
	assert_string_equal(cache_miss_name(r.find.miss), "hit");
	cache_stats(kit.cache, &s);
	assert_int_equal(s.miss[CACHE_BROKEN], 0);
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
}

static atomic_int ended;

static bool ignore(void *arg, struct cache_disk_item *item)
{
	(void)arg;
	if (item) {
		sequence_block_unref(&item->block);
		sequence_state_unref(&item->state);
	} else {
		atomic_fetch_add(&ended, 1);
	}
	return false;
}

static void a_read_that_is_refused_is_not_called_broken(void **state)
{
	static const struct cache_key any = { .byte = { 1 } };
	const struct cache_disk_ask ask = { .key = &any, .n = 1, .fn = ignore };
	struct diskkit_hold hold;
	struct kit_run r;
	int asked = 0;

	(void)state;
	kit_serve(&kit, &six, 1 << 5);
	restart();
	diskkit_hold(&disk, &hold);
	atomic_store(&ended, 0);
	for (; !diskkit_stats(&disk).reads_refused; asked++)
		cache_disk_read(disk.d, &ask);
	lookup_only(&r, &six);
	assert_true(cache_ready(kit.cache, r.path, &r.find));
	assert_int_equal(r.find.reused, 0);
	assert_string_equal(cache_miss_name(r.find.miss), "disk-busy");
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
	diskkit_let_go(&hold);
	while (atomic_load(&ended) < asked)
		sched_yield();
	kit_lookup(&kit, &r, &six); /* nothing was lost by it */
	assert_string_equal(cache_miss_name(r.find.miss), "hit");
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
}

/* ---- the end ---- */

/* A bad block's file is to go, and the disk hangs: its thread, which comes back when all is over, touches nothing that
 * has gone. */
static void a_disk_that_hangs_in_a_removal_harms_no_reader(void **state)
{
	struct kit_run r;

	(void)state;
	disk.options.patience = 0.05;
	spoilt(&six, 1 << 1 | 1 << 5);
	hangkit_hang(HANGKIT_REMOVE);
	lookup_only(&r, &six);
	hangkit_hangs();
	cache_give_up(kit.cache, r.path, &r.find); /* as who waits does after a while */
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
	cache_disk_stop(disk.d, 0);
	cachekit_fini(&kit);
	hangkit_let_go();
	cache_disk_close(&disk.d, 0);
	disk.options.patience = 0;
	start_when_free();
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(while_a_long_one_is_read_others_stay_warm),
		T(who_finds_no_room_for_the_end_goes_on_from_before),
		T(all_reused_after_all_is_not_broken),
		T(a_read_that_is_refused_is_not_called_broken),
		T(a_disk_that_hangs_in_a_removal_harms_no_reader),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
