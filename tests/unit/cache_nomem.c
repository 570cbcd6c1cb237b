/* SPDX-License-Identifier: MIT
 * cache_nomem.c - memory is short while a state is saved, a prompt looked up or a sequence
 * resumed: nothing is half done.
 * Threads: main. Locks: none (the cache's, inside calls). */
#include "engine/base/mem.h"
#include "tests/unit/cachekit.h"

#include <errno.h>
#include <stdlib.h>

/* The linker puts this in the place of mem_try(). */
void *__real_mem_try(size_t n, size_t size);
void *__wrap_mem_try(size_t n, size_t size);
static int tries_left = -1; /* until one fails; < 0: none does */

void *__wrap_mem_try(size_t n, size_t size)
{
	if (tries_left == 0)
		return NULL;
	tries_left -= tries_left > 0;
	return __real_mem_try(n, size);
}

static const struct kit_prompt six = { .n_block = 6, .extra = 1 };

/* The path goes on from the start, as if nothing had been found. */
static void check_empty(struct cachekit *k, struct kit_run *r)
{
	assert_int_equal(sequence_pos(r->seq), 0);
	assert_int_equal(cache_path_blocks(r->path), 0);
	for (int i = 0; i < six.n_block; i++)
		kit_publish(k, r, i == 5);
	assert_int_equal(cache_path_blocks(r->path), six.n_block);
}

static void test_resume(void **state)
{
	struct cachekit k = { 0 };
	struct cache_stats s;
	int failed = 0, rc = -1;

	(void)state;
	cachekit_init(&k, 10);
	kit_serve(&k, &six, 1 << 5);
	for (int n = 0; rc; n++) {
		struct kit_run r;

		kit_lookup(&k, &r, &six);
		assert_int_equal(r.find.reused, 6 * SEQUENCE_BLOCK);
		tries_left = n;
		rc = cache_resume(k.cache, r.path, r.seq, &r.find);
		tries_left = -1;
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(r.find.reused, 0);
			assert_string_equal(cache_miss_name(r.find.miss), "no-memory");
			check_empty(&k, &r);
			failed++;
		} else {
			kit_check(&k, r.seq, &six);
		}
		kit_release(&k, &r);
	}
	assert_true(failed > 3); /* the list of blocks, some tails, their pointers */
	cache_stats(k.cache, &s);
	assert_int_equal(s.hits, 1);
	assert_int_equal(s.miss[CACHE_HIT], 1);
	assert_int_equal(s.miss[CACHE_NO_MEMORY], failed);
	assert_int_equal(s.tokens_reused, 6 * SEQUENCE_BLOCK);
	assert_int_equal(s.blocks, 6);
	assert_int_equal(s.states, 1);
	cachekit_fini(&k);
}

static void test_resume_leaves_the_sequence_as_new(void **state)
{
	struct cachekit k = { 0 };
	struct sequence_block *block[2];
	struct sequence_state *st = NULL;
	struct sequence *s;
	size_t empty;
	int rc = -1;

	(void)state;
	cachekit_init(&k, 1);
	assert_int_equal(sequence_new(&k.layout, &s), 0);
	kit_compute(s, &six, 2);
	for (int i = 0; i < 2; i++)
		block[i] = sequence_share(s, i);
	tries_left = 0;
	assert_int_equal(sequence_save(s, 2 * SEQUENCE_BLOCK, &st), -ENOMEM);
	tries_left = -1;
	assert_null(st);
	assert_int_equal(sequence_save(s, 2 * SEQUENCE_BLOCK, &st), 0);
	sequence_free(&s);
	assert_int_equal(sequence_new(&k.layout, &s), 0);
	empty = sequence_bytes(s);
	for (int n = 0; rc; n++) {
		tries_left = n;
		rc = sequence_resume(s, block, st);
		tries_left = -1;
		assert_true(rc == 0 || sequence_pos(s) == 0);
		/* the pointers, once made, may stay */
		assert_true(rc == 0 || sequence_bytes(s) <= empty + 64 * sizeof(void *) * (1 + 2 * 3));
	}
	kit_check(&k, s, &six);
	sequence_free(&s);
	for (int i = 0; i < 2; i++)
		sequence_block_unref(&block[i]);
	sequence_state_unref(&st);
	cachekit_fini(&k);
}

static void test_looking(void **state)
{
	struct cachekit k = { 0 };
	struct cache_entry *e;
	struct cache_copy copy;

	(void)state;
	cachekit_init(&k, 10);
	kit_serve(&k, &six, 1 << 5);
	tries_left = 0;
	assert_int_equal(cache_tree(k.cache, &e, 10), -ENOMEM);
	tries_left = -1;
	assert_int_equal(cache_tree(k.cache, &e, 10), 6);
	for (int n = 0; n < 2; n++) {
		tries_left = n;
		assert_int_equal(cache_get(k.cache, &e[3].key, &copy), -ENOMEM);
		tries_left = -1;
	}
	free(e);
	cachekit_fini(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_resume_leaves_the_sequence_as_new),
		cmocka_unit_test(test_looking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
