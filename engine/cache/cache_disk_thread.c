/* SPDX-License-Identifier: MIT
 * cache_disk_thread.c - the disk cache's life and its thread, which may hang in the disk for ever.
 * Threads: any opens and closes; the thread takes what is queued. Lock: cache_disk, never during I/O and calls. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_disk_priv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_DISK_QUEUED 64
/* Over so many seconds the rate of writing is averaged. */
#define CACHE_DISK_MINUTE 60
/* Names are synced when the queue is empty, and after so many files at the latest. */
#define CACHE_DISK_SYNC_FILES 64
/* Longer than any disk that works takes for one file. */
#define CACHE_DISK_PATIENCE_S 5

/* ---- the thread ---- */

static void cache_disk_take_read(struct cache_disk *d)
{
	struct cache_disk_read *r = list_entry(d->reads.next, struct cache_disk_read, link);
	bool over;

	cache_disk_unread(d, r);
	d->checked_last = false;
	d->reading = r;
	lock_drop(&d->lock);
	over = cache_disk_work_read(d, r);
	lock_take(&d->lock);
	if (!over && !d->closing && !d->left) {
		d->reading = NULL;
		cache_disk_queue_read(d, r); /* the others first */
		return;
	}
	lock_drop(&d->lock);
	if (!over)
		cache_disk_read_done(d, r);
	lock_take(&d->lock);
	d->reading = NULL;
	cache_disk_read_free(r);
}

static void cache_disk_take_write(struct cache_disk *d)
{
	struct cache_disk_write *w = list_entry(d->writes.next, struct cache_disk_write, link);

	cache_disk_unqueue(d, w);
	d->current = w->item.key;
	d->writing = true;
	d->dropped = false;
	lock_drop(&d->lock);
	cache_disk_work_write(d, &w->item);
	cache_disk_write_free(w);
	lock_take(&d->lock);
	d->writing = false;
}

static void cache_disk_take_sync(struct cache_disk *d)
{
	lock_drop(&d->lock);
	cache_disk_work_sync(d);
	lock_take(&d->lock);
}

/* What hangs is not the thread's fault, but whoever waits must know. */
static void cache_disk_io(struct cache_disk *d, bool in)
{
	lock_take(&d->lock);
	must(pthread_equal(d->self, pthread_self()));
	d->in_io = in;
	d->io_since = clock_ms();
	must_zero(pthread_cond_broadcast(&d->moved));
	lock_drop(&d->lock);
}

void cache_disk_io_begin(struct cache_disk *d)
{
	cache_disk_io(d, true);
}

void cache_disk_io_end(struct cache_disk *d)
{
	cache_disk_io(d, false);
}

/* One thing, the most urgent; false when it is time to go. Lock held. */
static bool cache_disk_turn(struct cache_disk *d)
{
	bool late = d->closing && clock_ms() >= d->deadline;

	if (d->left)
		return false;
	if (!list_empty(&d->removals))
		cache_disk_take_removals(d);
	else if (!list_empty(&d->checks) && (!d->checked_last || list_empty(&d->reads)))
		cache_disk_take_check(d);
	else if (!list_empty(&d->reads))
		cache_disk_take_read(d);
	else if (d->unsynced >= CACHE_DISK_SYNC_FILES || (d->unsynced && (late || list_empty(&d->writes))))
		cache_disk_take_sync(d);
	else if (!late && !list_empty(&d->writes))
		cache_disk_take_write(d);
	else if (d->closing)
		return false;
	else
		lock_wait(&d->lock, &d->cond, -1);
	return true;
}

/* By whoever has it last: who closes it, or the thread that was left behind. */
static void cache_disk_free(struct cache_disk *d)
{
	must(list_empty(&d->reads));
	cache_dir_close(&d->dir);
	cache_disk_free_writes(&d->writes);
	cache_disk_free_removals(d); /* it was left behind */
	cache_disk_index_fini(&d->index);
	must_zero(pthread_cond_destroy(&d->cond));
	must_zero(pthread_cond_destroy(&d->moved));
	lock_fini(&d->lock);
	buf_fini(&d->open_why);
	free(d->path);
	d->magic = 0;
	free(d);
}

