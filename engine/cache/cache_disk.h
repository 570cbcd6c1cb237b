/* SPDX-License-Identifier: MIT
 * cache_disk.h - cached blocks on disk: one file each, written behind and read ahead by one thread, never fatal.
 * Threads: any calls; its own thread reads and writes. Lock: cache_disk, never during I/O.
 *
 * KEY.block holds a block's rows and its 128 tokens, KEY.state the state at its end; zlib-compressed, with a header
 * (magic, version, model, layout, key, parent key, sizes) and a CRC-32 of everything. A file is written under a
 * temporary name, synced and renamed, so that a crash leaves none half written. A file that is corrupt, short, or of
 * another layout goes to bad/ and is counted; of another model it is left alone and not read. Bytes on disk and bytes
 * written per second have limits; what exceeds them is not written, and counted. */
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
	const char *dir;           /* made 0700 when it is missing */
	const struct sequence_layout *layout;
	const char *model_id;
	size_t bytes;              /* of all files; the longest unused are deleted first */
	size_t write_rate;         /* bytes per second, averaged over a minute; 0: no limit */
	int max_queued;            /* blocks waiting to be written; more are dropped and counted; 0: 64 */
};

/* A block as it is handed over in either direction; the references belong to whoever has the struct. */
struct cache_disk_item {
	struct cache_key key, parent;
	int32_t token[SEQUENCE_BLOCK];
	int64_t edge;                     /* tokens up to its end */
	struct sequence_block *block;
	struct sequence_state *state;     /* NULL: none */
};

/* Reads the directory's names, starts the thread. -errno, with why. */
int cache_disk_open(const struct cache_disk_options *o, struct cache_disk **ret_d, struct buf *why);
/* Writes what is queued, but at most for `seconds`, then joins. */
void cache_disk_close(struct cache_disk **d, double seconds);

bool cache_disk_has(struct cache_disk *d, const struct cache_key *k, bool *ret_state);
/* Queues a block or only a state for an existing block; takes references of its own. Never blocks. */
void cache_disk_put(struct cache_disk *d, const struct cache_disk_item *item);
/* Queues the reading of keys [0, n), in that order, the state of the last that has one. fn runs on the disk's thread
 * once per block read, with references that it takes over, and at the end with NULL; after a bad file the rest is not
 * read. */
typedef void cache_disk_read_f(void *arg, struct cache_disk_item *item);
void cache_disk_read(struct cache_disk *d, const struct cache_key *key, int64_t n, cache_disk_read_f *fn, void *arg);
/* Removes files of keys that must not come back. */
void cache_disk_drop(struct cache_disk *d, const struct cache_key *k);

struct cache_disk_stats {
	uint64_t files, bytes;            /* now */
	uint64_t written, written_bytes, raw_bytes; /* raw: before compression; amplification is written / raw published */
	uint64_t read, read_bytes, dropped, over_rate, deleted, bad, foreign, errors;
	uint64_t queued;
};
void cache_disk_stats(struct cache_disk *d, struct cache_disk_stats *ret_s);

#endif
