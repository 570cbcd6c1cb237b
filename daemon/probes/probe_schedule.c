/* SPDX-License-Identifier: MIT
 * probe_schedule.c - probes that run by themselves, as [probe.NAME] every = 30m says: quick, one at a time, behind
 * everything that somebody waits for.
 * Threads: control; schedule_admit() and schedule_look() on ops. Locks: none. */
#include "daemon/probes/probe_schedule.h"
#include "daemon/daemon.h"
#include "daemon/probes/probe_history.h"
#include "daemon/probes/probe_job.h"
#include "daemon/probes/probe_place.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

struct probe_schedule {
	struct probe_plan plan;
	struct probe_job *job;     /* NULL: none runs */
	struct probe_place place;  /* of the job */
	const char *probe;         /* it runs */
};

struct probe_schedule *probe_schedule_new(void)
{
	return mem_new(sizeof(struct probe_schedule));
}

void probe_schedule_free(struct probe_schedule **s)
{
	must(!*s || !(*s)->job);
	free(*s);
	*s = NULL;
}

/* ---- the plan follows the configuration ---- */

static double schedule_luck(void)
{
	uint32_t r = 0;

	/* Without random bytes all begin at once; the rest after each run still keeps them apart. */
	(void)!getrandom(&r, sizeof r, GRND_NONBLOCK);
	return (double)r / UINT32_MAX;
}

/* Milliseconds since the newest run of the schedule that the history has; -1: none. */
static long long schedule_age(struct daemon *d, const char *probe)
{
	json_t *runs = probe_history_list(d->probe_history, probe, false, PROBE_HISTORY_RUNS), *run;
	double age = -1;
	size_t i;

	json_array_foreach(runs, i, run) {
		if (strcmp(json_string_value(json_object_get(run, "by")), PROBE_SCHEDULE_BY) != 0)
			continue;
		age = (double)time(NULL) - json_number_value(json_object_get(run, "time"));
		break;
	}
	json_decref(runs);
	return age < 0 || age > 1e9 ? -1 : (long long)(age * 1000);
}

static void schedule_follow(struct daemon *d)
{
	struct probe_plan *p = &d->probe_schedule->plan;
	const char *probe;

	for (int i = 0; (probe = probe_name(i)); i++) {
		long long every = conf_every(&d->conf, probe);

		if (every != probe_plan_row(p, probe)->every)
			probe_plan_set(p, probe, every, schedule_age(d, probe), schedule_luck(), clock_ms());
	}
}

void probe_schedule_row(struct daemon *d, const char *probe, struct plan_row *ret_r)
{
	long long now = clock_ms();

	schedule_follow(d);
	*ret_r = *probe_plan_row(&d->probe_schedule->plan, probe);
	ret_r->next = ret_r->next > now ? ret_r->next - now : 0;
}

/* ---- the run's requests rank behind all others, on the ops thread ---- */

static int schedule_admit(struct probe_here *h, struct buf *why)
{
	return probe_place_take(h->arg, why);
}

static void schedule_look(struct probe_here *h)
{
	probe_place_look(h->arg);
}

/* ---- a run ---- */

/* One line each; what is wrong stands out. */
static void schedule_log(json_t *result)
{
	const char *verdict = json_string_value(json_object_get(result, "verdict"));
	bool wrong = !strcmp(verdict, "fail") || !strcmp(verdict, "warn");
	struct buf ids = { 0 };
	json_t *id;
	size_t i;

	json_array_foreach(json_object_get(result, "requests"), i, id)
		buf_printf(&ids, "%s%s", i ? "," : "", json_string_value(id));
	log_event(wrong ? LOG_LV_WARN : LOG_LV_INFO, wrong ? "probe_failed" : "probe",
		  "probe=%s verdict=%s seconds=%.2f why=%s requests=%s",
		  json_string_value(json_object_get(result, "name")),
		  verdict, json_number_value(json_object_get(result, "seconds")),
		  LOGQ(json_string_value(json_object_get(result, "why"))), LOGQ(buf_str(&ids)));
	buf_fini(&ids);
}

static void schedule_ended(struct probe_job *j)
{
	struct daemon *d = j->daemon;
	struct probe_schedule *s = d->probe_schedule;
	bool draining = daemon_state(d) != DAEMON_READY;
	json_t *result = json_array_get(j->results, 0);

	if (result)
		schedule_log(result);
	else
		log_event(LOG_LV_INFO, "probe_postponed", "probe=%s why=%s", s->probe, LOGQ(buf_str(&j->why)));
	probe_plan_ended(&s->plan, s->probe, (long long)(j->seconds * 1000), conf_part(&d->conf, CONF_max_load),
			 result != NULL, !result && !draining, clock_ms());
	s->job = NULL;
}

/* The weakest options first. They were checked with the configuration. */
static void schedule_options(struct daemon *d, const char *probe, json_t *options)
{
	json_t *o = json_object();

	json_object_set_new(o, PROBE_QUICK, json_integer(1));
	must_zero(probe_job_configured(d, probe, o, NULL));
	json_object_set_new(options, probe, o);
}

static void schedule_begin(struct daemon *d, const char *probe)
{
	struct probe_schedule *s = d->probe_schedule;
	struct probe_job *j = probe_job_new(d);

	json_array_append_new(j->names, json_string(probe));
	schedule_options(d, probe, j->options);
	strcpy(j->by, PROBE_SCHEDULE_BY);
	j->ended = schedule_ended;
	j->job.yields = true;
	s->place.cancel = &j->job.cancel;
	s->place.waits_from = 0;
	j->here.admit = schedule_admit;
	j->here.look = schedule_look;
	j->here.arg = &s->place;
	s->probe = probe;
	s->job = j;
	if (probe_job_submit(&j, NULL)) {
		s->job = NULL;
		probe_plan_ended(&s->plan, probe, 0, 1, false, true, clock_ms());
	}
}

static enum plan_reason schedule_busy(struct daemon *d)
{
	if (ops_busy(d->ops) || !list_empty(&d->probe_jobs))
		return PLAN_BUSY;
	return probe_place_free(&d->probe_schedule->place) ? PLAN_FREE : PLAN_WAITING;
}

void probe_schedule_tick(struct daemon *d)
{
	struct probe_schedule *s = d->probe_schedule;
	const char *probe;

	schedule_follow(d);
	if (daemon_state(d) != DAEMON_READY) {
		if (s->job)
			atomic_store(&s->job->job.cancel, true);
		return;
	}
	if (s->job)
		return;
	s->place = (struct probe_place){ .engine = d->engine,
					 .max_waiting = (int)conf_int(&d->conf, CONF_max_waiting) };
	probe = probe_plan_due(&s->plan, schedule_busy(d), clock_ms());
	if (probe)
		schedule_begin(d, probe);
}
