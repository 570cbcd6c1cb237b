/* SPDX-License-Identifier: MIT
 * cache_property.c - random use of the prefix cache against a list of prefixes that does the same the slow way.
 * Threads: main; and a second one that looks and clears. Locks: none (the cache's, inside calls). */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/unit/cachekit.h"
#include "tests/unit/diskkit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 400
#define MAX_RUNS 4

/* A block of the model, named by all the choices up to it. */
struct entry {
	struct kit_prompt p;               /* n_block: its depth */
	bool has_state;
	int used, state_used;
};

struct run {
	struct kit_run r;
	int at, end;                       /* depths */
	int last;                          /* of the state it is to resume from, or its latest; 0: none */
	bool resumed, off;
	size_t promised;
};

struct world {
	struct cachekit kit;
	size_t budget;
	struct entry entry[MAX_ENTRIES];
	int n, now;
	struct run run[MAX_RUNS];
	int n_run;
	uint64_t evicted_blocks, evicted_states;
	uint32_t x;
};

static uint32_t dice(struct world *w, uint32_t n)
{
	w->x = w->x * 1664525u + 1013904223u;
	return (w->x >> 8) % n;
}

/* ---- the model ---- */

/* Are the first `depth` blocks of the two the same? */
static bool agree(const struct kit_prompt *a, const struct kit_prompt *b, int depth)
{
	return a->numbers == b->numbers && memcmp(a->choice, b->choice, (size_t)depth) == 0;
}

static struct entry *entry_of(struct world *w, const struct kit_prompt *p, int depth)
{
	for (int i = 0; i < w->n; i++)
		if (w->entry[i].p.n_block == depth && agree(&w->entry[i].p, p, depth))
			return &w->entry[i];
	return NULL;
}

static bool is_held(const struct world *w, const struct entry *e)
{
	for (int i = 0; i < w->n_run; i++) {
		const struct run *r = &w->run[i];
		int most = r->at > r->end ? r->at : r->end;

		if (!r->off && most >= e->p.n_block && agree(&r->r.prompt, &e->p, e->p.n_block))
			return true;
	}
	return false;
}

static bool is_state_pinned(const struct world *w, const struct entry *e)
{
	for (int i = 0; i < w->n_run; i++)
		if (!w->run[i].off && w->run[i].last == e->p.n_block &&
		    agree(&w->run[i].r.prompt, &e->p, e->p.n_block))
			return true;
	return false;
}

static bool is_state_pinned_but(struct world *w, const struct entry *e, int but)
{
	int last = w->run[but].last;
	bool pinned;

	w->run[but].last = 0;
	pinned = is_state_pinned(w, e);
	w->run[but].last = last;
	return pinned;
}

static bool is_leaf(const struct world *w, const struct entry *e)
{
	for (int i = 0; i < w->n; i++)
		if (w->entry[i].p.n_block > e->p.n_block && agree(&w->entry[i].p, &e->p, e->p.n_block))
			return false;
	return true;
}

static size_t model_bytes(const struct world *w, bool only_held)
{
	size_t bytes = 0;

	for (int i = 0; i < w->n; i++) {
		const struct entry *e = &w->entry[i];

		if (!only_held || is_held(w, e))
			bytes += w->kit.node_bytes;
		if (e->has_state && (!only_held || is_state_pinned(w, e)))
			bytes += w->kit.state_bytes;
	}
	return bytes;
}

static size_t model_promised(const struct world *w)
{
	size_t bytes = 0;

	for (int i = 0; i < w->n_run; i++)
		bytes += w->run[i].promised;
	return bytes;
}

static void model_remove(struct world *w, struct entry *e)
{
	*e = w->entry[--w->n];
}

static bool model_evict_one(struct world *w)
{
	struct entry *leaf = NULL, *st = NULL;

	for (int i = 0; i < w->n; i++) {
		struct entry *e = &w->entry[i];

		if (!is_held(w, e) && is_leaf(w, e) && (!leaf || e->used < leaf->used))
			leaf = e;
		if (e->has_state && !is_state_pinned(w, e) && (!st || e->state_used < st->state_used))
			st = e;
	}
	if (!leaf && !st)
		return false;
	if (st && (!leaf || st->state_used <= leaf->used)) {
		st->has_state = false;
		w->evicted_states++;
		return true;
	}
	w->evicted_states += leaf->has_state;
	w->evicted_blocks++;
	model_remove(w, leaf);
	return true;
}

