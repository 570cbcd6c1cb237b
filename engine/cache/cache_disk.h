/* SPDX-License-Identifier: MIT
 * cache_disk.h - cached blocks on disk: one file each, written behind and read ahead by one thread, never fatal.
 * Threads: any calls; its own thread reads and writes. Lock: cache_disk, never during I/O.
 *
 * KEY.MODEL.block holds a block's rows and its 128 tokens, KEY.MODEL.state the state at its end; zlib-compressed, with
 * a header (magic, version, model, layout, key, parent key, sizes) and a CRC-32 of everything. A file is written under
 * a temporary name, synced and renamed, so that a crash leaves none half written. A file that is corrupt, short, or of
 * another layout goes to bad/ and is counted; another model's, which its name tells, is not read. What is no cached
 * file at all, or does not hold what its name says, goes to aside/, is counted, and is never deleted. Bytes on disk and
 * bytes written per second have limits; what exceeds them is not written, and counted. Another model's files and those
 * in bad/ count as well and are deleted in their turn: the limit is the disk's, and a model that nobody serves any more
 * gives its room back.
 *
 * No block is written without the one before it: of a path that a limit or an error cuts short, what is behind waits
 * for the gap to be closed. What writing costs the disk has three bounds: a file is no longer than its rows by more
 * than a header and 0.1 %; what is there is not written again; and in any T seconds at most write_rate * (T + 60) bytes
 * are written, and one file more, where a file that failed counts as if it had been written. */
#ifndef ENGINE_CACHE_DISK_H
#define ENGINE_CACHE_DISK_H

#include "engine/base/buf.h"
#include "engine/cache/cache_key.h"
#include "engine/model/sequence.h"

#include <stdatomic.h>
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
	double patience;           /* seconds for one file, after which the disk hangs; 0: 5 */
	int max_queued;            /* blocks waiting to be written, of 256 MiB together, more are dropped; 0: 64 */
};

/* A block as it is handed over in either direction; the references belong to whoever has the struct. */
struct cache_disk_item {
	struct cache_key key, parent;
	int32_t token[SEQUENCE_BLOCK];
	int64_t edge;                     /* tokens up to its end */
	struct sequence_block *block;
	struct sequence_state *state;     /* NULL: none */
};

/* Starts the thread, which locks the directory and reads its names. -EBUSY: another process has it; -EPERM: others than
 * its owner may write there; -errno; with why. A directory that cannot be written to is read. One that hangs is waited
 * for as long as the patience: then 0, with why. Its files are found when it comes back; if it cannot be had even then,
 * that is counted and told as an error, and nothing is read or written. */
int cache_disk_open(const struct cache_disk_options *o, struct cache_disk **ret_d, struct buf *why);
/* Ends all reads with NULL, writes what is queued, begins no file after `seconds`, and waits for its thread: for so
 * long, and the options' patience longer. A thread that then still is in a call to the system, or that has been in one
 * call for longer than the patience, is left behind: one that hangs in a dead NFS server cannot be interrupted but by
 * the end of the process, and the end must not wait for it.
 * Nobody is called back from then on. Other calls stay allowed, and find what is there, but read and write nothing.
 * NULL is fine. */
void cache_disk_stop(struct cache_disk *d, double seconds);
/* Stops it if that was not done, and frees; what a thread holds that was left behind is freed when it comes back. Until
 * then the directory is locked: no other process has it while a file may still be written there. */
void cache_disk_close(struct cache_disk **d, double seconds);

/* On disk, not only queued. */
bool cache_disk_has(struct cache_disk *d, const struct cache_key *k, bool *ret_state);
/* Queues a block or only a state for an existing block; takes references of its own. What is there already is not
 * written again, but counts as used. Never blocks. */
void cache_disk_put(struct cache_disk *d, const struct cache_disk_item *item);
/* Queues the reading of keys [0, n), in that order, the state of the last that has a good one. fn runs on the disk's
 * thread, no lock held, once per block read, with references that it takes over, and at the end with NULL; after a file
 * that is bad or missing, or when fn returns false, the rest is not read. Keys are what their tokens say, and a state
 * ends where its block does; how deep a block is (item->edge) is for the reader to check.
 * Who no longer wants it sets *abandoned: what waits is then dropped, what is being read ends after the file in hand.
 * At most 256 reads of 65536 keys together wait, of 16384 keys each, behind which nothing is read. What is more is
 * refused, and so are all while the disk hangs: they end at once and are counted. A read that is refused, dropped or
 * closed upon gets its NULL from whichever thread did that, before cache_disk_read() returns if it is its own. */
typedef bool cache_disk_read_f(void *arg, struct cache_disk_item *item);
struct cache_disk_ask {
	const struct cache_key *key; int64_t n; /* [n], copied */
	cache_disk_read_f *fn; void *arg;
	const atomic_bool *abandoned;           /* looked at until fn was called with NULL; NULL: never */
	atomic_bool *refused;                   /* set before that call if it was not even tried; NULL is fine */
};
void cache_disk_read(struct cache_disk *d, const struct cache_disk_ask *ask);
/* Has a block read back by the disk's thread, in turn with its reads, and its state where there is one, and waits for
 * that: header, CRC, model and layout, tokens and parent against the key, rows. *ret_item has references that the
 * caller then owns. RC_NOT_FOUND: the disk has none; RC_INVALID: the block or its state is bad, and why says what is
 * wrong; it is then moved and counted like any bad file. RC_UNSUPPORTED: what has that name is no cached file of this
 * model; it is moved to aside/ and counted like any other that is none. RC_TIMEOUT: the disk hangs. RC_DRAINING: it was
 * closed. -errno: it could not be read for want of something of ours. */
int cache_disk_check(struct cache_disk *d, const struct cache_key *k, struct cache_disk_item *ret_item,
	struct buf *why);
/* The keys of all blocks on disk, in no order; malloc'd, the caller frees. -ENOMEM. Returns the count. */
int cache_disk_keys(struct cache_disk *d, struct cache_key **ret_k);
/* As if it had nothing of this key, at once: for a thread that must not wait. Files that are there go next, and count
 * until they have gone. */
void cache_disk_disown(struct cache_disk *d, const struct cache_key *k);
/* Removes files of keys that must not come back, before it returns, if the disk does not hang: then they go when it
 * comes back. Not for a thread that must not wait at all. On the disk's own thread it is the same as to disown. After
 * the stop nothing is removed. */
void cache_disk_drop(struct cache_disk *d, const struct cache_key *k);
/* The same for all of the model's files, and what waits to be written. */
void cache_disk_clear(struct cache_disk *d);

struct cache_disk_stats {
	uint64_t files, bytes, foreign;   /* now: all of them, and other models' */
	uint64_t queued;                  /* now */
	/* Since it was opened. written_bytes: of the files that were finished; raw_bytes: of the rows in them, before
	 * compression. Write amplification is written_bytes / raw_bytes. */
	uint64_t written, written_bytes, raw_bytes, read, read_bytes;
	uint64_t reads_refused;
	uint64_t dropped;                 /* files not written: queue or disk full, or the block before is not there */
	uint64_t over_rate, deleted, bad, errors; /* files */
	uint64_t aside, strange;          /* none of ours: moved to aside/; and not moved (cache_aside.h) */
	char error[192];                  /* the last error or bad file, in words; "" */
};
void cache_disk_stats(struct cache_disk *d, struct cache_disk_stats *ret_s);

#endif
