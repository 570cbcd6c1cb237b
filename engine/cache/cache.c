/* SPDX-License-Identifier: MIT
 * cache.c - the prefix cache: paths of prompts, looked up, resumed from, published along, released.
 * Threads: any. Lock: cache. */
#include "engine/cache/cache.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

int cache_new(const struct cache_options *o, struct cache **ret_c)
{
	struct cache *c = mem_new(sizeof *c);

	lock_init(&c->lock, "cache");
	c->o = *o;
	c->node_bytes = sequence_block_bytes(o->layout) + sizeof(struct cache_node) + 4 * sizeof(void *);
	list_init(&c->roots);
	list_init(&c->idle);
	list_init(&c->states);
	lock_cond_init(&c->no_fetch);
	cache_node_buckets(c);
	*ret_c = c;
	return 0;
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
	must(list_empty(&c->roots) && c->stats.bytes == 0 && c->held_bytes == 0);
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

/* ---- looking up ---- */

/* The root of these numbers, held; made if need be. The lock is dropped while its key is hashed. */
static struct cache_node *cache_hold_root(struct cache *c, const uint8_t numbers[32], long long now)
{
	struct cache_root *r = cache_root_find(c, numbers);
	struct cache_key key;

	if (!r) {
		lock_drop(&c->lock);
		cache_key_root(c->o.model_id, numbers, &key);
		lock_take(&c->lock);
		r = cache_root_find(c, numbers);
	}
	if (!r) {
		r = mem_new(sizeof *r);
		r->node.root = r;
		r->node.key = key;
		r->serial = ++c->n_root;
		memcpy(r->numbers, numbers, sizeof r->numbers);
		list_put(&c->roots, &r->list);
	}
	cache_hold(c, &r->node, now);
	return &r->node;
}

/* The deepest node from which a prompt of n tokens can go on, with at least one left to compute; or the root. */
static struct cache_node *cache_resumable(struct cache_node *end, int64_t n)
{
	while (end->depth > 0 && (!end->state || (int64_t)end->depth * SEQUENCE_BLOCK >= n))
		end = end->parent;
	return end;
}

/* The tokens that are there under other numbers, in whole blocks. */
static int64_t cache_other_numbers(struct cache *c, const struct cache_root *own, const int32_t *token, int64_t n)
{
	int most = 0;

	list_each(r, &c->roots, struct cache_root, list)
		if (r != own) {
			int depth = cache_node_walk(&r->node, token, n)->depth;

			most = depth > most ? depth : most;
		}
	return (int64_t)most * SEQUENCE_BLOCK;
}

/* The first token that the nearest cached prompt has otherwise, after those matched; -1: none has. */
static int64_t cache_diff(const struct cache_node *end, const int32_t *token, int64_t n)
{
	int64_t matched = (int64_t)end->depth * SEQUENCE_BLOCK, left = n - matched;
	int common;

	left = left < SEQUENCE_BLOCK ? left : SEQUENCE_BLOCK;
	if (left == 0 || end->n_child == 0)
		return -1;
	common = cache_node_common(end, token + matched, (int)left);
	return common == left ? -1 : matched + common;
}

static enum cache_miss cache_why(struct cache *c, const struct cache_node *end, const int32_t *token, int64_t n,
	const struct cache_find *f)
{
	int64_t most = (n - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK; /* that can be reused */

	if (n <= SEQUENCE_BLOCK)
		return CACHE_SHORT;
	if (f->reused == most)
		return CACHE_HIT;
	if (cache_other_numbers(c, end->root, token, n) > f->matched)
		return CACHE_NUMBERS;
	if (f->reused < (f->matched < most ? f->matched : most))
		return CACHE_NO_STATE;
	if (f->diff_token > 0)
		return CACHE_DIFFERS;
	return end->depth > 0 ? CACHE_ENDED : CACHE_COLD;
}

void cache_conclude(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n)
{
	struct cache_find *f = &p->find;

	f->waiting = false;
	f->reused = (int64_t)p->at->depth * SEQUENCE_BLOCK;
	f->matched = (int64_t)p->end->depth * SEQUENCE_BLOCK;
	f->diff_token = cache_diff(p->end, token, n);
	f->miss = p->broken ? CACHE_BROKEN : cache_why(c, p->end, token, n, f);
	if (f->miss == CACHE_COLD)
		f->diff_token = -1;
}

/* Fills the path and its find; everything that it names is held. */
static void cache_search(struct cache *c, struct cache_path *p, const uint8_t numbers[32], const int32_t *token,
	int64_t n)
{
	long long now = cache_now(c);
	struct cache_node *root = cache_hold_root(c, numbers, now);

	p->end = cache_node_walk(root, token, n);
	p->at = cache_resumable(p->end, n);
	cache_hold(c, p->end, now);
	cache_hold(c, p->at, now);
	cache_unhold(c, root, now);
	if (p->at->depth > 0) {
		p->resume = p->at;
		cache_state_pin(c, p->resume);
	}
	cache_conclude(c, p, token, n);
}

void cache_count(struct cache *c, const struct cache_find *f, int64_t n)
{
	c->stats.lookups++;
	c->stats.hits += f->reused > 0;
	c->stats.tokens_asked += (uint64_t)n;
	c->stats.tokens_reused += (uint64_t)f->reused;
	c->stats.miss[f->miss]++;
}

void cache_lookup(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f)
{
	struct cache_path *p = mem_new(sizeof *p);

	p->find = (struct cache_find){ .miss = CACHE_OFF, .diff_token = -1 };
	lock_take(&c->lock);
	p->stopped = c->o.bytes == 0;
	if (!p->stopped)
		cache_search(c, p, numbers, token, n);
	lock_drop(&c->lock);
	*ret_p = p;
	/* What is coming is counted when it has come. */
	if (c->o.disk && !p->stopped && cache_fetch_start(c, p, token, n, ret_f))
		return;
	lock_take(&c->lock);
	cache_count(c, &p->find, n);
	lock_drop(&c->lock);
	*ret_f = p->find;
}

/* ---- resuming ---- */

/* What is held does not change, so that the blocks are collected without the lock. */
static int cache_resume_from(const struct cache_node *node, struct sequence *s)
{
	struct sequence_block **block = mem_try((size_t)node->depth, sizeof *block);
	int rc = -ENOMEM;

	if (!block)
		return rc;
	for (const struct cache_node *n = node; n->depth > 0; n = n->parent)
		block[n->depth - 1] = n->block;
	rc = sequence_resume(s, block, node->state);
	free(block);
	return rc;
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

int cache_resume(struct cache *c, struct cache_path *p, struct sequence *s)
{
	struct cache_node *from = p->resume;
	struct cache_dead dead = { 0 };
	long long now;
	int rc;

	must(!p->find.waiting);
	if (!from)
		return 0;
	rc = cache_resume_from(from, s);
	cache_disk_refill(c, from);
	p->resume = NULL;
	lock_take(&c->lock);
	now = cache_now(c);
	cache_state_unpin(c, from, now);
	if (rc < 0) {
		cache_move(c, p, &from->root->node, now);
		c->stats.hits--;
		c->stats.tokens_reused -= (uint64_t)p->find.reused;
		p->find.reused = 0;
	}
	cache_shrink(c, &dead);
	lock_drop(&c->lock);
	cache_bury(&dead);
	return rc;
}

/* ---- publishing ---- */

/* A node for the block after the path's last, not yet in the tree. */
static struct cache_node *cache_node_of(const struct cache_path *p, const int32_t *token, const struct sequence *s)
{
	struct cache_node *n = mem_new(sizeof *n);

	n->block = sequence_share(s, p->at->depth);
	memcpy(n->token, token, sizeof n->token);
	cache_key_next(&p->at->key, token, &n->key);
	return n;
}

/* Puts the new node under the path's last, unless another was faster or there is no room. */
static struct cache_node *cache_grow(struct cache *c, struct cache_path *p, struct cache_node **fresh,
	struct cache_dead *dead)
{
	struct cache_node *n = cache_node_child(p->at, (*fresh)->token);

	if (n)
		return n;
	if (!cache_make_room(c, c->node_bytes, dead)) {
		p->stopped = true;
		c->stats.refused++;
		return NULL;
	}
	n = *fresh;
	*fresh = NULL;
	cache_node_insert(c, p->at, n);
	c->stats.published++;
	return n;
}

static void cache_keep_state(struct cache *c, struct cache_node *n, struct sequence_state *st,
	struct cache_dead *dead)
{
	size_t bytes = sequence_state_bytes(c->o.layout, sequence_state_edge(st));

	if (n->state)
		cache_state_touch(c, n, cache_now(c));
	else if (cache_make_room(c, bytes, dead))
		cache_state_attach(c, n, sequence_state_ref(st), cache_now(c));
	else
		c->stats.refused++;
}

void cache_publish(struct cache *c, struct cache_path *p, const int32_t token[SEQUENCE_BLOCK],
	const struct sequence *s, struct sequence_state *state)
{
	struct cache_dead dead = { 0 };
	struct cache_node *n, *fresh = NULL;

	if (p->stopped)
		return;
	must(!p->resume && !p->find.waiting);
	lock_take(&c->lock);
	n = cache_node_child(p->at, token);
	if (n) {
		c->stats.duplicates++;
	} else {
		lock_drop(&c->lock);
		fresh = cache_node_of(p, token, s);
		lock_take(&c->lock);
		n = cache_grow(c, p, &fresh, &dead);
	}
	if (n)
		cache_move(c, p, n, cache_now(c));
	if (n && state)
		cache_keep_state(c, n, state, &dead);
	lock_drop(&c->lock);
	if (n)
		cache_disk_publish(c, n, state);
	if (fresh) {
		fresh->next = dead.node;
		dead.node = fresh;
	}
	cache_bury(&dead);
}

void cache_publish_state(struct cache *c, struct cache_path *p, struct sequence_state *state)
{
	struct cache_dead dead = { 0 };

	if (p->stopped || sequence_state_edge(state) != (int64_t)p->at->depth * SEQUENCE_BLOCK)
		return;
	must(!p->resume && !p->find.waiting);
	lock_take(&c->lock);
	cache_keep_state(c, p->at, state, &dead);
	lock_drop(&c->lock);
	cache_disk_publish(c, p->at, state);
	cache_bury(&dead);
}

int64_t cache_path_blocks(const struct cache_path *p)
{
	return p->at ? p->at->depth : 0;
}

/* ---- letting go ---- */

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
	struct cache_find last;
	long long now;

	*pp = NULL;
	if (!p)
		return;
	cache_give_up(c, p, &last);
	lock_take(&c->lock);
	now = cache_now(c);
	if (p->resume)
		cache_state_unpin(c, p->resume, now);
	if (p->at) {
		cache_touch_last_state(c, p, now);
		cache_unhold(c, p->at, now);
	}
	if (p->end)
		cache_unhold(c, p->end, now);
	cache_shrink(c, &dead);
	lock_drop(&c->lock);
	cache_bury(&dead);
	free(p);
}
