/* SPDX-License-Identifier: MIT
 * cache.c - the prefix cache: what is found, why no more was, what stays within the budget, what is never lost.
 * Threads: main. Locks: none (the cache's, inside calls). */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/cachekit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct cachekit kit;

static const struct kit_prompt six = { .n_block = 6 };
/* The same for two blocks, then another. */
static const struct kit_prompt fork2 = { .n_block = 5, .choice = { 0, 0, 1, 0, 0 } };
static const struct kit_prompt other = { .n_block = 4, .choice = { 2, 2, 2, 2 } };

static int setup(void **state)
{
	(void)state;
	cachekit_init(&kit, 100);
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
	assert_int_equal(s.bytes, s.block_bytes + s.state_bytes);
	assert_int_equal(s.block_bytes, s.blocks * kit.node_bytes);
	assert_int_equal(s.state_bytes, s.states * kit.state_bytes);
	return s;
}

static struct kit_prompt cut(const struct kit_prompt *p, int n_block, int extra)
{
	struct kit_prompt q = *p;

	q.n_block = n_block;
	q.extra = extra;
	return q;
}

/* Looks up without publishing. */
static struct cache_find look(struct kit_prompt p)
{
	struct kit_run r;

	kit_lookup(&kit, &r, &p);
	kit_release(&kit, &r);
	return r.find;
}

static void want(struct cache_find f, int reused, int matched, enum cache_miss miss, int64_t diff)
{
	assert_string_equal(cache_miss_name(f.miss), cache_miss_name(miss));
	assert_int_equal(f.reused, reused * SEQUENCE_BLOCK);
	assert_int_equal(f.matched, matched * SEQUENCE_BLOCK);
	assert_int_equal(f.diff_token, diff);
}

/* The key of the prompt's block n, from 1. */
static struct cache_key key_of(const struct kit_prompt *p, int n)
{
	uint8_t numbers[32] = { p->numbers };
	int32_t token[KIT_TOKENS];
	struct cache_key k, next;

	kit_tokens(p, token);
	cache_key_root("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", numbers, &k);
	for (int i = 0; i < n; i++, k = next)
		cache_key_next(&k, token + i * SEQUENCE_BLOCK, &next);
	return k;
}

static int depth_of(const struct kit_prompt *p)
{
	return (int)(look(*p).matched / SEQUENCE_BLOCK);
}

/* ---- what is found, and why no more ---- */

static void test_second_time_is_a_hit(void **state)
{
	(void)state;
	want(kit_serve(&kit, &six, 1 << 4 | 1 << 5), 0, 0, CACHE_COLD, -1);
	want(kit_serve(&kit, &six, 0), 5, 6, CACHE_HIT, -1); /* the sixth has the token whose logits are wanted */
	want(look(cut(&six, 6, 1)), 6, 6, CACHE_HIT, -1);
	assert_int_equal(stats().hits, 2);
	assert_int_equal(stats().tokens_reused, 11 * SEQUENCE_BLOCK);
	assert_int_equal(stats().published, 6);
	assert_int_equal(stats().duplicates, 1);
}

static void test_lengths_around_a_block(void **state)
{
	static const struct { int n, reused, matched; enum cache_miss miss; } rows[] = {
		{ 1, 0, 0, CACHE_SHORT }, { 127, 0, 0, CACHE_SHORT }, { 128, 0, 1, CACHE_SHORT },
		{ 129, 1, 1, CACHE_HIT }, { 255, 1, 1, CACHE_HIT }, { 256, 1, 2, CACHE_HIT }, { 257, 2, 2, CACHE_HIT },
		{ 385, 3, 3, CACHE_HIT }, { 511, 3, 3, CACHE_HIT }, { 513, 4, 4, CACHE_HIT },
	};

	(void)state;
	kit_serve(&kit, &six, ~0u);
	for (size_t i = 0; i < mem_countof(rows); i++)
		want(look(cut(&six, rows[i].n / SEQUENCE_BLOCK, rows[i].n % SEQUENCE_BLOCK)), rows[i].reused,
			rows[i].matched, rows[i].miss, -1);
}

