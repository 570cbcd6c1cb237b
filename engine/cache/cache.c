/* SPDX-License-Identifier: MIT
 * cache.c - the prefix cache: paths of prompts, looked up, resumed from, released.
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

/* ---- life ---- */

int cache_new(const struct cache_options *o, struct cache **ret_c)
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

void cache_go_on_at(struct cache *c, struct cache_path *p, struct cache_node *n)
{
	long long now = cache_now(c);

	must(p->resume == n);
	cache_hold(c, n, now);
	cache_unhold(c, p->at, now);
	p->at = n;
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
	int64_t held = (int64_t)p->end->depth * SEQUENCE_BLOCK;
	const struct cache_node *end = cache_node_walk(p->end, token + held, n - held);

	f->waiting = false;
	f->reused = (int64_t)p->at->depth * SEQUENCE_BLOCK;
	f->matched = (int64_t)end->depth * SEQUENCE_BLOCK;
	f->diff_token = cache_diff(end, token, n);
	f->miss = p->broken ? CACHE_BROKEN : cache_why(c, end, token, n, f);
	if (f->miss == CACHE_COLD)
		f->diff_token = -1;
}

/* Holds no more than fits beside what others hold and were promised: what is held already costs nothing. */
static bool cache_holdable(const struct cache *c, size_t more)
{
	return more == 0 || c->held_bytes + c->promised + more <= c->o.bytes;
}

static void cache_search_at(struct cache *c, struct cache_path *p, struct cache_node *found, int64_t n, long long now)
{
	struct cache_node *at = cache_resumable(found, n);

	while (at->depth > p->at->depth &&
	       !cache_holdable(c, cache_hold_bytes(c, at) + (at->state_pins ? 0 : c->state_bytes)))
		at = cache_resumable(at->parent, n);
	if (at->depth <= p->at->depth)
		return;
	cache_hold(c, at, now);
	must(cache_keep_state(c, p, &p->resume, at, NULL, NULL));
	cache_go_on_at(c, p, at);
	cache_unhold(c, at, now);
}

static void cache_search_end(struct cache *c, struct cache_path *p, struct cache_node *end, long long now)
{
	size_t more = cache_hold_bytes(c, end), room = p->resume ? 0 : c->state_bytes;

	for (; more && !cache_holdable(c, more + room); end = end->parent)
		more -= c->node_bytes;
	if (end->depth <= p->end->depth)
		return;
	cache_hold(c, end, now);
	cache_unhold(c, p->end, now);
	p->end = end;
}

void cache_search(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n)
{
	struct cache_node *found = cache_node_walk(&p->at->root->node, token, n);
	long long now = cache_now(c);

	cache_search_at(c, p, found, n, now);
	cache_search_end(c, p, found, now);
}

void cache_trim(struct cache *c, struct cache_path *p, long long now)
{
	size_t room = p->resume ? 0 : c->state_bytes;

	while (p->end->depth > p->at->depth && !cache_holdable(c, room)) {
		struct cache_node *end = p->end;

		cache_hold(c, p->end = end->parent, now);
		cache_unhold(c, end, now);
	}
}

/* The find of one of the lookups, counted or taken back. */
static void cache_recount(struct cache *c, const struct cache_find *f, bool back)
{
	c->stats.hits += (f->reused > 0) * (back ? -1ull : 1);
	c->stats.tokens_reused += (uint64_t)(back ? -f->reused : f->reused);
	c->stats.miss[f->miss] += back ? -1ull : 1;
}

void cache_count(struct cache *c, const struct cache_find *f, int64_t n)
{
	c->stats.lookups++;
	c->stats.tokens_asked += (uint64_t)n;
	cache_recount(c, f, false);
}

static void cache_find_first(struct cache *c, struct cache_path *p, const uint8_t numbers[32], const int32_t *token,
	int64_t n)
{
	long long now = cache_now(c);

	p->at = p->end = cache_hold_root(c, numbers, now);
	cache_hold(c, p->end, now);
	cache_search(c, p, token, n);
	cache_conclude(c, p, token, n);
}

