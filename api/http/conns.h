/* SPDX-License-Identifier: MIT
 * conns.h - open connections, watched while a request comes in: it must come in time, and its sender must be there.
 * Threads: libmicrohttpd's; control ticks. Lock: conns. */
#ifndef API_CONNS_H
#define API_CONNS_H

#include "engine/base/list.h"
#include "engine/base/lock.h"

#include <microhttpd.h>
#include <stdbool.h>

struct conns {
	struct lock lock;
	struct list list;
	double head, body, idle; /* seconds for a whole head and a whole body, and between two requests */
};

void conns_init(struct conns *c, double head, double body, double idle);
void conns_fini(struct conns *c);
/* For MHD_OPTION_NOTIFY_CONNECTION; arg is the conns. */
void conns_notify(void *arg, struct MHD_Connection *connection, void **context,
		  enum MHD_ConnectionNotificationCode code);
/* Where the connection's request is: its head is there, all of it is there, its answer has ended. */
void conns_body_begins(struct conns *c, struct MHD_Connection *connection);
void conns_request_whole(struct conns *c, struct MHD_Connection *connection);
void conns_request_over(struct conns *c, struct MHD_Connection *connection);
/* Is there one that was opened just now, or has sent something, of whose first request nothing was seen yet? */
bool conns_unheard(struct conns *c);
/* Cuts off those that took too long and those whose client has left in the middle. */
void conns_tick(struct conns *c);

#endif
