/* SPDX-License-Identifier: MIT
 * engine_memory.c - memory for sequences: how much there is, who takes it, who waits for it, what they hold.
 * Threads: any. Lock: engine. */
#include "engine/base/clock.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"

#include <unistd.h>

#define ENGINE_CLAIM_MS 100 /* who waits for room looks so often whether it is to go on */

size_t engine_memory_share(size_t n)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	must(pages > 0 && size > 0);
	return (size_t)pages / n * (size_t)size;
}

size_t engine_memory_work_share(const struct engine *e, size_t n)
{
	return device_is_gpu(e->device) ? e->device_free / n : engine_memory_share(n);
}

void engine_memory_held(struct engine *e, struct request *r)
{
	size_t now = (r->seq ? sequence_bytes(r->seq) : 0) + request_cache_bytes(r);

	atomic_fetch_add(&e->state_bytes, now - r->held);
	r->held = now;
}

/* A claim that waits keeps no request out: it has room when they leave some, or is told that they do not. */
bool engine_memory_take(struct engine *e, size_t bytes)
{
	bool room;

	lock_take(&e->lock);
	room = e->taken + e->granted + bytes <= e->env.max_state;
	if (room)
		e->taken += bytes;
	lock_drop(&e->lock);
	return room;
}

void engine_memory_give(struct engine *e, size_t bytes)
{
	lock_take(&e->lock);
	e->taken -= bytes;
	must_zero(pthread_cond_broadcast(&e->room));
	lock_drop(&e->lock);
}

/* Lock held. */
static int engine_memory_claim_wait(struct engine *e, long long until_ms, const atomic_bool *cancel, struct buf *why)
{
	if (e->stopping)
		return buf_why(why, RC_DRAINING, "the engine stops");
	if (cancel && atomic_load(cancel))
		return buf_why(why, RC_CANCELLED, "cancelled while it waited for the memory that %d requests have",
			e->count.running);
	if (clock_ms() >= until_ms)
		return buf_why(why, RC_BUSY,
			       "waited %.3g s for the memory that %d requests have: try again when they are done",
			       e->recompute_patience, e->count.running);
	lock_wait(&e->lock, &e->room, ENGINE_CLAIM_MS);
	return 0;
}

int engine_memory_claim(struct engine *e, size_t bytes, const atomic_bool *cancel, struct buf *why)
{
	long long until_ms = clock_ms() + (long long)(1000 * e->recompute_patience);
	int rc = 0;

	lock_take(&e->lock);
	while (rc == 0 && e->taken + e->granted + bytes > e->env.max_state)
		rc = engine_memory_claim_wait(e, until_ms, cancel, why);
	if (rc == 0)
		e->granted += bytes;
	lock_drop(&e->lock);
	return rc;
}

void engine_memory_unclaim(struct engine *e, size_t bytes)
{
	lock_take(&e->lock);
	e->granted -= bytes;
	e->woken = true;
	must_zero(pthread_cond_signal(&e->cond));
	must_zero(pthread_cond_broadcast(&e->room));
	lock_drop(&e->lock);
}