/* ---- opening, on the thread ---- */

/* Another model's files are left alone, but count: the limit is the disk's, and they are deleted like one's own when
 * they are the longest unused. One that cannot be kept at all goes before any other, and a date still to come is
 * none. */
static void cache_disk_found(void *arg, const struct cache_disk_name *n, bool bad, uint64_t bytes, int64_t mtime)
{
	struct cache_disk *d = arg;
	int64_t now = cache_disk_now();

	lock_take(&d->lock);
	cache_disk_index_add(&d->index, n,
		bad ? CACHE_DISK_BAD : n->model == d->model ? CACHE_DISK_OWN : CACHE_DISK_FOREIGN, bytes,
		bytes > d->limit ? 0 : mtime < now ? mtime : now);
	if (!bad && n->model == d->model && (d->forget || cache_disk_condemned(d, n)))
		cache_disk_condemn(d, n);
	lock_drop(&d->lock);
}

/* An operator finds in the counters what was moved, and here that it was. Lock held. */
static void cache_disk_tidied(struct cache_disk *d)
{
	long long moved = atomic_load(&d->dir.aside.moved), stays = atomic_load(&d->dir.aside.stays);

	if (moved + stays)
		snprintf(d->stats.error, sizeof d->stats.error,
			"%lld things are no cached files: %lld were moved to aside/, %lld stay where they are",
			moved + stays, moved, stays);
}

/* What cannot be had closes by itself: whoever did not wait for that finds a cache that has nothing and takes nothing.
 * Lock held. */
static void cache_disk_settle(struct cache_disk *d, int rc, struct buf *why)
{
	d->opened = true;
	d->open_rc = rc;
	d->open_why = *why;
	*why = (struct buf){ 0 };
	cache_disk_tidied(d);
	if (rc < 0) {
		cache_disk_failed(d, &d->stats.errors, NULL, buf_str(&d->open_why));
		d->closing = true;
		d->deadline = clock_ms();
	}
	must_zero(pthread_cond_broadcast(&d->moved));
}

/* Locking the directory and reading its names may hang like anything else. */
static void cache_disk_prepare(struct cache_disk *d)
{
	struct buf why = { 0 };
	int rc;

	cache_disk_io_begin(d);
	rc = cache_dir_open(&d->dir, d->path, &why);
	if (rc == 0)
		rc = cache_dir_scan(&d->dir, cache_disk_found, d, &why);
	cache_disk_io_end(d);
	lock_take(&d->lock);
	cache_disk_settle(d, rc, &why);
	lock_drop(&d->lock);
	if (rc < 0)
		cache_disk_end_all_reads(d);
	else
		cache_disk_make_room(d, 0, NULL); /* the limit may have been lowered since */
}

static void *cache_disk_main(void *arg)
{
	struct cache_disk *d = arg;
	bool mine;

	lock_take(&d->lock);
	d->self = pthread_self();
	d->started = true;
	lock_drop(&d->lock);
	cache_disk_prepare(d);
	lock_take(&d->lock);
	while (cache_disk_turn(d))
		;
	d->gone = true;
	mine = d->closed;
	must_zero(pthread_cond_broadcast(&d->moved));
	lock_drop(&d->lock);
	if (mine)
		cache_disk_free(d);
	return NULL;
}

static int cache_disk_start(struct cache_disk *d)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	must_zero(pthread_sigmask(SIG_SETMASK, &all, &old));
	rc = -pthread_create(&d->thread, NULL, cache_disk_main, d);
	must_zero(pthread_sigmask(SIG_SETMASK, &old, NULL));
	return rc;
}

/* ---- life ---- */

static struct cache_disk *cache_disk_new(const struct cache_disk_options *o)
{
	struct cache_disk *d = mem_new(sizeof *d);