static void test_reasons(void **state)
{
	struct kit_prompt p = six;

	(void)state;
	kit_serve(&kit, &fork2, 1 << 1 | 1 << 4);
	want(look(cut(&six, 6, 0)), 2, 2, CACHE_DIFFERS, 2 * 128 + kit_common(0, 1));
	want(look(cut(&fork2, 4, 0)), 2, 4, CACHE_NO_STATE, -1);
	want(look(cut(&fork2, 5, 1)), 5, 5, CACHE_HIT, -1);
	p = cut(&fork2, 6, 0);
	p.choice[5] = 2;
	want(look(p), 5, 5, CACHE_HIT, -1);
	p.extra = 1;
	want(look(p), 5, 5, CACHE_ENDED, -1);
	want(look(other), 0, 0, CACHE_DIFFERS, kit_common(0, 2));
	p = fork2;
	p.numbers = 1;
	want(look(p), 0, 0, CACHE_NUMBERS, -1);
	kit_serve(&kit, &(struct kit_prompt){ .numbers = 1, .n_block = 1 }, 1);
	want(look(p), 1, 1, CACHE_NUMBERS, -1); /* there is more of it under the other */
	cache_clear(kit.cache);
	want(look(p), 0, 0, CACHE_COLD, -1);
	cache_set_budget(kit.cache, 0);
	want(look(p), 0, 0, CACHE_OFF, -1);
	for (int i = 0; i < CACHE_N_MISS; i++)
		if (i != CACHE_BROKEN && i != CACHE_REFUSED && i != CACHE_NO_MEMORY)
			assert_true(stats().miss[i] > 0);
}

/* Of the prompts that go on from the same block, the one that agrees for longest. */
static void test_nearest_prompt(void **state)
{
	struct kit_prompt p = six;

	(void)state;
	p.choice[1] = 1;
	kit_serve(&kit, &p, 1);
	p.choice[1] = 2;
	want(look(p), 1, 1, CACHE_DIFFERS, 128 + kit_common(1, 2));
	p.choice[1] = 0;
	kit_serve(&kit, &p, 0);
	p.choice[1] = 2;
	want(look(p), 1, 1, CACHE_DIFFERS, 128 + kit_common(1, 2)); /* not the 0, which is newer */
	p = cut(&p, 1, kit_common(1, 2));
	want(look(p), 1, 1, CACHE_HIT, -1);
}

/* A state saved later, where blocks were found without one, hangs on the block that is there. */
static void test_state_for_blocks_that_are_there(void **state)
{
	(void)state;
	kit_serve(&kit, &six, 1);
	want(look(cut(&six, 6, 1)), 1, 6, CACHE_NO_STATE, -1);
	want(kit_serve(&kit, &six, 1 << 5), 1, 6, CACHE_NO_STATE, -1);
	want(look(cut(&six, 6, 1)), 6, 6, CACHE_HIT, -1);
	assert_int_equal(stats().blocks, 6);
	assert_int_equal(stats().states, 2);
	assert_int_equal(stats().duplicates, 5);
}

static void test_released_before_it_was_published(void **state)
{
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &fork2, 2);
	kit_lookup(&kit, &r, &six);
	kit_release(&kit, &r); /* waiting */
	kit_lookup(&kit, &r, &six);
	kit_resume(&kit, &r);
	kit_release(&kit, &r); /* just begun */
	assert_int_equal(stats().blocks, 5);
	assert_int_equal(stats().pinned, 0);
	want(look(six), 2, 2, CACHE_DIFFERS, 2 * 128 + kit_common(0, 1));
}

static void test_two_at_once(void **state)
{
	struct kit_run a, b;

	(void)state;
	kit_lookup(&kit, &a, &six);
	kit_lookup(&kit, &b, &six);
	for (int i = 0; i < six.n_block; i++) {
		kit_publish(&kit, &a, true);
		kit_publish(&kit, &b, true);
	}
	assert_int_equal(stats().blocks, 6);
	assert_int_equal(stats().states, 6);
	assert_int_equal(stats().pinned, 6);
	kit_release(&kit, &a);
	assert_int_equal(stats().pinned, 6);
	kit_release(&kit, &b);
	want(look(six), 5, 6, CACHE_HIT, -1);
}

