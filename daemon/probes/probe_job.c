/* SPDX-License-Identifier: MIT
 * probe_job.c - one run of probes against this daemon, on the ops thread: asked for by a call, or by the schedule.
 * Threads: control begins and ends it; the run on ops. Locks: none (ops.h hands everything over). */
#include "daemon/probes/probe_job.h"
#include "ctl/probe/probe_http.h"
#include "ctl/verb.h"
#include "daemon/daemon.h"
#include "daemon/probes/probe_front.h"
#include "daemon/probes/probe_history.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- on the ops thread ---- */

struct probe_note {
	struct ops_note note;
	struct probe_job *job;
	char probe[VERB_NAME_MAX];
	int done, total;
};

static void probe_note_deliver(struct ops_note *n)
{
	struct probe_note *p = list_entry(n, struct probe_note, note);

	p->job->told(p->job, p->probe, p->done, p->total);
	free(p);
}

static void probe_job_progress(void *arg, const char *probe, int done, int total)
{
	struct probe_job *j = list_entry(arg, struct probe_job, here);
	struct probe_note *n;

	if (!j->told)
		return;
	n = mem_new(sizeof *n);
	*n = (struct probe_note){ .note.fn = probe_note_deliver, .job = j, .done = done, .total = total };
	strncpy(n->probe, probe, sizeof n->probe - 1);
	ops_post(j->daemon->ops, &n->note);
}

/* What numbers a request gets now, for the history: those of the parameters that are not the model's own. */
static void probe_job_numerics(struct engine *e, struct buf *out)
{
	struct numerics now, native;
	char value[32], usual[32];

	engine_numerics(e, &now);
	numerics_init(&native, NUMERICS_NATIVE, engine_config(e)->index_topk);
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];

		numerics_get(&now, row, value);
		numerics_get(&native, row, usual);
		if (strcmp(value, usual) != 0)
			buf_printf(out, "%s%s=%s", out->len ? " " : "", row->name, value);
	}
}

static uint64_t probe_job_epoch(struct engine *e)
{
	struct engine_status s;

	engine_status(e, &s);
	return s.epoch;
}

static bool probe_job_drains(struct engine *e)
{
	struct engine_status s;

	engine_status(e, &s);
	return s.draining;
}

/* What a probe runs under, before it does. */
static json_t *probe_job_under(struct probe_job *j, const char *probe)
{
	struct engine *e = j->daemon->engine;
	json_t *options = json_object_get(j->options, probe), *run;
	struct kset *ks = engine_kset(e);
	struct buf numerics = { 0 };

	probe_job_numerics(e, &numerics);
	run = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:b, s:b}", "by", j->by, "kernels", kset_name(ks), "numerics",
			buf_str(&numerics), "epoch", (json_int_t)probe_job_epoch(e), "model", engine_model_name(e),
			"model_id", cache_model_id(engine_cache(e)), "quick",
			json_integer_value(json_object_get(options, PROBE_QUICK)) == 1, "changed", 0);
	must(run != NULL);
	kset_unpin(&ks);
	buf_fini(&numerics);
	return run;
}

static void probe_job_keep(struct probe_job *j, json_t *run, json_t *result)
{
	json_int_t epoch = json_integer_value(json_object_get(run, "epoch"));

	json_object_set_new(run, "time", json_real((double)time(NULL)));
	json_object_set_new(run, "changed", json_boolean((uint64_t)epoch != probe_job_epoch(j->daemon->engine)));
	json_object_set(run, "result", result);
	probe_history_add(j->daemon->probe_history, j->daemon->state, run);
}

/* A run that was cancelled, or cut short since no request is taken any more, says nothing about the model, whatever its
 * answers were so far. */
