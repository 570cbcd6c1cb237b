/* SPDX-License-Identifier: MIT
 * device.h - where a model's numbers live and its ops run: the CPU's memory, or one GPU's.
 * Threads: any, but for open and close: one, and keeping weights: one per device. Lock: a leaf, as malloc's.
 *
 * A device has memory, weights and loaded code; what drives it is a queue (queue.h).
 *
 * Two kinds of memory. Work memory (buffers of a step, a sequence's rows) may be read by the host whenever the queue is
 * idle, so that taps, shadow, compare, dumps and caches need not know of devices: on a GPU it is managed memory that
 * prefers to lie there. Weights are plain: on a GPU they are copied once and have another address there
 * (device_address()). On the CPU all this is the memory itself, and costs nothing. */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;

/* ---- a device ---- */

/* The one that always is. */
struct device *device_cpu(void);
/* A name of device_list.h, of one device. RC_INVALID for another, RC_UNSUPPORTED for several; RC_UNAVAILABLE: no
 * driver, no such GPU, or it lacks what we need; why says which. */
int device_open(const char *name, struct device **ret_d, struct buf *why);
/* Its queues are gone, and what was allocated; loaded code and weights go with it. Of device_cpu() it is nothing. */
void device_close(struct device **d);

const char *device_name(const struct device *d);      /* "cpu", "cuda:0" */
bool device_is_gpu(const struct device *d);
/* Does it have what a plugin's `gpu` words ask for, e.g. "sm_80"? Any CPU plugin's "" runs anywhere. False: ret_lacks,
 * if not NULL, gets the first that it has not. */
bool device_has(const struct device *d, const char *features, struct buf *ret_lacks);
/* A kernel failed or the GPU is lost, or one that computes with it (ranks.h): nothing runs on it any more. */
bool device_broken(const struct device *d);

/* What runs kernels there, in words: "NVIDIA H200, sm_90, driver 13000"; nothing of the CPU. */
void device_kind(const struct device *d, struct buf *out);

struct device_view {
	char model[96];                  /* "NVIDIA H200"; "" for the CPU */
	int sm;                          /* compute capability, e.g. 90 */
	uint64_t total, free;            /* bytes, as the driver says; but managed memory is not
					  * free, wherever its pages are */
	uint64_t weights, work, pinned;  /* bytes: of weights; of work memory in use; of pinned host memory */
	uint64_t experts_host;           /* bytes of routed experts that lie in pinned host memory */
	uint64_t expert_slots, expert_slot_bytes;    /* device memory for those by use */
	uint64_t expert_hits, expert_misses;         /* those of them that decode steps used and found there, or not */
	uint64_t graph_steps, graphs, plain_steps; /* steps launched as a graph; graphs made; decode
						    * steps that were not one */
	int graph_nodes;                 /* of the newest graph */
	char graph_why[160];             /* why the last such step was not; "" */
};
void device_view(struct device *d, struct device_view *ret_v);
/* For the view: slots more, or less, and what a step found in them or not. */
void device_count_experts(struct device *d, int slots, uint64_t hits, uint64_t misses);

/* ---- work memory ---- */

/* n * size bytes, 64-byte aligned; zeroed on the CPU, anything on a GPU; NULL if short. Managed memory may be larger
 * than a GPU, which then moves pages to the host and back for ever: all that a device takes of its GPU is counted, and
 * never is more than was free when it was opened, less a sixty-fourth of the memory for the driver's own. */
void *device_alloc(struct device *d, size_t n, size_t size);
/* Nothing that is queued uses it. p may be NULL. */
void device_free(struct device *d, void *p);

/* On a GPU alone: memory that the host cannot read, for copies of experts (the view's
 * expert_slot_bytes). NULL if short. */
void *device_plain_new(struct device *d, size_t bytes);
/* As large as it was asked for. p may be NULL. */
void device_plain_free(struct device *d, void *p, size_t bytes);

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

#endif