void cache_lookup(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f)
{
	struct cache_path *p = mem_new(sizeof *p);

	p->find = (struct cache_find){ .miss = CACHE_OFF, .diff_token = -1 };
	lock_take(&c->lock);
	if (c->o.bytes)
		cache_find_first(c, p, numbers, token, n);
	lock_drop(&c->lock);
	*ret_p = p;
	/* What is coming is counted when it has come. */
	if (c->o.disk && p->at && cache_fetch_start(c, p, token, n, ret_f))
		return;
	lock_take(&c->lock);
	cache_count(c, &p->find, n);
	lock_drop(&c->lock);
	*ret_f = p->find;
}

/* The highest node that is held by the path and that something failed on. */
static struct cache_node *cache_doubted(const struct cache *c, const struct cache_path *p)
{
	struct cache_node *top = NULL, *from[] = { p->at, p->end };

	for (int i = 0; i < 2 && c->n_doubt; i++)
		for (struct cache_node *n = from[i]; n; n = n->parent)
			if (n->doubt && (!top || n->depth < top->depth))
				top = n;
	return top;
}

/* Lets go of all that the path holds. What is doubted goes when nobody holds it any more. */
static void cache_let_go(struct cache *c, struct cache_path *p, long long now, struct cache_dead *doubted)
{
	struct cache_node *top = cache_doubted(c, p);

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
	if (top && top->holds == 0)
		cache_kill_below(c, top, doubted);
}

/* What it found is not to be used any more: looks for what is. */
static void cache_find_anew(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n,
	struct cache_dead *doubted)
{
	struct cache_node *root = &p->at->root->node;
	long long now = cache_now(c);

	cache_hold(c, root, now);
	cache_hold(c, root, now);
	cache_let_go(c, p, now, doubted);
	p->at = p->end = root;
	cache_search(c, p, token, n);
}

void cache_look_again(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n, struct cache_find *ret_f)
{
	struct cache_dead doubted = { 0 };

	lock_take(&c->lock);
	must(!p->from && !p->keep && !p->fetch);
	if (p->at) {
		cache_recount(c, &p->find, true);
		if (cache_doubted(c, p))
			cache_find_anew(c, p, token, n, &doubted);
		else
			cache_search(c, p, token, n);
		cache_conclude(c, p, token, n);
		cache_recount(c, &p->find, false);
	}
	*ret_f = p->find;
	lock_drop(&c->lock);
	cache_disk_forget(c, &doubted, false);
	cache_bury(&doubted);
}

/* ---- resuming ---- */

/* Nobody finds the node any more, if it is to be doubted. */
static void cache_doubt(struct cache *c, struct cache_node *n, bool doubt)
{
	c->n_doubt += doubt && !n->doubt;
	c->stats.distrusted += doubt && !n->doubt;
	n->doubt = n->doubt || doubt;
}

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
	cache_recount(c, &p->find, true);
	p->find.reused = 0;
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
		if (rc == 0)
			cache_disk_refill(c, from);
		lock_take(&c->lock);
		now = cache_now(c);
		p->resume = NULL;
		if (rc == 0) {
			p->from = p->keep = from; /* pinned as before */
		} else {
			cache_state_unpin(c, from, now);
			cache_doubt(c, from, rc != -ENOMEM);
			cache_resume_none(c, p, rc == -ENOMEM ? CACHE_NO_MEMORY : CACHE_BROKEN, now);
		}
		cache_shrink(c, &dead);
		lock_drop(&c->lock);
		cache_bury(&dead);
	}
	*ret_f = p->find;
	return rc;
}

void cache_distrust(struct cache *c, struct cache_path *p)
{
	struct cache_node *doubted = p->from;

	/* What it was resumed from; or, where one can tell, the first block that is at fault. */
	for (struct cache_node *n = p->from; n && n->depth > 0; n = n->parent)
		if (!cache_finite_block(c->o.layout, n->block))
			doubted = n;
	lock_take(&c->lock);
	if (doubted)
		cache_doubt(c, doubted, true);
	lock_drop(&c->lock);
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
	struct cache_dead dead = { 0 }, doubted = { 0 };

	*pp = NULL;
	if (!p)
		return;
	cache_fetch_cancel(c, p);
	lock_take(&c->lock);
	if (p->at)
		cache_touch_last_state(c, p, cache_now(c));
	cache_let_go(c, p, cache_now(c), &doubted);
	cache_shrink(c, &dead);
	lock_drop(&c->lock);
	cache_disk_forget(c, &doubted, false);
	cache_bury(&doubted);
	cache_bury(&dead);
	free(p);
}
