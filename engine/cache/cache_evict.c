/* SPDX-License-Identifier: MIT
 * cache_evict.c - the prefix cache's budget: who is in use, who was not for longest, and who goes.
 * Threads: any. Lock: cache, held by the caller; not to free.
 *
 * What paths are promised counts as held: a path that grows is promised its next block, and the state without which
 * its blocks would be of no use. Of states and leaves together the longest unused goes first; of those last used at
 * the same time, the state. One that all states went before any block would leave a full cache with blocks from which
 * nothing can be resumed. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_priv.h"

#include <stdlib.h>

static size_t cache_state_bytes(const struct cache *c, const struct cache_node *n)
{
	return sequence_state_bytes(c->o.layout, (int64_t)n->depth * SEQUENCE_BLOCK);
}

/* ---- use ---- */

long long cache_now(struct cache *c)
{
	long long now = clock_ns();

	c->now = now > c->now ? now : c->now + 1;
	return c->now;
}

void cache_hold(struct cache *c, struct cache_node *n, long long now)
{
	for (; n && n->holds++ == 0; n = n->parent) {
		n->used = now;
		if (n->depth == 0)
			continue;
		list_del(&n->idle);
		c->held_bytes += c->node_bytes;
		c->stats.pinned++;
	}
}

void cache_unhold(struct cache *c, struct cache_node *n, long long now)
{
	struct cache_node *parent;

	for (; n; n = parent) {
		must(n->holds > 0);
		parent = n->parent;
		if (--n->holds > 0)
			return;
		n->used = now;
		if (n->depth == 0) {
			cache_root_drop(c, n->root);
			return;
		}
		list_put(n->doubt ? &c->doubted : &c->idle, &n->idle);
		c->held_bytes -= c->node_bytes;
		c->stats.pinned--;
	}
}

void cache_state_pin(struct cache *c, struct cache_node *n)
{
	must(n->state && n->holds > 0);
	if (n->state_pins++ > 0)
		return;
	list_del(&n->state_idle);
	c->held_bytes += cache_state_bytes(c, n);
}

void cache_state_unpin(struct cache *c, struct cache_node *n, long long now)
{
	must(n->state && n->state_pins > 0);
	if (--n->state_pins > 0)
		return;
	n->state_used = now;
	list_put(&c->states, &n->state_idle);
	c->held_bytes -= cache_state_bytes(c, n);
}

void cache_state_touch(struct cache *c, struct cache_node *n, long long now)
{
	if (n->state_pins > 0)
		return;
	n->state_used = now;
	list_del(&n->state_idle);
	list_put(&c->states, &n->state_idle);
}

void cache_state_attach(struct cache *c, struct cache_node *n, struct sequence_state *st, long long now)
{
	size_t bytes = cache_state_bytes(c, n);

	must(!n->state && n->state_pins == 0);
	must(sequence_state_edge(st) == (int64_t)n->depth * SEQUENCE_BLOCK);
	n->state = st;
	n->state_used = now;
	list_put(&c->states, &n->state_idle);
	c->stats.states++;
	c->stats.state_bytes += bytes;
	c->stats.bytes += bytes;
}

/* ---- room ---- */

bool cache_promise(struct cache *c, struct cache_path *p, size_t bytes)
{
	if (bytes > p->promised && c->held_bytes + c->promised - p->promised + bytes > c->o.bytes)
		return false;
	c->promised += bytes - p->promised;
	p->promised = bytes;
	return true;
}

size_t cache_hold_bytes(const struct cache *c, const struct cache_node *n)
{
	size_t bytes = 0;

	for (; n->depth > 0 && n->holds == 0; n = n->parent)
		bytes += c->node_bytes;
	return bytes;
}

/* ---- out ---- */

static void cache_kill_state(struct cache *c, struct cache_node *n, struct cache_dead *dead)
{
	size_t bytes = cache_state_bytes(c, n);

	must(n->state_pins == 0);
	dead->state = mem_grow(dead->state, (size_t)dead->n_state + 1, sizeof *dead->state);
	dead->state[dead->n_state++] = n->state;
	n->state = NULL;
	list_del(&n->state_idle);
	c->stats.states--;
	c->stats.state_bytes -= bytes;
	c->stats.bytes -= bytes;
}

void cache_kill(struct cache *c, struct cache_node *n, struct cache_dead *dead)
{
	if (n->state)
		cache_kill_state(c, n, dead);
	cache_node_remove(c, n);
	n->next = dead->node;
	dead->node = n;
}

void cache_kill_below(struct cache *c, struct cache_node *top, struct cache_dead *dead)
{
	struct cache_node *n = top, *parent;

	do {
		while (n->n_child)
			n = n->child[n->n_child - 1];
		parent = n->parent; /* a root may go with its last child */
		cache_kill(c, n, dead);
		if (n == top)
			return;
		n = parent;
	} while (true);
}

static bool cache_evict_one(struct cache *c, struct cache_dead *dead)
{
	struct cache_node *st = NULL, *leaf = NULL;

	if (!list_empty(&c->doubted)) {
		cache_kill(c, list_entry(c->doubted.next, struct cache_node, idle), dead);
		return true;
	}
	if (!list_empty(&c->states))
		st = list_entry(c->states.next, struct cache_node, state_idle);
	if (!list_empty(&c->idle))
		leaf = list_entry(c->idle.next, struct cache_node, idle);
	if (!st && !leaf)
		return false;
	if (st && (!leaf || st->state_used <= leaf->used)) {
		cache_kill_state(c, st, dead);
		c->stats.evicted_states++;
	} else {
		c->stats.evicted_states += leaf->state != NULL;
		c->stats.evicted_blocks++;
		cache_kill(c, leaf, dead);
	}
	return true;
}

bool cache_make_room(struct cache *c, size_t need, struct cache_dead *dead)
{
	if (c->held_bytes + c->promised + need > c->o.bytes)
		return false;
	while (c->stats.bytes + need > c->o.bytes)
		must(cache_evict_one(c, dead));
	return true;
}

void cache_shrink(struct cache *c, struct cache_dead *dead)
{
	while (c->stats.bytes > c->o.bytes && cache_evict_one(c, dead))
		;
}

void cache_sweep(struct cache *c, struct cache_dead *dead)
{
	while (!list_empty(&c->doubted))
		cache_kill(c, list_entry(c->doubted.next, struct cache_node, idle), dead);
}

void cache_kill_idle(struct cache *c, struct cache_dead *dead)
{
	cache_sweep(c, dead);
	while (!list_empty(&c->states))
		cache_kill_state(c, list_entry(c->states.next, struct cache_node, state_idle), dead);
	while (!list_empty(&c->idle))
		cache_kill(c, list_entry(c->idle.next, struct cache_node, idle), dead);
}

void cache_bury(struct cache_dead *dead)
{
	for (struct cache_node *n = dead->node, *next; n; n = next) {
		next = n->next;
		sequence_block_unref(&n->block);
		free(n->child);
		free(n);
	}
	for (int i = 0; i < dead->n_state; i++)
		sequence_state_unref(&dead->state[i]);
	free(dead->state);
	free(dead->doubted);
	*dead = (struct cache_dead){ 0 };
}
