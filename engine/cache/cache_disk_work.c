/* SPDX-License-Identifier: MIT
 * cache_disk_work.c - what the disk cache's thread does: one file written, room made, uses noted.
 * Threads: its own. Lock: cache_disk, never during I/O. */
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_disk_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_DISK_SAVE_AT_ONCE 64

int64_t cache_disk_now(void)
{
	struct timespec t;

	must_zero(clock_gettime(CLOCK_REALTIME, &t));
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- deleting ---- */

static void cache_disk_delete(struct cache_disk *d, const struct cache_disk_name *n, enum cache_disk_place place)
{
	int rc;

	cache_disk_io_begin(d);
	rc = cache_dir_remove(&d->dir, n, place == CACHE_DISK_BAD);
	cache_disk_io_end(d);
	lock_take(&d->lock);
	if (rc < 0)
		cache_disk_failed(d, &d->stats.errors, n, strerror(-rc));
	else
		d->stats.deleted++;
	lock_drop(&d->lock);
}

void cache_disk_evict(struct cache_disk *d, struct cache_disk_entry *e)
{
	struct cache_disk_name n = e->name, state = e->name;
	enum cache_disk_place place = e->place;
	struct cache_disk_entry *st = NULL;
	bool with_state;

	state.kind = CACHE_FILE_STATE;
	/* A state without its block is of no use. */
	if (n.kind == CACHE_FILE_BLOCK && place != CACHE_DISK_BAD)
		st = cache_disk_index_find(&d->index, &state, place);
	with_state = st != NULL;
	cache_disk_index_remove(&d->index, &st);
	cache_disk_index_remove(&d->index, &e);
	lock_drop(&d->lock);
	cache_disk_delete(d, &n, place);
	if (with_state)
		cache_disk_delete(d, &state, place);
}

bool cache_disk_make_room(struct cache_disk *d, uint64_t need, const struct cache_disk_name *keep)
{
	struct cache_disk_entry *old;
	bool fits = need <= d->limit;

	lock_take(&d->lock);
	cache_disk_take_removals(d); /* what they hold counts until they are gone */
	while (fits && !d->left && d->index.bytes > d->limit - need) {
		old = cache_disk_index_oldest(&d->index);
		fits = !keep || old != cache_disk_index_find(&d->index, keep, CACHE_DISK_OWN);
		if (!fits)
			break;
		cache_disk_evict(d, old);
		lock_take(&d->lock);
	}
	lock_drop(&d->lock);
	return fits;
}

/* ---- uses ---- */

void cache_disk_touch(struct cache_disk *d, const struct cache_disk_name *block)
{
	struct cache_disk_stamp save[CACHE_DISK_SAVE_AT_ONCE];
	int n;

	lock_take(&d->lock);
	cache_disk_index_touch(&d->index, block, cache_disk_now());
	do {
		n = cache_disk_index_unsaved(&d->index, block, save, CACHE_DISK_SAVE_AT_ONCE);
		lock_drop(&d->lock);
		cache_disk_io_begin(d);
		for (int i = 0; i < n; i++)
			cache_dir_touch(&d->dir, &save[i].name, save[i].stamp);
		cache_disk_io_end(d);
		lock_take(&d->lock);
	} while (n);
	lock_drop(&d->lock);
}

void cache_disk_know_parent(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_key *parent)
{
	struct cache_disk_entry *e = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN);

	if (!e)
		return;
	e->parent = *parent;
	e->has_parent = true;
}

/* ---- writing ---- */

/* Lock held. One file may overdraw what is left of the minute; those after it wait until that is made up. */
static bool cache_disk_allowed(struct cache_disk *d)
{
	double now = clock_s(), full = 60 * (double)d->write_rate;

	d->allowance += (now - d->refilled) * (double)d->write_rate;
	d->refilled = now;
	if (d->allowance > full)
		d->allowance = full;
	return !d->write_rate || d->allowance > 0;
}

/* The block that it needs: a state its own, a block the one before it. */
static struct cache_disk_name cache_disk_above(struct cache_disk *d, const struct cache_disk_name *n,
	const struct cache_disk_item *item)
{
	return cache_disk_name_of(d, n->kind == CACHE_FILE_STATE ? &item->key : &item->parent, CACHE_FILE_BLOCK);
}

/* Without that it could not be reached: what the rate or an error left out takes all behind it along. Lock held. */
static bool cache_disk_reachable(struct cache_disk *d, const struct cache_disk_name *n,
	const struct cache_disk_item *item)
{
	struct cache_disk_name above = cache_disk_above(d, n, item);

	return (n->kind == CACHE_FILE_BLOCK && item->edge == SEQUENCE_BLOCK) ||
	       cache_disk_index_find(&d->index, &above, CACHE_DISK_OWN);
}

