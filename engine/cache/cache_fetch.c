/* SPDX-License-Identifier: MIT
 * cache_fetch.c - the prefix cache and its disk: what a prompt lacks is read into the tree.
 * Threads: any; blocks come on the disk's. Lock: cache, never while the disk is asked. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_disk.h"
#include "engine/cache/cache_finite.h"
#include "engine/cache/cache_priv.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_FETCH_MOST 16384 /* blocks that the disk takes in one question */
#define CACHE_FETCH_AHEAD 2    /* blocks that are promised before they come */

/* The blocks after those that the tree has, up to the deepest from whose end the prompt can go on. Where only that
 * state is lacking, its block is read once more. One reads, and whoever lacks what it reads waits for it and looks
 * again. */
struct cache_fetch {
	struct cache *cache;
	struct cache_path *path;    /* NULL: it was let go */
	int32_t *token; int64_t n;  /* the prompt, to look again and for the final word */
	int first, last;            /* depths asked for; a state is wanted at the last */
	int next;                   /* depth of the block that comes next */
	bool no_room;
	atomic_bool refused;        /* the disk took no question */
	bool overtaken;             /* the tree has what would come next: what is lacking is asked for anew */
	atomic_bool abandoned;      /* nobody waits for it: the disk is to stop */
	struct cache_key *key; int cap_key; /* of depths [first, last] */
	struct cache_fetch *leader; /* who reads for it; NULL: itself does */
	struct list link;           /* in the cache's fetches while it reads, or in its leader's waiting */
	struct list waiting;
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
			f->first = f->last = n->depth;
			return;
		}
}

/* As many blocks, with a state after them, as the budget could hold now. */
static int cache_fetch_room(const struct cache *c, const struct cache_path *p)
{
	size_t need = c->held_bytes + c->promised + (p->resume ? 0 : c->state_bytes), blocks = 0;

	if (need < c->o.bytes)
		blocks = (c->o.bytes - need) / c->node_bytes;
	return blocks < CACHE_FETCH_MOST ? (int)blocks : CACHE_FETCH_MOST;
}

/* The path as it is, held; false: it was let go. */
static bool cache_fetch_hold(struct cache_fetch *f, struct cache_node **ret_at, struct cache_node **ret_end,
	int *ret_room)
{
	struct cache *c = f->cache;
	bool there;

	lock_take(&c->lock);
	there = f->path != NULL;
	if (there) {
		cache_hold(c, *ret_at = f->path->at, cache_now(c));
		cache_hold(c, *ret_end = f->path->end, cache_now(c));
		*ret_room = cache_fetch_room(c, f->path);
	}
	lock_drop(&c->lock);
	return there;
}

/* Room for the state that is to come, so that nobody else takes it after the blocks have come, and for the next few of
 * `blocks`. All of them at once would be room that nobody could use for as long as the disk takes. */
static bool cache_fetch_room_ahead(struct cache *c, struct cache_path *p, int blocks)
{
	size_t state = p->resume ? 0 : c->state_bytes;

	blocks = blocks < CACHE_FETCH_AHEAD ? blocks : CACHE_FETCH_AHEAD;
	return cache_promise(c, p, state + (blocks > 0 ? (size_t)blocks * c->node_bytes : 0));
}

static bool cache_fetch_promise(struct cache_fetch *f, struct cache_node *at, struct cache_node *end)
{
	struct cache *c = f->cache;
	bool promised;

	lock_take(&c->lock);
	promised = f->path && cache_fetch_room_ahead(c, f->path, f->last - end->depth);
	cache_unhold(c, end, cache_now(c));
	cache_unhold(c, at, cache_now(c));
	lock_drop(&c->lock);
	return promised;
}

