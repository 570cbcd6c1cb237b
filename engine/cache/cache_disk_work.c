/* SPDX-License-Identifier: MIT
 * cache_disk_work.c - what the disk cache's thread does: one file written, one path read, room made, bad files moved.
 * Threads: its own. Lock: cache_disk, never during I/O. */
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_disk_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* As many bad files as someone would look at. */
#define CACHE_DISK_MAX_BAD 16
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
	int rc = cache_dir_remove(&d->dir, n, place == CACHE_DISK_BAD);

	lock_take(&d->lock);
	if (rc < 0)
		cache_disk_failed(d, &d->stats.errors, n, strerror(-rc));
	else
		d->stats.deleted++;
	lock_drop(&d->lock);
}

/* Takes the entry out of the index and its file off the disk. Lock held before, not after. */
static void cache_disk_evict(struct cache_disk *d, struct cache_disk_entry *e)
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

bool cache_disk_make_room(struct cache_disk *d, uint64_t need)
{
	if (need > d->limit)
		return false;
	for (;;) {
		lock_take(&d->lock);
		if (d->index.bytes <= d->limit - need)
			break;
		cache_disk_evict(d, cache_disk_index_oldest(&d->index));
	}
	lock_drop(&d->lock);
	return true;
}

/* ---- uses ---- */

/* The block was read or written: it and all before it count as used. */
static void cache_disk_touch(struct cache_disk *d, const struct cache_disk_name *block)
{
	struct cache_disk_stamp save[CACHE_DISK_SAVE_AT_ONCE];
	int n;

	lock_take(&d->lock);
	cache_disk_index_touch(&d->index, block, cache_disk_now());
	do {
		n = cache_disk_index_unsaved(&d->index, block, save, CACHE_DISK_SAVE_AT_ONCE);
		lock_drop(&d->lock);
		for (int i = 0; i < n; i++)
			cache_dir_touch(&d->dir, &save[i].name, save[i].stamp);
		lock_take(&d->lock);
	} while (n);
	lock_drop(&d->lock);
}

static void cache_disk_know_parent(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_key *parent)
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

/* Is it to be written at all? Counts why not. */
static bool cache_disk_wanted(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_disk_item *item)
{
	struct cache_disk_name block = cache_disk_name_of(d, &item->key, CACHE_FILE_BLOCK);
	bool there, useless, allowed;

	lock_take(&d->lock);
	there = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN) != NULL;
	useless = n->kind == CACHE_FILE_STATE && !cache_disk_index_find(&d->index, &block, CACHE_DISK_OWN);
	allowed = cache_disk_allowed(d);
	if (!there && useless)
		d->stats.dropped++;
	else if (!there && !allowed)
		d->stats.over_rate++;
	there = there || useless || !allowed || d->dropped;
	lock_drop(&d->lock);
	return !there;
}

/* The file has its name: it is in the cache, unless someone wanted its key gone meanwhile. */
static void cache_disk_wrote(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_disk_item *item,
	size_t size, int64_t stamp)
{
	bool dropped;

	lock_take(&d->lock);
	d->stats.written++;
	d->stats.written_bytes += size;
	d->allowance -= (double)size;
	dropped = d->dropped;
	if (!dropped) {
		cache_disk_index_add(&d->index, n, CACHE_DISK_OWN, size, stamp);
		if (n->kind == CACHE_FILE_BLOCK)
			cache_disk_know_parent(d, n, &item->parent);
	}
	lock_drop(&d->lock);
	d->unsynced++;
	if (dropped)
		cache_dir_remove(&d->dir, n, false);
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
	struct cache_disk_name above = cache_disk_name_of(d, n->kind == CACHE_FILE_STATE ? &item->key : &item->parent,
		CACHE_FILE_BLOCK);
	struct buf why = { 0 };
	int64_t stamp;

	lock_take(&d->lock);
	stamp = cache_disk_index_stamp(&d->index, &above, cache_disk_now());
	lock_drop(&d->lock);
	if (cache_dir_write(&d->dir, n, bytes, size, stamp, &why) == 0)
		cache_disk_wrote(d, n, item, size, stamp);
	else
		cache_disk_not_written(d, n, size, buf_str(&why));
	buf_fini(&why);
}

static void cache_disk_write_one(struct cache_disk *d, const struct cache_disk_item *item, enum cache_file_kind kind)
{
	struct cache_disk_name n = cache_disk_name_of(d, &item->key, kind);
	uint8_t *bytes;
	size_t size;

	if (!cache_disk_wanted(d, &n, item))
		return;
	if (cache_file_pack(&d->format, kind, item, &bytes, &size) < 0) {
		cache_disk_not_written(d, &n, 0, "no memory to compress it");
		return;
	}
	if (cache_disk_make_room(d, size)) {
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
	int rc = cache_dir_sync(&d->dir);

	d->unsynced = 0;
	if (rc == 0)
		return;
	lock_take(&d->lock);
	cache_disk_failed(d, &d->stats.errors, NULL, strerror(-rc));
	lock_drop(&d->lock);
}

/* ---- reading ---- */

/* Moves a bad file out of the way, and the oldest of those there off the disk when there are many. */
static void cache_disk_set_aside(struct cache_disk *d, const struct cache_disk_name *n, uint64_t bytes)
{
	int rc = cache_dir_set_aside(&d->dir, n);

	lock_take(&d->lock);
	if (rc == 0)
		cache_disk_index_add(&d->index, n, CACHE_DISK_BAD, bytes, cache_disk_now());
	else
		cache_disk_failed(d, &d->stats.errors, n, strerror(-rc));
	if (d->index.count[CACHE_DISK_BAD] > CACHE_DISK_MAX_BAD)
		cache_disk_evict(d, cache_disk_index_oldest_bad(&d->index));
	else
		lock_drop(&d->lock);
}

/* The file turned out not to be what the index says. Only want of memory or descriptors leaves it there. */
static void cache_disk_not_read(struct cache_disk *d, const struct cache_disk_name *n, int rc, const char *why)
{
	struct cache_disk_entry *e;
	uint64_t bytes;

	lock_take(&d->lock);
	e = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN);
	bytes = e ? e->bytes : 0;
	if (rc == RC_INVALID || rc == RC_UNSUPPORTED || rc == -ENOENT)
		cache_disk_index_remove(&d->index, &e);
	if (rc == RC_UNSUPPORTED)
		cache_disk_index_add(&d->index, n, CACHE_DISK_FOREIGN, bytes, cache_disk_now());
	else
		cache_disk_failed(d, rc == RC_INVALID ? &d->stats.bad : &d->stats.errors, n, why);
	lock_drop(&d->lock);
	if (rc == RC_INVALID)
		cache_disk_set_aside(d, n, bytes);
}

