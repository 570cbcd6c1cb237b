/* SPDX-License-Identifier: MIT
 * cache_restart.c - the tiny model goes on from what it finds on disk, and its logits are the bits of a cold run.
 * Threads: main, the pool's and the disk's. Locks: none. */
#include "engine/cache/cache.h"
#include "engine/cache/cache_numbers.h"
#include "tests/unit/diskkit.h"
#include "tests/unit/tinykit.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK 520

/* Around every edge of a block, and of the groups of 128. */
static const int lengths[] = { 129, 130, 255, 256, 257, 383, 384, 385, 511, 512, 513, N_TOK };

struct fixture {
	struct tinykit tiny;
	struct diskkit disk;
	struct cache *cache;
	int32_t token[N_TOK];
	float *cold[2];       /* native, exact: [N_TOK][vocab] */
};

static const struct numerics *profile(struct fixture *f, int p)
{
	return p ? &f->tiny.exact : &f->tiny.native;
}

static int setup(void **state)
{
	static struct fixture f;

	tinykit_init(&f.tiny, 2);
	diskkit_init(&f.disk);
	f.disk.layout = f.tiny.model->layout;
	f.disk.options.bytes = (size_t)1 << 30;
	tinykit_tokens(&f.tiny, 3, f.token, N_TOK);
	for (int p = 0; p < 2; p++)
		f.cold[p] = tinykit_prefill(&f.tiny, f.tiny.ref, profile(&f, p), f.token, N_TOK);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int p = 0; p < 2; p++)
		free(f->cold[p]);
	diskkit_fini(&f->disk);
	tinykit_fini(&f->tiny);
	return 0;
}

/* A process that begins with nothing but the directory. */
static void start(struct fixture *f)
{
	struct cache_options o = { .layout = &f->tiny.model->layout, .model_id = DISKKIT_MODEL,
				   .bytes = (size_t)1 << 30 };

	diskkit_open(&f->disk);
	o.disk = f->disk.d;
	f->cache = cache_new(&o);
}

static void stop(struct fixture *f)
{
	cache_free(&f->cache);
	diskkit_close(&f->disk);
}

/* Up to the next edge or the end, at which a state is saved; the logits are those of the cold run. */
static void step(struct fixture *f, int p, struct cache_path *path, struct sequence *s, int n)
{
	int64_t pos = sequence_pos(s), edge = (pos / SEQUENCE_BLOCK + 1) * SEQUENCE_BLOCK;
	int take = (int)((edge < n ? edge : n) - pos), vocab = f->tiny.vocab;
	float *logits = malloc((size_t)take * (size_t)vocab * sizeof *logits);
	struct sequence_state *st = NULL;

	assert_non_null(logits);
	assert_int_equal(tinykit_step(&f->tiny, f->tiny.ref, profile(f, p), s, f->token + pos, take, take, logits), 0);
	assert_memory_equal(logits, f->cold[p] + pos * vocab, sizeof *logits * (size_t)take * (size_t)vocab);
	free(logits);
	if (sequence_pos(s) != edge)
		return;
	assert_int_equal(sequence_save(s, edge, &st), 0);
	cache_publish(f->cache, path, f->token + pos, s, st);
	sequence_state_unref(&st);
}

/* Serves the first n tokens; returns how many of them were reused. */
static int64_t serve(struct fixture *f, int p, int n)
{
	struct sequence *s = tinykit_sequence(&f->tiny);
	struct cache_path *path;
	struct cache_find find;
	uint8_t numbers[32];

	cache_numbers(f->tiny.ref, profile(f, p), numbers);
	cache_lookup(f->cache, numbers, f->token, n, &path, &find);
	while (!cache_ready(f->cache, path, &find))
		sched_yield();
	assert_int_equal(cache_resume(f->cache, path, s, &find), 0);
	assert_int_equal(sequence_pos(s), find.reused);
	while (sequence_pos(s) < n)
		step(f, p, path, s, n);
	cache_release(f->cache, &path);
	sequence_free(&s);
	return find.reused;
}

static void restarted_at_any_length_the_bits_are_the_same(void **state)
{
	struct fixture *f = *state;

	for (int p = 0; p < 2; p++)
		for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
			int before = i ? (lengths[i - 1]) / SEQUENCE_BLOCK * SEQUENCE_BLOCK : 0;
			int most = (lengths[i] - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK;

			start(f);
			assert_int_equal(serve(f, p, lengths[i]), before < most ? before : most);
			stop(f);
		}
}

/* Written by one process, read by two after it. */
static void a_conversation_goes_on_after_two_restarts(void **state)
{
	struct fixture *f = *state;
	struct cache_disk_stats s;

	for (int again = 0; again < 2; again++) {
		start(f);
		for (int p = 0; p < 2; p++)
			assert_int_equal(serve(f, p, N_TOK), 4 * SEQUENCE_BLOCK);
		s = diskkit_stats(&f->disk);
		assert_int_equal(s.read, 2 * (4 + 1));
		assert_int_equal(s.written, 0);
		assert_int_equal(s.bad + s.errors, 0);
		stop(f);
	}
}

/* Numbers that are rounded take less room than they have. */
static void what_is_written_is_smaller_than_what_was_computed(void **state)
{
	struct fixture *f = *state;
	struct cache_disk_stats s;

	start(f);
	cache_clear(f->cache);
	for (int p = 0; p < 2; p++) {
		serve(f, p, N_TOK);
		diskkit_drain(&f->disk);
		s = diskkit_stats(&f->disk);
		print_message("%s: %llu bytes written of %llu computed\n", p ? "and exact" : "native",
			(unsigned long long)s.written_bytes, (unsigned long long)s.raw_bytes);
		assert_true(s.written_bytes < s.raw_bytes);
	}
	assert_int_equal(s.written, 2 * 2 * 4);
	stop(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restarted_at_any_length_the_bits_are_the_same),
		cmocka_unit_test(a_conversation_goes_on_after_two_restarts),
		cmocka_unit_test(what_is_written_is_smaller_than_what_was_computed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
