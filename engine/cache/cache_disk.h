/* SPDX-License-Identifier: MIT
 * cache_disk.h - cached blocks on disk: one file each, written behind and read ahead by one thread, never fatal.
 * Threads: any calls; its own thread reads and writes. Lock: cache_disk, never during I/O.
 *
 * KEY.MODEL.block holds a block's rows and its 128 tokens, KEY.MODEL.state the state at its end; zlib-compressed, with a
 * header (magic, version, model, layout, key, parent key, sizes) and a CRC-32 of everything. A file is written under a
 * temporary name, synced and renamed, so that a crash leaves none half written. A file that is corrupt, short, or of
 * another layout goes to bad/ and is counted; another model's is not read. Bytes on disk and bytes written per second
 * have limits; what exceeds them is not written, and counted. Another model's files and those in bad/ count as well and
 * are deleted in their turn: the limit is the disk's, and a model that nobody serves any more gives its room back.
 *
 * No block is written without the one before it: of a path that a limit or an error cuts short, what is behind waits for
 * the gap to be closed. What writing costs the disk has three bounds: a file is no longer than its rows by more than a
 * header and 0.1 %; what is there is not written again; and in any T seconds at most write_rate * (T + 60) bytes are
 * written, and one file more, where a file that failed counts as if it had been written. */
#ifndef ENGINE_CACHE_DISK_H
#define ENGINE_CACHE_DISK_H

#include "engine/base/buf.h"
#include "engine/cache/cache_key.h"
#include "engine/model/sequence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_disk;

struct cache_disk_options {
	const char *dir;           /* made 0700 when it is missing; no other process may have it */
	const struct sequence_layout *layout;
	const char *model_id;
	size_t bytes;              /* of all files; the longest unused are deleted first */
	size_t write_rate;         /* bytes per second, averaged over a minute; 0: no limit */
	int max_queued;            /* blocks waiting to be written, of 256 MiB together; more are dropped, counted; 0: 64 */
};

/* A block as it is handed over in either direction; the references belong to whoever has the struct. */
struct cache_disk_item {
	struct cache_key key, parent;
	int32_t token[SEQUENCE_BLOCK];
	int64_t edge;                     /* tokens up to its end */
	struct sequence_block *block;
	struct sequence_state *state;     /* NULL: none */
};

/* Reads the directory's names, starts the thread. -EBUSY: another process has it; -EPERM: others than its owner may
 * write there; -errno; with why. A directory that cannot be written to is read. */
int cache_disk_open(const struct cache_disk_options *o, struct cache_disk **ret_d, struct buf *why);
/* Writes what is queued, begins no file after `seconds`, ends reads with NULL, then joins. */
void cache_disk_close(struct cache_disk **d, double seconds);

/* On disk, not only queued. */
bool cache_disk_has(struct cache_disk *d, const struct cache_key *k, bool *ret_state);
/* Queues a block or only a state for an existing block; takes references of its own. What is there already is not
 * written again, but counts as used. Never blocks. */
void cache_disk_put(struct cache_disk *d, const struct cache_disk_item *item);
/* Queues the reading of keys [0, n), in that order, the state of the last that has a good one. fn runs on the disk's
 * thread, no lock held, once per block read, with references that it takes over, and at the end with NULL; after a file
 * that is bad or missing, or when fn returns false, the rest is not read. Keys are what their tokens say, and a state
 * ends where its block does; how deep a block is (item->edge) is for the reader to check. */
typedef bool cache_disk_read_f(void *arg, struct cache_disk_item *item);
void cache_disk_read(struct cache_disk *d, const struct cache_key *key, int64_t n, cache_disk_read_f *fn, void *arg);
/* Reads a block back, and its state where there is one, on the calling thread, which waits for the disk: header, CRC, model
 * and layout, tokens and parent against the key, rows. *ret_item has references that the caller then owns. RC_NOT_FOUND:
 * the disk has none; RC_INVALID: the block or its state is bad, and why says what is wrong; it is then moved and counted
 * like any bad file. -errno: it could not be read for want of something of ours. */
int cache_disk_check(struct cache_disk *d, const struct cache_key *k, struct cache_disk_item *ret_item, struct buf *why);
/* Removes files of keys that must not come back, before it returns: not for a thread that must not wait for a disk. */
void cache_disk_drop(struct cache_disk *d, const struct cache_key *k);
/* The same for all of the model's files, and what waits to be written. */
void cache_disk_clear(struct cache_disk *d);

struct cache_disk_stats {
	uint64_t files, bytes, foreign;   /* now: all of them, and other models' */
	uint64_t queued;                  /* now */
	/* Since it was opened. written_bytes: of the files that were finished; raw_bytes: of the rows in them, before
	 * compression. Write amplification is written_bytes / raw_bytes. */
	uint64_t written, written_bytes, raw_bytes, read, read_bytes;
	uint64_t dropped;                 /* files not written: queue or disk full, or what they continue is not there */
	uint64_t over_rate, deleted, bad, errors; /* files */
	char error[192];                  /* the last error or bad file, in words; "" */
};
void cache_disk_stats(struct cache_disk *d, struct cache_disk_stats *ret_s);

#endif
