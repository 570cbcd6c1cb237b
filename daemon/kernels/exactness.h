/* SPDX-License-Identifier: MIT
 * exactness.h - whose mark EXACT is believed: what was built with this program, and not what was found to lie.
 * Threads: control; what says so on ops. Locks: none.
 *
 * The engine keeps the list of what was disproved (disproved.h) and acts on it at once. Here it is told, kept in the
 * state directory so that the disk cache is not poisoned again by the next run, and, when one of them was believed,
 * what the cache still holds from before, which nobody finds any more, is thrown away. */
#ifndef DAEMON_EXACTNESS_H
#define DAEMON_EXACTNESS_H

#include "daemon/daemon.h"

/* Before the engine is opened: what earlier runs found. */
void exactness_read(struct daemon *d);
/* Tells and keeps what was found since; every tick. */
void exactness_tick(struct daemon *d);
/* At the end, when ops runs nothing more: what no tick has come to keep. */
void exactness_close(struct daemon *d);
/* What ref computes here, and what computes, go into the cache's identity. On ops, before the engine is opened. */
int exactness_golden(const struct ranks *r, struct buf *why);
/* Is this the sha256 of a plugin that was built with this program? */
bool exactness_shipped(const char *sha256);
/* io.dsv4.Plugins.Exactness */
const char *exactness_name(const struct plugin_facts *f, const char *sha256);
/* How it was disproved, or "". */
const char *exactness_why(const char *sha256);

#endif
