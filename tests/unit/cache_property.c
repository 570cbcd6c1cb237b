/* SPDX-License-Identifier: MIT
 * cache_property.c - random use of the prefix cache against a list of prefixes that does the same the slow way.
 * Threads: main; and a second one that looks and clears. Locks: none (the cache's, inside calls). */
#include "engine/base/rc.h"
#include "tests/unit/diskkit.h"
#include "tests/unit/modelkit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same on both ---- */

static struct kit_prompt random_prompt(struct model_world *w)
{
	struct kit_prompt p = { .numbers = model_dice(w, 4) == 0, .n_block = (int)model_dice(w, KIT_BLOCKS + 1) };

	for (int i = 0; i <= KIT_BLOCKS; i++) /* mostly the same, so that they meet */
		p.choice[i] = (uint8_t)(model_dice(w, 3) ? 0 : model_dice(w, KIT_CHOICES));
	p.extra = model_dice(w, 3) ? (int)model_dice(w, SEQUENCE_BLOCK) : p.n_block == 0;
	return p;
}

static void do_lookup(struct model_world *w)
{
	struct kit_prompt p = random_prompt(w);
	struct model_run *r = &w->run[w->n_run];
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
	found = model_deepest(w, &p, p.n_block);
	model_find(w, r, found);
	diff = model_diff(w, r, found);
	assert_int_equal(r->r.find.reused, r->at * SEQUENCE_BLOCK);
	assert_int_equal(r->r.find.matched, found * SEQUENCE_BLOCK);
	assert_string_equal(cache_miss_name(r->r.find.miss), cache_miss_name(model_why(w, r, found, diff)));
	assert_int_equal(r->r.find.diff_token, r->r.find.miss == CACHE_COLD ? -1 : diff);
	w->n_run++;
}

/* Resumes if that is still to do; checks that nothing was lost meanwhile. */
static void do_resume(struct model_world *w, struct model_run *r)
{
	if (r->resumed)
		return;
	r->resumed = true;
	kit_resume(&w->kit, &r->r);
	if (r->last)
		model_shrink(w);
}

