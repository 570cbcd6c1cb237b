/* SPDX-License-Identifier: MIT
 * cache_look.c - the prefix cache looked at while it is used: trees and names in slices,
 * whatever comes and goes between.
 * Threads: main. Locks: none (the cache's, inside calls). */
#include "engine/base/lock.h"
#include "engine/base/rc.h"
#include "tests/unit/cachekit.h"

#include <stdlib.h>
#include <string.h>

static struct cachekit kit;

/* ---- between two slices ---- */

/* The linker puts this in the place of lock_drop(). */
void __real_lock_drop(struct lock *l);
void __wrap_lock_drop(struct lock *l);
static void (*between)(void); /* called once the lock is free; NULL: nothing is */
static int drops;

void __wrap_lock_drop(struct lock *l)
{
	void (*f)(void) = between;

	__real_lock_drop(l);
	drops++;
	between = NULL; /* what it calls takes the lock, too */
	if (f)
		f();
	between = f;
}

/* ---- many blocks ---- */

#define MANY (3 * (3 + 9 + 27 + 81)) /* under three sets of numbers */

static int setup(void **state)
{
	(void)state;
	cachekit_init(&kit, MANY + 10);
	for (uint8_t i = 0; i < 3; i++)
		for (int n = 0; n < 81; n++) {
			struct kit_prompt p = { .numbers = i, .n_block = 4 };

			for (int k = 0, x = n; k < 4; k++, x /= 3)
				p.choice[k] = (uint8_t)(x % 3);
			kit_serve(&kit, &p, 0);
		}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	between = NULL;
	cachekit_fini(&kit);
	return 0;
}

/* Every entry after its parent, none twice. */
static void check(const struct cache_entry *e, int n)
{
	for (int i = 0; i < n; i++) {
		int up = i;

		while (up >= 0 && e[up].depth >= e[i].depth)
			up--;
		while (up > 0 && e[up].depth != e[i].depth - 1)
			up--;
		assert_true(e[i].depth == 1 || cache_key_equal(&e[up].key, &e[i].parent));
		for (int k = 0; k < i; k++)
			assert_false(cache_key_equal(&e[k].key, &e[i].key));
	}
}

static void a_tree_is_copied_a_slice_at_a_time(void **state)
{
	static const int max[] = { 0, 1, 63, 64, 65, 128, 359, 360, 10000 };
	struct cache_entry *e;

	(void)state;
	for (size_t i = 0; i < sizeof max / sizeof *max; i++) {
		int want = max[i] < MANY ? max[i] : MANY, n;

		drops = 0;
		n = cache_tree(kit.cache, &e, max[i]);
		assert_int_equal(n, want);
		assert_true(drops >= want / 64); /* 64 blocks, then whoever waits for the lock has it */
		assert_true(drops <= want / 64 + 6); /* and no more is looked at than was asked for */
		check(e, n);
		free(e);
	}
}

/* Removes the block just copied, or one above it: every time another depth. */
static int cut_depth;

static void cut(void)
{
	struct cache_entry *e;
	int n = cache_tree(kit.cache, &e, MANY);

	for (int i = n / 2; i < n; i++)
		if (e[i].depth == cut_depth) {
			assert_int_equal(cache_evict(kit.cache, &e[i].key), 0);
			break;
		}
	cut_depth = cut_depth % 4 + 1;
	free(e);
}

static void blocks_that_go_between_two_slices_break_nothing(void **state)
{
	struct cache_entry *e;
	int n;

	(void)state;
	cut_depth = 4;
	between = cut;
	n = cache_tree(kit.cache, &e, MANY);
	between = NULL;
	assert_true(n > 64 && n < MANY);
	check(e, n);
	free(e);
}

static void clear(void)
{
	cache_clear(kit.cache);
}

