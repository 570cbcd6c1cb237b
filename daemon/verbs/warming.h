/* SPDX-License-Identifier: MIT
 * warming.h - a call that waits until every plugin it names is warm, and then does its work at once.
 * Threads: control. Locks: none. */
#ifndef DAEMON_WARMING_H
#define DAEMON_WARMING_H

#include "daemon/control/call.h"
#include "daemon/kernels/kernels.h"
#include "daemon/ops.h"

#define WARMING_TAKEN 2 /* of attempt(): from now on the call and *w are somebody else's */

struct plugin;

/* Embed, or allocate; zeroes but for what is said to be the caller's. */
struct warming {
	struct daemon *daemon;     /* the caller's */
	struct call *call;         /* the caller's; NULL once the peer is gone: then nothing is done any more */
	/* The caller's. Asks for plugins with the functions below, and does the work when they are all there: 0 with
	 * the reply, an error, CALL_LATER from those functions, WARMING_TAKEN. Called again after every wait. */
	int (*attempt)(struct warming *w, json_t **ret_reply, struct buf *why);
	void (*end)(struct warming *w); /* the caller's: frees, when all is over */
	struct ops_job wait;       /* does nothing: when it is done, what was before it in the queue is done too */
	int n_held;
	struct plugin *held[2 * KSET_MAX_OVERLAYS]; /* warmed for this, and wanted until it is over */
};

/* What a verb's handler returns; *w is gone unless that is CALL_LATER. */
int warming_begin(struct warming *w, json_t **ret_reply, struct buf *why);

/* In attempt(): 0 when it is warm, CALL_LATER when something has begun that ends in another attempt, or an error. A
 * plugin of this name; "ref" is always there. */
int warming_plugin(struct warming *w, const char *name, struct buf *why);
/* All plugins of a set as kernels_resolve() reads it. What names none is left to kernels_resolve(). */
int warming_set(struct warming *w, const char *text, struct buf *why);

#endif
