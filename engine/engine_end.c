/* SPDX-License-Identifier: MIT
 * engine_end.c - the end of a request: finished, failed, cancelled or late; its books, its room, who is told.
 * Threads: engine. Lock: engine. */
#include "engine/base/clock.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"

#include <stdio.h>

/* Books first, consumer last: who has seen the FINISH event finds everything as after it. */
void engine_end(struct engine *e, struct request *r, struct request_end *end)
{
	bool ran = r->seq != NULL;

	if (ran)
		engine_memory_give(e, r->need);
	scheduler_drop(&e->sched, &r->task);
	request_close(r, end);
	engine_memory_held(e, r);
	tally_ended(&e->tally, end->finish, end->rc, generation_left(r->gen), clock_since(r->submitted_ns));
	ring_finished(e->ring, r->rec);
	lock_take(&e->lock);
	list_del(&r->live);
	e->count.running -= ran;
	e->count.queued -= !ran;
	e->count.finished++;
	e->count.cancelled += end->finish == GEN_CANCELLED;
	e->count.errors += end->finish == GEN_ERROR;
	e->woken = true; /* its place is free: whoever waits is looked at before the thread sleeps */
	lock_drop(&e->lock);
	request_tell(r, end);
	request_free(&r);
	buf_fini(&end->detail);
}

void engine_end_failed(struct engine *e, struct request *r, int rc, const char *why)
{
	struct request_end end;

	request_failed(r, rc, why, &end);
	engine_end(e, r, &end);
}

static bool engine_late(struct engine *e, struct request *r)
{
	char why[64];

	if (!r->deadline_ns || clock_ns() < r->deadline_ns)
		return false;
	snprintf(why, sizeof why, "not done within %d s", r->deadline);
	engine_end_failed(e, r, RC_TIMEOUT, why);
	return true;
}

bool engine_end_due(struct engine *e, struct request *r)
{
	struct request_end end;
	int why = generation_stopped(r->gen);

	if (!why)
		return engine_late(e, r);
	request_cancelled(r, why, &end);
	engine_end(e, r, &end);
	return true;
}