/* What the disk has more for the path as it is. False: nothing of use. */
static bool cache_fetch_plan(struct cache_fetch *f, const int32_t *token)
{
	int64_t most = (f->n - 1) / SEQUENCE_BLOCK; /* a token must be left to compute */
	struct cache_node *at, *end;
	int room;

	if (most <= 0 || !cache_fetch_hold(f, &at, &end, &room))
		return false;
	most = most < INT32_MAX ? most : INT32_MAX;
	f->first = end->depth + 1;
	f->last = 0;
	cache_fetch_beyond(f, end, token, most < end->depth + room ? (int)most : end->depth + room);
	if (!f->last)
		cache_fetch_within(f, at, end, (int)most);
	return cache_fetch_promise(f, at, end) && f->last > 0;
}

/* Who reads the block that comes next. */
static struct cache_fetch *cache_fetch_leader(struct cache *c, const struct cache_fetch *f)
{
	list_each(l, &c->fetches, struct cache_fetch, link)
		if (l->path && l->first <= f->first && f->first <= l->last &&
		    cache_key_equal(&l->key[f->first - l->first], &f->key[0]))
			return l;
	return NULL;
}

/* Reads what was planned, or waits for who does. From here on f is the disk's thread's. The last key is that of the
 * state wanted. */
static void cache_fetch_begin(struct cache_fetch *f)
{
	const struct cache_disk_ask ask = { .key = f->key, .n = f->last - f->first + 1, .fn = cache_fetch_got, .arg = f,
					    .abandoned = &f->abandoned, .refused = &f->refused };
	struct cache *c = f->cache;
	struct cache_disk *disk = c->o.disk;
	struct cache_fetch *leader;

	lock_take(&c->lock);
	f->next = f->first;
	f->leader = leader = cache_fetch_leader(c, f);
	list_put(leader ? &leader->waiting : &c->fetches, &f->link);
	if (leader && f->path)
		must(cache_promise(c, f->path, 0));
	lock_drop(&c->lock);
	if (!leader)
		cache_disk_read(disk, &ask);
}

/* ---- what comes ---- */

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

/* Takes what it needs of the item. False: more would be of no use. */
static bool cache_fetch_take(struct cache_fetch *f, struct cache_disk_item *item, struct cache_dead *dead)
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

/* What is no numbers fails whoever goes on from it. On the disk's thread, which must not go to the disk from here: if it
 * hung there it would be left behind, and come back when this is gone. */
static bool cache_fetch_good(const struct cache_fetch *f, const struct cache_disk_item *item)
{
	const struct sequence_layout *l = f->cache->o.layout;

	if (cache_finite_block(l, item->block) && (!item->state || cache_finite_state(l, item->state)))
		return true;
	cache_disk_disown(f->cache->o.disk, &item->key);
	return false;
}

/* Nothing more comes for the path: its find is final. Lock held. */
static void cache_fetch_settle(struct cache_fetch *f)
{
	struct cache_path *p = f->path;

	if (!p)
		return;
	must(cache_promise(f->cache, p, 0));
	cache_trim(f->cache, p, cache_now(f->cache));
	cache_conclude(f->cache, p, f->token, f->n);
	cache_count(f->cache, &p->find, f->n);
	p->fetch = NULL;
	f->path = NULL;
	atomic_store(&f->abandoned, true);
}

/* Why it ended before all had come; lock held. */
static bool cache_fetch_short(struct cache_fetch *f, struct cache_path *p, int last)
{
	bool shorter = p->at->depth < last, refused = atomic_load(&f->refused);

	if (shorter && !f->no_room && refused)
		p->refused = true;
	else if (shorter && !f->no_room && p->broken < last)
		p->broken = last;
	f->no_room = false;
	return shorter && !refused;
}

/* After a bad file, which is no longer there now, or where others took the room for more, an earlier state may still
 * serve; each time an earlier one. */
