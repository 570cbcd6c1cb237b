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

#define CACHE_LOOK_SLICE 64 /* blocks or buckets looked at while the lock is held */

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
	[CACHE_REFUSED] = "disk-busy",
	[CACHE_NO_MEMORY] = "no-memory",
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

/* A walk through the tree, depth first, that lets go of the lock after every slice: the entries copied are the way to
 * where it is, though blocks come and go meanwhile. */
struct cache_walk {
	struct cache_entry *e; int n, max;
	uint64_t root;             /* serial */
	int first;                 /* entry of that root */
};

static struct cache_root *cache_walk_root(struct cache *c, struct cache_walk *w)
{
	list_each(r, &c->roots, struct cache_root, list) {
		if (r->serial < w->root)
			continue;
		if (r->serial > w->root)
			w->first = w->n;
		w->root = r->serial;
		return r;
	}
	return NULL;
}

/* The entry of the parent of entry i, -1: the root is. */
static int cache_walk_up(const struct cache_walk *w, int i)
{
	int depth = w->e[i].depth;

	while (i >= w->first && w->e[i].depth >= depth)
		i--;
	return i >= w->first ? i : -1;
}

/* The node behind the last copied. */
static struct cache_node *cache_walk_at(struct cache *c, const struct cache_walk *w, const struct cache_node *root)
{
	struct cache_node *above;
	int i = w->n - 1, up;

	if (i < w->first)
		return cache_node_next(root, root);
	above = cache_node_find(c, &w->e[i].key);
	if (above)
		return cache_node_next(root, above);
	for (;; i = up) { /* it is gone; so may be those above it */
		up = cache_walk_up(w, i);
		if (up < 0)
			return cache_node_behind(root, root, w->e[i].token);
		above = cache_node_find(c, &w->e[up].key);
		if (above)
			return cache_node_behind(root, above, w->e[i].token);
	}
}

/* Lock held. False at the end. */
static bool cache_walk_slice(struct cache *c, struct cache_walk *w)
{
	int stop = w->max - w->n < CACHE_LOOK_SLICE ? w->max : w->n + CACHE_LOOK_SLICE;
	struct cache_root *r = cache_walk_root(c, w);
	long long now = clock_ns();
	struct cache_node *at;

	if (!r)
		return false;
	for (at = cache_walk_at(c, w, &r->node); at && w->n < stop; at = cache_node_next(&r->node, at))
		cache_entry_fill(&w->e[w->n++], at, now);
	if (!at) {
		w->root++;
		w->first = w->n;
	}
	return w->n < w->max;
}

int cache_tree(struct cache *c, struct cache_entry **ret_e, int max)
{
	struct cache_walk w = { .max = max };
	struct cache_stats s;
	bool more = max > 0;

	must(max >= 0);
	cache_stats(c, &s);
	if (s.blocks < (uint64_t)max)
		w.max = (int)s.blocks; /* more that come meanwhile are left out */
	w.e = mem_try((size_t)w.max, sizeof *w.e);
	if (!w.e)
		return -ENOMEM;
	while (more) {
		lock_take(&c->lock);
		more = cache_walk_slice(c, &w);
		lock_drop(&c->lock);
	}
	*ret_e = w.e;
	return w.n;
}

/* ---- by the first digits ---- */

/* The least and the greatest key that begins with these digits. */
static int cache_find_range(const char *digits, struct cache_key *ret_low, struct cache_key *ret_high)
{
	char low[CACHE_KEY_HEX], high[CACHE_KEY_HEX];
	size_t len = strlen(digits);

	if (len == 0 || len > 2 * CACHE_KEY_BYTES)
		return RC_INVALID;
	for (size_t i = 0; i < sizeof low - 1; i++) {
		low[i] = i < len ? digits[i] : '0';
		high[i] = i < len ? digits[i] : 'f';
	}
	low[sizeof low - 1] = high[sizeof high - 1] = '\0';
	return cache_key_parse(low, ret_low) || cache_key_parse(high, ret_high) ? RC_INVALID : 0;
}

static bool cache_find_within(const struct cache_key *k, const struct cache_key *low, const struct cache_key *high)
{
	return memcmp(k->byte, low->byte, sizeof k->byte) >= 0 && memcmp(k->byte, high->byte, sizeof k->byte) <= 0;
}

int cache_find(struct cache *c, const char *digits, struct cache_key *ret_k)
{
	struct cache_key low, high;
	size_t at, end, n_bucket;
	int found = 0, rc = cache_find_range(digits, &low, &high);

	if (rc)
		return rc;
	lock_take(&c->lock);
	n_bucket = c->n_bucket;
	at = cache_node_bucket_of(c, &low);
	end = cache_node_bucket_of(c, &high) + 1;
	for (size_t n = 1; at < end; at++, n++) {
		for (const struct cache_node *i = c->bucket[at]; i; i = i->next)
			if (cache_find_within(&i->key, &low, &high) && found++ == 0)
				*ret_k = i->key;
		if (n % CACHE_LOOK_SLICE)
			continue;
		lock_drop(&c->lock);
		lock_take(&c->lock);
		/* More buckets, of the same order: each became several. */
		at = (at + 1) * (c->n_bucket / n_bucket) - 1;
		end *= c->n_bucket / n_bucket;
		n_bucket = c->n_bucket;
	}
	lock_drop(&c->lock);
	return found;
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
	cache_disk_forget(c, &dead, true);
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
	c->keeps = false;
	lock_drop(&c->lock);
	cache_bury(&dead);
	if (c->o.disk)
		cache_disk_clear(c->o.disk);
	return removed;
}
