/* SPDX-License-Identifier: MIT
 * cache_disk.c - the disk cache's queue and its thread: reads go first, writes wait, what is too much is dropped.
 * Threads: any calls; its own thread reads and writes. Lock: cache_disk, never during I/O. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_disk_priv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_DISK_QUEUED 64
/* What waits may be evicted from memory meanwhile, and is held here then: in no budget but this. */
#define CACHE_DISK_QUEUED_BYTES ((size_t)256 << 20)
/* Over so many seconds the rate of writing is averaged. */
#define CACHE_DISK_MINUTE 60
/* Names are synced when the queue is empty, and after so many files at the latest. */
#define CACHE_DISK_SYNC_FILES 64

struct cache_disk_name cache_disk_name_of(const struct cache_disk *d, const struct cache_key *k,
	enum cache_file_kind kind)
{
	return (struct cache_disk_name){ .key = *k, .model = d->model, .kind = kind };
}

static struct cache_disk_entry *cache_disk_own(struct cache_disk *d, const struct cache_key *k,
	enum cache_file_kind kind)
{
	struct cache_disk_name n = cache_disk_name_of(d, k, kind);

	return cache_disk_index_find(&d->index, &n, CACHE_DISK_OWN);
}

void cache_disk_failed(struct cache_disk *d, uint64_t *counter, const struct cache_disk_name *n, const char *why)
{
	char name[CACHE_DISK_NAME];

	must(lock_held(&d->lock));
	++*counter;
	snprintf(d->stats.error, sizeof d->stats.error, "%s%s%s", n ? cache_disk_name_print(n, name) : "",
		n ? ": " : "", why);
}

/* ---- the thread ---- */

static void cache_disk_write_free(struct cache_disk_write *w)
{
	sequence_block_unref(&w->item.block);
	sequence_state_unref(&w->item.state);
	free(w);
}

static void cache_disk_unqueue(struct cache_disk *d, struct cache_disk_write *w)
{
	list_del(&w->link);
	d->n_writes--;
	d->queued_bytes -= w->bytes;
}

