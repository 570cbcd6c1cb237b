/* SPDX-License-Identifier: MIT
 * running.h - which kernel a pool's threads are in, for a signal handler that has to say so.
 * Threads: a pool's caller writes, its threads read, also inside a signal handler. Locks: none (relaxed atomics).
 *
 * Every pool has one, and each thread knows its pool's: a process may drive several. */
#ifndef ENGINE_RUNNING_H
#define ENGINE_RUNNING_H

#include "engine/kernels/kset.h"

#include <stdatomic.h>
#include <stdint.h>

struct running {
	_Atomic(const char *) provider; /* its plugin's name; NULL: no kernel runs */
	_Atomic uint32_t what;          /* op, phase and layer, packed */
	_Atomic uint64_t generation;    /* of the kernel set */
	_Atomic(const char *) request;  /* the id of the batch's first; NULL: nobody's */
	_Atomic uint64_t kernels;       /* begun so far: stands still while one hangs */
};

/* As read back. */
struct running_view {
	const char *provider, *request;
	enum dsv4_op op;
	enum dsv4_phase phase;
	int layer;                      /* -1: the head */
	uint64_t generation;
};

/* From now on the calling thread computes for this one. */
void running_here(struct running *r);

/* The op that is about to be called. */
static inline void running_op(struct running *r, const struct kset_slot *slot, uint64_t generation, enum dsv4_op op,
			      enum dsv4_phase phase, int layer)
{
	uint32_t what = (uint32_t)op | (uint32_t)phase << 8 | (uint32_t)(layer + 1) << 16;

	atomic_store_explicit(&r->what, what, memory_order_relaxed);
	atomic_store_explicit(&r->generation, generation, memory_order_relaxed);
	atomic_store_explicit(&r->provider, slot->provider->plugin->name, memory_order_relaxed);
	/* One writer: no need of an atomic addition. */
	atomic_store_explicit(&r->kernels, atomic_load_explicit(&r->kernels, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* A pass begins and ends; request NULL is fine and lives until the end. */
void running_begin(struct running *r, const char *request);
void running_end(struct running *r);

/* What it runs; provider NULL when that is no kernel. Async-signal-safe. */
struct running_view running_look(const struct running *r);
/* Of the calling thread's pool. */
struct running_view running_now(void);

#endif