	d->magic = CACHE_DISK_MAGIC;
	lock_init(&d->lock, "cache_disk");
	lock_cond_init(&d->cond);
	lock_cond_init(&d->moved);
	list_init(&d->reads);
	list_init(&d->writes);
	list_init(&d->removals);
	list_init(&d->checks);
	d->path = mem_strdup(o->dir); /* the thread may outlive whoever gave it */
	d->dir = (struct cache_dir){ .fd = -1, .bad_fd = -1, .aside = { .fd = -1 } };
	d->layout = *o->layout; /* the thread may outlive the model */
	cache_file_format_init(&d->format, &d->layout, o->model_id);
	d->model = cache_disk_name_model(o->model_id);
	d->limit = o->bytes;
	d->write_rate = o->write_rate;
	d->max_queued = o->max_queued ? o->max_queued : CACHE_DISK_QUEUED;
	d->allowance = CACHE_DISK_MINUTE * (double)o->write_rate;
	d->refilled = clock_s();
	d->patience_ms = (long long)(1000 * (o->patience > 0 ? o->patience : CACHE_DISK_PATIENCE_S));
	return d;
}

/* Or until it is known to hang: then nobody waits for it after this either. Lock held. */
static void cache_disk_await_opened(struct cache_disk *d)
{
	while (!d->opened && !cache_disk_hangs(d)) {
		long long left = d->io_since + d->patience_ms - clock_ms();

		lock_wait(&d->lock, &d->moved, !d->in_io ? -1 : left > 0 ? (long)left : 0);
	}
}

int cache_disk_open(const struct cache_disk_options *o, struct cache_disk **ret_d, struct buf *why)
{
	struct cache_disk *d = cache_disk_new(o);
	int rc = cache_disk_start(d);

	if (rc < 0) {
		buf_why(why, rc, "a thread for the cache's disk: %s", strerror(-rc));
		cache_disk_free(d);
		return rc;
	}
	lock_take(&d->lock);
	cache_disk_await_opened(d);
	rc = d->open_rc;
	if (rc < 0)
		buf_why(why, rc, "%s", buf_str(&d->open_why));
	else if (!d->opened)
		buf_why(why, 0, "%s: the disk hangs; what is there will be used when it comes back", o->dir);
	lock_drop(&d->lock);
	if (rc < 0)
		cache_disk_close(&d, 0);
	else
		*ret_d = d;
	return rc;
}

/* ---- the end ---- */

/* The thread hangs: what it reads ends here. What it has in hand goes when it comes back, if it does. Lock held before,
 * not after. */
static void cache_disk_leave(struct cache_disk *d)
{
	struct cache_disk_read *r = d->reading;
	cache_disk_read_f *fn = r ? r->fn : NULL;
	void *arg = r ? r->arg : NULL;

	d->left = true;
	must_zero(pthread_detach(d->thread));
	lock_drop(&d->lock);
	if (fn)
		fn(arg, NULL);
}

/* When the thread, if it has not come out of this call by then, is not waited for any more; ms. */
static long long cache_disk_hopeless(const struct cache_disk *d)
{
	long long since = d->io_since < d->deadline ? d->io_since : d->deadline;

	return since + d->patience_ms;
}

/* Until the thread is gone or was left behind. */
static void cache_disk_part(struct cache_disk *d)
{
	lock_take(&d->lock);
	while (!d->gone && !d->left) {
		long long wait = cache_disk_hopeless(d) - clock_ms();

		if (d->in_io && wait <= 0) {
			cache_disk_leave(d);
			return;
		}
		lock_wait(&d->lock, &d->moved, d->in_io ? (long)wait : -1);
	}
	lock_drop(&d->lock);
}

void cache_disk_stop(struct cache_disk *d, double seconds)
{
	bool again;

	if (!d)
		return;
	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	again = d->closing;
	d->closing = true;
	if (!again)
		d->deadline = clock_ms() + (long long)(1000 * seconds);
	must_zero(pthread_cond_signal(&d->cond));
	lock_drop(&d->lock);
	if (again)
		return;
	cache_disk_end_all_reads(d);
	cache_disk_part(d);
}

void cache_disk_close(struct cache_disk **pd, double seconds)
{
	struct cache_disk *d = *pd;
	bool left, gone;

	*pd = NULL;
	if (!d)
		return;
	cache_disk_stop(d, seconds);
	lock_take(&d->lock);
	left = d->left;
	gone = d->gone;
	d->closed = left;
	lock_drop(&d->lock);
	if (!left)
		must_zero(pthread_join(d->thread, NULL));
	if (!left || gone)
		cache_disk_free(d);
}
