/* SPDX-License-Identifier: MIT
 * cache_fetch.c - the prefix cache and its disk: what a prompt lacks is read into the tree, what is new is written.
 * Threads: any; blocks come on the disk's. Lock: cache, never while the disk is asked. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_disk.h"
#include "engine/cache/cache_priv.h"

#include <stdlib.h>
#include <string.h>

/* The blocks after those that the tree has, up to the deepest from whose end the prompt can go on. Where only that state
 * is lacking, its block is read once more. */
struct cache_fetch {
	struct cache *cache;
	struct cache_path *path;   /* NULL: it was let go */
	int32_t *token; int64_t n; /* the prompt, for the final word */
	int next, last;            /* depths: of the block that comes next, and of the state wanted */
	bool no_room;
	atomic_bool abandoned;     /* nobody waits for it: the disk is to stop */
	struct cache_key *key; int cap_key; /* of depths [next, last] when it is asked for */
};

static cache_disk_read_f cache_fetch_got;

static void cache_fetch_free(struct cache_fetch *f)
{
	free(f->token);
	free(f->key);
	free(f);
}

/* ---- what to ask for ---- */

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
static void cache_fetch_within(struct cache_fetch *f, const struct cache_node *at, const struct cache_node *end, int most)
{
	bool state;

	for (const struct cache_node *n = end; n != at; n = n->parent)
		if (n->depth <= most && cache_disk_has(f->cache->o.disk, &n->key, &state) && state) {
			cache_fetch_put_key(f, 0, &n->key);
			f->next = f->last = n->depth;
			return;
		}
}

/* As many blocks, with a state after them, as the budget could hold now. */
static int cache_fetch_room(struct cache *c, int64_t edge)
{
	size_t state = sequence_state_bytes(c->o.layout, edge), need, blocks = 0;

	lock_take(&c->lock);
	need = c->held_bytes + state;
	if (need < c->o.bytes)
		blocks = (c->o.bytes - need) / c->node_bytes;
	lock_drop(&c->lock);
	return blocks < INT32_MAX / 2 ? (int)blocks : INT32_MAX / 2;
}

/* The nodes are held, so that they are looked at without the lock. False: the disk has nothing of use. */
static bool cache_fetch_plan(struct cache_fetch *f, const struct cache_node *at, const struct cache_node *end,
	const int32_t *token)
{
	int64_t most = (f->n - 1) / SEQUENCE_BLOCK; /* a token must be left to compute */
	int far;

	f->next = end->depth + 1;
	f->last = 0;
	if (most <= 0)
		return false;
	far = end->depth + cache_fetch_room(f->cache, most * SEQUENCE_BLOCK);
	cache_fetch_beyond(f, end, token, most < far ? (int)most : far);
	if (!f->last)
		cache_fetch_within(f, at, end, most < INT32_MAX ? (int)most : INT32_MAX);
	return f->last > 0;
}

/* The last key is that of the state wanted. */
static void cache_fetch_ask(struct cache_fetch *f)
{
	const struct cache_disk_ask ask = { .key = f->key, .n = f->last - f->next + 1, .fn = cache_fetch_got, .arg = f,
					    .abandoned = &f->abandoned };

	cache_disk_read(f->cache->o.disk, &ask);
}

/* ---- what comes ---- */

/* The block's node, which the path then ends at; NULL: there is no room. */
static struct cache_node *cache_fetch_block(struct cache *c, struct cache_path *p, struct cache_disk_item *item,
	struct cache_dead *dead)
{
	struct cache_node *n = cache_node_child(p->end, item->token), *above = p->end;
	long long now = cache_now(c);

	if (!n && !cache_make_room(c, c->node_bytes, dead)) {
		c->stats.refused++;
		return NULL;
	}
	if (!n) {
		n = mem_new(sizeof *n);
		n->key = item->key;
		memcpy(n->token, item->token, sizeof n->token);
		n->block = item->block;
		item->block = NULL;
		cache_node_insert(c, above, n);
		c->stats.fetched++;
	}
	cache_hold(c, n, now);
	cache_unhold(c, above, now);
	p->end = n;
	return n;
}

