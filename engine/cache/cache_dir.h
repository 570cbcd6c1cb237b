/* SPDX-License-Identifier: MIT
 * cache_dir.h - the directory of cached files: whole files in and out, under names that are always whole files.
 * Threads: any, writing one at a time per struct, the rest any. Locks: none.
 *
 * Nothing but regular files is opened, no link is followed, and only names of ours are touched, but for moving what is
 * strange out of the way (cache_aside.h). A process has the
 * directory for itself, by a lock on the directory that ends with it. */
#ifndef ENGINE_CACHE_DIR_H
#define ENGINE_CACHE_DIR_H

#include "engine/cache/cache_aside.h"
#include "engine/cache/cache_disk_index.h"

struct cache_dir {
	int fd, bad_fd; /* bad_fd: bad/, -1 where it cannot be made */
	struct cache_aside aside;
};

/* Makes it 0700 when it is missing. -EBUSY: another process has it; -EPERM: others may write there; -errno. */
int cache_dir_open(struct cache_dir *d, const char *path, struct buf *why);
void cache_dir_close(struct cache_dir *d);

/* fn once per file of ours, those in bad/ too; what was left half written is removed, anything else moved aside. */
typedef void cache_dir_scan_f(void *arg, const struct cache_disk_name *n, bool bad, uint64_t bytes, int64_t mtime);
int cache_dir_scan(struct cache_dir *d, cache_dir_scan_f *fn, void *arg, struct buf *why);

/* All bytes of a file, malloc'd. -ENOENT: gone; RC_TOO_LARGE: more than max bytes, of which the first `head` were read;
 * RC_UNSUPPORTED: no regular file; RC_INVALID: it cannot be read. -errno: for want of something of ours. */
int cache_dir_read(struct cache_dir *d, const struct cache_disk_name *n, size_t max, size_t head, uint8_t **ret_bytes,
	size_t *ret_size, struct buf *why);
/* Written whole, synced, and then named: what has the name is a whole file at any time. Takes the place of no other
 * thing than a file: -EEXIST. -errno, and why says where. */
int cache_dir_write(struct cache_dir *d, const struct cache_disk_name *n, const uint8_t *bytes, size_t size,
	int64_t stamp, struct buf *why);
/* The names written so far survive a loss of power. */
int cache_dir_sync(struct cache_dir *d);
/* Moves it to bad/; of a name that turned out to be none of ours, to aside/. */
int cache_dir_set_bad(struct cache_dir *d, const struct cache_disk_name *n);
int cache_dir_set_aside(struct cache_dir *d, const struct cache_disk_name *n);
/* A file that is gone already is no error. */
int cache_dir_remove(struct cache_dir *d, const struct cache_disk_name *n, bool bad);
void cache_dir_touch(struct cache_dir *d, const struct cache_disk_name *n, int64_t stamp);

#endif
