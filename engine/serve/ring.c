/* SPDX-License-Identifier: MIT
 * ring.c - the records of running requests and of the last finished ones, bounded by count and bytes.
 * Threads: any. Lock: ring (a record's own lock is never taken under it). */
#include "engine/serve/ring.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/serve/record_put.h"

#include <stdlib.h>
#include <string.h>

struct ring_entry {
	struct list by_age;      /* in ring.entries */
	struct list by_end;      /* in ring.ended once finished */
	struct record *record;
	size_t bytes;            /* counted: in `live` as it was put, in `bytes` once finished */
};

struct ring {
	int max_finished;
	size_t max_bytes;
	struct lock lock;        /* everything below */
	struct list entries;     /* oldest first */
	struct list ended;       /* first finished first */
	int n_ended;
	size_t bytes, live;
};

struct ring *ring_new(int max_finished, size_t max_bytes)
{
	struct ring *g = mem_new(sizeof *g);

	must(max_finished >= 0);
	g->max_finished = max_finished;
	g->max_bytes = max_bytes;
	lock_init(&g->lock, "ring");
	list_init(&g->entries);
	list_init(&g->ended);
	return g;
}

static void ring_entry_free(struct ring_entry *e)
{
	record_unref(&e->record);
	free(e);
}

void ring_free(struct ring **pg)
{
	struct ring *g = *pg;

	if (!g)
		return;
	*pg = NULL;
	while (!list_empty(&g->entries)) {
		struct ring_entry *e = list_entry(g->entries.next, struct ring_entry, by_age);

		list_del(&e->by_age);
		ring_entry_free(e);
	}
	lock_fini(&g->lock);
	free(g);
}

bool ring_put(struct ring *g, struct record *r)
{
	struct ring_entry *e = mem_new(sizeof *e);
	bool room;

	e->record = record_ref(r);
	e->bytes = record_bytes(r);
	list_init(&e->by_end);
	lock_take(&g->lock);
	room = g->live == 0 || g->live + e->bytes <= RING_MAX_LIVE;
	if (room) {
		g->live += e->bytes;
		list_put(&g->entries, &e->by_age);
	}
	lock_drop(&g->lock);
	if (!room)
		ring_entry_free(e);
	return room;
}

/* Unlinks the first finished if the ring is over a limit; the caller frees it outside the lock. */
static struct ring_entry *ring_evict(struct ring *g)
{
	struct ring_entry *e;

	must(lock_held(&g->lock));
	if (g->n_ended <= g->max_finished && g->bytes <= g->max_bytes)
		return NULL;
	e = list_entry(g->ended.next, struct ring_entry, by_end);
	list_del(&e->by_end);
	list_del(&e->by_age);
	g->n_ended--;
	g->bytes -= e->bytes;
	return e;
}

/* Of a record that was put and has not finished; such are near the end. */
static struct ring_entry *ring_running(struct ring *g, const struct record *r)
{
	struct list *at = g->entries.prev;

	must(lock_held(&g->lock));
	while (at != &g->entries && list_entry(at, struct ring_entry, by_age)->record != r)
		at = at->prev;
	must(at != &g->entries);
	must(list_empty(&list_entry(at, struct ring_entry, by_age)->by_end));
	return list_entry(at, struct ring_entry, by_age);
}

void ring_remove(struct ring *g, struct record *r)
{
	struct ring_entry *e;

	lock_take(&g->lock);
	e = ring_running(g, r);
	g->live -= e->bytes;
	list_del(&e->by_age);
	lock_drop(&g->lock);
	ring_entry_free(e);
}

static void ring_free_gone(struct list *gone)
{
	while (!list_empty(gone)) {
		struct ring_entry *e = list_entry(gone->next, struct ring_entry, by_age);

		list_del(&e->by_age);
		ring_entry_free(e);
	}
}

void ring_finished(struct ring *g, struct record *r)
{
	size_t bytes = record_bytes(r);
	struct list gone;
	struct ring_entry *e;

	list_init(&gone);
	lock_take(&g->lock);
	e = ring_running(g, r);
	list_put(&g->ended, &e->by_end);
	g->live -= e->bytes;
	e->bytes = bytes;
	g->bytes += bytes;
	g->n_ended++;
	while ((e = ring_evict(g)))
		list_put(&gone, &e->by_age);
	lock_drop(&g->lock);
	ring_free_gone(&gone);
}

void ring_changed(struct ring *g, struct record *r)
{
	size_t bytes = record_bytes(r);
	struct list gone, *at;
	struct ring_entry *e;

	list_init(&gone);
	lock_take(&g->lock);
	for (at = g->ended.prev; at != &g->ended; at = at->prev)
		if (list_entry(at, struct ring_entry, by_end)->record == r)
			break;
	if (at != &g->ended) {
		e = list_entry(at, struct ring_entry, by_end);
		g->bytes += bytes - e->bytes;
		e->bytes = bytes;
	}
	while ((e = ring_evict(g)))
		list_put(&gone, &e->by_age);
	lock_drop(&g->lock);
	ring_free_gone(&gone);
}

int ring_list(struct ring *g, struct record **ret_r, int max)
{
	struct list *at;
	int n = 0;

	lock_take(&g->lock);
	for (at = g->entries.prev; at != &g->entries && n < max; at = at->prev)
		ret_r[n++] = record_ref(list_entry(at, struct ring_entry, by_age)->record);
	lock_drop(&g->lock);
	return n;
}

/* The newest of that id: clients may choose ids, and choose one twice. */
struct record *ring_find(struct ring *g, const char *id)
{
	struct record *r = NULL;
	struct list *at;

	lock_take(&g->lock);
	for (at = g->entries.prev; at != &g->entries && !r; at = at->prev) {
		struct record *c = list_entry(at, struct ring_entry, by_age)->record;

		if (strcmp(record_id(c), id) == 0)
			r = record_ref(c);
	}
	lock_drop(&g->lock);
	return r;
}

int ring_count(struct ring *g)
{
	int n = 0;

	lock_take(&g->lock);
	for (struct list *at = g->entries.next; at != &g->entries; at = at->next)
		n++;
	lock_drop(&g->lock);
	return n;
}

size_t ring_bytes(struct ring *g)
{
	size_t n;

	lock_take(&g->lock);
	n = g->bytes;
	lock_drop(&g->lock);
	return n;
}
