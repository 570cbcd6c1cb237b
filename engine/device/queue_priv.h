/* SPDX-License-Identifier: MIT
 * queue_priv.h - the inside of a queue, shared by engine/device/ only.
 * Threads, locks: as queue.h. */
#ifndef ENGINE_QUEUE_PRIV_H
#define ENGINE_QUEUE_PRIV_H

#include "engine/device/device_priv.h"
#include "engine/device/queue.h"

/* Bytes handed out one after the other until all of them are over; chunks that were too small are replaced by one of
 * the full size then. */
struct queue_chunk {
	struct queue_chunk *next;
	uint64_t p;                     /* on the device */
	char *host;                     /* pinned: the same on the host; NULL: device memory */
	size_t size, used;
};

struct queue_arena {
	struct queue_chunk *chunk;      /* newest first */
	bool pinned;
};

#define QUEUE_GRAPHS 8

struct queue_graph {
	void *exec;
	uint64_t key, used;             /* when last */
	size_t n_node;
};

struct queue {
	struct device *device;
	void *stream;
	struct queue_arena scratch, staging;
	bool staging_over;              /* a sync has been: the next stage begins anew */
	bool busy;                      /* something was queued since */
	void **discard; int n_discard, cap_discard;
	int failed;                     /* the first failure of something queued since the last sync; why below */
	struct buf why;
	bool capturing, made;           /* made: over, and not launched yet */
	void *exec;                     /* what was made of it; NULL: nothing was captured */
	uint64_t key, refused, tick;    /* refused: a key whose steps the host looks into */
	struct queue_graph graph[QUEUE_GRAPHS];
};

/* Something is about to be queued. */
void queue_begin(struct queue *q);
/* Keeps the first failure for queue_sync(). */
void queue_result(struct queue *q, int rc, const char *what);
void queue_fail(struct queue *q, int rc, const char *why);
/* NULL when short. */
void *queue_arena_take(struct queue *q, struct queue_arena *a, size_t bytes, uint64_t *ret_p);
/* What is being captured, or was made, is launched. */
void queue_graph_end(struct queue *q, const char *early);
void queue_graph_fini(struct queue *q);

#endif
