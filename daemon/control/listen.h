/* SPDX-License-Identifier: MIT
 * listen.h - the listening Unix socket: made with the right owner and mode, stale files replaced, live ones not.
 * Threads: control. Locks: none (a lock file beside the socket). */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "engine/base/buf.h"

#include <sys/types.h>

struct listen {
	int fd, lock_fd;
	char *path;
	dev_t dev;      /* of the socket file we made, so that we never remove another's */
	ino_t ino;
};

/* -EADDRINUSE when another process listens there, else -errno; why names path and reason. gid -1:
 * unchanged. */
int listen_open(struct listen *l, const char *path, mode_t mode, gid_t gid, struct buf *why);
/* The socket that somebody else opened and keeps: its file is not ours to remove. */
void listen_given(struct listen *l, int fd, const char *path);
void listen_close(struct listen *l);

#endif
