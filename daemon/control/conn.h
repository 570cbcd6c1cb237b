/* SPDX-License-Identifier: MIT
 * conn.h - one control connection: its buffers, limits and deadlines. What is said is call.h's.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CONN_H
#define DAEMON_CONN_H

#include "daemon/loop.h"
#include "daemon/control/peer.h"
#include "engine/base/buf.h"
#include "engine/base/list.h"

#include <jansson.h>

#define CONN_MAX_REPLY (32u << 20)  /* bytes; a longer one becomes the error TooLarge */
#define CONN_MAX_OUT (256u << 20)   /* bytes of all replies that wait for their readers */
#define CONN_IN_MS 10000            /* a call must be complete this long after its first byte */
#define CONN_OUT_MS 10000           /* a peer must take at least one byte of its reply in this time */

struct conn;
struct daemon;

/* All connections, and what they share. */
struct conn_set {
	struct loop *loop;
	struct daemon *daemon;
	struct list conns;
	int n;
	size_t out_total;   /* bytes of all replies that wait */
};

void conn_set_init(struct conn_set *s, struct loop *l, struct daemon *d);
/* Closes every connection; pending calls are told (call.h). */
void conn_set_fini(struct conn_set *s);
/* How many connections has this user? */
int conn_set_of_uid(const struct conn_set *s, uid_t uid);
/* Closes peers that are past a deadline. */
void conn_set_tick(struct conn_set *s);
/* Sends what replies wait, for at most timeout_ms. */
void conn_set_flush(struct conn_set *s, int timeout_ms);

/* Takes over fd on success, and reads calls from it. -errno. */
int conn_open(struct conn_set *s, int fd, const struct peer *peer, struct conn **ret_c);
/* Says why there is no room for it, and closes. Nulls *c. */
void conn_refuse(struct conn **c, const char *why);

/* Queues one reply; never fails: a peer that cannot take it is closed from the loop. */
void conn_send(struct conn *c, const char *error, json_t *params, bool continues);
/* No further call is read; the connection closes when its replies are sent. */
void conn_finish(struct conn *c);
/* The pending call is over: reading goes on. */
void conn_resume(struct conn *c);
const struct peer *conn_peer(const struct conn *c);
struct daemon *conn_daemon(const struct conn *c);

#endif
