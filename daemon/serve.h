/* SPDX-License-Identifier: MIT
 * serve.h - the HTTP server as the configuration wants it: checked before the model is read, started after.
 * Threads: control. Locks: none. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include "daemon/daemon.h"

/* What starting the server would refuse of the configuration and the files it names. RC_CONFIG, -errno. */
int serve_check(const struct conf *c, struct buf *why);
/* 0 with d->http; RC_CONFIG, or another rc when an address cannot be had. */
int serve_start(struct daemon *d, struct buf *why);
void serve_stop(struct daemon *d);
/* Reads the files again, for the server that runs; with 0, serve_reload_end() must follow, which uses
 * or drops them. */
int serve_reload(struct daemon *d, struct http_next **ret_next, struct buf *why);
/* How the keys differ now, {added, removed, changed, keys}; NULL without keys or `use`. */
json_t *serve_reload_end(struct daemon *d, struct http_next **next, bool use);

#endif
