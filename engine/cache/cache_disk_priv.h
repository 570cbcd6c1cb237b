/* SPDX-License-Identifier: MIT
 * cache_disk_priv.h - the disk cache's insides, for its queue and for the work of its thread.
 * Threads: as cache_disk.h. Lock: cache_disk. */
#ifndef ENGINE_CACHE_DISK_PRIV_H
#define ENGINE_CACHE_DISK_PRIV_H

#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/cache/cache_dir.h"

#include <pthread.h>
#include <stdatomic.h>

#define CACHE_DISK_MAGIC 0x6b736964u

/* A block, a state or both, waiting to be written; neither: the block is on disk, and was used. */
struct cache_disk_write {
	struct list link;
	size_t bytes;                 /* before compression */
	struct cache_disk_item item;
};

struct cache_disk_read {
	struct list link;
	cache_disk_read_f *fn; void *arg;
	const atomic_bool *abandoned; /* NULL: never */
	/* How far it is: the state was looked for down to this key, and is of it once it is known. */
	int64_t state_at; bool state_known;
	struct cache_disk_item state;
	int64_t at;                   /* blocks that were read */
	int64_t n;
	struct cache_key key[];       /* [n] */
};

/* A file that is to go; its entry has gone already. */
struct cache_disk_removal {
	struct list link;
	struct cache_disk_name name;
	uint64_t bytes;               /* 0: not known to be there */
};

/* A block that somebody waits to have checked: its own, until it waits no longer; then the thread's. */
struct cache_disk_check {
	struct list link;
	struct cache_key key;
	struct cache_disk_item item;
	struct buf why;
	int rc;
	bool done, alone;             /* alone: nobody waits for it any more */
};

struct cache_disk {
	unsigned magic;
	struct lock lock;
	pthread_cond_t cond;          /* there is work, or it closes */
	pthread_cond_t moved;         /* the thread went into I/O, came out of it, did what was
				       * waited for, or is gone */
	pthread_t thread;             /* of who opened it */
	char *path;
	/* Fixed. */
	struct sequence_layout layout;
	struct cache_dir dir;
	struct cache_file_format format;
	uint32_t model;               /* in the names of one's own files */
	size_t limit, write_rate;
	int max_queued;
	long long patience_ms;
	/* Under the lock. */
	bool forget;                  /* what is still found at the opening goes */
	bool opened; int open_rc; struct buf open_why; /* opened: or failed to */
	struct list reads, writes, removals, checks;
	uint64_t n_removals, removals_done, removal_bytes; /* n_removals: since it was opened */
	bool checked_last;            /* reads and checks take turns */
	int n_reads; int64_t n_read_keys;  /* of reads */
	int n_writes; size_t queued_bytes; /* of writes */
	pthread_t self; bool started; /* the thread's own word of who it is */
	bool in_io; long long io_since; /* is the thread in a call to the system; ms */
	struct cache_disk_read *reading; /* by the thread; NULL: none */
	bool closing, gone;           /* gone: the thread is done; what failed to open closes by itself */
	bool left, closed;            /* left: it hung and was left behind; closed: then it frees all this */
	long long deadline;           /* ms; writes stop there */
	struct cache_disk_index index;
	struct cache_disk_stats stats; /* what happened; files, bytes and queued are of the index and the queue */
	struct cache_key current;     /* being written, when `writing` */
	bool writing, dropped;        /* dropped: its files must not stay */
	double allowance;             /* bytes that may be written now; below 0 is a debt */
	double refilled;              /* s */
	/* The thread's own. */
	int unsynced;                 /* files whose names a loss of power may undo */
};

/* ---- cache_disk_work.c: on the thread, no lock held ---- */

/* ns of the wall clock: files' times outlive the process. */
int64_t cache_disk_now(void);
/* Deletes the longest unused until `need` more bytes fit; false if they never do, or if `keep`, which may be NULL,
 * would have to go for them. */
bool cache_disk_make_room(struct cache_disk *d, uint64_t need, const struct cache_disk_name *keep);
/* Takes the entry out of the index and its file off the disk. Lock held before, not after. */
void cache_disk_evict(struct cache_disk *d, struct cache_disk_entry *e);
/* The block was read or written: it and all before it count as used. */
void cache_disk_touch(struct cache_disk *d, const struct cache_disk_name *block);
/* Lock held. */
void cache_disk_know_parent(struct cache_disk *d, const struct cache_disk_name *n, const struct cache_key *parent);
void cache_disk_work_write(struct cache_disk *d, const struct cache_disk_item *item);
void cache_disk_work_sync(struct cache_disk *d);

/* ---- cache_disk_read.c: the same ---- */

/* Some files of it, so that the next read has its turn; true when it is over and was told so. */
bool cache_disk_work_read(struct cache_disk *d, struct cache_disk_read *r);
/* Its end, for who asked. */
void cache_disk_read_done(struct cache_disk *d, struct cache_disk_read *r);
int cache_disk_work_check(struct cache_disk *d, const struct cache_key *k, struct cache_disk_item *ret_item,
	struct buf *why);

/* ---- cache_disk_wait.c ---- */

/* Out of the index, and soon off the disk, before anything else is done there; until then its
 * bytes count. Lock held. */
void cache_disk_condemn(struct cache_disk *d, const struct cache_disk_name *n);
bool cache_disk_condemned(struct cache_disk *d, const struct cache_disk_name *n);
/* By the thread, lock held; it is dropped and taken again. */
void cache_disk_take_removals(struct cache_disk *d);
void cache_disk_take_check(struct cache_disk *d);
/* What nobody does any more. */
void cache_disk_free_removals(struct cache_disk *d);

/* ---- cache_disk_thread.c ---- */

/* Around what may hang. Between the two, whoever closes may leave the thread behind: d->left afterwards says so, and
 * then nobody is called back any more. */
void cache_disk_io_begin(struct cache_disk *d);
void cache_disk_io_end(struct cache_disk *d);

/* ---- cache_disk.c ---- */

void cache_disk_write_free(struct cache_disk_write *w);
void cache_disk_free_writes(struct list *writes);
/* NULL: it does not wait to be written; lock held. */
struct cache_disk_write *cache_disk_queued(struct cache_disk *d, const struct cache_key *k);
/* Out of its queue; lock held. */
void cache_disk_unqueue(struct cache_disk *d, struct cache_disk_write *w);
void cache_disk_unread(struct cache_disk *d, struct cache_disk_read *r);
/* At the queue's end; lock held. */
void cache_disk_queue_read(struct cache_disk *d, struct cache_disk_read *r);
void cache_disk_read_free(struct cache_disk_read *r);
void cache_disk_end_all_reads(struct cache_disk *d);
/* Has the thread been in one call for longer than the patience? Lock held. */
bool cache_disk_hangs(const struct cache_disk *d);
struct cache_disk_name cache_disk_name_of(const struct cache_disk *d, const struct cache_key *k,
	enum cache_file_kind kind);
/* Counts an error; its text is the last one's. Lock held. */
void cache_disk_failed(struct cache_disk *d, uint64_t *counter, const struct cache_disk_name *n, const char *why);

#endif
