/* SPDX-License-Identifier: MIT
 * probe_front.h - this daemon's own HTTP front as a probe sees it: through a socket, past every limit.
 * Threads: control makes one, ops uses it. Locks: none. */
#ifndef DAEMON_PROBE_FRONT_H
#define DAEMON_PROBE_FRONT_H

#include "ctl/probe/probe.h"
#include "daemon/daemon.h"

struct probe_http;

/* The front behind the first address that the daemon listens on; an exchange asks `cancelled` about once a second.
 * RC_UNSUPPORTED when it listens nowhere. */
int probe_front_new(const struct daemon *d, bool (*cancelled)(void *arg), void *arg, struct probe_http **ret_h,
		    struct buf *why);

#endif