/* What was published while it waited is found now. */
static void do_look_again(struct model_world *w)
{
	int i = (int)model_dice(w, (uint32_t)w->n_run), found, at, end, last;
	struct model_run *r = &w->run[i], other;

	if (r->resumed || r->off)
		return;
	cache_look_again(w->kit.cache, r->r.path, r->r.token, r->r.n, &r->r.find);
	at = r->at;
	end = r->end;
	last = r->last;
	found = model_deepest(w, &r->r.prompt, r->r.prompt.n_block);
	for (int d = at + 1; d <= found && (int64_t)d * SEQUENCE_BLOCK < r->r.n; d++)
		if (model_entry(w, &r->r.prompt, d)->has_state &&
		    model_holdable(w, model_adds(w, &r->r.prompt, d, true)))
			at = last = d;
	if (last != r->last && r->last) { /* in its place */
		other = *r;
		r->last = last;
		if (!model_is_pinned_but(w, model_entry(w, &other.r.prompt, other.last), i))
			model_entry(w, &other.r.prompt, other.last)->state_used = ++w->now;
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

static void do_publish(struct model_world *w)
{
	struct model_run *r = &w->run[model_dice(w, (uint32_t)w->n_run)];
	bool with_state = model_dice(w, 2), room, last, want_last;
	int blocks = 1 + (int)model_dice(w, 3);

	do_resume(w, r);
	if (r->at >= r->r.prompt.n_block)
		return;
	if (model_dice(w, 2)) {
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

static void do_release(struct model_world *w)
{
	int i = (int)model_dice(w, (uint32_t)w->n_run);
	struct model_run r = w->run[i];
	struct model_entry *e;

	if (model_dice(w, 2))
		do_resume(w, &r);
	kit_release(&w->kit, &r.r);
	w->now++;
	w->run[i] = w->run[w->n_run - 1]; /* it still pins its state */
	w->run[w->n_run - 1] = r;
	for (int d = r.at; d > 0 && !r.off; d--) {
		e = model_entry(w, &r.r.prompt, d);
		if (e->has_state) {
			if (!model_is_pinned(w, e))
				e->state_used = w->now;
			break;
		}
	}
	w->now++;
	w->n_run--;
	if (r.last && !r.off && !model_is_pinned(w, model_entry(w, &r.r.prompt, r.last)))
		model_entry(w, &r.r.prompt, r.last)->state_used = w->now;
	for (int d = r.at > r.end ? r.at : r.end; d > 0 && !r.off; d--) {
		e = model_entry(w, &r.r.prompt, d);
		if (!model_is_held(w, e))
			e->used = w->now;
	}
	model_shrink(w);
}

static void do_evict(struct model_world *w)
{
	struct cache_entry *e;
	int n = cache_tree(w->kit.cache, &e, MODEL_ENTRIES), rc;
	bool busy = false;

	assert_int_equal(n, w->n);
	if (n > 0) {
		struct cache_entry *one = &e[model_dice(w, (uint32_t)n)];
		struct kit_prompt p = { .numbers = one->numbers[0], .n_block = one->depth };

		for (struct cache_entry *up = one; up; ) { /* the choices, from the end */
			struct cache_entry *parent = NULL;

			p.choice[up->depth - 1] = (uint8_t)(up->token[127] - 100);
			for (int i = 0; i < n; i++)
				if (cache_key_equal(&e[i].key, &up->parent))
					parent = &e[i];
			up = parent;
		}
		busy = model_is_held(w, model_entry(w, &p, p.n_block));
		rc = cache_evict(w->kit.cache, &one->key);
		assert_int_equal(rc, busy ? RC_BUSY : 0);
		for (int i = w->n - 1; i >= 0 && !busy; i--)
			if (w->entry[i].p.n_block >= p.n_block && model_agree(&w->entry[i].p, &p, p.n_block))
				model_remove(w, &w->entry[i]);
	}
	free(e);
}

static void do_clear(struct model_world *w)
{
	uint64_t removed = 0;

	for (int i = w->n - 1; i >= 0; i--) {
		if (!model_is_pinned(w, &w->entry[i]))
			w->entry[i].has_state = false;
		if (model_is_held(w, &w->entry[i]))
			continue;
		model_remove(w, &w->entry[i]);
		removed++;
	}
	assert_int_equal(cache_clear(w->kit.cache), removed);
}

static void do_budget(struct model_world *w)
{
	w->budget = cachekit_room(&w->kit, (int)model_dice(w, 30), (int)model_dice(w, 12));
	if (model_dice(w, 10) == 0)
		w->budget = 0;
	cache_set_budget(w->kit.cache, w->budget);
	model_shrink(w);
}

/* ---- comparing ---- */

static void compare(struct model_world *w)
{
	struct cache_stats s;
	uint64_t states = 0, held = 0;

	for (int i = 0; i < w->n; i++) {
		states += w->entry[i].has_state;
		held += model_is_held(w, &w->entry[i]);
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

static void compare_tree(struct model_world *w)
{
	struct cache_entry *e;
	int n = cache_tree(w->kit.cache, &e, MODEL_ENTRIES);

	assert_int_equal(n, w->n);
	for (int i = 0; i < n; i++) {
		struct kit_prompt p = { .numbers = e[i].numbers[0], .n_block = e[i].depth };
		struct cache_copy copy;
		struct model_entry *m;

		assert_int_equal(cache_get(w->kit.cache, &e[i].key, &copy), 0);
		for (int d = 0; d < e[i].depth; d++)
			p.choice[d] = (uint8_t)(copy.token[d * SEQUENCE_BLOCK + 127] - 100);
		m = model_entry(w, &p, p.n_block);
		assert_non_null(m);
		assert_int_equal(m->has_state, e[i].has_state);
		assert_int_equal(copy.state != NULL, e[i].has_state);
		cache_copy_fini(&copy);
	}
	free(e);
}

static void step(struct model_world *w)
{
	uint32_t d = model_dice(w, 100);

	if (w->n_run == 0 || (d < 22 && w->n_run < MODEL_RUNS))
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
	static struct model_world w;

	(void)state;
	for (uint32_t seed = 1; seed <= 30; seed++) {
		w = (struct model_world){ .x = seed };
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
static uint64_t serve_beside(struct model_world *w, int n)
{
	struct cache_stats s;
	pthread_t thread;

	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, meddle, &w->kit), 0);
	for (int i = 0; i < n; i++) {
		struct kit_prompt p = random_prompt(w);

		kit_serve(&w->kit, &p, model_dice(w, 64));
	}
	stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	cache_stats(w->kit.cache, &s);
	return s.hits;
}

static void test_beside_an_operator(void **state)
{
	static struct model_world w;

	(void)state;
	w = (struct model_world){ .x = 99 };
	cachekit_init(&w.kit, 8);
	assert_true(serve_beside(&w, 3000) > 0);
	cachekit_fini(&w.kit);
}

/* ---- with a disk ---- */

static void test_beside_an_operator_and_a_disk(void **state)
{
	static struct diskkit disk;
	static struct model_world w;

	(void)state;
	diskkit_init(&disk);
	disk.options.model_id = kit_model;
	w = (struct model_world){ .x = 7 };
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
	static struct model_world w;
	struct cache_stats s;

	(void)state;
	diskkit_init(&disk);
	disk.options.model_id = kit_model;
	diskkit_open(&disk);
	w = (struct model_world){ .x = 5, .kit = { .disk = disk.d } };
	cachekit_init(&w.kit, 7);
	for (int i = 0; i < 80; i++) {
		struct kit_prompt p = random_prompt(&w);

		kit_serve(&w.kit, &p, model_dice(&w, 64));
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
