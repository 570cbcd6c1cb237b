/* SPDX-License-Identifier: MIT
 * cache_publish.c - the prefix cache grows: blocks and states of a request, published along its path.
 * Threads: any. Lock: cache, never while a block is hashed.
 *
 * Blocks from which nothing can go on are of no use, so a path that grows always has room for one state: one that it
 * pinned, or one that it was promised. It is promised its next block as well, so that it knows of its last one in
 * time to save the state there. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- room ---- */

/* What is promised for a state; nothing, when the path has one. */
static size_t cache_publish_spare(const struct cache *c, const struct cache_path *p)
{
	return p->keep ? 0 : c->state_bytes;
}

/* Room for the next `blocks` of the path, the first of which has these tokens, and a state. What is held costs
 * nothing. */
static bool cache_publish_promise(struct cache *c, struct cache_path *p, const int32_t *token, int blocks)
{
	const struct cache_node *next = cache_node_child(p->at, token);
	int held = p->end && p->end->depth > p->at->depth ? p->end->depth - p->at->depth : 0;
	size_t need;

	if (held < 1 && next && next->holds > 0)
		held = 1;
	need = cache_publish_spare(c, p) + (blocks > held ? (size_t)(blocks - held) * c->node_bytes : 0);
	return need <= p->promised || cache_promise(c, p, need);
}

bool cache_publish_room(struct cache *c, struct cache_path *p, const int32_t token[SEQUENCE_BLOCK], int blocks,
	bool *ret_last)
{
	bool room = false;

	*ret_last = false;
	lock_take(&c->lock);
	cache_forget_end(c, p);
	if (p->at && !p->at->doubt && !p->kept) {
		*ret_last = !cache_publish_promise(c, p, token, blocks + 1);
		room = !*ret_last || cache_publish_promise(c, p, token, blocks);
	}
	lock_drop(&c->lock);
	return room;
}

void cache_take_promise(struct cache *c, struct cache_path *p)
{
	must(cache_promise(c, p, p->promised - (p->promised < c->node_bytes ? p->promised : c->node_bytes)));
}

/* ---- blocks ---- */

/* A node for the block after the path's last, not yet in the tree. */
static struct cache_node *cache_node_of(const struct cache_path *p, const int32_t *token, const struct sequence *s)
{
	struct cache_node *n = mem_new(sizeof *n);

	n->block = sequence_share(s, p->at->depth);
	memcpy(n->token, token, sizeof n->token);
	cache_key_next(&p->at->key, token, &n->key);
	return n;
}

/* The next block is published under n. */
static void cache_move(struct cache *c, struct cache_path *p, struct cache_node *n, long long now)
{
	cache_hold(c, n, now);
	cache_unhold(c, p->at, now);
	p->at = n;
	if (n != p->end)
		return;
	cache_unhold(c, p->end, now);
	p->end = NULL;
}

/* The child that is there. */
static struct cache_node *cache_publish_there(struct cache *c, struct cache_path *p, const int32_t *token)
{
	struct cache_node *n = cache_node_child(p->at, token);

	if (!n)
		return NULL;
	if (n->holds == 0)
		cache_take_promise(c, p);
	c->stats.duplicates++;
	return n;
}

/* Puts the new node under the path's last, unless another was faster or there is no room. */
static struct cache_node *cache_grow(struct cache *c, struct cache_path *p, struct cache_node **fresh,
	struct cache_dead *dead)
{
	struct cache_node *n = p->at->doubt ? NULL : cache_publish_there(c, p, (*fresh)->token);

	if (n || p->at->doubt)
		return n;
	cache_take_promise(c, p);
	if (!cache_make_room(c, c->node_bytes, dead)) {
		c->stats.refused++;
		return NULL;
	}
	n = *fresh;
	*fresh = NULL;
	cache_node_insert(c, p->at, n);
	c->stats.published++;
	return n;
}

/* Lock held, and dropped while the node is made. */
static struct cache_node *cache_publish_block(struct cache *c, struct cache_path *p, const int32_t *token,
	const struct sequence *s, struct cache_node **fresh, struct cache_dead *dead)
{
	struct cache_node *n;

	cache_forget_end(c, p);
	if (p->at->doubt || !cache_publish_promise(c, p, token, 1)) {
		c->stats.refused++;
		return NULL;
	}
	n = cache_publish_there(c, p, token);
	if (!n) {
		lock_drop(&c->lock);
		*fresh = cache_node_of(p, token, s);
		lock_take(&c->lock);
		n = cache_grow(c, p, fresh, dead);
	}
	if (n)
		cache_move(c, p, n, cache_now(c));
	return n;
}

void cache_publish(struct cache *c, struct cache_path *p, const int32_t token[SEQUENCE_BLOCK],
	const struct sequence *s, struct sequence_state *state)
{
	struct cache_dead dead = { 0 };
	struct cache_node *n, *fresh = NULL;

	if (!p->at || p->kept)
		return;
	must(!p->resume && !p->find.waiting);
	lock_take(&c->lock);
	n = cache_publish_block(c, p, token, s, &fresh, &dead);
	if (n && (state || n->state))
		cache_keep_state(c, p, &p->keep, n, state, &dead);
	cache_sweep(c, &dead);
	lock_drop(&c->lock);
	if (n)
		cache_disk_publish(c, n, state);
	if (fresh) {
		fresh->next = dead.node;
		dead.node = fresh;
	}
	cache_bury(&dead);
}

/* ---- states ---- */

/* A state at n in the room that the path's last one, no longer pinned, or a promise leaves. */
static bool cache_attach_state(struct cache *c, struct cache_path *p, struct cache_node *last, struct cache_node *n,
	struct sequence_state *st, struct cache_dead *dead)
{
	size_t promised = p->promised, back = promised < c->state_bytes ? promised : c->state_bytes;
	long long now = cache_now(c);

	if (last)
		cache_state_unpin(c, last, now);
	else
		must(cache_promise(c, p, promised - back));
	if (cache_make_room(c, sequence_state_bytes(c->o.layout, sequence_state_edge(st)), dead)) {
		cache_state_attach(c, n, sequence_state_ref(st), now);
		cache_state_pin(c, n);
		return true;
	}
	c->stats.refused++;
	if (last)
		cache_state_pin(c, last);
	else
		cache_promise(c, p, promised);
	return false;
}

bool cache_keep_state(struct cache *c, struct cache_path *p, struct cache_node **last, struct cache_node *n,
	struct sequence_state *st, struct cache_dead *dead)
{
	size_t back = p->promised < c->state_bytes ? p->promised : c->state_bytes;

	if (*last == n)
		return true;
	if (!n->state) {
		if (!cache_attach_state(c, p, *last, n, st, dead))
			return false;
	} else {
		cache_state_pin(c, n);
		if (*last)
			cache_state_unpin(c, *last, cache_now(c));
		else
			must(cache_promise(c, p, p->promised - back));
	}
	*last = n;
	return true;
}

void cache_publish_state(struct cache *c, struct cache_path *p, struct sequence_state *state)
{
	struct cache_dead dead = { 0 };
	bool doubt;

	if (!p->at || p->kept || sequence_state_edge(state) != (int64_t)p->at->depth * SEQUENCE_BLOCK)
		return;
	must(!p->resume && !p->find.waiting);
	lock_take(&c->lock);
	doubt = p->at->doubt;
	if (!doubt)
		cache_keep_state(c, p, &p->keep, p->at, state, &dead);
	lock_drop(&c->lock);
	if (!doubt)
		cache_disk_publish(c, p->at, state);
	cache_bury(&dead);
}
