/* SPDX-License-Identifier: MIT
 * cache_job.h - slow work on the prefix cache for one call: on the ops thread, with progress, until the caller leaves.
 * Threads: control begins and answers; run() and what says so on ops. Locks: none (ops.h hands over). */
#ifndef DAEMON_CACHE_JOB_H
#define DAEMON_CACHE_JOB_H

#include "daemon/control/call.h"
#include "daemon/daemon.h"

/* The control thread fills it, ops runs it, control answers. */
struct cache_job {
	struct ops_job job;
	struct daemon *daemon;
	struct call *call;         /* control's alone; NULL once the peer is gone */
	int (*run)(struct cache_job *j); /* on ops: makes the reply, or fails with why */
	struct cache *cache;
	struct cache_key key;      /* the block that is meant */
	int max;                   /* blocks to tell of */
	bool may_read;             /* the peer may know prompts */
	bool disk;                 /* verify: the disk's blocks too */
	char id[CACHE_KEY_HEX];    /* verify: the first digits of the one on disk that is meant; "" */
	struct cache_copy a, b;    /* what is held against each other */
	long long noted;           /* clock_ms() of the last note of progress */
	int rc;
	struct buf why;
	json_t *reply;
};

/* RC_NOT_READY while there is no engine. */
int cache_job_new(struct call *c, int (*run)(struct cache_job *j), struct cache_job **ret_j, struct buf *why);
void cache_job_free(struct cache_job **j);
/* Takes *j over in any case and nulls it. CALL_LATER, or RC_BUSY. */
int cache_job_submit(struct cache_job **j, struct call *c, struct buf *why);

/* ---- for run() ---- */

bool cache_job_cancelled(const struct cache_job *j);
/* op must outlive the job. Of calls that follow each other closely, all but the first and last are left out. */
void cache_job_progress(struct cache_job *j, const char *op, int64_t done, int64_t total);
/* Adds to the reply, which begins as an empty object. */
void cache_job_set(struct cache_job *j, const char *key, json_t *value);

#endif
