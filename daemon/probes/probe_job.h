/* SPDX-License-Identifier: MIT
 * probe_job.h - one run of probes against this daemon, on the ops thread: asked for by a call, or by the schedule.
 * Threads: control begins and ends it; the run on ops. Locks: none (ops.h hands everything over). */
#ifndef DAEMON_PROBE_JOB_H
#define DAEMON_PROBE_JOB_H

#include "ctl/probe/probe.h"
#include "daemon/ops.h"
#include "daemon/probes/probe_peer.h"

#define PROBE_JOB_BY 48

struct daemon;

/* Made by probe_job_new(), filled by who wants it, then probe_job_submit(). */
struct probe_job {
	struct ops_job job;
	struct list node;        /* of daemon.probe_jobs, in the order in which they run */
	struct daemon *daemon;
	json_t *names, *options; /* what to run; options: {probe: {name: value}} */
	char by[PROBE_JOB_BY];   /* who wants it, for the history */
	struct kset *set;        /* a pin: chats run under this set and these numerics; NULL: under those in force */
	struct numerics numerics;
	/* On the control thread. told: a request was answered; NULL: nobody asks. ended: the last thing, all below is
	 * there. */
	void (*told)(struct probe_job *j, const char *probe, int done, int total);
	void (*ended)(struct probe_job *j);
	void *arg;

	json_t *results;         /* of the probes that came to a verdict, [io.dsv4.Probes.Result] */
	enum probe_verdict worst;
	double seconds;          /* that the run took */
	struct buf why;
	int rc;                  /* RC_CANCELLED, or of an option that is wrong */

	struct probe_here here;  /* the rest is the run's own */
	struct buf no_front;     /* why there is none */
	struct probe_peer peer;
};

struct probe_job *probe_job_new(struct daemon *d);
/* One that was not submitted; NULL is fine. */
void probe_job_free(struct probe_job **j);
/* Takes it over. RC_BUSY; why may be NULL. ended() is not called then. */
int probe_job_submit(struct probe_job **j, struct buf *why);
/* What the configuration's [probe.NAME] says, added to options. */
int probe_job_configured(const struct daemon *d, const char *probe, json_t *options, struct buf *why);
/* What a new job would have to wait for, for people; false when nothing. */
bool probe_job_waits_for(struct daemon *d, struct buf *what);

#endif