static void cache_disk_take_read(struct cache_disk *d)
{
	struct cache_disk_read *r = list_entry(d->reads.next, struct cache_disk_read, link);

	list_del(&r->link);
	lock_drop(&d->lock);
	cache_disk_work_read(d, r);
	free(r);
	lock_take(&d->lock);
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

/* One thing, the most urgent; false when it is time to go. Lock held. */
static bool cache_disk_turn(struct cache_disk *d)
{
	bool late = d->closing && clock_ms() >= d->deadline;

	if (!list_empty(&d->reads))
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

static void *cache_disk_main(void *arg)
{
	struct cache_disk *d = arg;

	cache_disk_make_room(d, 0); /* the limit may have been lowered since */
	lock_take(&d->lock);
	while (cache_disk_turn(d))
		;
	lock_drop(&d->lock);
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

/* Another model's files are left alone, but count: the limit is the disk's, and they are deleted like one's own when
 * they are the longest unused. One that cannot be kept at all goes before any other, and a date still to come is none. */
static void cache_disk_found(void *arg, const struct cache_disk_name *n, bool bad, uint64_t bytes, int64_t mtime)
{
	struct cache_disk *d = arg;
	int64_t now = cache_disk_now();

	cache_disk_index_add(&d->index, n,
		bad ? CACHE_DISK_BAD : n->model == d->model ? CACHE_DISK_OWN : CACHE_DISK_FOREIGN, bytes,
		bytes > d->limit ? 0 : mtime < now ? mtime : now);
}

static struct cache_disk *cache_disk_new(const struct cache_disk_options *o)
{
	struct cache_disk *d = mem_new(sizeof *d);

	d->magic = CACHE_DISK_MAGIC;
	lock_init(&d->lock, "cache_disk");
	lock_cond_init(&d->cond);
	list_init(&d->reads);
	list_init(&d->writes);
	cache_file_format_init(&d->format, o->layout, o->model_id);
	d->model = cache_disk_name_model(o->model_id);
	d->limit = o->bytes;
	d->write_rate = o->write_rate;
	d->max_queued = o->max_queued ? o->max_queued : CACHE_DISK_QUEUED;
	d->allowance = CACHE_DISK_MINUTE * (double)o->write_rate;
	d->refilled = clock_s();
	return d;
}

static void cache_disk_free_writes(struct list *writes)
{
	while (!list_empty(writes)) {
		struct cache_disk_write *w = list_entry(writes->next, struct cache_disk_write, link);

		list_del(&w->link);
		cache_disk_write_free(w);
	}
}

static void cache_disk_free(struct cache_disk *d)
{
	cache_disk_free_writes(&d->writes);
	cache_disk_index_fini(&d->index);
	must_zero(pthread_cond_destroy(&d->cond));
	lock_fini(&d->lock);
	d->magic = 0;
	free(d);
}

int cache_disk_open(const struct cache_disk_options *o, struct cache_disk **ret_d, struct buf *why)
{
	struct cache_disk *d = cache_disk_new(o);
	int rc = cache_dir_open(&d->dir, o->dir, why);

	if (rc < 0) {
		cache_disk_free(d);
		return rc;
	}
	rc = cache_dir_scan(&d->dir, cache_disk_found, d, why);
	if (rc == 0 && (rc = cache_disk_start(d)) < 0)
		buf_why(why, rc, "a thread for the cache's disk: %s", strerror(-rc));
	if (rc < 0) {
		cache_dir_close(&d->dir);
		cache_disk_free(d);
		return rc;
	}
	*ret_d = d;
	return 0;
}

void cache_disk_close(struct cache_disk **pd, double seconds)
{
	struct cache_disk *d = *pd;

	*pd = NULL;
	if (!d)
		return;
	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	d->closing = true;
	d->deadline = clock_ms() + (long long)(1000 * seconds);
	must_zero(pthread_cond_signal(&d->cond));
	lock_drop(&d->lock);
	must_zero(pthread_join(d->thread, NULL));
	cache_dir_close(&d->dir);
	cache_disk_free(d);
}

/* ---- calls ---- */

bool cache_disk_has(struct cache_disk *d, const struct cache_key *k, bool *ret_state)
{
	bool block;

	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	block = cache_disk_own(d, k, CACHE_FILE_BLOCK) != NULL;
	*ret_state = block && cache_disk_own(d, k, CACHE_FILE_STATE);
	lock_drop(&d->lock);
	return block;
}

static struct cache_disk_write *cache_disk_queued(struct cache_disk *d, const struct cache_key *k)
{
	list_each(w, &d->writes, struct cache_disk_write, link)
		if (cache_key_equal(&w->item.key, k))
			return w;
	return NULL;
}

/* What of `from` is neither on disk nor waits in `to` (NULL: nothing does): its bytes before compression, 0 for none. */
static size_t cache_disk_lacks(struct cache_disk *d, const struct cache_disk_item *to,
	const struct cache_disk_item *from, enum cache_file_kind kind)
{
	bool has = kind == CACHE_FILE_BLOCK ? from->block != NULL : from->state != NULL;
	bool waits = to && (kind == CACHE_FILE_BLOCK ? to->block != NULL : to->state != NULL);

	return has && !waits && !cache_disk_own(d, &from->key, kind) ? cache_file_raw(&d->format, kind, from) : 0;
}

static void cache_disk_append(struct cache_disk *d, struct cache_disk_write *w)
{
	list_put(&d->writes, &w->link);
	d->n_writes++;
	must_zero(pthread_cond_signal(&d->cond));
}

/* Takes references to what is lacking: block and state, in bytes. */
static void cache_disk_fill(struct cache_disk *d, struct cache_disk_write *w, const struct cache_disk_item *from,
	size_t block, size_t state)
{
	if (block)
		w->item.block = sequence_block_ref(from->block);
	if (state)
		w->item.state = sequence_state_ref(from->state);
	w->bytes += block + state;
	d->queued_bytes += block + state;
}

/* Is all there, but not known as used for a while? Then the thread is to take note of it. */
static bool cache_disk_stale(struct cache_disk *d, const struct cache_key *k)
{
	struct cache_disk_entry *e = cache_disk_own(d, k, CACHE_FILE_BLOCK);

	return e && cache_disk_index_stale(e, cache_disk_now());
}

void cache_disk_put(struct cache_disk *d, const struct cache_disk_item *item)
{
	struct cache_disk_write *fresh = mem_new(sizeof *fresh), *w;
	size_t block, state;

	must_magic(d, CACHE_DISK_MAGIC);
	fresh->item = *item;
	fresh->item.block = NULL;
	fresh->item.state = NULL;
	lock_take(&d->lock);
	w = cache_disk_queued(d, &item->key);
	block = cache_disk_lacks(d, w ? &w->item : NULL, item, CACHE_FILE_BLOCK);
	state = cache_disk_lacks(d, w ? &w->item : NULL, item, CACHE_FILE_STATE);
	if (d->n_writes && block + state > CACHE_DISK_QUEUED_BYTES - d->queued_bytes) {
		d->stats.dropped++;
	} else if (w) {
		cache_disk_fill(d, w, item, block, state);
	} else if (block + state || cache_disk_stale(d, &item->key)) {
		if (d->n_writes < d->max_queued) {
			cache_disk_fill(d, fresh, item, block, state);
			cache_disk_append(d, fresh);
			fresh = NULL;
		} else {
			d->stats.dropped += block + state > 0;
		}
	}
	lock_drop(&d->lock);
	free(fresh);
}

void cache_disk_read(struct cache_disk *d, const struct cache_key *key, int64_t n, cache_disk_read_f *fn, void *arg)
{
	struct cache_disk_read *r;

	must_magic(d, CACHE_DISK_MAGIC);
	must(n >= 0 && (uint64_t)n < SIZE_MAX / sizeof *key / 2);
	r = mem_new(sizeof *r + (size_t)n * sizeof *key);
	r->fn = fn;
	r->arg = arg;
	r->n = n;
	if (n)
		memcpy(r->key, key, (size_t)n * sizeof *key);
	lock_take(&d->lock);
	list_put(&d->reads, &r->link);
	must_zero(pthread_cond_signal(&d->cond));
	lock_drop(&d->lock);
}

void cache_disk_drop(struct cache_disk *d, const struct cache_key *k)
{
	struct cache_disk_write *w;

	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	if ((w = cache_disk_queued(d, k)))
		cache_disk_unqueue(d, w);
	d->dropped |= d->writing && cache_key_equal(&d->current, k);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++) {
		struct cache_disk_entry *e = cache_disk_own(d, k, (enum cache_file_kind)kind);

		cache_disk_index_remove(&d->index, &e);
	}
	lock_drop(&d->lock);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++) {
		struct cache_disk_name n = cache_disk_name_of(d, k, (enum cache_file_kind)kind);

		cache_dir_remove(&d->dir, &n, false);
	}
	if (w)
		cache_disk_write_free(w);
}

/* Takes all of one's own out of the index: [*ret_n], malloc'd. Lock held. */
static struct cache_disk_name *cache_disk_forget_own(struct cache_disk *d, size_t *ret_n)
{
	struct cache_disk_name *n = mem_grow(NULL, d->index.n + 1, sizeof *n);

	*ret_n = 0;
	for (size_t i = d->index.n; i-- > 0;)
		if (d->index.heap[i]->place == CACHE_DISK_OWN)
			n[(*ret_n)++] = d->index.heap[i]->name;
	for (size_t i = 0; i < *ret_n; i++) {
		struct cache_disk_entry *e = cache_disk_index_find(&d->index, n + i, CACHE_DISK_OWN);

		cache_disk_index_remove(&d->index, &e);
	}
	return n;
}

void cache_disk_clear(struct cache_disk *d)
{
	struct cache_disk_name *name;
	struct list waiting;
	size_t n;

	must_magic(d, CACHE_DISK_MAGIC);
	list_init(&waiting);
	lock_take(&d->lock);
	while (!list_empty(&d->writes)) {
		struct cache_disk_write *w = list_entry(d->writes.next, struct cache_disk_write, link);

		cache_disk_unqueue(d, w);
		list_put(&waiting, &w->link);
	}
	d->dropped = d->writing;
	name = cache_disk_forget_own(d, &n);
	lock_drop(&d->lock);
	for (size_t i = 0; i < n; i++)
		cache_dir_remove(&d->dir, name + i, false);
	free(name);
	cache_disk_free_writes(&waiting);
}

void cache_disk_stats(struct cache_disk *d, struct cache_disk_stats *ret_s)
{
	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	*ret_s = d->stats;
	ret_s->files = d->index.n;
	ret_s->bytes = d->index.bytes;
	ret_s->foreign = d->index.count[CACHE_DISK_FOREIGN];
	ret_s->queued = (uint64_t)d->n_writes + d->writing;
	lock_drop(&d->lock);
}
