/* SPDX-License-Identifier: MIT
 * cache_disk.c - the disk cache's queues: what is asked of it, what waits, and what is too much and is dropped.
 * Threads: any. Lock: cache_disk, never during I/O or in calls back. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_disk_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What waits may be evicted from memory meanwhile, and is held here then: in no budget but this. */
#define CACHE_DISK_QUEUED_BYTES ((size_t)256 << 20)
/* Reads that wait: a few for each of the requests that may run, and of all together no more keys than 8 million tokens
 * have. One read is of the longest context at most. */
#define CACHE_DISK_READS 256
#define CACHE_DISK_READ_KEYS 65536
#define CACHE_DISK_KEYS_OF_ONE 16384

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

/* ---- writes ---- */

void cache_disk_write_free(struct cache_disk_write *w)
{
	sequence_block_unref(&w->item.block);
	sequence_state_unref(&w->item.state);
	free(w);
}

void cache_disk_unqueue(struct cache_disk *d, struct cache_disk_write *w)
{
	list_del(&w->link);
	d->n_writes--;
	d->queued_bytes -= w->bytes;
}

void cache_disk_free_writes(struct list *writes)
{
	while (!list_empty(writes)) {
		struct cache_disk_write *w = list_entry(writes->next, struct cache_disk_write, link);

		list_del(&w->link);
		cache_disk_write_free(w);
	}
}

struct cache_disk_write *cache_disk_queued(struct cache_disk *d, const struct cache_key *k)
{
	list_each(w, &d->writes, struct cache_disk_write, link)
		if (cache_key_equal(&w->item.key, k))
			return w;
	return NULL;
}

/* What of `from` is neither on disk nor waits in `to` (NULL: nothing does): its bytes before compression, 0 for none.
 * */
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
	if (d->closing || (d->n_writes && block + state > CACHE_DISK_QUEUED_BYTES - d->queued_bytes)) {
		d->stats.dropped += block + state > 0;
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

/* ---- reads ---- */

static bool cache_disk_abandoned(const struct cache_disk_read *r)
{
	return r->abandoned && atomic_load(r->abandoned);
}

void cache_disk_queue_read(struct cache_disk *d, struct cache_disk_read *r)
{
	list_put(&d->reads, &r->link);
	d->n_reads++;
	d->n_read_keys += r->n;
}

void cache_disk_read_free(struct cache_disk_read *r)
{
	sequence_state_unref(&r->state.state);
	free(r);
}

void cache_disk_unread(struct cache_disk *d, struct cache_disk_read *r)
{
	list_del(&r->link);
	d->n_reads--;
	d->n_read_keys -= r->n;
}

/* Out of the queue: those that nobody waits for any more, or all. Lock held. */
static void cache_disk_sweep(struct cache_disk *d, bool all, struct list *ret_ended)
{
	struct list *next;

	for (struct list *i = d->reads.next; i != &d->reads; i = next) {
		struct cache_disk_read *r = list_entry(i, struct cache_disk_read, link);

		next = i->next;
		if (!all && !cache_disk_abandoned(r))
			continue;
		cache_disk_unread(d, r);
		list_put(ret_ended, &r->link);
	}
}

/* Nothing of them comes any more. Lock not held. */
static void cache_disk_end_reads(struct list *ended)
{
	while (!list_empty(ended)) {
		struct cache_disk_read *r = list_entry(ended->next, struct cache_disk_read, link);

		list_del(&r->link);
		r->fn(r->arg, NULL);
		cache_disk_read_free(r);
	}
}

void cache_disk_end_all_reads(struct cache_disk *d)
{
	struct list ended;

	list_init(&ended);
	lock_take(&d->lock);
	cache_disk_sweep(d, true, &ended);
	lock_drop(&d->lock);
	cache_disk_end_reads(&ended);
}

bool cache_disk_hangs(const struct cache_disk *d)
{
	must(lock_held(&d->lock));
	return d->in_io && clock_ms() - d->io_since >= d->patience_ms;
}

/* Would it come to nothing, or be one too many? Lock held. */
static bool cache_disk_refuses(struct cache_disk *d, int64_t n)
{
	return d->closing || cache_disk_hangs(d) ||
	       d->n_reads >= CACHE_DISK_READS || d->n_read_keys + n > CACHE_DISK_READ_KEYS;
}

static struct cache_disk_read *cache_disk_read_new(const struct cache_disk_ask *ask)
{
	int64_t n = ask->n < CACHE_DISK_KEYS_OF_ONE ? ask->n : CACHE_DISK_KEYS_OF_ONE;
	struct cache_disk_read *r;

	must(n >= 0);
	r = mem_new(sizeof *r + (size_t)n * sizeof *r->key);
	r->fn = ask->fn;
	r->arg = ask->arg;
	r->abandoned = ask->abandoned;
	r->n = r->state_at = n;
	if (n)
		memcpy(r->key, ask->key, (size_t)n * sizeof *r->key);
	list_init(&r->link);
	return r;
}

void cache_disk_read(struct cache_disk *d, const struct cache_disk_ask *ask)
{
	struct cache_disk_read *r;
	struct list ended;

	must_magic(d, CACHE_DISK_MAGIC);
	r = cache_disk_read_new(ask);
	list_init(&ended);
	lock_take(&d->lock);
	cache_disk_sweep(d, false, &ended);
	if (cache_disk_refuses(d, r->n)) {
		d->stats.reads_refused++;
		if (ask->refused)
			atomic_store(ask->refused, true);
		list_put(&ended, &r->link);
	} else {
		cache_disk_queue_read(d, r);
		must_zero(pthread_cond_signal(&d->cond));
	}
	lock_drop(&d->lock);
	cache_disk_end_reads(&ended);
}

/* ---- counting ---- */

void cache_disk_stats(struct cache_disk *d, struct cache_disk_stats *ret_s)
{
	must_magic(d, CACHE_DISK_MAGIC);
	lock_take(&d->lock);
	*ret_s = d->stats;
	ret_s->files = d->index.n;
	ret_s->bytes = d->index.bytes + d->removal_bytes;
	ret_s->foreign = d->index.count[CACHE_DISK_FOREIGN];
	ret_s->queued = (uint64_t)d->n_writes + d->writing;
	ret_s->aside = (uint64_t)atomic_load(&d->dir.aside.moved);
	ret_s->strange = (uint64_t)atomic_load(&d->dir.aside.stays);
	lock_drop(&d->lock);
}
