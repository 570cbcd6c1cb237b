/* SPDX-License-Identifier: MIT
 * cache_fetch_plan.c - what to read from disk for a prompt: how far it has the blocks, and how far there is room.
 * Threads: any. Lock: cache, never while the disk is asked. */
#include "engine/base/mem.h"
#include "engine/cache/cache_fetch.h"

#define CACHE_FETCH_MOST 16384 /* blocks that the disk takes in one question */
#define CACHE_FETCH_AHEAD 2    /* blocks that are promised before they come */

static void cache_fetch_put_key(struct cache_fetch *f, int i, const struct cache_key *k)
{
	if (i >= f->cap_key) {
		f->cap_key = f->cap_key ? 2 * f->cap_key : 8;
		f->key = mem_grow(f->key, (size_t)f->cap_key, sizeof *f->key);
	}
	f->key[i] = *k;
}

/* Beyond the tree: how far the disk has the prompt's blocks without a gap, and the last with a state among them. */
static void cache_fetch_beyond(struct cache_fetch *f, const struct cache_node *end, const int32_t *token, int most)
{
	struct cache_key k = end->key;
	bool state;

	for (int d = end->depth + 1; d <= most; d++) {
		cache_key_next(&k, token + (int64_t)(d - 1) * SEQUENCE_BLOCK, &k);
		if (!cache_disk_has(f->cache->o.disk, &k, &state))
			return;
		cache_fetch_put_key(f, d - end->depth - 1, &k);
		if (state)
			f->last = d;
	}
}

/* In the tree: the deepest block whose state only the disk has. */
static void cache_fetch_within(struct cache_fetch *f, const struct cache_node *at, const struct cache_node *end,
			       int most)
{
	bool state;

	for (const struct cache_node *n = end; n != at; n = n->parent)
		if (n->depth <= most && cache_disk_has(f->cache->o.disk, &n->key, &state) && state) {
			cache_fetch_put_key(f, 0, &n->key);
			f->first = f->last = n->depth;
			return;
		}
}

/* As many blocks, with a state after them, as the budget could hold now. */
static int cache_fetch_room(const struct cache *c, const struct cache_path *p)
{
	size_t need = c->held_bytes + c->promised + (p->resume ? 0 : c->state_bytes), blocks = 0;

	if (need < c->o.bytes)
		blocks = (c->o.bytes - need) / c->node_bytes;
	return blocks < CACHE_FETCH_MOST ? (int)blocks : CACHE_FETCH_MOST;
}

/* The path as it is, held; false: it was let go. */
static bool cache_fetch_hold(struct cache_fetch *f, struct cache_node **ret_at, struct cache_node **ret_end,
	int *ret_room)
{
	struct cache *c = f->cache;
	bool there;

	lock_take(&c->lock);
	there = f->path != NULL;
	if (there) {
		cache_hold(c, *ret_at = f->path->at, cache_now(c));
		cache_hold(c, *ret_end = f->path->end, cache_now(c));
		*ret_room = cache_fetch_room(c, f->path);
	}
	lock_drop(&c->lock);
	return there;
}

bool cache_fetch_room_ahead(struct cache *c, struct cache_path *p, int blocks)
{
	size_t state = p->resume ? 0 : c->state_bytes;

	blocks = blocks < CACHE_FETCH_AHEAD ? blocks : CACHE_FETCH_AHEAD;
	return cache_promise(c, p, state + (blocks > 0 ? (size_t)blocks * c->node_bytes : 0));
}

static bool cache_fetch_promise(struct cache_fetch *f, struct cache_node *at, struct cache_node *end)
{
	struct cache *c = f->cache;
	bool promised;

	lock_take(&c->lock);
	promised = f->path && cache_fetch_room_ahead(c, f->path, f->last - end->depth);
	cache_unhold(c, end, cache_now(c));
	cache_unhold(c, at, cache_now(c));
	lock_drop(&c->lock);
	return promised;
}

bool cache_fetch_plan(struct cache_fetch *f, const int32_t *token)
{
	int64_t most = (f->n - 1) / SEQUENCE_BLOCK; /* a token must be left to compute */
	struct cache_node *at, *end;
	int room;

	if (most <= 0 || !cache_fetch_hold(f, &at, &end, &room))
		return false;
	most = most < INT32_MAX ? most : INT32_MAX;
	f->first = end->depth + 1;
	f->last = 0;
	cache_fetch_beyond(f, end, token, most < end->depth + room ? (int)most : end->depth + room);
	if (!f->last)
		cache_fetch_within(f, at, end, (int)most);
	return cache_fetch_promise(f, at, end) && f->last > 0;
}
