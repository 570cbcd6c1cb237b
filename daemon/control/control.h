/* SPDX-License-Identifier: MIT
 * control.h - the control socket: who may connect, and how many. A connection is conn.h's.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "daemon/loop.h"
#include "engine/base/buf.h"

#include <sys/types.h>

#define CONTROL_MAX_CONNS 64
#define CONTROL_MAX_PER_UID 8

struct control;
struct daemon;

struct control_options {
	const char *path, *group, *admin_group;
	mode_t mode;
	int fd;          /* listens at path already and is taken over; -1: none */
};

/* -EADDRINUSE when another daemon listens there, else -errno; why names path and reason. */
int control_open(const struct control_options *o, struct loop *l, struct daemon *d, struct control **ret_c,
		 struct buf *why);
/* Closes every connection; pending calls are told (call.h). */
void control_close(struct control **c);
/* Call about once a second: closes peers that are past a deadline. */
void control_tick(struct control *c);
/* Sends what replies wait, for at most timeout_ms. Before ending. */
void control_flush(struct control *c, int timeout_ms);

#endif
