/* SPDX-License-Identifier: MIT
 * wait.h - calls that wait for a state of the daemon.
 * Threads: control. Locks: none. */
#ifndef DAEMON_WAIT_H
#define DAEMON_WAIT_H

#include "daemon/control/call.h"
#include "daemon/daemon.h"

/* Answers what holds or is late; is anyone still waiting? */
bool wait_tick(struct daemon *d);
/* Fails all that wait: the daemon ends. */
void wait_fini(struct daemon *d);

#endif
