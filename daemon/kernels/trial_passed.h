/* SPDX-License-Identifier: MIT
 * trial_passed.h - which plugins have passed their trial on this machine, over restarts: a
 * start need not wait for it again.
 * Threads: ops. Locks: none. */
#ifndef DAEMON_TRIAL_PASSED_H
#define DAEMON_TRIAL_PASSED_H

#include "daemon/state.h"

#include <stdbool.h>

/* Has a file of this sha256 passed here: with this very program and C library, CPU and its microcode? */
bool trial_passed(const struct state *s, const char *sha256);
/* It has. What passed on another machine or with another program is forgotten. -errno. */
int trial_passed_keep(const struct state *s, const char *sha256, struct buf *why);
/* It was refused since. -errno: it may be believed at the next start. */
int trial_passed_forget(const struct state *s, const char *sha256, struct buf *why);

#endif