static bool model_room(struct world *w, size_t need)
{
	if (model_bytes(w, true) + model_promised(w) + need > w->budget)
		return false;
	while (model_bytes(w, false) + need > w->budget)
		assert_true(model_evict_one(w));
	return true;
}

static void model_shrink(struct world *w)
{
	while (model_bytes(w, false) > w->budget && model_evict_one(w))
		;
}

/* ---- the same on both ---- */

static struct kit_prompt random_prompt(struct world *w)
{
	struct kit_prompt p = { .numbers = dice(w, 4) == 0, .n_block = (int)dice(w, KIT_BLOCKS + 1) };

	for (int i = 0; i <= KIT_BLOCKS; i++) /* mostly the same, so that they meet */
		p.choice[i] = (uint8_t)(dice(w, 3) ? 0 : dice(w, KIT_CHOICES));
	p.extra = dice(w, 3) ? (int)dice(w, SEQUENCE_BLOCK) : p.n_block == 0;
	return p;
}

static int deepest(struct world *w, const struct kit_prompt *p, int most)
{
	int depth = 0;

	while (depth < most && entry_of(w, p, depth + 1))
		depth++;
	return depth;
}

/* The nearest of the prompts that share all matched blocks. */
static int64_t model_diff(struct world *w, const struct run *r, int found)
{
	int32_t token[KIT_TOKENS];
	int64_t most = -1;

	for (int i = 0; i < w->n; i++) {
		const struct kit_prompt *p = &w->entry[i].p;
		int64_t k = 0, n = kit_tokens(p, token);

		if (p->n_block <= found || !agree(p, &r->r.prompt, found))
			continue;
		while (k < n && k < r->r.n && token[k] == r->r.token[k])
			k++;
		most = k > most ? k : most;
	}
	return most == r->r.n ? -1 : most;
}

static enum cache_miss model_why(struct world *w, const struct run *r, int found, int64_t diff)
{
	struct kit_prompt elsewhere = r->r.prompt;
	int most = (int)((r->r.n - 1) / SEQUENCE_BLOCK);

	elsewhere.numbers = !elsewhere.numbers;
	if (r->r.n <= SEQUENCE_BLOCK)
		return CACHE_SHORT;
	if (r->at == most)
		return CACHE_HIT;
	if (deepest(w, &elsewhere, elsewhere.n_block) > found)
		return CACHE_NUMBERS;
	if (r->at < found && r->at < most)
		return CACHE_NO_STATE;
	if (diff > 0)
		return CACHE_DIFFERS;
	return found ? CACHE_ENDED : CACHE_COLD;
}

/* What holding the prompt's first `depth` blocks, and the state at their end, adds. */
static size_t model_adds(struct world *w, const struct kit_prompt *p, int depth, bool with_state)
{
	size_t bytes = 0;

	for (int d = 1; d <= depth; d++)
		bytes += is_held(w, entry_of(w, p, d)) ? 0 : w->kit.node_bytes;
	return bytes + (with_state && !is_state_pinned(w, entry_of(w, p, depth)) ? w->kit.state_bytes : 0);
}

static bool model_holdable(struct world *w, size_t more)
{
	return more == 0 || model_bytes(w, true) + model_promised(w) + more <= w->budget;
}

/* The deepest with a state, and then the deepest at all that leaves room for one. The run is not yet one of the
 * world's. */
