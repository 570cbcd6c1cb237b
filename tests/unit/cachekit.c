/* SPDX-License-Identifier: MIT
 * cachekit.c - prompts that branch, and sequences whose memory tells which tokens it is of, for tests of the cache.
 * Threads: the test's. Locks: none. */
#include "tests/unit/cachekit.h"

#include <sched.h>
#include <string.h>

#define KIT_WINDOW 10

const char kit_model[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const int kit_cut[KIT_CHOICES] = { 5, 40, 100 };

void cachekit_init(struct cachekit *k, int n_block)
{
	static const struct model_config config = {
		.n_layers = 3, .head_dim = 6, .index_dim = 3, .window = KIT_WINDOW, .compress_ratio = { 0, 4, 128 },
	};
	struct cache_options o = { .layout = &k->layout, .model_id = kit_model, .bytes = 1 << 20 };
	struct cache_stats s;

	sequence_layout_init(&k->layout, &config);
	k->cache = cache_new(&o);
	kit_serve(k, &(struct kit_prompt){ .n_block = 1 }, 0);
	cache_stats(k->cache, &s);
	k->node_bytes = s.bytes;
	k->state_bytes = sequence_state_bytes(&k->layout, SEQUENCE_BLOCK);
	cache_free(&k->cache);
	o.bytes = cachekit_room(k, n_block, n_block);
	o.disk = k->disk;
	k->cache = cache_new(&o);
}

void cachekit_fini(struct cachekit *k)
{
	struct cache_stats s;

	cache_stats(k->cache, &s);
	assert_int_equal(s.pinned, 0);
	cache_free(&k->cache);
	assert_null(k->cache);
}

size_t cachekit_room(const struct cachekit *k, int n_block, int n_state)
{
	return (size_t)n_block * k->node_bytes + (size_t)n_state * k->state_bytes;
}

int kit_common(int choice_a, int choice_b)
{
	return kit_cut[choice_a] < kit_cut[choice_b] ? kit_cut[choice_a] : kit_cut[choice_b];
}

int64_t kit_tokens(const struct kit_prompt *p, int32_t token[KIT_TOKENS])
{
	int n = p->n_block * SEQUENCE_BLOCK + p->extra;

	for (int i = 0; i < n; i++) {
		int choice = p->choice[i / SEQUENCE_BLOCK];

		token[i] = i % SEQUENCE_BLOCK < kit_cut[choice] ? 7 : 100 + choice;
	}
	return n;
}

/* ---- memory that tells its tokens ---- */

/* Of blocks [0, n] of the prompt; whole and small enough for a float. */
static float kit_value(const struct kit_prompt *p, int64_t n)
{
	uint32_t x = 17u + p->numbers;

	for (int64_t i = 0; i <= n; i++)
		x = (x * 31 + p->choice[i] + 1) % 1000003;
	return (float)x;
}

void kit_compute(struct sequence *s, const struct kit_prompt *p, int n)
{
	while (sequence_pos(s) < (int64_t)n * SEQUENCE_BLOCK) {
		int64_t pos = sequence_pos(s), at = pos / SEQUENCE_BLOCK;
		float v = kit_value(p, at);

		assert_int_equal(sequence_reserve(s, SEQUENCE_BLOCK, queue_new(device_cpu(), NULL)), 0);
		for (int i = 0; i < SEQUENCE_BLOCK; i++)
			for (int layer = 0; layer < 3; layer++)
				sequence_tail(s, layer, SEQUENCE_WINDOW, pos + i)[0] = v;
		for (int i = 0; i < SEQUENCE_BLOCK / 4; i++)
			sequence_row(s, 1, SEQUENCE_ROWS_KEY, pos / 4 + i)[0] = v;
		sequence_row(s, 2, SEQUENCE_ROWS_KV, at)[0] = v;
		sequence_commit(s, SEQUENCE_BLOCK);
	}
}

void kit_check(const struct cachekit *k, struct sequence *s, const struct kit_prompt *p)
{
	int64_t pos = sequence_pos(s);
	struct dsv4_rows key = sequence_rows(s, 1, SEQUENCE_ROWS_KEY, pos / 4);
	struct dsv4_rows kv = sequence_rows(s, 2, SEQUENCE_ROWS_KV, pos / 128);

	assert_int_equal(k->layout.window, KIT_WINDOW);
	for (int64_t i = 0; i < pos / SEQUENCE_BLOCK; i++) {
		assert_true(kv.page[i][0] == kit_value(p, i));
		assert_true(key.page[i][31 * key.dim] == kit_value(p, i));
	}
	for (int64_t i = pos - KIT_WINDOW + 1; i < pos; i++)
		assert_true(sequence_tail(s, 2, SEQUENCE_WINDOW, i)[0] == kit_value(p, pos / SEQUENCE_BLOCK - 1));
}

/* ---- a prompt on its way ---- */

void kit_lookup(struct cachekit *k, struct kit_run *r, const struct kit_prompt *p)
{
	uint8_t numbers[32] = { p->numbers };

	*r = (struct kit_run){ .prompt = *p };
	r->n = kit_tokens(p, r->token);
	assert_int_equal(sequence_new(&k->layout, &r->seq), 0);
	cache_lookup(k->cache, numbers, r->token, r->n, &r->path, &r->find);
	if (r->find.waiting)
		while (!cache_ready(k->cache, r->path, &r->find))
			sched_yield();
	assert_int_equal(r->find.reused % SEQUENCE_BLOCK, 0);
	assert_true(r->find.reused == 0 || r->find.reused < r->n);
	assert_true(r->find.matched >= r->find.reused && r->find.matched <= r->n);
	assert_false(r->find.waiting);
}

void kit_resume(struct cachekit *k, struct kit_run *r)
{
	assert_int_equal(cache_resume(k->cache, r->path, r->seq, &r->find), 0);
	assert_int_equal(sequence_pos(r->seq), r->find.reused);
	assert_int_equal(cache_path_blocks(r->path) * SEQUENCE_BLOCK, r->find.reused);
	if (r->find.reused)
		kit_check(k, r->seq, &r->prompt);
}

void kit_publish(struct cachekit *k, struct kit_run *r, bool with_state)
{
	int64_t at = cache_path_blocks(r->path);
	struct sequence_state *st = NULL;

	kit_compute(r->seq, &r->prompt, (int)at + 1);
	if (with_state && sequence_can_save(r->seq, (at + 1) * SEQUENCE_BLOCK))
		assert_int_equal(sequence_save(r->seq, (at + 1) * SEQUENCE_BLOCK, &st), 0);
	cache_publish(k->cache, r->path, r->token + at * SEQUENCE_BLOCK, r->seq, st);
	sequence_state_unref(&st);
}

void kit_release(struct cachekit *k, struct kit_run *r)
{
	cache_release(k->cache, &r->path);
	assert_null(r->path);
	sequence_free(&r->seq);
}

struct cache_find kit_serve(struct cachekit *k, const struct kit_prompt *p, unsigned states)
{
	struct kit_run r;

	kit_lookup(k, &r, p);
	kit_resume(k, &r);
	for (int64_t i = cache_path_blocks(r.path); i < p->n_block; i++) {
		kit_publish(k, &r, states >> i & 1);
		if (cache_path_blocks(r.path) == i)
			break;
	}
	kit_release(k, &r);
	return r.find;
}
