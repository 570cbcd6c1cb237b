/* SPDX-License-Identifier: MIT
 * endpoint.h - listening TCP sockets from "ADDR:PORT".
 * Threads: any. Locks: none. */
#ifndef API_ENDPOINT_H
#define API_ENDPOINT_H

#include "engine/base/buf.h"

#include <stdbool.h>

#define ENDPOINT_MAX 128
#define ENDPOINT_UNIX "unix:" /* begins the name of a Unix socket */

/* "127.0.0.1:8420", "[::1]:8420", "localhost:8420"; numeric otherwise, no name is looked up. Port 0 takes a
 * free one. RC_INVALID, -errno; `why` repeats the address. */
int endpoint_open(const char *address, int *ret_fd, struct buf *why);
/* Is it such an address, and can only this machine reach it? */
int endpoint_check(const char *address, bool *ret_local, struct buf *why);
/* The socket's own address in the same form. */
int endpoint_name(int fd, char out[ENDPOINT_MAX], struct buf *why);
/* Can only this machine reach the listening socket? */
bool endpoint_is_local(int fd);
/* Is it a Unix socket, listening or connected? */
bool endpoint_is_unix(int fd);

#endif
