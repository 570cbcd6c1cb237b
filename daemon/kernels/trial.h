/* SPDX-License-Identifier: MIT
 * trial.h - a plugin is tried in a child process before it is mapped here: whatever it does, it does there first.
 * Threads: ops runs trials; the child has its own process. Locks: none. */
#ifndef DAEMON_TRIAL_H
#define DAEMON_TRIAL_H

#include "engine/engine.h"
#include "plugins/check/check.h"

#include <stdatomic.h>

struct trial_options {
	int stage_ms;              /* a stage that takes longer is killed; 0: a minute */
	uint64_t seed;             /* of the check; 0: 1 */
	const struct check_shape *shape; /* [n_shape] the check runs on; NULL: tiny */
	int n_shape;
	const char *device;        /* of plugins that compute on a GPU: device_name(), which the
				    * child opens for itself */
	atomic_bool *cancel;       /* NULL: never */
};

/* Tries a fresh copy of the file, made in `copies` and gone afterwards, in a child: map, open, warm, check each op,
 * close, a second time for leaks, unmap. Blocks until the child is gone. RC_PLUGIN with any refusal that a mapping can
 * meet, also crashed ("SIGSEGV in open") and timed-out ("check attn after 60 s"); RC_CANCELLED, -errno. */
int trial_run(const struct plugin_file *pf, const char *copies, const struct trial_options *o, struct buf *why);

/* The child's main: dsv4d --trial COPY SEED DEVICE SHAPE... It needs the pipe that trial_run() gives it, and is for
 * nobody else: it removes COPY. Returns the exit status. */
int trial_child(int argc, char **argv);

#endif
