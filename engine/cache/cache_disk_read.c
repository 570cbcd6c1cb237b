/* SPDX-License-Identifier: MIT
 * cache_disk_read.c - blocks read back from disk: a path for the tree, one block for who checks it; bad files go.
 * Threads: the disk's; cache_disk_keys any. Lock: cache_disk, never during I/O. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_disk_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* As many bad files as someone would look at. */
#define CACHE_DISK_MAX_BAD 16
/* Files of one read until the next has its turn: behind the longest one a short one would wait for longer than anybody
 * does. */
#define CACHE_DISK_TURN 8

/* ---- reading ---- */

/* Moves a bad file out of the way, and the oldest of those there off the disk when there are many. */
static void cache_disk_set_bad(struct cache_disk *d, const struct cache_disk_name *n, uint64_t bytes)
{
	int rc;

	cache_disk_io_begin(d);
	rc = cache_dir_set_bad(&d->dir, n);
	cache_disk_io_end(d);
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

/* Has a name of ours and is none of ours: another model's file, or no file at all. */
static void cache_disk_set_aside(struct cache_disk *d, const struct cache_disk_name *n)
{
	cache_disk_io_begin(d);
	(void)cache_dir_set_aside(&d->dir, n); /* one that stays is counted there */
	cache_disk_io_end(d);
}

/* The file turned out not to be what the index says. Only want of memory or descriptors leaves it there. */
static void cache_disk_not_read(struct cache_disk *d, const struct cache_disk_name *n, int rc, const char *why)
{
	struct cache_disk_entry *e;
	uint64_t strange = 0, bytes;

	lock_take(&d->lock);
	e = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN);
	bytes = e ? e->bytes : 0;
	if (rc == RC_INVALID || rc == RC_UNSUPPORTED || rc == -ENOENT)
		cache_disk_index_remove(&d->index, &e);
	cache_disk_failed(d, rc == RC_INVALID ? &d->stats.bad :
			     rc == RC_UNSUPPORTED ? &strange : &d->stats.errors, n, why);
	lock_drop(&d->lock);
	if (rc == RC_INVALID)
		cache_disk_set_bad(d, n, bytes);
	else if (rc == RC_UNSUPPORTED)
		cache_disk_set_aside(d, n);
}

