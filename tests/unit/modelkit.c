/* SPDX-License-Identifier: MIT
 * modelkit.c - a list of prefixes that does what the prefix cache does, the slow way.
 * Threads: the test's. Locks: none. */
#include "tests/unit/modelkit.h"

#include <string.h>

uint32_t model_dice(struct model_world *w, uint32_t n)
{
	w->x = w->x * 1664525u + 1013904223u;
	return (w->x >> 8) % n;
}

bool model_agree(const struct kit_prompt *a, const struct kit_prompt *b, int depth)
{
	return a->numbers == b->numbers && memcmp(a->choice, b->choice, (size_t)depth) == 0;
}

struct model_entry *model_entry(struct model_world *w, const struct kit_prompt *p, int depth)
{
	for (int i = 0; i < w->n; i++)
		if (w->entry[i].p.n_block == depth && model_agree(&w->entry[i].p, p, depth))
			return &w->entry[i];
	return NULL;
}

bool model_is_held(const struct model_world *w, const struct model_entry *e)
{
	for (int i = 0; i < w->n_run; i++) {
		const struct model_run *r = &w->run[i];
		int most = r->at > r->end ? r->at : r->end;

		if (!r->off && most >= e->p.n_block && model_agree(&r->r.prompt, &e->p, e->p.n_block))
			return true;
	}
	return false;
}

bool model_is_pinned(const struct model_world *w, const struct model_entry *e)
{
	for (int i = 0; i < w->n_run; i++)
		if (!w->run[i].off && w->run[i].last == e->p.n_block &&
		    model_agree(&w->run[i].r.prompt, &e->p, e->p.n_block))
			return true;
	return false;
}

bool model_is_pinned_but(struct model_world *w, const struct model_entry *e, int but)
{
	int last = w->run[but].last;
	bool pinned;

	w->run[but].last = 0;
	pinned = model_is_pinned(w, e);
	w->run[but].last = last;
	return pinned;
}

static bool model_is_leaf(const struct model_world *w, const struct model_entry *e)
{
	for (int i = 0; i < w->n; i++)
		if (w->entry[i].p.n_block > e->p.n_block && model_agree(&w->entry[i].p, &e->p, e->p.n_block))
			return false;
	return true;
}

size_t model_bytes(const struct model_world *w, bool only_held)
{
	size_t bytes = 0;

	for (int i = 0; i < w->n; i++) {
		const struct model_entry *e = &w->entry[i];

		if (!only_held || model_is_held(w, e))
			bytes += w->kit.node_bytes;
		if (e->has_state && (!only_held || model_is_pinned(w, e)))
			bytes += w->kit.state_bytes;
	}
	return bytes;
}

static size_t model_promised(const struct model_world *w)
{
	size_t bytes = 0;

	for (int i = 0; i < w->n_run; i++)
		bytes += w->run[i].promised;
	return bytes;
}

void model_remove(struct model_world *w, struct model_entry *e)
{
	*e = w->entry[--w->n];
}

