/* SPDX-License-Identifier: MIT
 * cache_look.c - the prefix cache from outside: counters, the tree, one block, and what an operator removes.
 * Threads: any. Lock: cache. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_disk.h"
#include "engine/cache/cache_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const cache_misses[CACHE_N_MISS] = {
	[CACHE_HIT] = "hit",
	[CACHE_OFF] = "off",
	[CACHE_SHORT] = "short",
	[CACHE_COLD] = "cold",
	[CACHE_NUMBERS] = "numbers",
	[CACHE_DIFFERS] = "differs",
	[CACHE_NO_STATE] = "no-state",
	[CACHE_ENDED] = "ended",
	[CACHE_BROKEN] = "broken",
};

const char *cache_miss_name(enum cache_miss m)
{
	must(m < CACHE_N_MISS);
	return cache_misses[m];
}

void cache_stats(struct cache *c, struct cache_stats *ret_s)
{
	lock_take(&c->lock);
	*ret_s = c->stats;
	ret_s->budget = c->o.bytes;
	lock_drop(&c->lock);
}

const char *cache_model_id(const struct cache *c)
{
	return c->o.model_id;
}

/* ---- the tree ---- */

static void cache_entry_fill(struct cache_entry *e, const struct cache_node *n, long long now)
{
	*e = (struct cache_entry){
		.key = n->key,
		.parent = n->parent->key,
		.depth = n->depth,
		.children = n->n_child,
		.pins = n->holds,
		.has_state = n->state != NULL,
		.age = (double)(now - n->used) * 1e-9,
	};
	memcpy(e->numbers, n->root->numbers, sizeof e->numbers);
	memcpy(e->token, n->token, sizeof e->token);
}

static int cache_tree_fill(struct cache *c, struct cache_entry *e, int max)
{
	long long now = clock_ns();
	int n = 0;

	list_each(r, &c->roots, struct cache_root, list)
		for (struct cache_node *i = cache_node_next(&r->node, &r->node); i && n < max;
		     i = cache_node_next(&r->node, i))
			cache_entry_fill(&e[n++], i, now);
	return n;
}

int cache_tree(struct cache *c, struct cache_entry **ret_e, int max)
{
	struct cache_stats s;
	struct cache_entry *e;
	int n;

	must(max >= 0);
	cache_stats(c, &s);
	if (s.blocks < (uint64_t)max)
		max = (int)s.blocks; /* those that come meanwhile are left out */
	e = mem_try((size_t)max, sizeof *e);
	if (!e)
		return -ENOMEM;
	lock_take(&c->lock);
	n = cache_tree_fill(c, e, max);
	lock_drop(&c->lock);
	*ret_e = e;
	return n;
}

/* ---- one block ---- */

/* The depth of a key's block, which is the same whenever it is there; 0: not there. */
static int cache_depth(struct cache *c, const struct cache_key *k)
{
	struct cache_node *n;
	int depth;

	lock_take(&c->lock);
	n = cache_node_find(c, k);
	depth = n ? n->depth : 0;
	lock_drop(&c->lock);
	return depth;
}

static void cache_copy_fill(struct cache_copy *copy, const struct cache_node *node)
{
	cache_entry_fill(&copy->entry, node, clock_ns());
	for (const struct cache_node *n = node; n->depth > 0; n = n->parent) {
		copy->block[n->depth - 1] = sequence_block_ref(n->block);
		memcpy(copy->token + (int64_t)(n->depth - 1) * SEQUENCE_BLOCK, n->token, sizeof n->token);
	}
	copy->n_block = node->depth;
	copy->n_token = (int64_t)node->depth * SEQUENCE_BLOCK;
	copy->state = node->state ? sequence_state_ref(node->state) : NULL;
}

int cache_get(struct cache *c, const struct cache_key *k, struct cache_copy *ret_c)
{
	struct cache_copy copy = { 0 };
	struct cache_node *n;
	size_t depth = (size_t)cache_depth(c, k);

	if (depth == 0)
		return RC_NOT_FOUND;
	copy.token = mem_try(depth * SEQUENCE_BLOCK, sizeof *copy.token);
	copy.block = mem_try(depth, sizeof(struct sequence_block *));
	if (!copy.token || !copy.block) {
		cache_copy_fini(&copy);
		return -ENOMEM;
	}
	lock_take(&c->lock);
	n = cache_node_find(c, k);
	if (n)
		cache_copy_fill(&copy, n);
	lock_drop(&c->lock);
	if (!n) {
		cache_copy_fini(&copy);
		return RC_NOT_FOUND;
	}
	*ret_c = copy;
	return 0;
}

void cache_copy_fini(struct cache_copy *c)
{
	for (int64_t i = 0; i < c->n_block; i++)
		sequence_block_unref(&c->block[i]);
	sequence_state_unref(&c->state);
	free(c->token);
	free(c->block);
	*c = (struct cache_copy){ 0 };
}

/* ---- cleaning up ---- */

static void cache_kill_below(struct cache *c, struct cache_node *top, struct cache_dead *dead)
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

int cache_evict(struct cache *c, const struct cache_key *k)
{
	struct cache_dead dead = { 0 };
	struct cache_node *n;
	bool state;
	int rc = 0;

	lock_take(&c->lock);
	n = cache_node_find(c, k);
	if (!n)
		rc = RC_NOT_FOUND;
	else if (n->holds > 0)
		rc = RC_BUSY;
	else
		cache_kill_below(c, n, &dead);
	lock_drop(&c->lock);
	cache_disk_forget(c, &dead);
	cache_bury(&dead);
	if (rc == RC_NOT_FOUND && c->o.disk && cache_disk_has(c->o.disk, k, &state)) {
		cache_disk_drop(c->o.disk, k);
		rc = 0;
	}
	return rc;
}

uint64_t cache_clear(struct cache *c)
{
	struct cache_dead dead = { 0 };
	uint64_t before, removed;

	lock_take(&c->lock);
	before = c->stats.blocks;
	cache_kill_idle(c, &dead);
	removed = before - c->stats.blocks;
	lock_drop(&c->lock);
	cache_bury(&dead);
	if (c->o.disk)
		cache_disk_clear(c->o.disk);
	return removed;
}
