/* SPDX-License-Identifier: MIT
 * queue.h - what one forward pass after another is driven by: a device's stream with its scratch, staging and graphs.
 * Threads: one at a time per queue; passes on several threads have one each. Lock: a leaf, as malloc's.
 *
 * The host never writes work memory that something queued reads or writes: it fills what queue_stage() gives and sends
 * it by queue_put(), in the order of the ops around it. On the CPU all this is the memory itself, and costs nothing. */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct queue;

/* On the CPU one for all. NULL when the GPU gives none; why says why. */
struct queue *queue_new(struct device *d, struct buf *why);
/* Waits. NULL is fine. */
void queue_free(struct queue **q);
bool queue_is_gpu(const struct queue *q);

/* Host memory to fill for dst; the CPU's is dst. NULL if short. Valid until the next queue_stage() after a sync. */
void *queue_stage(struct queue *q, void *dst, size_t bytes);
void queue_put(struct queue *q, void *dst, const void *staged, size_t bytes);
/* From device to device memory, in order; the ranges do not overlap. */
void queue_move(struct queue *q, void *dst, const void *src, size_t bytes);
/* So many rows of so many bytes; the strides are bytes from one row to the next, and no shorter. */
void queue_move_rows(struct queue *q, void *dst, size_t dst_stride, const void *src, size_t src_stride, size_t rows,
	size_t bytes);
/* Where the host may read src after the next sync, until the queue_stage() after it; the CPU's
 * is src. NULL if short. */
const void *queue_fetch(struct queue *q, const void *src, size_t bytes);
/* device_free() when what is queued has run. */
void queue_discard(struct queue *q, void *p);

/* What ops of this device are called with; on the CPU the caller's pool has its own. */
struct dsv4_exec *queue_exec(struct queue *q);
/* Before each op: scratch and uploads of the last one are over. */
void queue_next_op(struct queue *q);
/* Waits for all that is queued. RC_DEVICE: the GPU is lost, or a kernel failed; why has the driver's words, and the
 * device stays so (device_broken()). -ENOMEM. _end() at the end of a step, _sync() in its midst, where the host has to
 * look. */
int queue_sync(struct queue *q, struct buf *why);
int queue_end(struct queue *q, struct buf *why);
/* For who calls ops one by one: waits for the last and is ready for the next. 0 or -EIO; size bytes at why say why. */
int queue_op_done(struct queue *q, char *why, size_t size);

/* A step that repeats another but for its numbers: what is queued from here to queue_end() is captured and launched as
 * one graph. `key` names the kernels (a set's generation): under another key nothing is launched again. A step that the
 * host looks into in the midst runs in pieces, with the same results, and the next of that key are not captured.
 * -ENOMEM: the GPU has no memory for a capture; nothing has begun or failed. */
int queue_graph(struct queue *q, uint64_t key);
/* What is being captured becomes something that the next sync launches, so that ranks can agree before any of them
 * does. -ENOMEM: the GPU has no memory for a graph; what was captured is gone, and is to be queued again without one.
 * Other failures are queue_failed()'s. */
int queue_ready(struct queue *q);
/* 0, or the first failure so far of what was to be queued, which the next sync will tell: for
 * ranks_agree() before it. */
int queue_failed(const struct queue *q);
/* What was captured since queue_graph() is not launched: ranks have agreed on an error, or on doing without a graph. */
void queue_drop(struct queue *q);
/* Such a step is not captured this time: the view says why. */
void queue_no_graph(struct queue *q, const char *why);

#endif