static bool model_evict_one(struct model_world *w)
{
	struct model_entry *leaf = NULL, *st = NULL;

	for (int i = 0; i < w->n; i++) {
		struct model_entry *e = &w->entry[i];

		if (!model_is_held(w, e) && model_is_leaf(w, e) && (!leaf || e->used < leaf->used))
			leaf = e;
		if (e->has_state && !model_is_pinned(w, e) && (!st || e->state_used < st->state_used))
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

static bool model_room(struct model_world *w, size_t need)
{
	if (model_bytes(w, true) + model_promised(w) + need > w->budget)
		return false;
	while (model_bytes(w, false) + need > w->budget)
		assert_true(model_evict_one(w));
	return true;
}

void model_shrink(struct model_world *w)
{
	while (model_bytes(w, false) > w->budget && model_evict_one(w))
		;
}

int model_deepest(struct model_world *w, const struct kit_prompt *p, int most)
{
	int depth = 0;

	while (depth < most && model_entry(w, p, depth + 1))
		depth++;
	return depth;
}

int64_t model_diff(struct model_world *w, const struct model_run *r, int found)
{
	int32_t token[KIT_TOKENS];
	int64_t most = -1;

	for (int i = 0; i < w->n; i++) {
		const struct kit_prompt *p = &w->entry[i].p;
		int64_t k = 0, n = kit_tokens(p, token);

		if (p->n_block <= found || !model_agree(p, &r->r.prompt, found))
			continue;
		while (k < n && k < r->r.n && token[k] == r->r.token[k])
			k++;
		most = k > most ? k : most;
	}
	return most == r->r.n ? -1 : most;
}

enum cache_miss model_why(struct model_world *w, const struct model_run *r, int found, int64_t diff)
{
	struct kit_prompt elsewhere = r->r.prompt;
	int most = (int)((r->r.n - 1) / SEQUENCE_BLOCK);

	elsewhere.numbers = !elsewhere.numbers;
	if (r->r.n <= SEQUENCE_BLOCK)
		return CACHE_SHORT;
	if (r->at == most)
		return CACHE_HIT;
	if (model_deepest(w, &elsewhere, elsewhere.n_block) > found)
		return CACHE_NUMBERS;
	if (r->at < found && r->at < most)
		return CACHE_NO_STATE;
	if (diff > 0)
		return CACHE_DIFFERS;
	return found ? CACHE_ENDED : CACHE_COLD;
}

size_t model_adds(struct model_world *w, const struct kit_prompt *p, int depth, bool with_state)
{
	size_t bytes = 0;

	for (int d = 1; d <= depth; d++)
		bytes += model_is_held(w, model_entry(w, p, d)) ? 0 : w->kit.node_bytes;
	return bytes + (with_state && !model_is_pinned(w, model_entry(w, p, depth)) ? w->kit.state_bytes : 0);
}

bool model_holdable(struct model_world *w, size_t more)
{
	return more == 0 || model_bytes(w, true) + model_promised(w) + more <= w->budget;
}

void model_find(struct model_world *w, struct model_run *r, int deepest)
{
	const struct kit_prompt *p = &r->r.prompt;

	r->at = r->end = r->last = 0;
	for (int d = 1; d <= deepest && (int64_t)d * SEQUENCE_BLOCK < r->r.n; d++)
		if (model_entry(w, p, d)->has_state && model_holdable(w, model_adds(w, p, d, true)))
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

bool model_promise(struct model_world *w, struct model_run *r, int blocks)
{
	const struct model_entry *next = model_entry(w, &r->r.prompt, r->at + 1);
	int held = r->end > r->at ? r->end - r->at : next && model_is_held(w, next);
	size_t need = (r->last ? 0 : w->kit.state_bytes) +
		(blocks > held ? (size_t)(blocks - held) : 0) * w->kit.node_bytes;

	if (need <= r->promised)
		return true;
	if (model_bytes(w, true) + model_promised(w) - r->promised + need > w->budget)
		return false;
	r->promised = need;
	return true;
}

static void model_take(struct model_run *r, size_t bytes)
{
	r->promised -= r->promised < bytes ? r->promised : bytes;
}

/* The state at the path's end becomes its latest. */
static void model_keep(struct model_world *w, struct model_run *r)
{
	struct model_entry *e = model_entry(w, &r->r.prompt, r->at);
	struct model_entry *old = r->last ? model_entry(w, &r->r.prompt, r->last) : NULL;
	size_t promised = r->promised;
	int last = r->last;

	if (r->last == r->at)
		return;
	r->last = 0;
	if (!old)
		model_take(r, w->kit.state_bytes);
	else if (!model_is_pinned(w, old))
		old->state_used = ++w->now;
	if (e->has_state || model_room(w, w->kit.state_bytes)) {
		model_entry(w, &r->r.prompt, r->at)->has_state = true; /* evicting moves entries */
		r->last = r->at;
		return;
	}
	r->last = last;
	r->promised = promised;
}

void model_publish(struct model_world *w, struct model_run *r, bool with_state)
{
	const struct kit_prompt *p = &r->r.prompt;
	struct model_entry *e = model_entry(w, p, r->at + 1);

	if (r->off || !model_promise(w, r, 1))
		return;
	if (!e || !model_is_held(w, e))
		model_take(r, w->kit.node_bytes);
	if (!e) {
		if (!model_room(w, w->kit.node_bytes))
			return;
		assert_true(w->n < MODEL_ENTRIES);
		w->entry[w->n] = (struct model_entry){ .p = *p };
		w->entry[w->n++].p.n_block = r->at + 1;
	}
	r->at++;
	if (with_state || model_entry(w, p, r->at)->has_state)
		model_keep(w, r);
}