static bool cache_fetch_again(struct cache_fetch *f)
{
	struct cache *c = f->cache;
	struct cache_path *p;
	bool shorter = false, overtaken = false;
	int last = f->last;

	lock_take(&c->lock);
	list_del(&f->link); /* whoever lacks the same now reads it, too */
	if ((p = f->path)) {
		overtaken = f->overtaken;
		shorter = !overtaken && cache_fetch_short(f, p, last);
		must(cache_promise(c, p, 0));
		if (overtaken)
			cache_search(c, p, f->token, f->n);
	}
	f->overtaken = false;
	lock_drop(&c->lock);
	if ((!shorter && !overtaken) || !cache_fetch_plan(f, f->token) || (shorter && f->last >= last))
		return false;
	cache_fetch_begin(f);
	return true;
}

static void cache_fetch_end(struct cache_fetch *f);

/* The one it waited for has ended. */
static void cache_fetch_wake(struct cache_fetch *f)
{
	lock_take(&f->cache->lock);
	f->leader = NULL;
	if (f->path)
		cache_search(f->cache, f->path, f->token, f->n);
	lock_drop(&f->cache->lock);
	if (cache_fetch_plan(f, f->token))
		cache_fetch_begin(f);
	else
		cache_fetch_end(f);
}

/* Told before it is counted as ended: cache_free() waits for that, and whoever is told may go after it. */
static void cache_fetch_end(struct cache_fetch *f)
{
	struct cache *c = f->cache;
	struct list waiting;
	bool waits;

	list_init(&waiting);
	lock_take(&c->lock);
	list_del(&f->link);
	waits = f->path != NULL;
	cache_fetch_settle(f);
	while (!list_empty(&f->waiting)) {
		struct cache_fetch *w = list_entry(f->waiting.next, struct cache_fetch, link);

		w->leader = NULL;
		list_del(&w->link);
		list_put(&waiting, &w->link);
	}
	lock_drop(&c->lock);
	cache_fetch_free(f);
	if (waits && c->o.ready)
		c->o.ready(c->o.ready_arg);
	while (!list_empty(&waiting)) {
		struct cache_fetch *w = list_entry(waiting.next, struct cache_fetch, link);

		list_del(&w->link);
		cache_fetch_wake(w);
	}
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
	more = cache_fetch_good(f, item);
	lock_take(&f->cache->lock);
	more = more && f->path && cache_fetch_take(f, item, &dead);
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
	list_init(&f->link);
	list_init(&f->waiting);
	if (cache_fetch_plan(f, token))
		f->token = mem_try((size_t)n, sizeof *f->token);
	lock_take(&c->lock);
	if (f->token) {
		memcpy(f->token, token, (size_t)n * sizeof *token);
		p->find.waiting = true;
		*ret_f = p->find;
		p->fetch = f;
		c->n_fetch++;
	} else {
		must(cache_promise(c, p, 0));
	}
	lock_drop(&c->lock);
	if (!f->token) {
		cache_fetch_free(f);
		return false;
	}
	cache_fetch_begin(f);
	return true;
}

/* How far the prompt's blocks have come. */
static int cache_fetch_came(const struct cache_path *p)
{
	const struct cache_fetch *leader = p->fetch->leader;

	return leader && leader->next - 1 > p->end->depth ? leader->next - 1 : p->end->depth;
}

bool cache_ready(struct cache *c, struct cache_path *p, struct cache_find *ret_f)
{
	bool ready;

	lock_take(&c->lock);
	ready = !p->fetch;
	if (ready)
		*ret_f = p->find;
	else
		ret_f->matched = (int64_t)cache_fetch_came(p) * SEQUENCE_BLOCK;
	lock_drop(&c->lock);
	return ready;
}

void cache_give_up(struct cache *c, struct cache_path *p, struct cache_find *ret_f)
{
	lock_take(&c->lock);
	if (p->fetch) {
		must(cache_promise(c, p, 0));
		cache_search(c, p, p->fetch->token, p->fetch->n);
		cache_fetch_settle(p->fetch);
	}
	*ret_f = p->find;
	lock_drop(&c->lock);
}

void cache_fetch_cancel(struct cache *c, struct cache_path *p)
{
	lock_take(&c->lock);
	if (p->fetch)
		cache_fetch_settle(p->fetch);
	lock_drop(&c->lock);
}