static void model_find(struct world *w, struct run *r, int deepest)
{
	const struct kit_prompt *p = &r->r.prompt;

	r->at = r->end = r->last = 0;
	for (int d = 1; d <= deepest && (int64_t)d * SEQUENCE_BLOCK < r->r.n; d++)
		if (entry_of(w, p, d)->has_state && model_holdable(w, model_adds(w, p, d, true)))
			r->at = r->last = d;
	w->n_run++; /* what it holds now costs it nothing */
	for (int d = r->at + 1; d <= deepest; d++) {
		size_t more = model_adds(w, p, d, false);

		if (more == 0 || model_holdable(w, more + (r->last ? 0 : w->kit.state_bytes)))
			r->end = d;
	}
	w->n_run--;
	r->end = r->end > r->at ? r->end : r->at;
}

static void do_lookup(struct world *w)
{
	struct kit_prompt p = random_prompt(w);
	struct run *r = &w->run[w->n_run];
	int64_t diff;
	int found;

	kit_lookup(&w->kit, &r->r, &p);
	r->off = w->budget == 0;
	r->at = r->end = r->last = 0;
	r->resumed = false;
	r->promised = 0;
	if (r->off) {
		assert_int_equal(r->r.find.miss, CACHE_OFF);
		w->n_run++;
		return;
	}
	found = deepest(w, &p, p.n_block);
	model_find(w, r, found);
	diff = model_diff(w, r, found);
	assert_int_equal(r->r.find.reused, r->at * SEQUENCE_BLOCK);
	assert_int_equal(r->r.find.matched, found * SEQUENCE_BLOCK);
	assert_string_equal(cache_miss_name(r->r.find.miss), cache_miss_name(model_why(w, r, found, diff)));
	assert_int_equal(r->r.find.diff_token, r->r.find.miss == CACHE_COLD ? -1 : diff);
	w->n_run++;
}

/* Resumes if that is still to do; checks that nothing was lost meanwhile. */
static void do_resume(struct world *w, struct run *r)
{
	if (r->resumed)
		return;
	r->resumed = true;
	kit_resume(&w->kit, &r->r);
	if (r->last)
		model_shrink(w);
}

/* What was published while it waited is found now. */
static void do_look_again(struct world *w)
{
	int i = (int)dice(w, (uint32_t)w->n_run), found, at, end, last;
	struct run *r = &w->run[i], other;

	if (r->resumed || r->off)
		return;
	cache_look_again(w->kit.cache, r->r.path, r->r.token, r->r.n, &r->r.find);
	at = r->at;
	end = r->end;
	last = r->last;
	found = deepest(w, &r->r.prompt, r->r.prompt.n_block);
	for (int d = at + 1; d <= found && (int64_t)d * SEQUENCE_BLOCK < r->r.n; d++)
		if (entry_of(w, &r->r.prompt, d)->has_state && model_holdable(w, model_adds(w, &r->r.prompt, d, true)))
			at = last = d;
	if (last != r->last && r->last) { /* in its place */
		other = *r;
		r->last = last;
		if (!is_state_pinned_but(w, entry_of(w, &other.r.prompt, other.last), i))
			entry_of(w, &other.r.prompt, other.last)->state_used = ++w->now;
	}
	r->at = at;
	r->last = last;
	for (int d = end + 1; d <= found; d++) {
		size_t more = model_adds(w, &r->r.prompt, d, false);

		if (more == 0 || model_holdable(w, more + (last ? 0 : w->kit.state_bytes)))
			end = d;
	}
	r->end = end > at ? end : at;
	assert_int_equal(r->r.find.reused, r->at * SEQUENCE_BLOCK);
	assert_int_equal(r->r.find.matched, found * SEQUENCE_BLOCK);
}

/* As much beside what is held as its next `blocks` and a state need. */
static bool model_promise(struct world *w, struct run *r, int blocks)
{
	const struct entry *next = entry_of(w, &r->r.prompt, r->at + 1);
	int held = r->end > r->at ? r->end - r->at : next && is_held(w, next);
	size_t need = (r->last ? 0 : w->kit.state_bytes) + (blocks > held ? (size_t)(blocks - held) : 0) * w->kit.node_bytes;

	if (need <= r->promised)
		return true;
	if (model_bytes(w, true) + model_promised(w) - r->promised + need > w->budget)
		return false;
	r->promised = need;
	return true;
}

static void model_take(struct run *r, size_t bytes)
{
	r->promised -= r->promised < bytes ? r->promised : bytes;
}