/* ---- the budget ---- */

/* Publishes the path's next block as a request does: with the state where it is the last for which there is room. */
static bool grow(struct kit_run *r, int n)
{
	for (bool last; n > 0; n--) {
		if (!cache_publish_room(kit.cache, r->path, r->token + cache_path_blocks(r->path) * SEQUENCE_BLOCK, 1,
					&last))
			return false;
		kit_publish(&kit, r, last);
	}
	return true;
}

static void test_what_does_not_fit_is_not_kept(void **state)
{
	struct kit_run r;

	(void)state;
	cache_set_budget(kit.cache, cachekit_room(&kit, 3, 1));
	kit_lookup(&kit, &r, &six);
	assert_false(grow(&r, 6));
	assert_int_equal(cache_path_blocks(r.path), 3);
	assert_int_equal(stats().bytes, cachekit_room(&kit, 3, 1));
	kit_publish(&kit, &r, false);
	assert_int_equal(cache_path_blocks(r.path), 3);
	assert_int_equal(stats().refused, 1);
	kit_release(&kit, &r);
	want(look(six), 3, 3, CACHE_ENDED, -1);
}

/* Others may have ended meanwhile. */
static void test_a_block_refused_once_is_published_later(void **state)
{
	struct kit_run r;

	(void)state;
	cache_set_budget(kit.cache, cachekit_room(&kit, 3, 1));
	kit_lookup(&kit, &r, &six);
	assert_false(grow(&r, 6));
	kit_compute(r.seq, &six, 6);
	cache_set_budget(kit.cache, cachekit_room(&kit, 50, 50));
	assert_true(grow(&r, 3));
	assert_int_equal(stats().blocks, 6);
	kit_release(&kit, &r);
	want(look(six), 3, 6, CACHE_NO_STATE, -1); /* the states at edges long past could not be saved any more */
}

/* Twice the budget, and more than one of them: of each something can be gone on from. */
static void test_a_prompt_larger_than_the_budget_is_reused(void **state)
{
	struct kit_run a, b;
	bool more_a = true, more_b = true;

	(void)state;
	for (int room = 3; room <= 5; room++) {
		cache_clear(kit.cache);
		cache_set_budget(kit.cache, cachekit_room(&kit, room, 2));
		kit_lookup(&kit, &a, &six);
		kit_lookup(&kit, &b, &other);
		more_a = more_b = true;
		for (int i = 0; i < 4; i++) {
			more_a = more_a && grow(&a, 1);
			more_b = more_b && grow(&b, 1);
		}
		assert_true(stats().bytes <= cachekit_room(&kit, room, 2));
		kit_release(&kit, &a);
		kit_release(&kit, &b);
		kit_lookup(&kit, &a, &six); /* both at once again */
		kit_lookup(&kit, &b, &other);
		assert_true(a.find.reused >= SEQUENCE_BLOCK && b.find.reused >= SEQUENCE_BLOCK);
		assert_int_equal(a.find.reused + b.find.reused, room * SEQUENCE_BLOCK);
		kit_resume(&kit, &a);
		kit_resume(&kit, &b);
		kit_release(&kit, &a);
		kit_release(&kit, &b);
	}
}

/* Blocks without a state that fill all of the budget: whoever finds them holds no more than leaves room for one. */
static void test_found_blocks_leave_room_for_a_state(void **state)
{
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &six, 0);
	cache_set_budget(kit.cache, cachekit_room(&kit, 6, 0));
	assert_int_equal(stats().blocks, 6);
	kit_lookup(&kit, &r, &six);
	want(r.find, 0, 6, CACHE_NO_STATE, -1);
	assert_true(cachekit_room(&kit, (int)stats().pinned, 1) <= cachekit_room(&kit, 6, 0));
	kit_resume(&kit, &r);
	assert_false(grow(&r, 6));
	assert_true(cache_path_blocks(r.path) > 0);
	kit_release(&kit, &r);
	assert_true(look(six).reused > 0);
}

