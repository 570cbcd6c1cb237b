/* SPDX-License-Identifier: MIT
 * bisect_job.h - a bisection on the ops thread: the search, whose oracle runs a probe under a mixture of two sets.
 * Threads: control begins and ends it; the search on ops. Locks: none (ops.h hands everything over). */
#ifndef DAEMON_BISECT_JOB_H
#define DAEMON_BISECT_JOB_H

#include "daemon/probes/bisect_changes.h"
#include "daemon/ops.h"

#include <jansson.h>

struct daemon;

/* Filled by who wants it, then bisect_job_submit(). */
struct bisect_job {
	struct ops_job job;
	struct daemon *daemon;
	struct bisect_changes changes;  /* at least one */
	const char *probe;              /* its name in ctl/probe/probe.def; borrowed */
	json_t *options;                /* the probe's; borrowed */
	struct bisect_options search;   /* n, weight, oracle and arg are the job's to fill in */
	/* On the control thread. told: a request of a run was answered. ended: the last thing. */
	void (*told)(struct bisect_job *j, int run, int total);
	void (*ended)(struct bisect_job *j);

	struct bisect_result result;
	json_t *runs;                   /* [io.dsv4.Probes.BisectRun]; its owner's */
	int rc;
	struct buf why;
};

/* RC_BUSY. ended() is not called then. */
int bisect_job_submit(struct bisect_job *j, struct buf *why);
/* Does the probe sample, so that its verdict hangs on a seed? Then each run of a candidate gets another. */
bool bisect_job_samples(const char *probe);

#endif
