/* SPDX-License-Identifier: MIT
 * request_cache.h - a request and the prefix cache: what it finds there, and what it leaves there.
 * Threads: who submits looks up, then it is the engine thread's. Locks: cache, record, generation, one at a time.
 *
 * Blocks are published after the step that filled them has committed, in order. States, which are large, at the last
 * edge before the end of the prompt (the same prompt again), where the cache's own blocks of it end (the next that
 * branches off there), at every eighth edge, at the last edge for which there is room, and at the last edge reached
 * when the request ends well (its next turn) or is cancelled in its prefill (the next try). Blocks for which there was
 * no room are published when there is, if a state can still be saved behind them. A request that ends otherwise, or
 * goes on with other numbers, publishes no more; nor does one from whose numbers a kernel was disproved since, and one
 * that waits in the queue looks again. What --keep-cache lends to the numbers in force is not for a request that
 * brought its own, be they the same. */
#ifndef ENGINE_REQUEST_CACHE_H
#define ENGINE_REQUEST_CACHE_H

#include "engine/cache/cache.h"

struct disproved;
struct request;

/* The request's own part. */
struct request_cache {
	struct cache_path *path;       /* NULL: nothing to publish under */
	struct cache_find find;
	uint8_t numbers[32];           /* under which the path is */
	const struct disproved *disproved; /* the newest, when that was told */
	bool off;                      /* the spec wants none */
	bool decode;                   /* what decode steps compute may be published */
	long long wait_until;          /* clock_ns(): so long it waits for the disk */
	int64_t next;                  /* block to publish next */
	bool late;                     /* there was no room for it when its step committed */
	size_t edge_bytes;             /* that `edge` may have; 0: there is no memory for it */
	struct sequence_state *edge;   /* at the last edge reached after the prompt, to be published at a good end */
	int32_t *fed; int n_fed, cap_fed; /* tokens fed after the prompt: blocks may be published late */
};

/* Adds to r->need what the request keeps of its own for the cache, if there is memory for that. */
void request_cache_need(struct request *r);
/* Pins what there is of the prompt under the pinned numbers; r->task.held while the disk is read. */
void request_cache_lookup(struct request *r);
/* The disk may have answered, or the time for that is over; then r->task.held ends. */
void request_cache_poll(struct request *r);
/* At admission: the new sequence begins with what was found, or is found now; usage and record say so. */
void request_cache_resume(struct request *r);
/* The request goes on with another kernel set. */
void request_cache_repinned(struct request *r);
/* The token at the sequence's last position, when it is none of the prompt. */
void request_cache_fed(struct request *r, int32_t token);
/* A step of the request committed, and its logits, if any, were good. */
void request_cache_publish(struct request *r);
/* It was cancelled, perhaps in its prefill: what was computed of that is to serve the next try. */
void request_cache_left(struct request *r);
/* The request failed by its numbers: what it was resumed from may be the reason, and is not to fail the next one. */
void request_cache_distrust(struct request *r);
/* The request ended well. */
void request_cache_finish(struct request *r);
/* Lets go of all; nothing more is published. */
void request_cache_drop(struct request *r);
/* Bytes held for the cache, besides the sequence. */
size_t request_cache_bytes(const struct request *r);

#endif