static void all_may_go_between_two_slices(void **state)
{
	struct cache_entry *e;
	int n;

	(void)state;
	between = clear;
	n = cache_tree(kit.cache, &e, MANY);
	between = NULL;
	assert_true(n <= 64);
	check(e, n);
	free(e);
}

static const struct cache_entry *doomed;

/* After the first slice; the drop before it was for the counters. */
static void evict_the_doomed(void)
{
	if (drops == 2)
		assert_int_equal(cache_evict(kit.cache, &doomed->key), 0);
}

/* The last one copied and all above it are gone: the walk goes on behind them. */
static void a_walk_goes_on_behind_what_is_gone(void **state)
{
	struct cache_entry *e, *all;
	int n, n_all = cache_tree(kit.cache, &all, MANY), at = 64, top = 63;

	(void)state;
	assert_int_equal(n_all, MANY);
	while (all[at].depth > 1)
		at++;
	while (all[top].depth > 1)
		top--;
	doomed = &all[top];
	drops = 0;
	between = evict_the_doomed;
	n = cache_tree(kit.cache, &e, MANY);
	between = NULL;
	assert_int_equal(n, MANY - (at - 64)); /* those of the doomed that were still to come */
	assert_memory_equal(e[63].key.byte, all[63].key.byte, CACHE_KEY_BYTES);
	assert_memory_equal(e[64].key.byte, all[at].key.byte, CACHE_KEY_BYTES);
	free(e);
	free(all);
}

/* ---- names ---- */

static void a_name_of_any_length_finds_its_block(void **state)
{
	struct cache_entry *e;
	int n = cache_tree(kit.cache, &e, MANY);

	(void)state;
	for (int i = 0; i < n; i += 7)
		for (int len = 1; len <= 32; len++) {
			char hex[CACHE_KEY_HEX], other[CACHE_KEY_HEX];
			struct cache_key k;
			int want = 0;

			cache_key_hex(&e[i].key, hex);
			for (int j = 0; j < n; j++)
				want += strncmp(cache_key_hex(&e[j].key, other), hex, (size_t)len) == 0;
			hex[len] = '\0';
			assert_int_equal(cache_find(kit.cache, hex, &k), want);
			assert_memory_equal(cache_key_hex(&k, other), hex, (size_t)len);
		}
	free(e);
}

static void grow(void)
{
	cache_set_budget(kit.cache, (size_t)64 << 20); /* more buckets */
}

/* One digit's are a sixteenth of all; meanwhile there come to be more buckets. */
static void a_name_is_found_while_the_table_grows(void **state)
{
	struct cache_entry *e;
	int n = cache_tree(kit.cache, &e, MANY), want[16] = { 0 }, found = 0;

	(void)state;
	for (int i = 0; i < n; i++)
		want[e[i].key.byte[0] >> 4]++;
	cache_set_budget(kit.cache, (size_t)16 << 20);
	for (int i = 0; i < 16; i++) {
		const char digit[] = { "0123456789abcdef"[i], '\0' };
		struct cache_key k;

		drops = 0;
		between = grow;
		assert_int_equal(cache_find(kit.cache, digit, &k), want[i]);
		between = NULL;
		assert_true(drops > 1);
		found += want[i];
	}
	assert_int_equal(found, MANY);
	free(e);
}

static void what_is_no_name_is_told(void **state)
{
	static const char *const bad[] = { "", "g", "0x", "A", "-1", "123456789012345678901234567890123" };
	struct cache_key k;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(cache_find(kit.cache, bad[i], &k), RC_INVALID);
	cache_clear(kit.cache);
	assert_int_equal(cache_find(kit.cache, "0", &k), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_tree_is_copied_a_slice_at_a_time),
		TEST(blocks_that_go_between_two_slices_break_nothing),
		TEST(all_may_go_between_two_slices),
		TEST(a_walk_goes_on_behind_what_is_gone),
		TEST(a_name_of_any_length_finds_its_block),
		TEST(a_name_is_found_while_the_table_grows),
		TEST(what_is_no_name_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