/* The state at the path's end becomes its latest. */
static void model_keep(struct world *w, struct run *r)
{
	struct entry *e = entry_of(w, &r->r.prompt, r->at), *old = r->last ? entry_of(w, &r->r.prompt, r->last) : NULL;
	size_t promised = r->promised;
	int last = r->last;

	if (r->last == r->at)
		return;
	r->last = 0;
	if (!old)
		model_take(r, w->kit.state_bytes);
	else if (!is_state_pinned(w, old))
		old->state_used = ++w->now;
	if (e->has_state || model_room(w, w->kit.state_bytes)) {
		entry_of(w, &r->r.prompt, r->at)->has_state = true; /* evicting moves entries */
		r->last = r->at;
		return;
	}
	r->last = last;
	r->promised = promised;
}

static void model_publish(struct world *w, struct run *r, bool with_state)
{
	const struct kit_prompt *p = &r->r.prompt;
	struct entry *e = entry_of(w, p, r->at + 1);

	if (r->off || !model_promise(w, r, 1))
		return;
	if (!e || !is_held(w, e))
		model_take(r, w->kit.node_bytes);
	if (!e) {
		if (!model_room(w, w->kit.node_bytes))
			return;
		assert_true(w->n < MAX_ENTRIES);
		w->entry[w->n] = (struct entry){ .p = *p };
		w->entry[w->n++].p.n_block = r->at + 1;
	}
	r->at++;
	if (with_state || entry_of(w, p, r->at)->has_state)
		model_keep(w, r);
}

static void do_publish(struct world *w)
{
	struct run *r = &w->run[dice(w, (uint32_t)w->n_run)];
	bool with_state = dice(w, 2), room, last, want_last;
	int blocks = 1 + (int)dice(w, 3);

	do_resume(w, r);
	if (r->at >= r->r.prompt.n_block)
		return;
	if (dice(w, 2)) {
		want_last = !r->off && !model_promise(w, r, blocks + 1);
		room = cache_publish_room(w->kit.cache, r->r.path, r->r.token + r->at * SEQUENCE_BLOCK, blocks, &last);
		assert_int_equal(room, !r->off && (!want_last || model_promise(w, r, blocks)));
		assert_int_equal(last, want_last);
		with_state = with_state || (room && last);
	}
	/* a state of an edge long past cannot be saved */
	with_state = with_state && sequence_pos(r->r.seq) <= (int64_t)(r->at + 1) * SEQUENCE_BLOCK;
	model_publish(w, r, with_state);
	kit_publish(&w->kit, &r->r, with_state);
	assert_int_equal(cache_path_blocks(r->r.path), r->at);
}

static void do_release(struct world *w)
{
	int i = (int)dice(w, (uint32_t)w->n_run);
	struct run r = w->run[i];
	struct entry *e;

	if (dice(w, 2))
		do_resume(w, &r);
	kit_release(&w->kit, &r.r);
	w->now++;
	w->run[i] = w->run[w->n_run - 1]; /* it still pins its state */
	w->run[w->n_run - 1] = r;
	for (int d = r.at; d > 0 && !r.off; d--) {
		e = entry_of(w, &r.r.prompt, d);
		if (e->has_state) {
			if (!is_state_pinned(w, e))
				e->state_used = w->now;
			break;
		}
	}
	w->now++;
	w->n_run--;
	if (r.last && !r.off && !is_state_pinned(w, entry_of(w, &r.r.prompt, r.last)))
		entry_of(w, &r.r.prompt, r.last)->state_used = w->now;
	for (int d = r.at > r.end ? r.at : r.end; d > 0 && !r.off; d--) {
		e = entry_of(w, &r.r.prompt, d);
		if (!is_held(w, e))
			e->used = w->now;
	}
	model_shrink(w);
}

