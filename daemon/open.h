/* SPDX-License-Identifier: MIT
 * open.h - from the configuration to a daemon that serves: the model is opened, then kernels, numerics, HTTP.
 * Threads: control. Locks: none. */
#ifndef DAEMON_OPEN_H
#define DAEMON_OPEN_H

struct daemon;

/* Begins; d->loading until the model is there. What goes wrong ends the daemon with the exit status that says so. */
void open_model(struct daemon *d);

#endif
