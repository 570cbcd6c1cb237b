/* SPDX-License-Identifier: MIT
 * cache.c - the prefix cache: its life, and that of paths that were looked up: resumed from, let go.
 * Threads: any. Lock: cache. */
#include "engine/cache/cache.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_finite.h"
#include "engine/cache/cache_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_DISTRUST_LOOK 64 /* blocks */

/* ---- life ---- */

struct cache *cache_new(const struct cache_options *o)
{
	struct cache *c = mem_new(sizeof *c);

	lock_init(&c->lock, "cache");
	c->o = *o;
	c->node_bytes = sequence_block_bytes(o->layout) + sizeof(struct cache_node) + 4 * sizeof(void *);
	c->state_bytes = sequence_state_bytes(o->layout, (o->layout->window / SEQUENCE_BLOCK + 1) * SEQUENCE_BLOCK);
	list_init(&c->roots);
	list_init(&c->fetches);
	list_init(&c->idle);
	list_init(&c->states);
	list_init(&c->doubted);
	lock_cond_init(&c->no_fetch);
	cache_node_buckets(c);
	return c;
}

void cache_free(struct cache **pc)
{
	struct cache *c = *pc;
	struct cache_dead dead = { 0 };

	*pc = NULL;
	if (!c)
		return;
	lock_take(&c->lock);
	while (c->n_fetch) /* for paths released since */
		lock_wait(&c->lock, &c->no_fetch, -1);
	cache_kill_idle(c, &dead);
	lock_drop(&c->lock);
	cache_bury(&dead);
	must(list_empty(&c->fetches) && c->n_doubt == 0);
	must(list_empty(&c->roots) && c->stats.bytes == 0 && c->held_bytes == 0 && c->promised == 0);
	must_zero(pthread_cond_destroy(&c->no_fetch));
	lock_fini(&c->lock);
	free(c->bucket);
	free(c);
}

void cache_set_budget(struct cache *c, size_t bytes)
{
	struct cache_dead dead = { 0 };

	lock_take(&c->lock);
	c->o.bytes = bytes;
	cache_node_buckets(c);
	cache_shrink(c, &dead);
	lock_drop(&c->lock);
	cache_bury(&dead);
}

/* ---- doubt ---- */

bool cache_doubted(const struct cache_path *p)
{
	return (p->at && p->at->doubt) || (p->end && p->end->doubt);
}

/* Its place is free at once: what holds it may run for long, and others compute it again meanwhile. */
void cache_doubt(struct cache *c, struct cache_node *top, struct cache_dead *dead)
{
	struct cache_node *next, *parent;

	must(top->holds > 0);
	if (top->doubt)
		return;
	c->stats.distrusted++;
	cache_node_cut(c, top, dead);
	for (struct cache_node *n = top; n; n = next) {
		next = n->holds ? cache_node_next(top, n) : NULL;
		if (n->holds)
			continue;
		parent = n->parent;
		cache_kill_below(c, n, dead);
		next = cache_node_behind(top, parent, n->token);
	}
}

void cache_forget_end(struct cache *c, struct cache_path *p)
{
	if (!p->end || !p->end->doubt)
		return;
	cache_unhold(c, p->end, cache_now(c));
	p->end = NULL;
}

/* ---- resuming ---- */

/* What is held does not change, so that the blocks are collected without the lock. */
static int cache_resume_from(struct cache *c, const struct cache_node *node, struct sequence *s)
{
	struct sequence_block **block = mem_try((size_t)node->depth, sizeof *block);
	int rc;

	if (!block)
		return -ENOMEM;
	for (const struct cache_node *n = node; n->depth > 0; n = n->parent)
		block[n->depth - 1] = n->block;
	rc = cache_finite_state(c->o.layout, node->state) ? sequence_resume(s, block, node->state) : RC_INVALID;
	free(block);
	return rc;
}

