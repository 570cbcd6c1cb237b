/* SPDX-License-Identifier: MIT
 * ops.h - the ops thread: one slow job at a time, off the control thread.
 * Threads: control submits and gets the results; ops runs. Lock: ops. */
#ifndef DAEMON_OPS_H
#define DAEMON_OPS_H

#include "daemon/loop.h"
#include "engine/base/buf.h"
#include "engine/base/list.h"

#include <stdatomic.h>

#define OPS_MAX_QUEUED 16

struct ops;

/* Embed in the job's own struct. After ops_submit() the job belongs to ops until done() is called. */
struct ops_job {
	void (*run)(struct ops_job *j);  /* on the ops thread; may block on anything */
	void (*done)(struct ops_job *j); /* on the control thread; may free the job */
	atomic_bool cancel;              /* set by the control thread; run() looks when it can */
	bool yields;                     /* it is cancelled once another that is not patient has to wait for it */
	bool patient;                    /* nobody waits for it */
	struct list node;
};

/* A message from run() to the control thread; embed, fill fn, ops_post(). */
struct ops_note {
	void (*fn)(struct ops_note *n);  /* on the control thread; frees the note */
	struct list node;
};

/* -errno. */
int ops_open(struct ops **ret_o, struct loop *l);
/* From now on ops yields to what serves. Not before the threads that serve have been started from it: they would
 * inherit it. */
void ops_yield(struct ops *o);
/* Waits for the running job; queued ones are cancelled and done() is called for all. Notes may still be posted. */
void ops_stop(struct ops *o);
/* After ops_stop(), and when nobody posts any more: delivers the last notes and frees. NULL is fine. */
void ops_close(struct ops **o);
/* RC_BUSY when OPS_MAX_QUEUED wait, or after ops_stop(). why NULL: nobody will read it. */
int ops_submit(struct ops *o, struct ops_job *j, struct buf *why);
/* Would a job submitted now have to wait for another? */
bool ops_busy(struct ops *o);
void ops_post(struct ops *o, struct ops_note *n);

#endif
