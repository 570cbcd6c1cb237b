/* SPDX-License-Identifier: MIT
 * running.c - which kernel a pool's threads are in, for a signal handler that has to say so.
 * Threads: a pool's caller writes, its threads read, also inside a signal handler. Locks: none (relaxed atomics). */
#include "engine/kernels/running.h"

#include <stddef.h>

static _Thread_local struct running *running_mine;

void running_here(struct running *r)
{
	running_mine = r;
}

void running_begin(struct running *r, const char *request)
{
	running_here(r);
	atomic_store_explicit(&r->request, request, memory_order_relaxed);
}

void running_end(struct running *r)
{
	atomic_store_explicit(&r->provider, NULL, memory_order_relaxed);
	atomic_store_explicit(&r->request, NULL, memory_order_relaxed);
	running_here(NULL);
}

struct running_view running_look(const struct running *r)
{
	struct running_view v = { 0 };
	uint32_t what;

	what = atomic_load_explicit(&r->what, memory_order_relaxed);
	v.provider = atomic_load_explicit(&r->provider, memory_order_relaxed);
	v.request = atomic_load_explicit(&r->request, memory_order_relaxed);
	v.generation = atomic_load_explicit(&r->generation, memory_order_relaxed);
	v.op = (enum dsv4_op)(what & 0xff);
	v.phase = (enum dsv4_phase)(what >> 8 & 0xff);
	v.layer = (int)(what >> 16) - 1;
	return v;
}

struct running_view running_now(void)
{
	return running_mine ? running_look(running_mine) : (struct running_view){ 0 };
}
