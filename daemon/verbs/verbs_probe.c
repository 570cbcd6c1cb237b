/* SPDX-License-Identifier: MIT
 * verbs_probe.c - io.dsv4.Probes: runs probes against this daemon, tells what they are and what they found.
 * Threads: control. Locks: the history's, inside calls. */
#include "ctl/probe/probe.h"
#include "daemon/daemon.h"
#include "daemon/probes/probe_history.h"
#include "daemon/probes/probe_job.h"
#include "daemon/probes/probe_peer.h"
#include "daemon/probes/probe_schedule.h"
#include "daemon/kernels/side.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/warming.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROBE_HISTORY_DEFAULT 20

/* ---- probe run ---- */

/* One `probe run`. Its call is NULL once the peer is gone. */
struct probe_call {
	struct warming warming;    /* of the set it names, before the job */
	struct side side;          /* empty: what is in force */
	struct probe_job *job;     /* NULL once it is submitted */
};

static void probe_call_free(struct probe_call *p)
{
	probe_job_free(&p->job);
	side_fini(&p->side);
	free(p);
}

static void probe_told(struct probe_job *j, const char *probe, int done, int total)
{
	struct probe_call *p = j->arg;

	if (p->warming.call)
		call_progress(p->warming.call,
			      json_pack("{s:{s:s, s:i, s:i}}", "progress", "probe", probe, "done", done,
					"total", total));
}

static void probe_ended(struct probe_job *j)
{
	struct probe_call *p = j->arg;
	struct call *c = p->warming.call;

	if (c && j->rc)
		call_fail(&c, j->rc, buf_str(&j->why));
	else if (c)
		call_reply(&c, json_pack("{s:s, s:O}", "verdict", probe_verdict_name(j->worst), "results", j->results));
	probe_call_free(p);
}

