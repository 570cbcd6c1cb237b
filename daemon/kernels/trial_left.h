/* SPDX-License-Identifier: MIT
 * trial_left.h - what a plugin has left in its process: threads, and libraries that came with it.
 * Threads: the trial child's. Locks: none. */
#ifndef DAEMON_TRIAL_LEFT_H
#define DAEMON_TRIAL_LEFT_H

#include "engine/base/buf.h"

struct trial_left {
	int n_thread;
	struct buf libraries;      /* paths, a line each */
};

/* Before the plugin is mapped. */
void trial_left_init(struct trial_left *l);
void trial_left_fini(struct trial_left *l);
/* After close(): RC_PLUGIN leaks when there are more threads. One that is on its way out is waited for. */
int trial_left_threads(const struct trial_left *l, struct buf *why);
/* After it is unmapped: RC_PLUGIN stays-mapped when there is a library that was not there. */
int trial_left_libraries(const struct trial_left *l, struct buf *why);

#endif
