/* SPDX-License-Identifier: MIT
 * cache_id.h - cached blocks as people name them: by the first digits of their key.
 * Threads: any. Locks: none (the cache's, inside calls). */
#ifndef DAEMON_CACHE_ID_H
#define DAEMON_CACHE_ID_H

#include "engine/base/buf.h"
#include "engine/engine.h"

/* The key that begins with these digits. RC_NOT_FOUND, RC_INVALID when several do, -ENOMEM. */
int cache_id_find(struct cache *c, const char *id, struct cache_key *ret_k, struct buf *why);
/* How many digits tell each of n entries from the others, and most likely from all `total` blocks, at least 6;
 * malloc'd. -ENOMEM. */
int cache_id_digits(const struct cache_entry *e, int n, uint64_t total, int **ret_digits);
/* Other names in the place of keys, the same as long as this process lives; no tokens. A key is a hash of the prompt:
 * who has it can tell whether a guess of the prompt is right. These tell only which block is which. */
void cache_id_hide(struct cache_entry *e, int n);
/* The block as cache_get() gives it. */
int cache_id_get(struct cache *c, const char *id, struct cache_copy *ret_c, struct buf *why);

#endif
