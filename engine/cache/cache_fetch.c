/* SPDX-License-Identifier: MIT
 * cache_fetch.c - what a prompt lacks of the prefix cache is read from disk: who reads, who waits, when it has ended.
 * Threads: any; blocks come on the disk's. Lock: cache, never while the disk is asked. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_fetch.h"

#include <stdlib.h>
#include <string.h>

static cache_disk_read_f cache_fetch_got;

static void cache_fetch_free(struct cache_fetch *f)
{
	free(f->token);
	free(f->key);
	free(f);
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
