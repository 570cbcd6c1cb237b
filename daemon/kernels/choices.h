/* SPDX-License-Identifier: MIT
 * choices.h - parameters choose kernels (choices.def): numerics and kernel set change in one step.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CHOICES_H
#define DAEMON_CHOICES_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>

struct daemon;

/* Sets the numerics among {name: value}, all or none, and with them the kernels they choose: a LOSSY op of another
 * value of the same parameter goes, the newest warm plugin's LOSSY op of this value comes. What nobody offers stays
 * as it is. keep_cache: see engine_change(). *ret_changes: io.dsv4.Kernels.Change. RC_INVALID, RC_NOT_FOUND. */
int choices_set(struct daemon *d, json_t *values, bool keep_cache, json_t **ret_changes, struct buf *why);

#endif
