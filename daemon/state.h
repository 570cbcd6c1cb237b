/* SPDX-License-Identifier: MIT
 * state.h - the state directory: what outlives a restart, the copies of plugins, and how the last run ended.
 * Threads: control opens and closes; state_write(), state_read() and state_plugins() also on ops. Locks: none. */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include "engine/base/buf.h"

#include <stdbool.h>

struct state;

/* Makes what is missing of DIR and DIR/plugins (0700), empties the latter, and leaves the marker DIR/running, "PID
 * UNCLEAN-ENDS". -EBUSY when another daemon runs on it, else -errno; why names the path. */
int state_open(const char *dir, struct state **ret_s, struct buf *why);
/* clean: the marker goes, so that the next start knows of an orderly end. NULL is fine. */
void state_close(struct state **s, bool clean);
/* How many runs in a row before this one ended without state_close(clean): 0 after one that ended in order, or without
 * a usable state directory (s NULL). */
int state_unclean(const struct state *s);
/* This run has proven itself: if it ends unclean too, that is the first in a row. */
int state_proven(const struct state *s, struct buf *why);
/* Where the copies of plugins are mapped from; "" without a usable state directory (s NULL). */
const char *state_plugins(const struct state *s);
/* Replaces DIR/name by these bytes, as one step that survives a crash at any moment. Blocks. -errno. */
int state_write(const struct state *s, const char *name, const char *bytes, size_t len, struct buf *why);
/* RC_TOO_LARGE, -ENOENT, -errno. */
int state_read(const struct state *s, const char *name, struct buf *ret, struct buf *why);
/* DIR/name becomes DIR/name.bad, which it replaces: for people to look at what was no use. -errno. */
int state_set_aside(const struct state *s, const char *name, struct buf *why);

#endif