/* What was published while it waited. */
static void test_looked_at_again_more_is_found(void **state)
{
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &six, 1);
	kit_lookup(&kit, &r, &six);
	want(r.find, 1, 6, CACHE_NO_STATE, -1);
	kit_serve(&kit, &six, 1 << 3);
	cache_look_again(kit.cache, r.path, r.token, r.n, &r.find);
	want(r.find, 4, 6, CACHE_NO_STATE, -1);
	kit_resume(&kit, &r);
	kit_release(&kit, &r);
	assert_int_equal(stats().lookups, 3); /* counted once, as it ended */
	assert_int_equal(stats().tokens_reused, (1 + 4) * SEQUENCE_BLOCK);
	assert_int_equal(stats().hits, 2);
}

/* ---- what something failed on ---- */

static void test_what_was_distrusted_is_found_no_more(void **state)
{
	struct kit_run r, beside, waits;
	struct cache_stats s;

	(void)state;
	kit_serve(&kit, &six, 1 << 1 | 1 << 3 | 1 << 5);
	kit_lookup(&kit, &r, &six);
	kit_lookup(&kit, &beside, &six);
	kit_lookup(&kit, &waits, &six);
	want(waits.find, 4, 6, CACHE_NO_STATE, -1);
	kit_resume(&kit, &r);
	kit_resume(&kit, &beside);
	cache_distrust(kit.cache, r.path);
	kit_release(&kit, &r);
	want(look(six), 2, 3, CACHE_NO_STATE, -1); /* at once, though others have it */
	cache_look_again(kit.cache, waits.path, waits.token, waits.n, &waits.find);
	assert_int_equal(waits.find.reused, 2 * SEQUENCE_BLOCK);
	kit_resume(&kit, &waits);
	kit_publish(&kit, &waits, true); /* the third */
	kit_publish(&kit, &waits, true); /* the fourth is replaced, though someone has the one in doubt */
	assert_int_equal(cache_path_blocks(waits.path), 4);
	kit_release(&kit, &beside);
	s = stats();
	assert_int_equal(s.blocks, 4);
	assert_int_equal(s.distrusted, 1);
	kit_release(&kit, &waits);
	want(look(six), 4, 4, CACHE_ENDED, -1);
}

static void test_a_state_that_is_no_numbers_is_not_resumed_from(void **state)
{
	struct sequence_state *st;
	struct kit_run r;

	(void)state;
	kit_lookup(&kit, &r, &six);
	kit_compute(r.seq, &six, 2);
	sequence_tail(r.seq, 1, SEQUENCE_WINDOW, 2 * SEQUENCE_BLOCK - 3)[5] = NAN;
	assert_int_equal(sequence_save(r.seq, 2 * SEQUENCE_BLOCK, &st), 0);
	kit_publish(&kit, &r, false);
	cache_publish(kit.cache, r.path, r.token + SEQUENCE_BLOCK, r.seq, st);
	sequence_state_unref(&st);
	kit_release(&kit, &r);
	kit_lookup(&kit, &r, &six);
	assert_int_equal(r.find.reused, 2 * SEQUENCE_BLOCK);
	assert_int_equal(cache_resume(kit.cache, r.path, r.seq, &r.find), RC_INVALID);
	want(r.find, 0, 2, CACHE_BROKEN, -1);
	assert_int_equal(sequence_pos(r.seq), 0);
	kit_publish(&kit, &r, true);
	kit_release(&kit, &r);
	want(look(six), 1, 1, CACHE_ENDED, -1);
}

/* ---- who goes first ---- */

