/* SPDX-License-Identifier: MIT
 * probe_place.h - requests of a scheduled probe take nobody's place: each waits until there is a free one, and all
 * leave when clients begin to wait.
 * Threads: control begins; the rest on ops. Locks: the engine's, inside calls. */
#ifndef DAEMON_PROBE_PLACE_H
#define DAEMON_PROBE_PLACE_H

#include "engine/engine.h"

struct probe_place {
	struct engine *engine;
	atomic_bool *cancel;     /* of the run; set when it gives way */
	int max_waiting;         /* requests that may wait all the same */
	uint64_t waits_from;     /* the step since which more do, plus 1; 0: they do not */
};

/* Could a request be computed at once, and does nobody wait for that? */
bool probe_place_free(const struct probe_place *p);
/* Before a request: waits until there is a place, a while. RC_CANCELLED. */
int probe_place_take(struct probe_place *p, struct buf *why);
/* While a request runs: if clients wait for longer than a step takes, sets `cancel`. */
void probe_place_look(struct probe_place *p);

#endif
