/* SPDX-License-Identifier: MIT
 * probe_plan.h - when probes run by themselves: what is due, how long to rest after a run, what was put off and why.
 * Threads: control. Locks: none. Pure: the time is given, in milliseconds of any clock. */
#ifndef DAEMON_PROBE_PLAN_H
#define DAEMON_PROBE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define PLAN_MAX_ROWS 32

/* Why a run that is due does not begin, or did not end. The order is that of probe_plan_reasons. */
enum plan_reason {
	PLAN_LOAD,     /* the rest after the run before lasts on */
	PLAN_WAITING,  /* requests wait */
	PLAN_BUSY,     /* another slow job runs */
	PLAN_GAVE_WAY, /* it had begun, and left to others */
	PLAN_REASONS,
	PLAN_FREE = -1
};
extern const char *const probe_plan_reasons[PLAN_REASONS];

struct plan_row {
	const char *probe;       /* borrowed, of a table */
	long long every, next;   /* every 0: not on the schedule */
	uint64_t postponed[PLAN_REASONS];
	unsigned late;           /* bits of reasons for which what is due was put off already: each is counted once */
};

/* Starts zeroed. */
struct probe_plan {
	struct plan_row row[PLAN_MAX_ROWS];
	int n;
	long long rest_until;
};

/* The row of a probe, made if there is none. */
struct plan_row *probe_plan_row(struct probe_plan *p, const char *probe);
/* It is to run every so often; when that is what it was, nothing changes. Else the first time is one period after the
 * run that ended `age` ago, or, with age < 0 or a run that is overdue, somewhere within a period from now, a tenth of
 * one if overdue: luck, from 0 to 1, says where, so that not all begin together. */
void probe_plan_set(struct probe_plan *p, const char *probe, long long every, long long age, double luck,
		    long long now);
/* The probe to run now, whose next time is one period later; NULL: none is due, or none may begin. busy: why none may,
 * or PLAN_FREE. Of several the one that is due for longest. */
const char *probe_plan_due(struct probe_plan *p, enum plan_reason busy, long long now);
/* A run that took so long has ended. None begins before took / max_load more have gone by. One that was not
 * completed is due again; gave_way: and is counted. */
void probe_plan_ended(struct probe_plan *p, const char *probe, long long took, double max_load, bool completed,
	bool gave_way, long long now);

#endif
