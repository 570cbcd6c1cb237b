/* SPDX-License-Identifier: MIT
 * device_priv.h - the inside of a device, shared by engine/device/ only.
 * Threads, locks: as device.h. */
#ifndef ENGINE_DEVICE_PRIV_H
#define ENGINE_DEVICE_PRIV_H

#include "engine/base/list.h"
#include "engine/device/cuda_driver.h"
#include "engine/device/device.h"

#include <pthread.h>
#include <stdatomic.h>

#define DEVICE_ALIGN 256 /* of pieces in any arena; what the widest loads and copies like */

static inline size_t device_round(size_t n)
{
	return (n + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
}

/* ---- memory ---- */

/* Pieces are cut from slabs and kept by size when they are freed: allocating managed memory takes milliseconds, freeing
 * it waits for the GPU. What describes a piece is the host's: the memory itself would be moved here by a look at it. */
struct device_slab {
	struct list link;
	uint64_t p;
	size_t size, used, live;        /* bytes cut, and pieces in use */
};

struct device_piece {
	struct device_piece *next;      /* in its bucket, or in the list of those of its class */
	uint64_t p;
	size_t size;
	struct device_slab *slab;
};

#define DEVICE_BUCKETS 16384
#define DEVICE_CLASSES 512              /* eight per power of two */

struct device_memory {
	pthread_mutex_t mutex;          /* a leaf: nothing is called under it but the driver */
	struct list slabs;
	struct device_piece *used[DEVICE_BUCKETS], *spare[DEVICE_CLASSES];
	uint64_t bytes;                 /* in use */
};

/* A weight: where the host has it and where the device does. */
struct device_range {
	const void *host;
	uint64_t p;
};

struct device_arena {
	uint64_t p;
	void *pinned;                   /* NULL: device memory */
	size_t size;
};

struct device_weights {
	struct device_range *range;     /* in order of host, once kept */
	size_t n, cap;
	bool sorted;
	struct device_arena *arena;
	int n_arena;
	size_t left[2];                 /* in the newest arena: on the device, on the host */
	uint64_t at[2];
	char *host_at;
	uint64_t bytes, host_bytes;
};

/* ---- the device ---- */

struct queue;

struct device {
	const struct cuda_driver *cu;   /* NULL: the CPU */
	char name[16], model[96];
	int ordinal, id, major, minor;
	void *context;
	uint64_t total, at_open, usable; /* free when it was opened; that, less what the driver is left */
	atomic_ullong taken;            /* of usable, by anything here */
	atomic_ullong plain;            /* of taken, by device_plain_new() */
	struct dsv4_gpu gpu;
	struct device_memory memory;
	struct device_weights weights;
	struct queue *loader;           /* copies weights */
	struct ranks *ranks;            /* that it computes with as number `rank`; NULL: alone */
	int rank;
	pthread_mutex_t code_mutex;     /* a leaf: the list below */
	struct list modules;
	atomic_bool broken;
	atomic_ullong pinned, graph_steps, graphs, plain_steps;
	atomic_ullong expert_hits, expert_misses;
	atomic_int expert_slots, graph_nodes, queues;
	pthread_mutex_t why_mutex;      /* a leaf */
	char graph_why[160];
};

/* The driver knows which device the calling thread means. */
void device_enter(const struct device *d);
/* What is free now is what it may use: nothing of it is in use. RC_UNAVAILABLE. */
int device_measure(struct device *d, struct buf *why);
/* 0, -ENOMEM, or RC_DEVICE for what the device does not recover from; why gets what and the driver's words. */
int device_result(struct device *d, int rc, const char *what, struct buf *why);
/* It computes no more, nor do those that compute with it; why: of the first. */
void device_break(struct device *d, const char *why);
/* RC_DEVICE, of one that is broken: why it is, which may be another one's fault. */
int device_lost(const struct device *d, struct buf *why);
/* Something else than device_enter() may have told the driver which device the calling thread means. */
void device_leave(void);

/* Memory of the device that the host cannot read, for weights, scratch and device_plain_new(). The driver's result. */
int device_plain_alloc(struct device *d, uint64_t *ret_p, size_t bytes);
void device_plain_drop(struct device *d, uint64_t p, size_t bytes);

/* Parts of device_open(), before there is a context, and of device_close(). At the end no work memory is in use, and
 * what is left of weights, code and slabs goes back to the driver. */
void device_memory_init(struct device *d);
/* What is not in use goes back to the driver. */
void device_memory_trim(struct device *d);
void device_memory_fini(struct device *d);
void device_weights_fini(struct device *d);
void device_code_init(struct device *d);
void device_code_fini(struct device *d);

#endif
