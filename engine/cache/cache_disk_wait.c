/* SPDX-License-Identifier: MIT
 * cache_disk_wait.c - files removed and blocks checked by the disk's thread for others, who may wait, but not for ever.
 * Threads: any ask; the disk's does it. Lock: cache_disk, never during I/O. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_disk_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- waiting ---- */

/* Is there nothing to wait for, or no use in it? Lock held. */
static bool cache_disk_idle(const struct cache_disk *d)
{
	return d->gone || d->left || cache_disk_hangs(d) || (d->started && pthread_equal(d->self, pthread_self()));
}

/* Until the thread moves, or has been in one call, or has not moved since `since`, for longer than the patience. Lock
 * held. */
static void cache_disk_wait(struct cache_disk *d, long long since)
{
	long long from = d->in_io && d->io_since < since ? d->io_since : since,
		left = from + d->patience_ms - clock_ms();

	lock_wait(&d->lock, &d->moved, left < 0 ? 0 : (long)left);
}

/* ---- removing ---- */

void cache_disk_condemn(struct cache_disk *d, const struct cache_disk_name *n)
{
	struct cache_disk_entry *e = cache_disk_index_find(&d->index, n, CACHE_DISK_OWN);
	struct cache_disk_removal *r = mem_new(sizeof *r);

	r->name = *n;
	r->bytes = e ? e->bytes : 0;
	cache_disk_index_remove(&d->index, &e);
	list_put(&d->removals, &r->link);
	d->n_removals++;
	d->removal_bytes += r->bytes;
	must_zero(pthread_cond_signal(&d->cond));
}

bool cache_disk_condemned(struct cache_disk *d, const struct cache_disk_name *n)
{
	list_each(r, &d->removals, struct cache_disk_removal, link)
		if (r->name.kind == n->kind && r->name.model == n->model && cache_key_equal(&r->name.key, &n->key))
			return true;
	return false;
}

/* For as long as they go on: what the thread is at before them is no longer waited for than one of them. Lock held. */
static void cache_disk_await_removals(struct cache_disk *d)
{
	uint64_t until = d->n_removals, done = d->removals_done;
	long long since = clock_ms();

	while (d->removals_done < until && !cache_disk_idle(d) && clock_ms() - since < d->patience_ms) {
		cache_disk_wait(d, since);
		if (d->removals_done != done)
			since = clock_ms();
		done = d->removals_done;
	}
}

/* A file of that name that is written later is another one. */
static void cache_disk_take_removal(struct cache_disk *d)
{
	struct cache_disk_removal *r = list_entry(d->removals.next, struct cache_disk_removal, link);
	int rc;

	list_del(&r->link);
	lock_drop(&d->lock);
	cache_disk_io_begin(d);
	rc = cache_dir_remove(&d->dir, &r->name, false);
	cache_disk_io_end(d);
	lock_take(&d->lock);
	d->removal_bytes -= r->bytes;
	d->removals_done++;
	if (rc < 0)
		cache_disk_failed(d, &d->stats.errors, &r->name, strerror(-rc));
	must_zero(pthread_cond_broadcast(&d->moved));
	free(r);
}

void cache_disk_take_removals(struct cache_disk *d)
{
	while (!d->left && !list_empty(&d->removals))
		cache_disk_take_removal(d);
}

void cache_disk_free_removals(struct cache_disk *d)
{
	while (!list_empty(&d->removals)) {
		struct cache_disk_removal *r = list_entry(d->removals.next, struct cache_disk_removal, link);

		list_del(&r->link);
		free(r);
	}
}

static void cache_disk_unwant(struct cache_disk *d, const struct cache_key *k, bool wait)
{
	struct cache_disk_write *w;

	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	if ((w = cache_disk_queued(d, k)))
		cache_disk_unqueue(d, w);
	d->dropped |= d->writing && cache_key_equal(&d->current, k);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++) {
		struct cache_disk_name n = cache_disk_name_of(d, k, (enum cache_file_kind)kind);

		cache_disk_condemn(d, &n);
	}
	if (wait)
		cache_disk_await_removals(d);
	lock_drop(&d->lock);
	if (w)
		cache_disk_write_free(w);
}

