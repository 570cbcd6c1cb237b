/* SPDX-License-Identifier: MIT
 * client.h - the client's side of the control socket: connect, call, read replies, with deadlines.
 * Threads: one per client. Locks: none. */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

#include "ctl/varlink.h"

struct client;

/* Where the daemon listens unless --socket or $DSV4D_SOCKET says otherwise. */
#define CLIENT_SOCKET "/run/dsv4d/control"

/* -errno, RC_TIMEOUT; why names path and reason. */
int client_open(const char *path, struct client **ret_c, struct buf *why);
/* As client_open, but gives a daemon that is just starting up to timeout_ms to open its socket. */
int client_open_patiently(const char *path, long timeout_ms, struct client **ret_c, struct buf *why);
void client_close(struct client **c);
/* Sends one call. `params` is borrowed and may be NULL. */
int client_send(struct client *c, const char *method, json_t *params, bool more, struct buf *why);
/* Reads the next reply; timeout_ms < 0 waits for ever. RC_TIMEOUT; -ECONNRESET when the daemon hung up;
 * RC_JSON for what is no reply. The caller frees *ret_r with varlink_reply_fini(). */
int client_reply(struct client *c, long timeout_ms, struct varlink_reply *ret_r, struct buf *why);
/* Waits until the daemon closes the connection: 0, or RC_TIMEOUT. */
int client_wait_close(struct client *c, long timeout_ms);

#endif
