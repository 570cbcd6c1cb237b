/* SPDX-License-Identifier: MIT
 * cache_fetch.h - one prompt's reading from disk, for cache_fetch*.c only.
 * Threads: any; blocks come on the disk's. Lock: cache. */
#ifndef ENGINE_CACHE_FETCH_H
#define ENGINE_CACHE_FETCH_H

#include "engine/cache/cache_disk.h"
#include "engine/cache/cache_priv.h"

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

/* ---- cache_fetch_plan.c ---- */

/* What the disk has more of the prompt [f->n] for the path as it is; without the lock. False: nothing of use. */
bool cache_fetch_plan(struct cache_fetch *f, const int32_t *token);
/* Room for the state that is to come, so that nobody else takes it after the blocks have come, and for the next few of
 * `blocks`. All of them at once would be room that nobody could use for as long as the disk takes. */
bool cache_fetch_room_ahead(struct cache *c, struct cache_path *p, int blocks);

/* ---- cache_fetch_take.c ---- */

/* False: what comes is no numbers and fails whoever goes on from it. Without the lock. The disk is told so, but not
 * asked anything: if its thread hung there it would be left behind, and come back when this is gone. */
bool cache_fetch_good(const struct cache_fetch *f, const struct cache_disk_item *item);
/* Takes what it needs of the item. False: more would be of no use. */
bool cache_fetch_take(struct cache_fetch *f, struct cache_disk_item *item, struct cache_dead *dead);

#endif
