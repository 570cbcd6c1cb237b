/* SPDX-License-Identifier: MIT
 * probe_key.h - the key for another server: where it is said, and how it is kept out of sight.
 * Threads: one. Locks: none. */
#ifndef CTL_PROBE_KEY_H
#define CTL_PROBE_KEY_H

#include "engine/base/buf.h"

#include <jansson.h>

#define PROBE_KEY_ENV "DSV4_PROBE_KEY"

/* From `key`, the first line of the file `key_file` ("-": the standard input), or the environment; empty when nobody
 * says. RC_INVALID when two do, -errno. */
int probe_key_read(json_t *params, struct buf *ret_key, struct buf *why);
void probe_key_forget(struct buf *key);
/* Overwrites the values of --key in a command line: other users may read it. */
void probe_key_wipe(int argc, char *const *argv);

#endif