static int cache_disk_load(struct cache_disk *d, const struct cache_disk_name *n, struct cache_disk_item *item,
	size_t *ret_size, struct buf *why)
{
	struct cache_file_head head;
	uint8_t *bytes = NULL;
	int rc = cache_dir_read(&d->dir, n, cache_file_max(&d->format, n->kind), CACHE_FILE_HEADER, &bytes, ret_size,
		why);

	if (rc == RC_TOO_LARGE && *ret_size == CACHE_FILE_HEADER && cache_file_foreign(&d->format, bytes))
		rc = RC_UNSUPPORTED;
	else if (rc == RC_TOO_LARGE)
		rc = buf_why(why, RC_INVALID, "larger than the layout allows");
	else if (rc == 0)
		rc = cache_file_check(&d->format, bytes, *ret_size, n->kind, &n->key, &head, why);
	if (rc == 0)
		rc = cache_file_unpack(&d->format, bytes, &head, item, why);
	free(bytes);
	return rc;
}

static bool cache_disk_there(struct cache_disk *d, const struct cache_disk_name *n)
{
	bool there;

	lock_take(&d->lock);
	there = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN) != NULL;
	lock_drop(&d->lock);
	return there;
}

/* A file into item->block or item->state; false: there is none, or it could not be read, which is booked. */
static bool cache_disk_read_one(struct cache_disk *d, const struct cache_key *k, enum cache_file_kind kind,
	struct cache_disk_item *item)
{
	struct cache_disk_name n = cache_disk_name_of(d, k, kind);
	struct buf why = { 0 };
	size_t size = 0;
	int rc;

	if (!cache_disk_there(d, &n))
		return false;
	rc = cache_disk_load(d, &n, item, &size, &why);
	if (rc < 0) {
		cache_disk_not_read(d, &n, rc, why.len ? buf_str(&why) : rc_text(rc));
	} else {
		lock_take(&d->lock);
		d->stats.read++;
		d->stats.read_bytes += size;
		if (kind == CACHE_FILE_BLOCK)
			cache_disk_know_parent(d, &n, &item->parent);
		lock_drop(&d->lock);
	}
	buf_fini(&why);
	return rc == 0;
}

/* The last of keys [0, n) with block and state on disk, -1 without. */
static int64_t cache_disk_last_state(struct cache_disk *d, const struct cache_disk_read *r, int64_t n)
{
	bool state = false;

	while (n-- && !(cache_disk_has(d, &r->key[n], &state) && state))
		;
	return n;
}

/* The state is read first: when it is bad, one further up takes its place while its block is still to come. */
static int64_t cache_disk_read_state(struct cache_disk *d, const struct cache_disk_read *r,
	struct cache_disk_item *ret_item)
{
	int64_t at = r->n;

	do
		at = cache_disk_last_state(d, r, at);
	while (at >= 0 && !cache_disk_read_one(d, &r->key[at], CACHE_FILE_STATE, ret_item));
	return at;
}

static bool cache_disk_closing(struct cache_disk *d)
{
	bool closing;

	lock_take(&d->lock);
	closing = d->closing;
	lock_drop(&d->lock);
	return closing;
}

static int64_t cache_disk_read_blocks(struct cache_disk *d, const struct cache_disk_read *r, int64_t state_at,
	struct cache_disk_item *state)
{
	int64_t i;

	for (i = 0; i < r->n && !cache_disk_closing(d); i++) {
		struct cache_disk_item item = { .block = NULL };

		if (!cache_disk_read_one(d, &r->key[i], CACHE_FILE_BLOCK, &item))
			break;
		if (i == state_at && item.edge == state->edge) {
			item.state = state->state;
			state->state = NULL;
		}
		if (!r->fn(r->arg, &item))
			return i + 1;
	}
	return i;
}

void cache_disk_work_read(struct cache_disk *d, const struct cache_disk_read *r)
{
	struct cache_disk_item state = { .state = NULL };
	int64_t state_at = cache_disk_closing(d) ? -1 : cache_disk_read_state(d, r, &state);
	int64_t n = cache_disk_read_blocks(d, r, state_at, &state);

	sequence_state_unref(&state.state);
	r->fn(r->arg, NULL);
	if (n) {
		struct cache_disk_name last = cache_disk_name_of(d, &r->key[n - 1], CACHE_FILE_BLOCK);

		cache_disk_touch(d, &last);
	}
}