static void test_longest_unused_goes_first(void **state)
{
	static const struct kit_prompt third = { .n_block = 3, .choice = { 1, 1, 1 } };

	(void)state;
	cache_set_budget(kit.cache, cachekit_room(&kit, 10, 2));
	kit_serve(&kit, &six, 1 << 5);
	kit_serve(&kit, &other, 1 << 3);
	look(cut(&six, 6, 1));
	kit_serve(&kit, &third, 0);
	assert_int_equal(depth_of(&six), 6);
	assert_int_equal(depth_of(&third), 3);
	assert_true(depth_of(&other) < 4);
	want(look(cut(&six, 6, 1)), 6, 6, CACHE_HIT, -1);
	assert_true(stats().bytes <= cachekit_room(&kit, 10, 2));
}

/* Of what was last used together the state goes first, then the blocks from the end. */
static void test_state_goes_before_its_block(void **state)
{
	(void)state;
	kit_serve(&kit, &six, 1 << 5);
	cache_set_budget(kit.cache, cachekit_room(&kit, 6, 1) - 1);
	assert_int_equal(stats().states, 0);
	assert_int_equal(stats().blocks, 6);
	cache_set_budget(kit.cache, cachekit_room(&kit, 4, 0));
	assert_int_equal(depth_of(&six), 4);
	assert_int_equal(stats().evicted_states, 1);
	assert_int_equal(stats().evicted_blocks, 2);
}

/* New conversations take the place of old ones, not of the states of all others: a full cache still hits. */
static void test_a_full_cache_still_hits(void **state)
{
	struct kit_prompt p = { .n_block = 4 };
	int hits = 0;

	(void)state;
	cache_set_budget(kit.cache, cachekit_room(&kit, 12, 3));
	for (int i = 0; i < 27; i++) {
		for (int j = 0; j < 4; j++)
			p.choice[j] = (uint8_t)(i / (j == 0 ? 1 : j == 1 ? 3 : 9) % 3);
		kit_serve(&kit, &p, 1 << 3);
		hits += look(cut(&p, 4, 1)).miss == CACHE_HIT;
		assert_true(stats().bytes <= cachekit_room(&kit, 12, 3));
	}
	assert_int_equal(hits, 27);
	assert_int_equal(stats().states, 3);
}

static void test_what_is_in_use_stays(void **state)
{
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &six, ~0u);
	kit_lookup(&kit, &r, &six);
	cache_set_budget(kit.cache, 1);
	assert_int_equal(stats().blocks, 6);
	assert_int_equal(stats().states, 1); /* the one it will resume from */
	assert_int_equal(cache_clear(kit.cache), 0);
	kit_serve(&kit, &other, ~0u);
	kit_resume(&kit, &r);
	assert_int_equal(cache_clear(kit.cache), 0);
	assert_int_equal(stats().states, 1); /* the latest of its path */
	kit_release(&kit, &r); /* the budget, lowered meanwhile, holds again */
	assert_int_equal(stats().bytes, 0);
}

/* ---- looking in, cleaning up ---- */

static void test_evict(void **state)
{
	struct cache_key third = key_of(&six, 3), none = key_of(&other, 1), fork = key_of(&fork2, 3);
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &six, ~0u);
	kit_serve(&kit, &fork2, ~0u);
	assert_int_equal(cache_evict(kit.cache, &none), RC_NOT_FOUND);
	kit_lookup(&kit, &r, &six);
	assert_int_equal(cache_evict(kit.cache, &third), RC_BUSY);
	assert_int_equal(cache_evict(kit.cache, &fork), 0);
	kit_release(&kit, &r);
	assert_int_equal(stats().blocks, 6);
	assert_int_equal(cache_evict(kit.cache, &third), 0);
	assert_int_equal(stats().blocks, 2);
	want(look(six), 2, 2, CACHE_ENDED, -1);
	third = key_of(&six, 1);
	assert_int_equal(cache_evict(kit.cache, &third), 0); /* its root goes with it */
	want(look(six), 0, 0, CACHE_COLD, -1);
}

static void test_clear_leaves_nothing(void **state)
{
	(void)state;
	kit_serve(&kit, &six, ~0u);
	kit_serve(&kit, &other, 1);
	assert_int_equal(cache_clear(kit.cache), 10);
	assert_int_equal(stats().bytes, 0);
	assert_int_equal(stats().evicted_blocks, 0);
}