static void do_evict(struct world *w)
{
	struct cache_entry *e;
	int n = cache_tree(w->kit.cache, &e, MAX_ENTRIES), rc;
	bool busy = false;

	assert_int_equal(n, w->n);
	if (n > 0) {
		struct cache_entry *one = &e[dice(w, (uint32_t)n)];
		struct kit_prompt p = { .numbers = one->numbers[0], .n_block = one->depth };

		for (struct cache_entry *up = one; up; ) { /* the choices, from the end */
			struct cache_entry *parent = NULL;

			p.choice[up->depth - 1] = (uint8_t)(up->token[127] - 100);
			for (int i = 0; i < n; i++)
				if (cache_key_equal(&e[i].key, &up->parent))
					parent = &e[i];
			up = parent;
		}
		busy = is_held(w, entry_of(w, &p, p.n_block));
		rc = cache_evict(w->kit.cache, &one->key);
		assert_int_equal(rc, busy ? RC_BUSY : 0);
		for (int i = w->n - 1; i >= 0 && !busy; i--)
			if (w->entry[i].p.n_block >= p.n_block && agree(&w->entry[i].p, &p, p.n_block))
				model_remove(w, &w->entry[i]);
	}
	free(e);
}

static void do_clear(struct world *w)
{
	uint64_t removed = 0;

	for (int i = w->n - 1; i >= 0; i--) {
		if (!is_state_pinned(w, &w->entry[i]))
			w->entry[i].has_state = false;
		if (is_held(w, &w->entry[i]))
			continue;
		model_remove(w, &w->entry[i]);
		removed++;
	}
	assert_int_equal(cache_clear(w->kit.cache), removed);
}

static void do_budget(struct world *w)
{
	w->budget = cachekit_room(&w->kit, (int)dice(w, 30), (int)dice(w, 12));
	if (dice(w, 10) == 0)
		w->budget = 0;
	cache_set_budget(w->kit.cache, w->budget);
	model_shrink(w);
}

/* ---- comparing ---- */

static void compare(struct world *w)
{
	struct cache_stats s;
	uint64_t states = 0, held = 0;

	for (int i = 0; i < w->n; i++) {
		states += w->entry[i].has_state;
		held += is_held(w, &w->entry[i]);
	}
	cache_stats(w->kit.cache, &s);
	assert_int_equal(s.blocks, w->n);
	assert_int_equal(s.states, states);
	assert_int_equal(s.pinned, held);
	assert_int_equal(s.bytes, model_bytes(w, false));
	assert_int_equal(s.evicted_blocks, w->evicted_blocks);
	assert_int_equal(s.evicted_states, w->evicted_states);
	assert_true(s.bytes <= w->budget || s.bytes == model_bytes(w, true));
}

static void compare_tree(struct world *w)
{
	struct cache_entry *e;
	int n = cache_tree(w->kit.cache, &e, MAX_ENTRIES);

	assert_int_equal(n, w->n);
	for (int i = 0; i < n; i++) {
		struct kit_prompt p = { .numbers = e[i].numbers[0], .n_block = e[i].depth };
		struct cache_copy copy;
		struct entry *m;

		assert_int_equal(cache_get(w->kit.cache, &e[i].key, &copy), 0);
		for (int d = 0; d < e[i].depth; d++)
			p.choice[d] = (uint8_t)(copy.token[d * SEQUENCE_BLOCK + 127] - 100);
		m = entry_of(w, &p, p.n_block);
		assert_non_null(m);
		assert_int_equal(m->has_state, e[i].has_state);
		assert_int_equal(copy.state != NULL, e[i].has_state);
		cache_copy_fini(&copy);
	}
	free(e);
}

static void step(struct world *w)
{
	uint32_t d = dice(w, 100);

	if (w->n_run == 0 || (d < 22 && w->n_run < MAX_RUNS))
		do_lookup(w);
	else if (d < 28)
		do_look_again(w);
	else if (d < 80)
		do_publish(w);
	else if (d < 95)
		do_release(w);
	else if (d < 97)
		do_evict(w);
	else if (d < 98)
		do_clear(w);
	else
		do_budget(w);
	compare(w);
}