static int probe_job_one(struct probe_job *j, const char *probe)
{
	struct probe_result r = { 0 };
	double start = clock_s();
	json_t *run, *result;
	int rc;

	if (atomic_load(&j->job.cancel))
		return buf_why(&j->why, RC_CANCELLED, "the run was cancelled");
	run = probe_job_under(j, probe);
	rc = probe_run(probe, json_object_get(j->options, probe), &j->peer, &r, &j->why);
	if (!rc && atomic_load(&j->job.cancel))
		rc = buf_why(&j->why, RC_CANCELLED, "the run was cancelled");
	if (!rc && r.verdict == PROBE_INCONCLUSIVE && probe_job_drains(j->daemon->engine))
		rc = buf_why(&j->why, RC_DRAINING, "%s", buf_str(&r.why));
	if (!rc) {
		result = probe_result_json(probe, &r, clock_s() - start);
		must(result != NULL);
		json_array_append_new(j->results, result);
		j->worst = probe_worse(j->worst, r.verdict);
		/* Of a set that nobody else has it would be no verdict on the daemon. */
		if (!j->set)
			probe_job_keep(j, run, result);
	}
	probe_result_fini(&r);
	json_decref(run);
	return rc;
}

static void probe_job_run(struct ops_job *job)
{
	struct probe_job *j = list_entry(job, struct probe_job, job);
	double start = clock_s();
	json_t *name;
	size_t i;

	json_array_foreach(j->names, i, name) {
		j->rc = probe_job_one(j, json_string_value(name));
		if (j->rc)
			break;
	}
	j->seconds = clock_s() - start;
}

/* ---- on the control thread ---- */

void probe_job_free(struct probe_job **jp)
{
	struct probe_job *j = *jp;

	*jp = NULL;
	if (!j)
		return;
	json_decref(j->names);
	json_decref(j->options);
	json_decref(j->results);
	kset_unpin(&j->set);
	buf_fini(&j->why);
	buf_fini(&j->no_front);
	probe_http_free(&j->here.front);
	list_del(&j->node);
	free(j);
}

static void probe_job_done(struct ops_job *job)
{
	struct probe_job *j = list_entry(job, struct probe_job, job);

	list_del(&j->node);
	j->ended(j);
	probe_job_free(&j);
}

struct probe_job *probe_job_new(struct daemon *d)
{
	struct probe_job *j = mem_new(sizeof *j);

	*j = (struct probe_job){ .job = { .run = probe_job_run, .done = probe_job_done }, .daemon = d };
	list_init(&j->node);
	j->names = json_array();
	j->options = json_object();
	j->results = json_array();
	return j;
}

static bool probe_job_cancelled(void *here)
{
	return probe_here_cancelled(here);
}

int probe_job_submit(struct probe_job **jp, struct buf *why)
{
	struct probe_job *j = *jp;
	struct daemon *d = j->daemon;
	int r;

	*jp = NULL;
	must(j->ended != NULL && *j->by && d->engine != NULL);
	j->here.engine = d->engine;
	j->here.cancel = &j->job.cancel;
	j->here.local = d->http && http_is_local(d->http);
	if (j->set) {
		j->here.under = (struct chat_under){ .set = j->set, .numerics = &j->numerics };
		buf_adds(&j->no_front, "over HTTP the active set would answer");
	} else { /* without it few probes miss it */
		probe_front_new(d, probe_job_cancelled, &j->here, &j->here.front, &j->no_front);
	}
	probe_peer_init(&j->peer, &j->here);
	j->peer.http_why = buf_str(&j->no_front);
	j->peer.progress = probe_job_progress;
	list_put(&d->probe_jobs, &j->node);
	r = ops_submit(d->ops, &j->job, why);
	if (r)
		probe_job_free(&j);
	return r;
}

int probe_job_configured(const struct daemon *d, const char *probe, json_t *options, struct buf *why)
{
	int r = 0;

	for (int i = 0; i < d->conf.n_option && !r; i++) {
		const struct conf_option *o = &d->conf.option[i];

		if (!strcmp(o->probe, probe) && strcmp(o->key, CONF_EVERY) != 0)
			r = probe_option_set(probe, o->key, o->value, options, why);
	}
	return r;
}

bool probe_job_waits_for(struct daemon *d, struct buf *what)
{
	struct probe_job *first;
	json_t *name;
	size_t i;

	if (list_empty(&d->probe_jobs)) {
		if (ops_busy(d->ops))
			buf_adds(what, "another slow job");
		return what->len > 0;
	}
	first = list_entry(d->probe_jobs.next, struct probe_job, node);
	buf_adds(what, "probe");
	json_array_foreach(first->names, i, name)
		buf_printf(what, "%s%s", i ? ", " : " ", json_string_value(name));
	buf_printf(what, " (%s)", first->by);
	return true;
}
