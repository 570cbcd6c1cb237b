/* SPDX-License-Identifier: MIT
 * cache_verify_disk.h - cache verify on the disk's blocks: every file read back, and one chosen with all before it.
 * Threads: ops. Locks: none (the disk's, inside calls). */
#ifndef DAEMON_CACHE_VERIFY_DISK_H
#define DAEMON_CACHE_VERIFY_DISK_H

#include "daemon/verbs/cache_job.h"

/* Reads every block's file, and its state's: checksum, model, layout, sizes, and the key from the tokens and the
 * parent's key; what is bad is moved aside, as in any reading. Replies disk_blocks and disk_bad; *ret_good: none was.
 * j->a becomes the block named j->id (its first digits; "": one is drawn of the numbers given) with all before it, from
 * disk; it stays empty where there is none of these numbers. RC_UNSUPPORTED: there is no disk; RC_NOT_FOUND,
 * RC_INVALID: the name; RC_CANCELLED, -ENOMEM, -errno. */
int cache_verify_disk(struct cache_job *j, const uint8_t numbers[32], bool *ret_good);

#endif
