/* SPDX-License-Identifier: MIT
 * cache_fetch_take.c - what comes from disk is put into the tree, below the path that waits for it.
 * Threads: the disk's. Lock: cache, held. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_fetch.h"
#include "engine/cache/cache_finite.h"

#include <string.h>

/* Into the tree, if there is room; the promise for it is given back, that for the state is not. */
static struct cache_node *cache_fetch_insert(struct cache *c, struct cache_path *p, struct cache_disk_item *item,
	struct cache_dead *dead)
{
	struct cache_node *n;

	must(cache_fetch_room_ahead(c, p, 0));
	if (!cache_make_room(c, c->node_bytes, dead)) {
		c->stats.refused++;
		return NULL;
	}
	n = mem_new(sizeof *n);
	n->key = item->key;
	memcpy(n->token, item->token, sizeof n->token);
	n->block = item->block;
	item->block = NULL;
	cache_node_insert(c, p->end, n);
	c->stats.fetched++;
	return n;
}

/* The block's node, which the path then ends at; NULL: there is no room. */
static struct cache_node *cache_fetch_block(struct cache *c, struct cache_path *p, struct cache_disk_item *item,
	struct cache_dead *dead)
{
	struct cache_node *n = cache_node_child(p->end, item->token), *above = p->end;
	long long now = cache_now(c);

	if (above->doubt)
		return NULL;
	if (n && n->holds == 0)
		must(cache_fetch_room_ahead(c, p, 0));
	if (n && n->holds == 0 && c->held_bytes + c->promised + c->node_bytes > c->o.bytes)
		return NULL;
	n = n ? n : cache_fetch_insert(c, p, item, dead);
	if (!n)
		return NULL;
	cache_hold(c, n, now);
	cache_unhold(c, above, now);
	p->end = n;
	return n;
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

/* The path goes on from here, if there is a state. False: there is no room for it. */
static bool cache_fetch_state(struct cache *c, struct cache_path *p, struct cache_node *n, struct sequence_state *st,
	struct cache_dead *dead)
{
	if (n->depth <= p->at->depth || (!n->state && !st))
		return true;
	if (!cache_keep_state(c, p, &p->resume, n, st, dead))
		return false;
	cache_go_on_at(c, p, n);
	return true;
}

/* Another request has published, or read, what would come next. */
static bool cache_fetch_overtaken(const struct cache_fetch *f)
{
	const struct cache_node *end = f->path->end;

	return end->depth + 1 == f->next && f->next <= f->last &&
		cache_node_child(end, f->token + (int64_t)end->depth * SEQUENCE_BLOCK);
}

bool cache_fetch_take(struct cache_fetch *f, struct cache_disk_item *item, struct cache_dead *dead)
{
	struct cache_path *p = f->path;
	struct cache_node *n;
	int depth = f->next++;

	if (item->edge != (int64_t)depth * SEQUENCE_BLOCK)
		return false;
	n = cache_fetch_node(f->cache, p, depth, item, dead);
	f->no_room = !n || !cache_fetch_state(f->cache, p, n, item->state, dead);
	if (!f->no_room) /* else each block finds its own */
		(void)cache_fetch_room_ahead(f->cache, p, f->last - depth);
	f->overtaken = !f->no_room && cache_fetch_overtaken(f);
	return !f->no_room && !f->overtaken;
}

bool cache_fetch_good(const struct cache_fetch *f, const struct cache_disk_item *item)
{
	const struct sequence_layout *l = f->cache->o.layout;

	if (cache_finite_block(l, item->block) && (!item->state || cache_finite_state(l, item->state)))
		return true;
	cache_disk_disown(f->cache->o.disk, &item->key);
	return false;
}
