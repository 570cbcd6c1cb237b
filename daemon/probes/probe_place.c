/* SPDX-License-Identifier: MIT
 * probe_place.c - requests of a scheduled probe take nobody's place: each waits until there is a free one, and all
 * leave when clients begin to wait.
 * Threads: control begins; the rest on ops. Locks: the engine's, inside calls. */
#include "daemon/probes/probe_place.h"
#include "engine/base/clock.h"
#include "engine/base/rc.h"

#include <poll.h>
#include <stddef.h>

#define PLACE_PATIENCE_MS 30000 /* then the run gives way as a whole */
#define PLACE_LOOK_MS 50

bool probe_place_free(const struct probe_place *p)
{
	struct engine_status s;

	engine_status(p->engine, &s);
	return s.queued <= p->max_waiting && s.running + s.queued < s.max_running;
}

int probe_place_take(struct probe_place *p, struct buf *why)
{
	long long until = clock_ms() + PLACE_PATIENCE_MS;

	p->waits_from = 0;
	while (!atomic_load(p->cancel)) {
		if (probe_place_free(p))
			return 0;
		if (clock_ms() >= until)
			atomic_store(p->cancel, true);
		poll(NULL, 0, PLACE_LOOK_MS);
	}
	return buf_why(why, RC_CANCELLED, "the run gave way");
}

/* Who comes waits for the next step in any case, so one look says nothing; who still waits two steps later, whatever
 * for, may be waiting for what this request holds. */
void probe_place_look(struct probe_place *p)
{
	struct engine_status s;

	engine_status(p->engine, &s);
	if (s.queued <= p->max_waiting)
		p->waits_from = 0;
	else if (p->waits_from == 0)
		p->waits_from = s.steps + 1;
	else if (s.steps + 1 >= p->waits_from + 2)
		atomic_store(p->cancel, true);
}
