/* SPDX-License-Identifier: MIT
 * ring.h - all running requests' records, and the last finished ones up to a count and a byte budget.
 * Threads: any. Lock: ring. */
#ifndef ENGINE_RING_H
#define ENGINE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct record;
struct ring;

struct ring *ring_new(int max_finished, size_t max_bytes);
void ring_free(struct ring **g);
/* Takes a reference of its own; running records are never evicted. False, and nothing is done, when there are running
 * ones and with this one they would have held more than RING_MAX_LIVE when they were put. */
#define RING_MAX_LIVE ((size_t)256 << 20)
bool ring_put(struct ring *g, struct record *r);
/* Undoes ring_put, for a request that was refused after all. */
void ring_remove(struct ring *g, struct record *r);
/* From now on the record counts, and may be evicted; the oldest finished go first. Called once per record
 * put. */
void ring_finished(struct ring *g, struct record *r);
/* The record's bytes have changed since it finished; the oldest finished go when that is too much. Nothing for one that
 * runs, or is no longer here. */
void ring_changed(struct ring *g, struct record *r);
/* See engine_records and engine_record. */
int ring_list(struct ring *g, struct record **ret_r, int max);
struct record *ring_find(struct ring *g, const char *id);
/* Records in it. */
int ring_count(struct ring *g);
/* Bytes of the finished records kept. */
size_t ring_bytes(struct ring *g);

#endif
