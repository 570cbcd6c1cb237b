/* SPDX-License-Identifier: MIT
 * cache_lookup.c - the prefix cache: what it has of a prompt, why no more, and once more when that may have changed.
 * Threads: any. Lock: cache. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_priv.h"

#include <string.h>

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

struct cache_node *cache_resumable(struct cache_node *end, int64_t n)
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
	f->kept = p->kept && f->reused > 0;
	f->matched = (int64_t)end->depth * SEQUENCE_BLOCK;
	f->diff_token = cache_diff(end, token, n);
	f->miss = cache_why(c, end, token, n, f);
	/* Unless it came some other way. */
	if (f->reused < (int64_t)p->broken * SEQUENCE_BLOCK)
		f->miss = CACHE_BROKEN;
	else if (p->refused && f->miss != CACHE_HIT)
		f->miss = CACHE_REFUSED;
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

void cache_recount(struct cache *c, const struct cache_find *f, bool back)
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

/* A prompt of these numbers, looked for under those or, if they are lent some, under others. */
static void cache_find_first(struct cache *c, struct cache_path *p, const uint8_t numbers[32], const uint8_t under[32],
	const int32_t *token, int64_t n)
{
	long long now = cache_now(c);

	p->kept = under != numbers;
	p->at = p->end = cache_hold_root(c, under, now);
	cache_hold(c, p->end, now);
	cache_search(c, p, token, n);
	cache_conclude(c, p, token, n);
}

static void cache_lookup_under(struct cache *c, const uint8_t numbers[32], bool lent, const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f)
{
	struct cache_path *p = mem_new(sizeof *p);

	p->find = (struct cache_find){ .miss = CACHE_OFF, .diff_token = -1 };
	lock_take(&c->lock);
	if (c->o.bytes)
		cache_find_first(c, p, numbers, lent ? cache_keep_numbers(c, numbers, token, n) : numbers, token, n);
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

void cache_lookup(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f)
{
	cache_lookup_under(c, numbers, true, token, n, ret_p, ret_f);
}

void cache_lookup_own(struct cache *c, const uint8_t numbers[32], const int32_t *token, int64_t n,
	struct cache_path **ret_p, struct cache_find *ret_f)
{
	cache_lookup_under(c, numbers, false, token, n, ret_p, ret_f);
}

/* What it found is not to be used any more: looks for what is. */
static void cache_find_anew(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n,
	struct cache_dead *dead)
{
	struct cache_node *root = &p->at->root->node;
	long long now = cache_now(c);

	cache_hold(c, root, now);
	cache_hold(c, root, now);
	cache_let_go(c, p, now, dead);
	p->at = p->end = root;
	cache_search(c, p, token, n);
}

void cache_look_again(struct cache *c, struct cache_path *p, const int32_t *token, int64_t n, struct cache_find *ret_f)
{
	struct cache_dead dead = { 0 };

	lock_take(&c->lock);
	must(!p->from && !p->keep && !p->fetch);
	if (p->at) {
		cache_recount(c, &p->find, true);
		if (cache_doubted(p))
			cache_find_anew(c, p, token, n, &dead);
		else
			cache_search(c, p, token, n);
		cache_conclude(c, p, token, n);
		cache_recount(c, &p->find, false);
	}
	*ret_f = p->find;
	lock_drop(&c->lock);
	cache_bury(&dead);
}