/* Is it to be written at all? Counts why not. */
static bool cache_disk_wanted(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_disk_item *item)
{
	bool there, useless, allowed;

	lock_take(&d->lock);
	there = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN) != NULL;
	useless = !cache_disk_reachable(d, n, item);
	allowed = cache_disk_allowed(d);
	if (!there && useless)
		d->stats.dropped++;
	else if (!there && !allowed)
		d->stats.over_rate++;
	there = there || useless || !allowed || d->dropped || d->left;
	lock_drop(&d->lock);
	return !there;
}

/* The file has its name: it is in the cache, unless someone wanted its key gone meanwhile. */
static void cache_disk_wrote(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_disk_item *item,
	size_t size, int64_t stamp)
{
	size_t raw = cache_file_raw(&d->format, n->kind, item);
	bool dropped;

	lock_take(&d->lock);
	d->stats.written++;
	d->stats.written_bytes += size;
	d->stats.raw_bytes += raw;
	d->allowance -= (double)size;
	dropped = d->dropped;
	if (!dropped) {
		cache_disk_index_add(&d->index, n, CACHE_DISK_OWN, size, stamp);
		if (n->kind == CACHE_FILE_BLOCK)
			cache_disk_know_parent(d, n, &item->parent);
	}
	lock_drop(&d->lock);
	d->unsynced++;
	if (!dropped)
		return;
	cache_disk_io_begin(d);
	cache_dir_remove(&d->dir, n, false);
	cache_disk_io_end(d);
}

static void cache_disk_not_written(struct cache_disk *d, const struct cache_disk_name *n, size_t size, const char *why)
{
	lock_take(&d->lock);
	/* It may have cost the disk as much as a file that could be finished. */
	d->allowance -= (double)size;
	cache_disk_failed(d, &d->stats.errors, n, why);
	lock_drop(&d->lock);
}

static void cache_disk_write_bytes(struct cache_disk *d, const struct cache_disk_name *n,
	const struct cache_disk_item *item, const uint8_t *bytes, size_t size)
{
	struct cache_disk_name above = cache_disk_above(d, n, item);
	struct buf why = { 0 };
	int64_t stamp;
	int rc;

	lock_take(&d->lock);
	stamp = cache_disk_index_stamp(&d->index, &above, cache_disk_now());
	lock_drop(&d->lock);
	cache_disk_io_begin(d);
	rc = cache_dir_write(&d->dir, n, bytes, size, stamp, &why);
	cache_disk_io_end(d);
	if (rc == 0)
		cache_disk_wrote(d, n, item, size, stamp);
	else
		cache_disk_not_written(d, n, size, buf_str(&why));
	buf_fini(&why);
}

static void cache_disk_write_one(struct cache_disk *d, const struct cache_disk_item *item, enum cache_file_kind kind)
{
	struct cache_disk_name n = cache_disk_name_of(d, &item->key, kind), above = cache_disk_above(d, &n, item);
	uint8_t *bytes;
	size_t size;

	if (!cache_disk_wanted(d, &n, item))
		return;
	if (cache_file_pack(&d->format, kind, item, &bytes, &size) < 0) {
		cache_disk_not_written(d, &n, 0, "no memory to compress it");
		return;
	}
	/* Of a path longer than the limit the end would push out what is before it, which is used no later. */
	if (cache_disk_make_room(d, size, &above)) {
		cache_disk_write_bytes(d, &n, item, bytes, size);
	} else {
		lock_take(&d->lock);
		d->stats.dropped++;
		lock_drop(&d->lock);
	}
	free(bytes);
}

void cache_disk_work_write(struct cache_disk *d, const struct cache_disk_item *item)
{
	struct cache_disk_name block = cache_disk_name_of(d, &item->key, CACHE_FILE_BLOCK);

	lock_take(&d->lock);
	cache_disk_know_parent(d, &block, &item->parent);
	lock_drop(&d->lock);
	if (item->block)
		cache_disk_write_one(d, item, CACHE_FILE_BLOCK);
	if (item->state)
		cache_disk_write_one(d, item, CACHE_FILE_STATE);
	cache_disk_touch(d, &block);
}

void cache_disk_work_sync(struct cache_disk *d)
{
	int rc;

	cache_disk_io_begin(d);
	rc = cache_dir_sync(&d->dir);
	cache_disk_io_end(d);
	d->unsynced = 0;
	if (rc == 0)
		return;
	lock_take(&d->lock);
	cache_disk_failed(d, &d->stats.errors, NULL, strerror(-rc));
	lock_drop(&d->lock);
}
