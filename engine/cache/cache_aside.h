/* SPDX-License-Identifier: MIT
 * cache_aside.h - what lies in the cache's directory and is none of its files: moved out of the way, never deleted.
 * Threads: any. Locks: none.
 *
 * A directory is the cache's own when it was empty when the cache came, or held nothing but cached files; CACHEDIR.TAG,
 * by which backups know what not to save, then says so ever after. What is strange there goes to aside/, while there
 * are fewer than 64 things of less than 1 GiB together. In a directory that others use, too, nothing is moved: a cache
 * that was by mistake given somebody's home must not tidy it up. */
#ifndef ENGINE_CACHE_ASIDE_H
#define ENGINE_CACHE_ASIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cache_aside {
	int dir, fd;               /* dir: the cache's, not owned; fd: aside/, -1 where nothing is moved */
	atomic_llong n, bytes;     /* there now; of a directory only its own */
	atomic_llong moved, stays; /* by this process; stays: strange and not moved */
};

/* Never fails: what cannot be moved stays. */
void cache_aside_open(struct cache_aside *a, int dir);
void cache_aside_close(struct cache_aside *a);
/* Is it neither a cached file nor what a directory of the cache or of a file system has besides? */
bool cache_aside_strange(int dir, const char *name);
/* Moves it, under another name where its own is taken, or counts it as staying. -ENOSPC: no more is moved; -EROFS:
 * nothing is; -errno. */
int cache_aside_move(struct cache_aside *a, const char *name);
/* Moves all that is strange. */
void cache_aside_sweep(struct cache_aside *a);

#endif