static void test_tree(void **state)
{
	struct cache_entry *e;
	struct kit_run r;

	(void)state;
	kit_serve(&kit, &fork2, 1 << 4);
	kit_serve(&kit, &(struct kit_prompt){ .n_block = 3 }, 0);
	kit_lookup(&kit, &r, &fork2);
	assert_int_equal(cache_tree(kit.cache, &e, 100), 6);
	for (int i = 0, at = 0; i < 6; i++) {
		struct cache_key k = e[i].depth == 3 &&
			e[i].children == 0 ? key_of(&six, 3) : key_of(&fork2, e[i].depth);

		assert_true(cache_key_equal(&e[i].key, &k));
		if (i > 0 && e[i].depth > 1) { /* the parent is the last before it that is one less deep */
			for (at = i - 1; e[at].depth != e[i].depth - 1; at--)
				;
			assert_true(cache_key_equal(&e[i].parent, &e[at].key));
		}
		assert_int_equal(e[i].has_state, e[i].depth == 5);
		assert_int_equal(e[i].pins > 0, e[i].depth != 3 || e[i].children > 0);
		assert_int_equal(e[i].children, e[i].depth == 2 ? 2 : e[i].depth == 5 ? 0 : e[i].children);
		assert_int_equal(e[i].token[127], 100 + (e[i].depth == 3 && e[i].children > 0));
		assert_true(e[i].age >= 0 && e[i].age < 3600);
	}
	free(e);
	assert_int_equal(cache_tree(kit.cache, &e, 2), 2);
	free(e);
	kit_release(&kit, &r);
}

static void test_get(void **state)
{
	struct cache_key k = key_of(&fork2, 4), none = key_of(&other, 1);
	int32_t token[KIT_TOKENS];
	struct cache_copy copy;
	struct sequence *s;

	(void)state;
	kit_serve(&kit, &fork2, 1 << 3);
	assert_int_equal(cache_get(kit.cache, &none, &copy), RC_NOT_FOUND);
	assert_int_equal(cache_get(kit.cache, &k, &copy), 0);
	cache_clear(kit.cache); /* what was got stays */
	kit_tokens(&fork2, token);
	assert_int_equal(copy.n_token, 4 * SEQUENCE_BLOCK);
	assert_memory_equal(copy.token, token, 4 * SEQUENCE_BLOCK * sizeof *token);
	assert_int_equal(copy.n_block, 4);
	assert_int_equal(copy.entry.depth, 4);
	assert_true(cache_key_equal(&copy.entry.key, &k));
	assert_int_equal(sequence_new(&kit.layout, &s), 0);
	assert_int_equal(sequence_resume(s, copy.block, copy.state), 0);
	kit_check(&kit, s, &fork2);
	sequence_free(&s);
	cache_copy_fini(&copy);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_second_time_is_a_hit),
		TEST(test_lengths_around_a_block),
		TEST(test_reasons),
		TEST(test_nearest_prompt),
		TEST(test_state_for_blocks_that_are_there),
		TEST(test_released_before_it_was_published),
		TEST(test_two_at_once),
		TEST(test_what_does_not_fit_is_not_kept),
		TEST(test_a_block_refused_once_is_published_later),
		TEST(test_a_prompt_larger_than_the_budget_is_reused),
		TEST(test_found_blocks_leave_room_for_a_state),
		TEST(test_looked_at_again_more_is_found),
		TEST(test_what_was_distrusted_is_found_no_more),
		TEST(test_a_state_that_is_no_numbers_is_not_resumed_from),
		TEST(test_longest_unused_goes_first),
		TEST(test_state_goes_before_its_block),
		TEST(test_a_full_cache_still_hits),
		TEST(test_what_is_in_use_stays),
		TEST(test_evict),
		TEST(test_clear_leaves_nothing),
		TEST(test_tree),
		TEST(test_get),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