/* False: there is no room. */
static bool cache_fetch_state(struct cache *c, struct cache_node *n, struct cache_disk_item *item,
	struct cache_dead *dead)
{
	if (n->state || !item->state)
		return true;
	if (!cache_make_room(c, sequence_state_bytes(c->o.layout, item->edge), dead)) {
		c->stats.refused++;
		return false;
	}
	cache_state_attach(c, n, item->state, cache_now(c));
	item->state = NULL;
	return true;
}

/* The path goes on from here, and nothing evicts the state until it has. */
static void cache_fetch_resume_at(struct cache *c, struct cache_path *p, struct cache_node *n)
{
	long long now = cache_now(c);

	cache_hold(c, n, now);
	cache_state_pin(c, n);
	if (p->resume)
		cache_state_unpin(c, p->resume, now);
	cache_unhold(c, p->at, now);
	p->at = p->resume = n;
}

static struct cache_node *cache_fetch_node(struct cache *c, struct cache_path *p, int depth,
	struct cache_disk_item *item, struct cache_dead *dead)
{
	struct cache_node *n = p->end;

	if (depth > n->depth)
		return cache_fetch_block(c, p, item, dead);
	while (n->depth > depth)
		n = n->parent;
	return n;
}

/* Takes what it needs of the item. False: more would be of no use. */
static bool cache_fetch_take(struct cache_fetch *f, struct cache_disk_item *item, struct cache_dead *dead)
{
	struct cache_path *p = f->path;
	struct cache_node *n;
	int depth = f->next++;

	if (item->edge != (int64_t)depth * SEQUENCE_BLOCK)
		return false;
	n = cache_fetch_node(f->cache, p, depth, item, dead);
	f->no_room = !n || !cache_fetch_state(f->cache, n, item, dead);
	if (n && n->state && n->depth > p->at->depth)
		cache_fetch_resume_at(f->cache, p, n);
	return !f->no_room;
}

/* Nothing more comes for the path: its find is final. Lock held. */
static void cache_fetch_settle(struct cache_fetch *f)
{
	struct cache_path *p = f->path;

	if (!p)
		return;
	cache_conclude(f->cache, p, f->token, f->n);
	cache_count(f->cache, &p->find, f->n);
	p->fetch = NULL;
	f->path = NULL;
	atomic_store(&f->abandoned, true);
}

/* Did the disk not give what it had? Then the path so far is held, by *ret_at and *ret_end. */
static bool cache_fetch_broken(struct cache_fetch *f, struct cache_node **ret_at, struct cache_node **ret_end)
{
	struct cache *c = f->cache;
	struct cache_path *p;
	bool broken;

	lock_take(&c->lock);
	p = f->path;
	broken = p && p->at->depth < f->last && !f->no_room;
	if (broken) {
		p->broken = true;
		cache_hold(c, *ret_at = p->at, cache_now(c));
		cache_hold(c, *ret_end = p->end, cache_now(c));
	}
	lock_drop(&c->lock);
	return broken;
}

/* After a bad file, which is no longer there now, an earlier state may still serve; each time an earlier one. */
static bool cache_fetch_again(struct cache_fetch *f)
{
	struct cache_node *at, *end;
	int last = f->last;
	bool again;

	if (!cache_fetch_broken(f, &at, &end))
		return false;
	again = cache_fetch_plan(f, at, end, f->token) && f->last < last;
	lock_take(&f->cache->lock);
	cache_unhold(f->cache, end, cache_now(f->cache));
	cache_unhold(f->cache, at, cache_now(f->cache));
	lock_drop(&f->cache->lock);
	if (again)
		cache_fetch_ask(f);
	return again;
}

