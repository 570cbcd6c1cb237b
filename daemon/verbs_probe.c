/* SPDX-License-Identifier: MIT
 * verbs_probe.c - io.dsv4.Probes: runs probes against this daemon on the ops thread, keeps their verdicts.
 * Threads: control; probe_job_run() and its helpers on ops. Locks: none (ops.h hands everything over). */
#include "ctl/probe.h"
#include "daemon/daemon.h"
#include "daemon/probe_peer.h"
#include "daemon/verbs.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROBE_MAX_RUN 16     /* names in one call */
#define PROBE_MAX_HISTORY 256

/* One `probe run`. The control thread fills it, ops runs it, control answers. */
struct probe_job {
	struct ops_job job;
	struct daemon *daemon;
	struct call *call;       /* control's alone; NULL once the peer is gone */
	struct probe_peer peer, real;
	json_t *names, *options; /* options: {probe: {name: value}} */
	json_t *results;
	enum probe_verdict worst;
	struct buf why;
	int rc;
};

struct probe_note {
	struct ops_note note;
	struct probe_job *job;
	char probe[VERB_NAME_MAX];
	int done, total;
};

/* ---- on the ops thread ---- */

static void probe_note_deliver(struct ops_note *n)
{
	struct probe_note *p = list_entry(n, struct probe_note, note);

	if (p->job->call)
		call_progress(p->job->call, json_pack("{s:{s:s, s:i, s:i}}", "progress", "probe", p->probe,
						      "done", p->done,
						      "total", p->total));
	free(p);
}

static void probe_progress(void *arg, const char *probe, int done, int total)
{
	struct probe_job *j = arg;
	struct probe_note *n = mem_new(sizeof *n);

	*n = (struct probe_note){ .note.fn = probe_note_deliver, .job = j, .done = done, .total = total };
	strncpy(n->probe, probe, sizeof n->probe - 1);
	ops_post(j->daemon->ops, &n->note);
}

/* The daemon as peer, until the caller leaves or the daemon stops: then every further request fails at
 * once. */
static int probe_chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply,
		      struct buf *why)
{
	struct probe_job *j = arg;

	if (atomic_load(&j->job.cancel))
		return buf_why(why, RC_CANCELLED, "the run was cancelled");
	return j->real.chat(j->real.arg, body, delta, delta_arg, ret_reply, why);
}

static void probe_job_run(struct ops_job *job)
{
	struct probe_job *j = list_entry(job, struct probe_job, job);
	json_t *name;
	size_t i;

	json_array_foreach(j->names, i, name) {
		const char *s = json_string_value(name);
		struct probe_result result = { 0 };
		double start = clock_s();

		if (atomic_load(&job->cancel)) {
			j->rc = buf_why(&j->why, RC_CANCELLED, "the run was cancelled");
			return;
		}
		j->rc = probe_run(s, json_object_get(j->options, s), &j->peer, &result, &j->why);
		if (j->rc)
			return;
		json_array_append_new(j->results, probe_result_json(s, &result, clock_s() - start));
		if (result.verdict > j->worst && (result.verdict != PROBE_INCONCLUSIVE ||
						  j->worst == PROBE_PASS))
			j->worst = result.verdict;
		else if (j->worst == PROBE_INCONCLUSIVE && result.verdict != PROBE_PASS)
			j->worst = result.verdict;
		probe_result_fini(&result);
	}
}

/* ---- on the control thread ---- */

/* {probe: {verdict: runs}}: the history forgets, this does not. */
static void probe_count(json_t *counts, json_t *result)
{
	const char *name = json_string_value(json_object_get(result, "name"));
	const char *verdict = json_string_value(json_object_get(result, "verdict"));
	json_t *of = json_object_get(counts, name);

	if (!of) {
		of = json_object();
		for (int v = PROBE_PASS; v <= PROBE_INCONCLUSIVE; v++)
			json_object_set_new(of, probe_verdict_name((enum probe_verdict)v), json_integer(0));
		must(json_object_set_new(counts, name, of) == 0);
	}
	must(json_object_set_new(of, verdict, json_integer(json_integer_value(json_object_get(of, verdict)) + 1)) == 0);
}

static void probe_remember(struct daemon *d, json_t *results)
{
	json_t *r;
	size_t i;

	json_array_foreach(results, i, r) {
		probe_count(d->probe_counts, r);
		json_array_append_new(d->probe_history, json_pack("{s:f, s:O}", "time", (double)time(NULL),
								  "result", r));
	}
	while (json_array_size(d->probe_history) > PROBE_MAX_HISTORY)
		json_array_remove(d->probe_history, 0);
}

