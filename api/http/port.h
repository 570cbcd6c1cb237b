/* SPDX-License-Identifier: MIT
 * port.h - one listening socket and libmicrohttpd's threads behind it.
 * Threads: control. Locks: none. */
#ifndef API_PORT_H
#define API_PORT_H

#include "api/http/endpoint.h"

#include <microhttpd.h>
#include <stdbool.h>

struct port {
	struct MHD_Daemon *daemon;
	char address[ENDPOINT_MAX];
};

struct port_options {
	bool tls;                  /* with what tls_use() was given; never on a Unix socket */
	unsigned threads, connections, per_address, first_seconds; /* per_address 0: no limit */
	MHD_AcceptPolicyCallback accept;
	MHD_AccessHandlerCallback access;
	MHD_RequestCompletedCallback completed;
	void *arg;                 /* of these three */
	MHD_NotifyConnectionCallback notify;
	void *notify_arg;
};

/* Serves the listening socket, which the port then owns. -errno, RC_INVALID, RC_INTERNAL. */
int port_open(struct port *p, int fd, const struct port_options *o, struct buf *why);
/* From now on it takes no connection; those there are go on. Who comes waits in the socket, if others have it, too. */
void port_deafen(struct port *p);
/* Ends all its connections and joins its threads; nothing for a port that is {0}. */
void port_close(struct port *p);

#endif
