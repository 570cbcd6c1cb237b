/* SPDX-License-Identifier: MIT
 * manager.h - the service manager: sockets that it opened for us, what it is told, its watchdog (sd_notify(3)).
 * Threads: control; manager_progress() any. Locks: none (an atomic stage and count). */
#ifndef DAEMON_MANAGER_H
#define DAEMON_MANAGER_H

#include "daemon/conf.h"
#include "engine/base/buf.h"
#include "engine/engine.h"

#include <stdatomic.h>
#include <stdbool.h>

#define MANAGER_MAX_SOCKETS 8
#define MANAGER_STATUS_MAX 256

/* Without a manager nothing is told to anyone. */
struct manager {
	int control;                     /* the control socket, -1: none was given */
	int http[MANAGER_MAX_SOCKETS], n_http;
	bool watched, ready, unsaid;     /* unsaid: READY=1 was dropped */
	_Atomic(const char *) stage;     /* of loading: a literal */
	atomic_uint_least64_t moved;     /* rises with every step of it */
	atomic_int patience;             /* seconds that it may take without one */
	uint64_t moved_seen, kernels_seen, tokens_seen;
	long long ticked;                /* milliseconds, clock_ms() */
	char status[MANAGER_STATUS_MAX]; /* as told last */
};

/* Takes the sockets over (LISTEN_FDS): the Unix socket that `control` names is control's, those of `listen` and all
 * that are no Unix sockets are HTTP's. The variables are removed, so that no child takes them for its own. RC_CONFIG
 * for another Unix socket, more than MANAGER_MAX_SOCKETS, or what is no listening stream socket. */
int manager_open(struct manager *m, const struct conf *c, struct buf *why);
/* Closes what nobody took. */
void manager_close(struct manager *m);

/* While loading: the stage that begins, or the same one again when it has come further. */
void manager_progress(struct manager *m, const char *stage);
/* One begins that shows no progress for up to so many seconds. */
void manager_begins(struct manager *m, const char *stage, int seconds);
/* Once a second until ready: the stage, and more time as long as it moves. */
void manager_loading(struct manager *m, const char *model);
/* Requests are served now; again after a reload. */
void manager_ready(struct manager *m);
/* Once a second from then on: what is being done, and the watchdog's food, unless the engine hangs or has failed. */
void manager_tick(struct manager *m, const struct engine_status *s, const char *model, const char *address);
void manager_reloading(struct manager *m);
/* For at most so many seconds more. */
void manager_stopping(struct manager *m, long long seconds);

#endif