static void probe_gone(struct call *c)
{
	struct probe_job *j = c->arg;
	struct probe_call *p = j->arg;

	p->warming.call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

int verbs_probe_options(struct call *c, json_t *names, json_t *options, struct buf *why)
{
	json_t *name, *value, *given = json_object_get(c->params, "options");
	const char *key;
	size_t i;
	int r = 0;

	json_array_foreach(names, i, name) {
		const char *s = json_string_value(name);
		json_t *o = json_object();

		json_object_set_new(options, s, o);
		r = r ? r : probe_job_configured(c->daemon, s, o, why);
		if (call_flag(c, PROBE_QUICK))
			json_object_set_new(o, PROBE_QUICK, json_integer(1));
	}
	json_object_foreach(given, key, value)
		r = r ? r : probe_option_give(names, key, json_string_value(value), options, why);
	return r;
}

/* Says what the call must wait for. */
static void probe_tell_wait(struct call *c, json_t *names, struct buf *what)
{
	call_progress(c, json_pack("{s:{s:s, s:i, s:i, s:s}}", "progress", "probe",
				   json_string_value(json_array_get(names, 0)), "done", 0, "total", 0, "waits_for",
				   buf_str(what)));
}

static int probe_begin(struct probe_call *p, struct buf *why)
{
	struct call *c = p->warming.call;
	struct probe_job *j = p->job;
	json_t *names = json_incref(j->names);
	struct buf what = { 0 };
	bool waits = probe_job_waits_for(c->daemon, &what);
	int r = probe_job_submit(&p->job, why);

	if (!r) {
		c->arg = j;
		c->gone = probe_gone;
		if (waits)
			probe_tell_wait(c, names, &what);
	}
	json_decref(names);
	buf_fini(&what);
	return r;
}

static int probe_call_attempt(struct warming *w, json_t **ret_reply, struct buf *why)
{
	struct probe_call *p = list_entry(w, struct probe_call, warming);
	const char *set = buf_str(&p->side.set);
	int r = p->side.set.len ? warming_set(w, set, why) : 0;

	(void)ret_reply;
	if (r == 0 && p->side.set.len) {
		r = kernels_resolve(w->daemon, set, &p->job->set, why);
		p->job->numerics = p->side.numerics;
	}
	r = r ? r : probe_begin(p, why);
	return r ? r : WARMING_TAKEN;
}

static void probe_call_end(struct warming *w)
{
	probe_call_free(list_entry(w, struct probe_call, warming));
}

static int probe_call_fill(struct probe_call *p, struct call *c, json_t *names, json_t *options, struct buf *why)
{
	const char *set = call_string(c, "set", NULL);
	struct probe_job *j = p->job;
	struct numerics now;

	json_array_extend(j->names, names);
	json_object_update(j->options, options);
	snprintf(j->by, sizeof j->by, "uid %u", (unsigned)c->peer.uid);
	j->told = probe_told;
	j->ended = probe_ended;
	j->arg = p;
	engine_numerics(c->daemon->engine, &now);
	return set ? side_read(&p->side, &now, set, why) : 0;
}

static int probe_call_begin(struct call *c, json_t *names, json_t *options, json_t **ret_reply, struct buf *why)
{
	struct probe_call *p = mem_new(sizeof *p);
	int r;

	p->warming = (struct warming){ .daemon = c->daemon, .call = c, .attempt = probe_call_attempt,
				       .end = probe_call_end };
	p->job = probe_job_new(c->daemon);
	r = probe_call_fill(p, c, names, options, why);
	if (r) {
		probe_call_free(p);
		return r;
	}
	return warming_begin(&p->warming, ret_reply, why);
}

/* Each that was asked for by its name must be one that a set can be given to. */
static int probe_call_under(const struct call *c, json_t *names, struct buf *why)
{
	json_t *name;
	size_t i;
	int r = 0;

	if (!call_string(c, "set", NULL) || json_array_size(json_object_get(c->params, "names")) == 0)
		return 0;
	json_array_foreach(names, i, name)
		r = r ? r : probe_here_under(json_string_value(name), why);
	return r;
}

int verb_probe_run(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *names = NULL, *options = json_object();
	int r = daemon_need_engine(c->daemon, why);

	r = r ? r : probe_names(json_object_get(c->params, "names"), &names, why);
	r = r ? r : probe_call_under(c, names, why);
	r = r ? r : verbs_probe_options(c, names, options, why);
	r = r ? r : probe_call_begin(c, names, options, ret_reply, why);
	json_decref(names);
	json_decref(options);
	return r;
}

/* ---- what there is, what there was ---- */

/* What the configuration says of each of its options. */
static void probe_list_configured(const struct daemon *d, json_t *probe)
{
	const char *name = json_string_value(json_object_get(probe, "name"));
	json_t *o;
	size_t k;

	json_array_foreach(json_object_get(probe, "options"), k, o)
		json_object_set_new(o, "configured", json_null());
	for (int i = 0; i < d->conf.n_option; i++)
		json_array_foreach(json_object_get(probe, "options"), k, o)
			if (!strcmp(d->conf.option[i].probe, name) &&
			    !strcmp(d->conf.option[i].key, json_string_value(json_object_get(o, "name"))))
				json_object_set_new(o, "configured", json_string(d->conf.option[i].value));
}

/* "30m", in the largest unit that says it. */
static json_t *probe_list_every(long long ms)
{
	static const struct { char unit; long long ms; } units[] =
		{ { 'd', 86400000 }, { 'h', 3600000 }, { 'm', 60000 } };
	char text[32];

	if (ms == 0)
		return json_null();
	for (size_t i = 0; i < mem_countof(units); i++)
		if (ms % units[i].ms == 0) {
			snprintf(text, sizeof text, "%lld%c", ms / units[i].ms, units[i].unit);
			return json_string(text);
		}
	snprintf(text, sizeof text, "%llds", ms / 1000);
	return json_string(text);
}

static void probe_list_schedule(struct daemon *d, json_t *probe)
{
	json_t *postponed = json_object();
	struct timespec now;
	struct plan_row row;

	must_zero(clock_gettime(CLOCK_REALTIME, &now));
	probe_schedule_row(d, json_string_value(json_object_get(probe, "name")), &row);
	for (int i = 0; i < PLAN_REASONS; i++)
		json_object_set_new(postponed, probe_plan_reasons[i], json_integer((json_int_t)row.postponed[i]));
	json_object_set_new(probe, "every", probe_list_every(row.every));
	json_object_set_new(probe, "next", row.every == 0 ? json_null() :
			    json_real((double)now.tv_sec + (double)now.tv_nsec / 1e9 + (double)row.next / 1000));
	json_object_set_new(probe, "postponed", postponed);
}

int verb_probe_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *list = probe_list(), *probe;
	size_t i;

	(void)why;
	json_array_foreach(list, i, probe) {
		probe_list_configured(c->daemon, probe);
		probe_list_schedule(c->daemon, probe);
	}
	*ret_reply = json_pack("{s:s, s:o}", "order", "the command line, the configuration, quick, default", "probes",
			       list);
	return 0;
}

int verb_probe_history(struct call *c, json_t **ret_reply, struct buf *why)
{
	long long max = call_int(c, "max", PROBE_HISTORY_DEFAULT);
	const char *probe = call_string(c, "probe", NULL);

	if (max < 1 || max > PROBE_HISTORY_RUNS)
		return buf_why(why, RC_INVALID, "max: must be within 1 to %d", PROBE_HISTORY_RUNS);
	if (probe && !probe_exists(probe))
		return buf_why(why, RC_NOT_FOUND, "no probe named '%.96s'", probe);
	*ret_reply = json_pack("{s:o}", "runs", probe_history_list(c->daemon->probe_history, probe,
								   call_flag(c, "failed"), (size_t)max));
	return 0;
}
