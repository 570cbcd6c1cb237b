/* SPDX-License-Identifier: MIT
 * cache_doubt.c - the prefix cache after something failed on what it has: others compute it again at once, whoever
 * still holds it, and what was in doubt comes back in no way.
 * Threads: the test's. Locks: none. */
#include "tests/unit/cachekit.h"

static struct cachekit kit;
static const struct kit_prompt four = { .n_block = 4, .extra = 9 };

static int setup(void **state)
{
	(void)state;
	kit = (struct cachekit){ .disk = NULL };
	cachekit_init(&kit, 20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cachekit_fini(&kit);
	return 0;
}

static int blocks(void)
{
	struct cache_stats s;

	cache_stats(kit.cache, &s);
	return (int)s.blocks;
}

/* Looked up and resumed from the state at the end of so many blocks. */
static void resumed(struct kit_run *r, int n)
{
	kit_lookup(&kit, r, &four);
	assert_int_equal(r->find.reused, n * SEQUENCE_BLOCK);
	kit_resume(&kit, r);
}

static void while_a_doubted_block_is_held_others_compute_it_again(void **state)
{
	struct kit_run failed, holds;

	(void)state;
	kit_serve(&kit, &four, 1 << 1);
	resumed(&failed, 2);
	resumed(&holds, 2);
	cache_distrust(kit.cache, failed.path);
	kit_release(&kit, &failed);
	assert_int_equal(kit_serve(&kit, &four, 1 << 1 | 1 << 3).reused, 0); /* no state before */
	assert_int_equal(kit_serve(&kit, &four, 0).reused, 4 * SEQUENCE_BLOCK);
	kit_publish(&kit, &holds, true); /* nothing comes of that */
	assert_int_equal(cache_path_blocks(holds.path), 2);
	assert_int_equal(blocks(), 4 + 1); /* one is doubted, those below it were held by nobody */
	kit_release(&kit, &holds);
	assert_int_equal(blocks(), 4);
	assert_int_equal(kit_serve(&kit, &four, 0).reused, 4 * SEQUENCE_BLOCK);
}

/* One below the other, let go of in either order. */
static void doubt_within_doubt_leaves_nothing_behind(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		struct kit_prompt two = { .n_block = 2, .extra = 9 };
		struct kit_run deep, high;

		cache_clear(kit.cache);
		kit_serve(&kit, &four, 1 << 1 | 1 << 3);
		resumed(&deep, 4);
		kit_lookup(&kit, &high, &two);
		kit_resume(&kit, &high);
		cache_distrust(kit.cache, deep.path);
		cache_distrust(kit.cache, high.path);
		assert_int_equal(kit_serve(&kit, &four, 1 << 3).reused, 0);
		kit_release(&kit, order ? &deep : &high);
		assert_int_equal(kit_serve(&kit, &four, 0).reused, 4 * SEQUENCE_BLOCK);
		kit_release(&kit, order ? &high : &deep);
		assert_int_equal(blocks(), 4);
	}
}

/* It found blocks beyond its state that are doubted before it comes to them: it publishes its own. */
static void who_comes_to_doubted_blocks_publishes_its_own(void **state)
{
	struct kit_run r, failed;

	(void)state;
	kit_serve(&kit, &four, 1 << 1);
	kit_lookup(&kit, &r, &four);
	kit_resume(&kit, &r);
	kit_publish(&kit, &r, true);
	resumed(&failed, 3);
	cache_distrust(kit.cache, failed.path);
	kit_release(&kit, &failed);
	kit_release(&kit, &r);
	kit_lookup(&kit, &r, &four);
	assert_int_equal(r.find.reused, 2 * SEQUENCE_BLOCK);
	kit_resume(&kit, &r);
	kit_publish(&kit, &r, false);
	kit_publish(&kit, &r, true);
	assert_int_equal(cache_path_blocks(r.path), 4);
	kit_release(&kit, &r);
	assert_int_equal(kit_serve(&kit, &four, 0).reused, 4 * SEQUENCE_BLOCK);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(while_a_doubted_block_is_held_others_compute_it_again),
		T(doubt_within_doubt_leaves_nothing_behind),
		T(who_comes_to_doubted_blocks_publishes_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
