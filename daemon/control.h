/* SPDX-License-Identifier: MIT
 * control.h - the control socket: connections, their buffers, limits and deadlines. What is said is call.h's.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "daemon/loop.h"
#include "daemon/peer.h"
#include "engine/base/buf.h"

#include <jansson.h>

#define CONTROL_MAX_CONNS 64
#define CONTROL_MAX_PER_UID 8
#define CONTROL_MAX_REPLY (32u << 20)  /* bytes; a longer one becomes the error TooLarge */
#define CONTROL_MAX_OUT (256u << 20)   /* bytes of all replies that wait for their readers */
#define CONTROL_IN_MS 10000            /* a call must be complete this long after its first byte */
#define CONTROL_OUT_MS 10000           /* a peer must take at least one byte of its reply in this time */

struct control;
struct conn;
struct daemon;

struct control_options {
	const char *path, *group, *admin_group;
	mode_t mode;
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

/* Queues one reply; never fails: a peer that cannot take it is closed from the loop. */
void conn_send(struct conn *c, const char *error, json_t *params, bool continues);
/* No further call is read; the connection closes when its replies are sent. */
void conn_finish(struct conn *c);
/* The pending call is over: reading goes on. */
void conn_resume(struct conn *c);
const struct peer *conn_peer(const struct conn *c);
struct daemon *conn_daemon(const struct conn *c);

#endif
