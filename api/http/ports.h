/* SPDX-License-Identifier: MIT
 * ports.h - all listening sockets of the HTTP server, opened together or not at all.
 * Threads: control. Locks: none. */
#ifndef API_PORTS_H
#define API_PORTS_H

#include "api/http/http.h"
#include "api/http/port.h"

#define PORTS_MAX 8

/* Start from {0}. */
struct ports {
	struct port port[PORTS_MAX];
	int n;
	bool local;                            /* only this machine can reach any */
	char address[PORTS_MAX * ENDPOINT_MAX]; /* all of them, separated by blanks */
};

/* Are the options' addresses ones, and none open to other machines by accident? RC_INVALID, RC_CONFIG. */
int ports_check(const struct http_options *o, struct buf *why);
/* Serves the options' addresses and sockets. As ports_check(), -errno; the sockets are then closed. */
int ports_open(struct ports *p, const struct http_options *o, const struct port_options *po, struct buf *why);
/* port.h, of all. */
void ports_deafen(struct ports *p);
void ports_close(struct ports *p);

#endif