static void test_like_a_list_of_prefixes(void **state)
{
	static struct world w;

	(void)state;
	for (uint32_t seed = 1; seed <= 30; seed++) {
		w = (struct world){ .x = seed };
		cachekit_init(&w.kit, 8);
		w.budget = cachekit_room(&w.kit, 8, 8);
		for (int i = 0; i < 600; i++) {
			step(&w);
			if (i % 50 == 0)
				compare_tree(&w);
		}
		assert_true(w.evicted_blocks > 0 && w.evicted_states > 0);
		while (w.n_run)
			do_release(&w);
		compare(&w);
		cachekit_fini(&w.kit);
	}
}

/* ---- two threads ---- */

static atomic_bool stop;

static void *meddle(void *arg)
{
	struct cachekit *k = arg;
	struct cache_entry *e;
	struct cache_copy copy;
	struct cache_stats s;

	for (unsigned i = 0; !stop; i++) {
		int n = cache_tree(k->cache, &e, 50);

		cache_stats(k->cache, &s);
		if (n > 0 && cache_get(k->cache, &e[n - 1].key, &copy) == 0)
			cache_copy_fini(&copy);
		if (n > 0 && i % 3 == 0)
			cache_evict(k->cache, &e[i % (unsigned)n].key);
		if (i % 50 == 0)
			cache_clear(k->cache);
		if (i % 20 == 0)
			cache_set_budget(k->cache, cachekit_room(k, (int)(i % 15), (int)(i % 7)));
		free(e);
	}
	return NULL;
}

/* Serves prompts, each of which checks what it resumes, whatever an operator does meanwhile. Returns the hits. */
static uint64_t serve_beside(struct world *w, int n)
{
	struct cache_stats s;
	pthread_t thread;

	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, meddle, &w->kit), 0);
	for (int i = 0; i < n; i++) {
		struct kit_prompt p = random_prompt(w);

		kit_serve(&w->kit, &p, dice(w, 64));
	}
	stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	cache_stats(w->kit.cache, &s);
	return s.hits;
}

static void test_beside_an_operator(void **state)
{
	static struct world w;

	(void)state;
	w = (struct world){ .x = 99 };
	cachekit_init(&w.kit, 8);
	assert_true(serve_beside(&w, 3000) > 0);
	cachekit_fini(&w.kit);
}

/* ---- with a disk ---- */

static void test_beside_an_operator_and_a_disk(void **state)
{
	static struct diskkit disk;
	static struct world w;

	(void)state;
	diskkit_init(&disk);
	disk.options.model_id = kit_model;
	w = (struct world){ .x = 7 };
	for (int start = 0; start < 3; start++) { /* each with what the one before left */
		diskkit_open(&disk);
		w.kit = (struct cachekit){ .disk = disk.d };
		cachekit_init(&w.kit, 8);
		serve_beside(&w, 25);
		cachekit_fini(&w.kit);
		diskkit_close(&disk);
	}
	diskkit_fini(&disk);
}

/* In memory for one prompt or so, all of them on disk: what comes and goes stays within the budget and is right. */
static void test_more_on_disk_than_in_memory(void **state)
{
	static struct diskkit disk;
	static struct world w;
	struct cache_stats s;

	(void)state;
	diskkit_init(&disk);
	disk.options.model_id = kit_model;
	diskkit_open(&disk);
	w = (struct world){ .x = 5, .kit = { .disk = disk.d } };
	cachekit_init(&w.kit, 7);
	for (int i = 0; i < 80; i++) {
		struct kit_prompt p = random_prompt(&w);

		kit_serve(&w.kit, &p, dice(&w, 64));
		cache_stats(w.kit.cache, &s);
		assert_true(s.bytes <= s.budget);
		assert_int_equal(s.pinned, 0);
		if (i % 10 == 0)
			diskkit_drain(&disk);
	}
	assert_true(s.fetched > 0 && s.hits > 0 && s.evicted_blocks > 0);
	assert_int_equal(s.miss[CACHE_BROKEN], 0);
	cachekit_fini(&w.kit);
	diskkit_close(&disk);
	diskkit_fini(&disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_a_list_of_prefixes),
		cmocka_unit_test(test_beside_an_operator),
		cmocka_unit_test(test_beside_an_operator_and_a_disk),
		cmocka_unit_test(test_more_on_disk_than_in_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
