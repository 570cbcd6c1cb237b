/* SPDX-License-Identifier: MIT
 * last_good.h - the last kernel set that ran many steps without a failure: kept over restarts, started with after a
 * crash.
 * Threads: control; written on ops. Locks: none. */
#ifndef DAEMON_LAST_GOOD_H
#define DAEMON_LAST_GOOD_H

#include "daemon/kernels/kernels.h"

/* Reads the state file into d->kernels->good: {name, overlays: [SPEC], plugins: [{name, file, sha256}]}, or null when
 * there is none. A malformed one is an error in the log and counts as none. */
void last_good_read(struct daemon *d);
/* Once a second: has the active set run long enough by now? Then it is written, on ops. */
void last_good_tick(struct daemon *d);
/* The set itself while it lives, else built from the plugins of these names, which must be warm; pinned. RC_NOT_FOUND
 * and what kernels_spec_add() says. */
int last_good_resolve(struct daemon *d, struct kernels_set **ret_s, struct buf *why);
/* "" when there is none. */
const char *last_good_name(const struct daemon *d);

#endif