/* Nothing is reused, for this reason. */
static void cache_resume_none(struct cache *c, struct cache_path *p, enum cache_miss miss, long long now)
{
	struct cache_node *root = &p->at->root->node;

	cache_hold(c, root, now);
	cache_unhold(c, p->at, now);
	p->at = root;
	cache_forget_end(c, p);
	cache_recount(c, &p->find, true);
	p->find.reused = 0;
	p->find.kept = false;
	p->find.miss = miss;
	cache_recount(c, &p->find, false);
}

int cache_resume(struct cache *c, struct cache_path *p, struct sequence *s, struct cache_find *ret_f)
{
	struct cache_node *from = p->resume;
	struct cache_dead dead = { 0 };
	long long now;
	int rc = 0;

	must(!p->find.waiting);
	if (from) {
		rc = cache_resume_from(c, from, s);
		if (rc == 0 && !p->kept)
			cache_disk_refill(c, from);
		lock_take(&c->lock);
		now = cache_now(c);
		p->resume = NULL;
		if (rc == 0) {
			p->from = p->keep = from; /* pinned as before */
			c->stats.kept += p->kept;
		} else {
			cache_state_unpin(c, from, now);
			if (rc != -ENOMEM)
				cache_doubt(c, from, &dead);
			cache_resume_none(c, p, rc == -ENOMEM ? CACHE_NO_MEMORY : CACHE_BROKEN, now);
		}
		cache_sweep(c, &dead);
		cache_shrink(c, &dead);
		lock_drop(&c->lock);
		cache_disk_forget(c, &dead, false);
		cache_bury(&dead);
	}
	*ret_f = p->find;
	return rc;
}

void cache_distrust(struct cache *c, struct cache_path *p)
{
	struct cache_node *doubted = p->from, *n = p->from;
	struct cache_dead dead = { 0 };

	/* What it was resumed from; or, where one can tell, the first block that is at fault. Of a long path only the
	 * end is looked at, for other requests wait meanwhile: what is before it is found from an earlier state. */
	for (int i = 0; i < CACHE_DISTRUST_LOOK && n && n->depth > 0; i++, n = n->parent)
		if (!cache_finite_block(c->o.layout, n->block))
			doubted = n;
	lock_take(&c->lock);
	if (doubted)
		cache_doubt(c, doubted, &dead);
	lock_drop(&c->lock);
	cache_disk_forget(c, &dead, false);
	cache_bury(&dead);
}

int64_t cache_path_blocks(const struct cache_path *p)
{
	return p->at ? p->at->depth : 0;
}

/* ---- letting go ---- */

void cache_let_go(struct cache *c, struct cache_path *p, long long now, struct cache_dead *dead)
{
	if (p->resume)
		cache_state_unpin(c, p->resume, now);
	if (p->keep)
		cache_state_unpin(c, p->keep, now);
	if (p->at)
		cache_unhold(c, p->at, now);
	if (p->end)
		cache_unhold(c, p->end, now);
	must(cache_promise(c, p, 0));
	p->at = p->end = p->resume = p->keep = p->from = NULL;
	cache_sweep(c, dead);
}

/* The state at the end of what this path used counts as used with it. */
static void cache_touch_last_state(struct cache *c, const struct cache_path *p, long long now)
{
	struct cache_node *n = cache_resumable(p->at, INT64_MAX);

	if (n->depth > 0)
		cache_state_touch(c, n, now);
}

void cache_release(struct cache *c, struct cache_path **pp)
{
	struct cache_path *p = *pp;
	struct cache_dead dead = { 0 };

	*pp = NULL;
	if (!p)
		return;
	cache_fetch_cancel(c, p);
	lock_take(&c->lock);
	if (p->at)
		cache_touch_last_state(c, p, cache_now(c));
	cache_let_go(c, p, cache_now(c), &dead);
	cache_shrink(c, &dead);
	lock_drop(&c->lock);
	cache_bury(&dead);
	free(p);
}
