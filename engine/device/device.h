/* SPDX-License-Identifier: MIT
 * device.h - where a model's numbers live and its ops run: the CPU's memory, or one GPU's.
 * Threads: any for a device, but for open, close and keeping weights; one at a time per queue. Lock: a leaf, as malloc's.
 *
 * A device has memory, weights and loaded code. A queue is what one forward pass after another is driven by: a stream with
 * its scratch, staging and graphs; passes on several threads have one each.
 *
 * Two kinds of memory. Work memory (buffers of a step, a sequence's rows) may be read by the host whenever the queue is
 * idle, so that taps, shadow, compare, dumps and caches need not know of devices: on a GPU it is managed memory that
 * prefers to lie there. Weights are plain: on a GPU they are copied once and have another address there
 * (device_address()).
 *
 * The host never writes work memory that something queued reads or writes: it fills what queue_stage() gives and sends it
 * by queue_put(), in the order of the ops around it. On the CPU all this is the memory itself, and costs nothing. */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct queue;

/* ---- a device ---- */

/* The one that always is. */
struct device *device_cpu(void);
/* A name of device_list.h, of one device. RC_INVALID for another, RC_UNSUPPORTED for several; RC_UNAVAILABLE: no driver, no such GPU, or it
 * lacks what we need; why says which. */
int device_open(const char *name, struct device **ret_d, struct buf *why);
/* Is that a name for device_open()? Asks no driver. */
int device_check_name(const char *name, struct buf *why);
/* Its queues are gone, and what was allocated; loaded code and weights go with it. Of device_cpu() it is nothing. */
void device_close(struct device **d);

const char *device_name(const struct device *d);      /* "cpu", "cuda:0" */
bool device_is_gpu(const struct device *d);
/* Does it have what a plugin's `gpu` words ask for, e.g. "sm_80"? Any CPU plugin's "" runs anywhere. False: ret_lacks, if
 * not NULL, gets the first that it has not. */
bool device_has(const struct device *d, const char *features, struct buf *ret_lacks);
/* A kernel failed or the GPU is lost: nothing runs on it any more. */
bool device_broken(const struct device *d);

struct device_view {
	char model[96];                  /* "NVIDIA H200"; "" for the CPU */
	int sm;                          /* compute capability, e.g. 90 */
	uint64_t total, free;            /* bytes, as the driver says */
	uint64_t weights, work, pinned;  /* bytes: of weights; of work memory in use; of pinned host memory */
	uint64_t experts_host;           /* routed experts that lie in pinned host memory */
	uint64_t expert_slots, expert_hits, expert_misses; /* device memory for those by use; experts of decode steps in it, or not */
	uint64_t graph_steps, graphs, plain_steps; /* steps launched as a graph; graphs made; decode steps that were not one */
	int graph_nodes;                 /* of the newest graph */
	char graph_why[160];             /* why the last such step was not; "" */
};
void device_view(struct device *d, struct device_view *ret_v);
/* For the view: slots more, or less, and what a step found in them or not. */
void device_count_experts(struct device *d, int slots, uint64_t hits, uint64_t misses);

/* ---- work memory ---- */

/* n * size bytes, 64-byte aligned; zeroed on the CPU, anything on a GPU; NULL if short. */
void *device_alloc(struct device *d, size_t n, size_t size);
/* Nothing that is queued uses it. p may be NULL. */
void device_free(struct device *d, void *p);

/* ---- weights ---- */

/* Copies what lies at p, so that device_address() knows it. Not while a queue runs. -ENOMEM; nothing on the CPU. */
int device_keep(struct device *d, const void *p, size_t bytes, struct buf *why);
/* The same into pinned memory of the host, that the GPU reads through the bus. */
int device_keep_host(struct device *d, const void *p, size_t bytes, struct buf *why);
/* Waits for all that is being copied. */
int device_kept(struct device *d, struct buf *why);
/* Where the device reads what the host reads at p: the start of something kept, or NULL. */
const void *device_address(const struct device *d, const void *p);

/* ---- code ---- */

/* For provider.c: the GPU half of a plugin's host table, NULL on the CPU; and what its close() leaves behind: the
 * modules that it loaded. */
const struct dsv4_gpu *device_gpu(const struct device *d);
void device_unload(struct device *d, const struct dsv4_host *host);
void *device_scratch(struct dsv4_exec *x, size_t bytes); /* host->scratch of GPU plugins */

/* ---- a queue ---- */

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
/* Where the host may read src after the next sync, until the queue_stage() after it; the CPU's is src. NULL if short. */
const void *queue_fetch(struct queue *q, const void *src, size_t bytes);
/* device_free() when what is queued has run. */
void queue_discard(struct queue *q, void *p);

/* What ops of this device are called with; on the CPU the caller's pool has its own. */
struct dsv4_exec *queue_exec(struct queue *q);
/* Before each op: scratch and uploads of the last one are over. */
void queue_next_op(struct queue *q);
/* Waits for all that is queued. RC_DEVICE: the GPU is lost, or a kernel failed; why has the driver's words, and the device
 * stays so (device_broken()). -ENOMEM. _end() at the end of a step, _sync() in its midst, where the host has to look. */
int queue_sync(struct queue *q, struct buf *why);
int queue_end(struct queue *q, struct buf *why);
/* For who calls ops one by one: waits for the last and is ready for the next. 0 or -EIO; size bytes at why say why. */
int queue_op_done(struct queue *q, char *why, size_t size);

/* A step that repeats another but for its numbers: what is queued from here to queue_end() is captured and launched as
 * one graph. `key` names the kernels (a set's generation): under another key nothing is launched again. A step that the
 * host looks into in the midst runs in pieces, with the same results, and the next of that key are not captured. */
void queue_graph(struct queue *q, uint64_t key);
/* Such a step is not captured this time: the view says why. */
void queue_no_graph(struct queue *q, const char *why);

#endif
