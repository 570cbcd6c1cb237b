/* SPDX-License-Identifier: MIT
 * trial_passed.h - which plugins have passed their trial on this machine, over restarts: a
 * start need not wait for it again.
 * Threads: ops. Locks: none. */
#ifndef DAEMON_TRIAL_PASSED_H
#define DAEMON_TRIAL_PASSED_H

#include "daemon/state.h"
#include "engine/engine.h"

#include <stdbool.h>

/* What is kept of a trial: the file's sha256, and, of a plugin for GPUs, on what GPU under which driver, by its version
 * and its code. */
void trial_passed_key(const char *sha256, bool gpu, const struct device *d, struct buf *out);
/* Has it passed here: with this very program and C library, CPU and its microcode? */
bool trial_passed(const struct state *s, const char *key);
/* It has. What passed on another machine or with another program is forgotten. -errno. */
int trial_passed_keep(const struct state *s, const char *key, struct buf *why);
/* It was refused since. -errno: it may be believed at the next start. */
int trial_passed_forget(const struct state *s, const char *key, struct buf *why);

#endif
