/* SPDX-License-Identifier: MIT
 * cache_keep.c - rows that are gone on from under other numbers: lent, told, never mixed into a tree, and given up.
 * Threads: main. Locks: none (the cache's, inside calls). */
#include "tests/unit/cachekit.h"

static struct cachekit kit;

/* One prompt; its rows tell which numbers computed them. */
static const struct kit_prompt before = { .numbers = 1, .n_block = 4, .extra = 20 };
static const struct kit_prompt after = { .numbers = 2, .n_block = 4, .extra = 20 };
static const struct kit_prompt third = { .numbers = 3, .n_block = 4, .extra = 20 };
static const struct kit_prompt longer = { .numbers = 2, .n_block = 6, .extra = 20 };
static const uint8_t from[32] = { 1 }, to[32] = { 2 };

static int setup(void **state)
{
	(void)state;
	cachekit_init(&kit, 100);
	kit_serve(&kit, &before, ~0u);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cachekit_fini(&kit);
	return 0;
}

static struct cache_stats stats(void)
{
	struct cache_stats s;

	cache_stats(kit.cache, &s);
	return s;
}

static void want(const struct kit_prompt *p, int reused, bool kept, enum cache_miss miss)
{
	struct kit_run r;

	kit_lookup(&kit, &r, p);
	assert_int_equal(r.find.reused, reused * SEQUENCE_BLOCK);
	assert_int_equal(r.find.kept, kept);
	assert_string_equal(cache_miss_name(r.find.miss), cache_miss_name(miss));
	kit_release(&kit, &r);
}

/* Under the new numbers, on the old ones' rows. */
static void resume_kept(struct kit_run *r, const struct kit_prompt *p)
{
	kit_lookup(&kit, r, p);
	assert_true(r->find.kept);
	r->prompt.numbers = from[0];
	kit_resume(&kit, r);
	assert_true(r->find.kept);
}

/* ---- what is lent ---- */

static void nothing_is_lent_that_was_not_asked_for(void **state)
{
	(void)state;
	assert_false(cache_keeps(kit.cache));
	want(&after, 0, false, CACHE_NUMBERS);
	cache_keep(kit.cache, from, to);
	assert_true(cache_keeps(kit.cache));
	want(&after, 4, true, CACHE_HIT);
	want(&before, 4, false, CACHE_HIT);
	want(&third, 0, false, CACHE_NUMBERS);
}

static void what_the_numbers_have_themselves_comes_first(void **state)
{
	(void)state;
	kit_serve(&kit, &after, ~0u);
	cache_keep(kit.cache, from, to);
	want(&after, 4, false, CACHE_HIT);
	want(&longer, 4, false, CACHE_ENDED);
}

/* ---- what is left behind ---- */

static void what_is_computed_behind_kept_rows_is_published_nowhere(void **state)
{
	int32_t *next;
	struct cache_stats s = stats(), now;
	struct sequence_state *st;
	struct kit_run r;
	bool last;

	(void)state;
	cache_keep(kit.cache, from, to);
	resume_kept(&r, &longer);
	next = r.token + (int64_t)4 * SEQUENCE_BLOCK;
	assert_false(cache_publish_room(kit.cache, r.path, next, 1, &last));
	assert_false(last);
	kit_compute(r.seq, &r.prompt, 5);
	assert_int_equal(sequence_save(r.seq, (int64_t)5 * SEQUENCE_BLOCK, &st), 0);
	cache_publish(kit.cache, r.path, next, r.seq, st);
	assert_int_equal(cache_path_blocks(r.path), 4);
	cache_publish_state(kit.cache, r.path, st);
	sequence_state_unref(&st);
	kit_release(&kit, &r);
	now = stats();
	assert_int_equal(now.kept, 1);
	assert_int_equal(now.blocks, s.blocks);
	assert_int_equal(now.states, s.states);
	assert_int_equal(now.published, s.published);
	want(&longer, 4, true, CACHE_ENDED);
}

/* What is served under the new numbers from its first token on is theirs, as ever. */
static void a_cold_prompt_is_published_while_others_are_kept(void **state)
{
	const struct kit_prompt cold = { .numbers = 2, .n_block = 3, .extra = 5, .choice = { 2, 2, 2, 2 } };

	(void)state;
	cache_keep(kit.cache, from, to);
	assert_int_equal(kit_serve(&kit, &cold, ~0u).reused, 0);
	want(&cold, 3, false, CACHE_HIT);
	cache_keep_end(kit.cache);
	want(&cold, 3, false, CACHE_HIT);
}

/* ---- the end ---- */

static void when_it_ends_each_has_its_own_again(void **state)
{
	struct kit_run running;

	(void)state;
	cache_keep(kit.cache, from, to);
	resume_kept(&running, &longer);
	cache_keep_end(kit.cache);
	assert_false(cache_keeps(kit.cache));
	want(&after, 0, false, CACHE_NUMBERS);
	want(&before, 4, false, CACHE_HIT);
	/* who has them still publishes nothing */
	kit_publish(&kit, &running, true);
	assert_int_equal(cache_path_blocks(running.path), 4);
	kit_release(&kit, &running);
	want(&longer, 0, false, CACHE_NUMBERS);
	kit_serve(&kit, &after, ~0u); /* which checks its rows */
	want(&after, 4, false, CACHE_HIT);
}

static void clearing_the_cache_ends_it(void **state)
{
	(void)state;
	cache_keep(kit.cache, from, to);
	cache_clear(kit.cache);
	assert_false(cache_keeps(kit.cache));
	kit_serve(&kit, &before, ~0u);
	want(&after, 0, false, CACHE_NUMBERS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_lent_that_was_not_asked_for),
		TEST(what_the_numbers_have_themselves_comes_first),
		TEST(what_is_computed_behind_kept_rows_is_published_nowhere),
		TEST(a_cold_prompt_is_published_while_others_are_kept),
		TEST(when_it_ends_each_has_its_own_again),
		TEST(clearing_the_cache_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