void cache_disk_disown(struct cache_disk *d, const struct cache_key *k)
{
	cache_disk_unwant(d, k, false);
}

void cache_disk_drop(struct cache_disk *d, const struct cache_key *k)
{
	cache_disk_unwant(d, k, true);
}

/* Lock held. */
static void cache_disk_condemn_own(struct cache_disk *d)
{
	struct cache_disk_name *n = mem_grow(NULL, d->index.n + 1, sizeof *n);
	size_t own = 0;

	for (size_t i = d->index.n; i-- > 0;)
		if (d->index.heap[i]->place == CACHE_DISK_OWN)
			n[own++] = d->index.heap[i]->name;
	for (size_t i = 0; i < own; i++)
		cache_disk_condemn(d, n + i);
	free(n);
}

void cache_disk_clear(struct cache_disk *d)
{
	struct list waiting;

	must_magic(d, CACHE_DISK_MAGIC);
	list_init(&waiting);
	lock_take(&d->lock);
	while (!list_empty(&d->writes)) {
		struct cache_disk_write *w = list_entry(d->writes.next, struct cache_disk_write, link);

		cache_disk_unqueue(d, w);
		list_put(&waiting, &w->link);
	}
	d->dropped = d->writing;
	d->forget = !d->opened;
	cache_disk_condemn_own(d);
	cache_disk_await_removals(d);
	lock_drop(&d->lock);
	cache_disk_free_writes(&waiting);
}

/* ---- checking ---- */

static void cache_disk_check_free(struct cache_disk_check *c)
{
	sequence_block_unref(&c->item.block);
	sequence_state_unref(&c->item.state);
	buf_fini(&c->why);
	free(c);
}

void cache_disk_take_check(struct cache_disk *d)
{
	struct cache_disk_check *c = list_entry(d->checks.next, struct cache_disk_check, link);
	bool alone;

	list_del(&c->link);
	d->checked_last = true;
	lock_drop(&d->lock);
	c->rc = cache_disk_work_check(d, &c->key, &c->item, &c->why);
	lock_take(&d->lock);
	c->done = true;
	alone = c->alone;
	must_zero(pthread_cond_broadcast(&d->moved));
	if (!alone)
		return;
	lock_drop(&d->lock);
	cache_disk_check_free(c);
	lock_take(&d->lock);
}

/* Lock held. True: it was done; false: it is the thread's now, or was never begun, when *ret_mine says so. */
static bool cache_disk_await_check(struct cache_disk *d, struct cache_disk_check *c, bool *ret_mine)
{
	while (!c->done && !cache_disk_idle(d))
		cache_disk_wait(d, clock_ms());
	*ret_mine = c->done || c->link.next != &c->link;
	if (!c->done && *ret_mine)
		list_del(&c->link);
	c->alone = !*ret_mine;
	return c->done;
}

int cache_disk_check(struct cache_disk *d, const struct cache_key *k, struct cache_disk_item *ret_item, struct buf *why)
{
	struct cache_disk_check *c = mem_new(sizeof *c);
	bool done, mine, over;
	int rc;

	must_magic(d, CACHE_DISK_MAGIC);
	c->key = *k;
	list_init(&c->link);
	lock_take(&d->lock);
	list_put(&d->checks, &c->link);
	must_zero(pthread_cond_signal(&d->cond));
	done = cache_disk_await_check(d, c, &mine);
	over = d->gone || d->left;
	lock_drop(&d->lock);
	if (!done) {
		if (mine)
			cache_disk_check_free(c);
		return over ? buf_why(why, RC_DRAINING, "the cache on disk is closed")
			    : buf_why(why, RC_TIMEOUT, "the disk hangs");
	}
	rc = c->rc;
	if (rc == 0) {
		*ret_item = c->item;
		c->item = (struct cache_disk_item){ .block = NULL };
	} else {
		buf_why(why, rc, "%s", buf_str(&c->why));
	}
	cache_disk_check_free(c);
	return rc;
}
