/* SPDX-License-Identifier: MIT
 * kernels.h - the daemon's kernel sets: the active one, the previous one, last-good, and those asked for by name.
 * Threads: control; sets are freed on ops. Locks: none of its own. */
#ifndef DAEMON_KERNELS_H
#define DAEMON_KERNELS_H

#include "engine/engine.h"

struct daemon;

/* A set by what an operator types, pinned for the caller: "active", "previous", "last-good", a generation number,
 * the name of a set that exists, a plugin's name (all it offers over ref), or overlays separated by commas,
 * "indexer=indexer-bf16,attention.decode=attn-splitk", built over ref. Every plugin named must be warm.
 * RC_NOT_FOUND, RC_INVALID, RC_PLUGIN, RC_KERNEL. */
int kernels_resolve(struct daemon *d, const char *text, struct kset **ret_ks, struct buf *why);

#endif