/* Told before it is counted as ended: cache_free() waits for that, and whoever is told may go after it. */
static void cache_fetch_end(struct cache_fetch *f)
{
	struct cache *c = f->cache;
	bool waits;

	lock_take(&c->lock);
	waits = f->path != NULL;
	cache_fetch_settle(f);
	lock_drop(&c->lock);
	cache_fetch_free(f);
	if (waits && c->o.ready)
		c->o.ready(c->o.ready_arg);
	lock_take(&c->lock);
	if (--c->n_fetch == 0)
		must_zero(pthread_cond_signal(&c->no_fetch));
	lock_drop(&c->lock);
}

static bool cache_fetch_got(void *arg, struct cache_disk_item *item)
{
	struct cache_fetch *f = arg;
	struct cache_dead dead = { 0 };
	bool more;

	if (!item) {
		if (!cache_fetch_again(f))
			cache_fetch_end(f);
		return false;
	}
	lock_take(&f->cache->lock);
	more = f->path && cache_fetch_take(f, item, &dead);
	lock_drop(&f->cache->lock);
	cache_bury(&dead);
	sequence_block_unref(&item->block);
	sequence_state_unref(&item->state);
	return more;
}

/* ---- for a path ---- */

bool cache_fetch_start(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n, struct cache_find *ret_f)
{
	struct cache_fetch *f = mem_new(sizeof *f);

	f->cache = c;
	f->path = p;
	f->n = n;
	if (cache_fetch_plan(f, p->at, p->end, token))
		f->token = mem_try((size_t)n, sizeof *f->token);
	if (!f->token) {
		cache_fetch_free(f);
		return false;
	}
	memcpy(f->token, token, (size_t)n * sizeof *token);
	p->find.waiting = true;
	*ret_f = p->find;
	lock_take(&c->lock);
	p->fetch = f;
	c->n_fetch++;
	lock_drop(&c->lock);
	cache_fetch_ask(f); /* from here on f is the disk's thread's */
	return true;
}

bool cache_ready(struct cache *c, struct cache_path *p, struct cache_find *ret_f)
{
	bool ready;

	lock_take(&c->lock);
	ready = !p->fetch;
	if (ready)
		*ret_f = p->find;
	else
		ret_f->matched = (int64_t)p->end->depth * SEQUENCE_BLOCK;
	lock_drop(&c->lock);
	return ready;
}

void cache_give_up(struct cache *c, struct cache_path *p, struct cache_find *ret_f)
{
	lock_take(&c->lock);
	if (p->fetch)
		cache_fetch_settle(p->fetch);
	*ret_f = p->find;
	lock_drop(&c->lock);
}

/* ---- for the disk ---- */

static void cache_fetch_put(struct cache *c, const struct cache_node *n, struct sequence_state *state)
{
	struct cache_disk_item item = { .key = n->key, .parent = n->parent->key, .block = n->block, .state = state,
					.edge = (int64_t)n->depth * SEQUENCE_BLOCK };

	memcpy(item.token, n->token, sizeof item.token);
	cache_disk_put(c->o.disk, &item);
}

void cache_disk_publish(struct cache *c, const struct cache_node *n, struct sequence_state *state)
{
	if (c->o.disk)
		cache_fetch_put(c, n, state);
}

void cache_disk_refill(struct cache *c, const struct cache_node *end)
{
	const struct cache_node **path;
	bool state;

	if (!c->o.disk || !(path = mem_try((size_t)end->depth, sizeof(*path))))
		return;
	for (const struct cache_node *n = end; n->depth > 0; n = n->parent)
		path[n->depth - 1] = n;
	for (int i = 0; i < end->depth; i++)
		if (path[i] == end || !cache_disk_has(c->o.disk, &path[i]->key, &state))
			cache_fetch_put(c, path[i], path[i] == end ? end->state : NULL);
	free(path);
}

void cache_disk_forget(struct cache *c, const struct cache_dead *dead)
{
	for (const struct cache_node *n = dead->node; n && c->o.disk; n = n->next)
		cache_disk_drop(c->o.disk, &n->key);
}