static int cache_disk_load(struct cache_disk *d, const struct cache_disk_name *n, struct cache_disk_item *item,
	size_t *ret_size, struct buf *why)
{
	struct cache_file_head head;
	uint8_t *bytes = NULL;
	int rc;

	cache_disk_io_begin(d);
	rc = cache_dir_read(&d->dir, n, cache_file_max(&d->format, n->kind), CACHE_FILE_HEADER, &bytes, ret_size, why);
	cache_disk_io_end(d);
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

/* A file into item->block or item->state. RC_NOT_FOUND: there is none; else why it could not be read, which is
 * booked. */
static int cache_disk_read_why(struct cache_disk *d, const struct cache_key *k, enum cache_file_kind kind,
	struct cache_disk_item *item, struct buf *why)
{
	struct cache_disk_name n = cache_disk_name_of(d, k, kind);
	size_t size = 0;
	int rc;

	if (!cache_disk_there(d, &n))
		return RC_NOT_FOUND;
	rc = cache_disk_load(d, &n, item, &size, why);
	if (rc < 0) {
		cache_disk_not_read(d, &n, rc, why->len ? buf_str(why) : rc_text(rc));
		return rc;
	}
	lock_take(&d->lock);
	d->stats.read++;
	d->stats.read_bytes += size;
	if (kind == CACHE_FILE_BLOCK)
		cache_disk_know_parent(d, &n, &item->parent);
	lock_drop(&d->lock);
	return 0;
}

static bool cache_disk_read_one(struct cache_disk *d, const struct cache_key *k, enum cache_file_kind kind,
	struct cache_disk_item *item)
{
	struct buf why = { 0 };
	int rc = cache_disk_read_why(d, k, kind, item, &why);

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

/* Does nobody want more of it? */
static bool cache_disk_read_over(struct cache_disk *d, const struct cache_disk_read *r)
{
	bool closing;

	lock_take(&d->lock);
	closing = d->closing;
	lock_drop(&d->lock);
	return closing || (r->abandoned && atomic_load(r->abandoned));
}

/* The state is read first: when it is bad, one further up takes its place while its block is still to come. One file of
 * it. */
static void cache_disk_read_state(struct cache_disk *d, struct cache_disk_read *r)
{
	r->state_at = cache_disk_last_state(d, r, r->state_at);
	r->state_known = r->state_at < 0 || cache_disk_read_one(d, &r->key[r->state_at], CACHE_FILE_STATE, &r->state);
}

/* Once the thread was left behind, who asked was told by who left it, and may be gone. */
static bool cache_disk_tell(struct cache_disk *d, struct cache_disk_read *r, struct cache_disk_item *item)
{
	bool left;

	lock_take(&d->lock);
	left = d->left;
	lock_drop(&d->lock);
	if (!left)
		return r->fn(r->arg, item);
	if (item) {
		sequence_block_unref(&item->block);
		sequence_state_unref(&item->state);
	}
	return false;
}

/* The next block; false when no more is to come. */
static bool cache_disk_read_block(struct cache_disk *d, struct cache_disk_read *r)
{
	struct cache_disk_item item = { .block = NULL };

	if (!cache_disk_read_one(d, &r->key[r->at], CACHE_FILE_BLOCK, &item))
		return false;
	if (r->at == r->state_at && item.edge == r->state.edge) {
		item.state = r->state.state;
		r->state.state = NULL;
	}
	r->at++;
	return cache_disk_tell(d, r, &item);
}

void cache_disk_read_done(struct cache_disk *d, struct cache_disk_read *r)
{
	sequence_state_unref(&r->state.state);
	cache_disk_tell(d, r, NULL);
	if (r->at) {
		struct cache_disk_name last = cache_disk_name_of(d, &r->key[r->at - 1], CACHE_FILE_BLOCK);

		cache_disk_touch(d, &last);
	}
}

bool cache_disk_work_read(struct cache_disk *d, struct cache_disk_read *r)
{
	bool more = true;

	for (int files = 0; more && files < CACHE_DISK_TURN; files++) {
		more = !cache_disk_read_over(d, r);
		if (more && !r->state_known)
			cache_disk_read_state(d, r);
		else
			more = more && r->at < r->n && cache_disk_read_block(d, r);
	}
	if (!more)
		cache_disk_read_done(d, r);
	return !more;
}

/* ---- checking ---- */

/* The block's own state, where there is one; what is there and is not that is bad. */
static int cache_disk_check_state(struct cache_disk *d, const struct cache_key *k, struct cache_disk_item *item,
	struct buf *why)
{
	struct cache_disk_item state = { .state = NULL };
	int rc = cache_disk_read_why(d, k, CACHE_FILE_STATE, &state, why);

	if (rc == 0 && state.edge != item->edge) {
		sequence_state_unref(&state.state);
		return buf_why(why, RC_INVALID, "its state ends at token %lld, the block at %lld",
			(long long)state.edge, (long long)item->edge);
	}
	item->state = state.state;
	return rc == RC_NOT_FOUND ? 0 : rc;
}

int cache_disk_work_check(struct cache_disk *d, const struct cache_key *k, struct cache_disk_item *ret_item,
	struct buf *why)
{
	struct cache_disk_item item = { .block = NULL };
	int rc = cache_disk_read_why(d, k, CACHE_FILE_BLOCK, &item, why);

	if (rc == RC_NOT_FOUND || rc == -ENOENT)
		return buf_why(why, RC_NOT_FOUND, "no such block is on disk");
	if (rc == 0)
		rc = cache_disk_check_state(d, k, &item, why);
	if (rc == 0)
		*ret_item = item;
	else
		sequence_block_unref(&item.block);
	return rc;
}

/* Room for all files, states as well: how many are blocks is not known without a look at each. */
int cache_disk_keys(struct cache_disk *d, struct cache_key **ret_k)
{
	struct cache_key *key;
	size_t room;
	int n = 0;

	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	room = d->index.n;
	lock_drop(&d->lock);
	key = room < INT_MAX ? mem_try(room + 1, sizeof *key) : NULL;
	if (!key)
		return -ENOMEM;
	lock_take(&d->lock);
	for (size_t i = 0; i < d->index.n && (size_t)n < room; i++) {
		const struct cache_disk_entry *e = d->index.heap[i];

		if (e->place == CACHE_DISK_OWN && e->name.kind == CACHE_FILE_BLOCK)
			key[n++] = e->name.key;
	}
	lock_drop(&d->lock);
	*ret_k = key;
	return n;
}