static void probe_job_done(struct ops_job *job)
{
	struct probe_job *j = list_entry(job, struct probe_job, job);

	probe_remember(j->daemon, j->results);
	if (j->call && j->rc)
		call_fail(&j->call, j->rc, buf_str(&j->why));
	else if (j->call)
		call_reply(&j->call, json_pack("{s:s, s:O}", "verdict", probe_verdict_name(j->worst),
					       "results",
					       j->results));
	json_decref(j->names);
	json_decref(j->options);
	json_decref(j->results);
	buf_fini(&j->why);
	free(j);
}

static void probe_gone(struct call *c)
{
	struct probe_job *j = c->arg;

	j->call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

/* The configuration's [probe.NAME] first, then the call's options, which win. */
static int probe_config_options(struct daemon *d, const char *name, json_t *options, struct buf *why)
{
	for (int i = 0; i < d->conf.n_option; i++) {
		const struct conf_option *o = &d->conf.option[i];
		int r = strcmp(o->probe, name) ? 0 : probe_option_set(name, o->key, o->value, options, why);

		if (r)
			return r;
	}
	return 0;
}

/* Gives an option to each named probe that has it. An option that none has is the error of the last. */
static int probe_call_option(json_t *names, const char *key, const char *value, json_t *options,
			     struct buf *why)
{
	bool taken = false;
	json_t *name;
	size_t i;
	int r = 0;

	json_array_foreach(names, i, name) {
		const char *s = json_string_value(name);

		r = probe_option_set(s, key, value, json_object_get(options, s), why);
		taken |= r == 0;
	}
	return taken ? 0 : r;
}

static int probe_options(struct call *c, json_t *names, json_t *options, struct buf *why)
{
	json_t *name, *value, *given = json_object_get(c->params, "options");
	const char *key;
	size_t i;
	int r = 0;

	if (json_array_size(names) > PROBE_MAX_RUN)
		return buf_why(why, RC_INVALID, "names: at most %d", PROBE_MAX_RUN);
	json_array_foreach(names, i, name) {
		const char *s = json_string_value(name);
		json_t *o = json_object();

		if (!probe_exists(s)) {
			json_decref(o);
			return buf_why(why, RC_NOT_FOUND, "no probe named '%.96s'", s);
		}
		json_object_set_new(options, s, o);
		r = r ? r : probe_config_options(c->daemon, s, o, why);
	}
	json_object_foreach(given, key, value)
		r = r ? r : probe_call_option(names, key, json_string_value(value), options, why);
	return r;
}

int verb_probe_run(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *names = json_object_get(c->params, "names"), *options = json_object();
	struct probe_job *j;
	int r = daemon_need_engine(c->daemon, why);

	(void)ret_reply;
	r = r ? r : probe_options(c, names, options, why);
	if (r) {
		json_decref(options);
		return r;
	}
	j = mem_new(sizeof *j);
	*j = (struct probe_job){ .job = { .run = probe_job_run, .done = probe_job_done }, .daemon = c->daemon,
				 .call = c };
	j->names = json_deep_copy(names);
	j->options = options;
	j->results = json_array();
	probe_peer_init(&j->real, c->daemon->engine);
	j->peer = j->real;
	j->peer.chat = probe_chat;
	j->peer.progress = probe_progress;
	j->peer.arg = j;
	c->arg = j;
	c->gone = probe_gone;
	r = ops_submit(c->daemon->ops, &j->job, why);
	if (r) {
		json_decref(j->names);
		json_decref(j->options);
		json_decref(j->results);
		free(j);
		return r;
	}
	return CALL_LATER;
}

int verb_probe_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)c;
	(void)why;
	*ret_reply = json_pack("{s:o}", "probes", probe_list());
	return 0;
}

int verb_probe_history(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *all = c->daemon->probe_history, *list;
	size_t n = json_array_size(all);
	long long max = call_int(c, "max", 20);

	if (max < 1 || max > PROBE_MAX_HISTORY)
		return buf_why(why, RC_INVALID, "max: must be within 1 to %d", PROBE_MAX_HISTORY);
	list = json_array();
	for (size_t i = 0; i < n && i < (size_t)max; i++)
		json_array_append(list, json_array_get(all, n - 1 - i));
	*ret_reply = json_pack("{s:o}", "runs", list);
	return 0;
}
