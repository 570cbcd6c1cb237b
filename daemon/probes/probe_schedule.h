/* SPDX-License-Identifier: MIT
 * probe_schedule.h - probes that run by themselves, as [probe.NAME] every = 30m says: quick, one at a time, behind
 * everything that somebody waits for.
 * Threads: control. Locks: none. */
#ifndef DAEMON_PROBE_SCHEDULE_H
#define DAEMON_PROBE_SCHEDULE_H

#include "daemon/probes/probe_plan.h"

#include <jansson.h>

struct daemon;
struct probe_schedule;

#define PROBE_SCHEDULE_BY "schedule" /* who wanted such a run, in the history */

struct probe_schedule *probe_schedule_new(void);
/* With no job left. NULL is fine. */
void probe_schedule_free(struct probe_schedule **s);
/* Looks what the configuration says now and what is due. */
void probe_schedule_tick(struct daemon *d);
/* A probe's row for those who look, as of now: `next` in milliseconds from now. */
void probe_schedule_row(struct daemon *d, const char *probe, struct plan_row *ret_r);

#endif
