/* SPDX-License-Identifier: MIT
 * key.h - `dsv4ctl key new`: makes an API key and its line for the key file; needs no daemon.
 * Threads: one. Locks: none. */
#ifndef CTL_KEY_H
#define CTL_KEY_H

#include "engine/base/buf.h"

#include <stdbool.h>

/* `word` is what follows "key new". RC_INVALID with why for a usage error; otherwise *ret_line and *ret_key
 * are the file's line and the key. */
int key_new(int n, char *const *word, struct buf *ret_line, struct buf *ret_key, struct buf *why);

#endif
