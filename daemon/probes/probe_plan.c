/* SPDX-License-Identifier: MIT
 * probe_plan.c - when probes run by themselves: what is due, how long to rest after a run, what was put off and why.
 * Threads: control. Locks: none. */
#include "daemon/probes/probe_plan.h"
#include "engine/base/must.h"

#include <stddef.h>
#include <string.h>

#define PLAN_OVERDUE 0.1 /* of a period, in which what is overdue at the start begins */

const char *const probe_plan_reasons[PLAN_REASONS] = { "load", "waiting", "busy", "gave_way" };

struct plan_row *probe_plan_row(struct probe_plan *p, const char *probe)
{
	for (int i = 0; i < p->n; i++)
		if (!strcmp(p->row[i].probe, probe))
			return &p->row[i];
	must(p->n < PLAN_MAX_ROWS);
	p->row[p->n] = (struct plan_row){ .probe = probe };
	return &p->row[p->n++];
}

void probe_plan_set(struct probe_plan *p, const char *probe, long long every, long long age, double luck, long long now)
{
	struct plan_row *r = probe_plan_row(p, probe);
	double wait = luck * (double)every;

	if (every == r->every)
		return;
	must(every >= 0 && luck >= 0 && luck <= 1);
	if (age >= every)
		wait *= PLAN_OVERDUE;
	else if (age >= 0)
		wait = (double)(every - age);
	r->every = every;
	r->next = now + (long long)wait;
	r->late = 0;
}

static void plan_put_off(struct plan_row *r, enum plan_reason why)
{
	unsigned bit = 1u << why;

	r->postponed[why] += !(r->late & bit);
	r->late |= bit;
}

const char *probe_plan_due(struct probe_plan *p, enum plan_reason busy, long long now)
{
	struct plan_row *first = NULL;

	if (busy == PLAN_FREE && now < p->rest_until)
		busy = PLAN_LOAD;
	for (int i = 0; i < p->n; i++) {
		struct plan_row *r = &p->row[i];

		if (r->every == 0 || r->next > now)
			continue;
		if (busy != PLAN_FREE)
			plan_put_off(r, busy);
		else if (!first || r->next < first->next)
			first = r;
	}
	if (!first)
		return NULL;
	first->next = now + first->every;
	first->late = 0;
	return first->probe;
}

void probe_plan_ended(struct probe_plan *p, const char *probe, long long took, double max_load, bool completed,
	bool gave_way, long long now)
{
	struct plan_row *r = probe_plan_row(p, probe);

	must(took >= 0 && max_load > 0);
	p->rest_until = now + (long long)((double)took / max_load);
	if (completed)
		return;
	r->next = now;
	r->late = 1u << PLAN_LOAD; /* the rest is no further reason */
	r->postponed[PLAN_GAVE_WAY] += gave_way;
}
