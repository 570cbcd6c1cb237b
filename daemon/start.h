/* SPDX-License-Identifier: MIT
 * start.h - the kernels that a run begins with: [plugins] load and [kernels] use, or last-good after a crash.
 * Threads: control. Locks: none. */
#ifndef DAEMON_START_H
#define DAEMON_START_H

struct daemon;

/* With the engine open, before anything is served. done() once: rc 0, or why it cannot be had as configured. Not called
 * when the daemon stops meanwhile. */
void start_kernels(struct daemon *d, void (*done)(struct daemon *d, int rc, const char *why));

#endif
