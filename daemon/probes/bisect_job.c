/* SPDX-License-Identifier: MIT
 * bisect_job.c - a bisection on the ops thread: the search, whose oracle runs a probe under a mixture of two sets.
 * Threads: control begins and ends it; the search on ops. Locks: none (ops.h hands everything over). */
#include "daemon/probes/bisect_job.h"
#include "daemon/daemon.h"
#include "daemon/probes/probe_peer.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define BISECT_SEED "seed" /* the option of a probe that samples */

bool bisect_job_samples(const char *probe)
{
	json_t *options = json_object();
	bool has = probe_option_set(probe, BISECT_SEED, "1", options, NULL) == 0;

	json_decref(options);
	return has;
}

/* ---- on the ops thread ---- */

struct bisect_note {
	struct ops_note note;
	struct bisect_job *job;
	int run, total;
};

static void bisect_note_deliver(struct ops_note *n)
{
	struct bisect_note *p = list_entry(n, struct bisect_note, note);

	p->job->told(p->job, p->run, p->total);
	free(p);
}

/* One run, as the probe's peer sees it. */
struct bisect_here {
	struct probe_here here;     /* first: it is the peer's arg */
	struct bisect_job *job;
};

static void bisect_job_progress(void *arg, const char *probe, int done, int total)
{
	struct bisect_job *j = list_entry(arg, struct bisect_here, here)->job;
	struct bisect_note *n = mem_new(sizeof *n);

	(void)probe;
	(void)done;
	(void)total;
	*n = (struct bisect_note){ .note.fn = bisect_note_deliver, .job = j, .run = (int)json_array_size(j->runs) + 1,
				   .total = j->search.max_runs };
	ops_post(j->daemon->ops, &n->note);
}

/* Numbers of the changes, from 1. */
static json_t *bisect_job_numbers(uint64_t which)
{
	json_t *list = json_array();

	for (int i = 0; i < BISECT_MAX_CHANGES; i++)
		if (which >> i & 1)
			must_zero(json_array_append_new(list, json_integer(i + 1)));
	return list;
}

/* The same for people: "none", "all", "1-3 7". */
static void bisect_job_mixture(const struct bisect_job *j, uint64_t which, struct buf *out)
{
	int n = j->changes.n;

	for (int i = 0, end; i < n; i = end) {
		end = i + 1;
		if (!(which >> i & 1))
			continue;
		while (end < n && (which >> end & 1))
			end++;
		if (i == 0 && end == n)
			buf_adds(out, "all");
		else if (end == i + 1)
			buf_printf(out, "%s%d", out->len ? " " : "", end);
		else
			buf_printf(out, "%s%d-%d", out->len ? " " : "", i + 1, end);
	}
	if (!out->len)
		buf_adds(out, "none");
}

static void bisect_job_keep(struct bisect_job *j, uint64_t candidate, const struct kset *ks, json_t *result)
{
	struct buf mixture = { 0 };
	json_t *run;

	bisect_job_mixture(j, candidate, &mixture);
	run = json_pack("{s:i, s:o, s:s, s:s, s:O, s:O, s:O, s:O}", "run", (int)json_array_size(j->runs) + 1, "changes",
			bisect_job_numbers(candidate), "mixture", buf_str(&mixture), "kernels", kset_name(ks),
			"verdict",
			json_object_get(result, "verdict"), "why", json_object_get(result, "why"), "requests",
			json_object_get(result, "requests"), "seconds", json_object_get(result, "seconds"));
	must_zero(json_array_append_new(j->runs, run));
	buf_fini(&mixture);
}

/* The probe's options for the next run of the candidate. */
static json_t *bisect_job_options(struct bisect_job *j, uint64_t candidate)
{
	json_t *o = json_deep_copy(j->options), *mine = bisect_job_numbers(candidate), *run;
	json_int_t seed = json_integer_value(json_object_get(o, BISECT_SEED));
	size_t i;

	json_array_foreach(j->runs, i, run)
		seed += json_equal(json_object_get(run, "changes"), mine);
	if (j->search.sampled)
		must_zero(json_object_set_new(o, BISECT_SEED, json_integer(seed)));
	json_decref(mine);
	return o;
}

/* What turned requests away is no verdict on the mixture, whatever the probe made of the rest. */
static int bisect_job_refused(struct bisect_job *j, const struct probe_here *h, const struct probe_result *r)
{
	struct engine_status s;

	engine_status(j->daemon->engine, &s);
	if (h->refused || (s.draining && r->verdict == PROBE_INCONCLUSIVE))
		return buf_why(&j->why, h->refused ? h->refused : RC_DRAINING,
			       "after %d runs, of which each came to a verdict: %s",
			       (int)json_array_size(j->runs),
			       r->why.len ? buf_str(&r->why) : "a request was turned away");
	return 0;
}

static int bisect_job_probe(struct bisect_job *j, uint64_t candidate, struct kset *ks, const struct numerics *n,
			    int *ret_level)
{
	struct bisect_here h = { .here = { .engine = j->daemon->engine, .cancel = &j->job.cancel }, .job = j };
	json_t *options = bisect_job_options(j, candidate), *result;
	struct probe_result r = { 0 };
	struct probe_peer peer;
	double start = clock_s();
	int rc;

	h.here.under = (struct chat_under){ .set = ks, .numerics = n };
	probe_peer_init(&peer, &h.here);
	peer.http_why = "over HTTP the active set would answer";
	peer.progress = bisect_job_progress;
	rc = probe_run(j->probe, options, &peer, &r, &j->why);
	if (!rc && atomic_load(&j->job.cancel))
		rc = buf_why(&j->why, RC_CANCELLED, "cancelled");
	if (!rc)
		rc = bisect_job_refused(j, &h.here, &r);
	if (!rc) {
		*ret_level = r.verdict == PROBE_INCONCLUSIVE ? BISECT_NO_LEVEL : (int)r.verdict;
		result = probe_result_json(j->probe, &r, clock_s() - start);
		must(result != NULL);
		bisect_job_keep(j, candidate, ks, result);
		json_decref(result);
	}
	probe_result_fini(&r);
	json_decref(options);
	return rc;
}

static int bisect_job_ask(void *arg, uint64_t candidate, int *ret_level)
{
	struct bisect_job *j = arg;
	struct numerics n;
	struct kset *ks;
	int rc;

	if (atomic_load(&j->job.cancel))
		return buf_why(&j->why, RC_CANCELLED, "cancelled");
	rc = bisect_changes_mix(&j->changes, candidate, &ks, &n, &j->why);
	if (rc)
		return rc;
	rc = bisect_job_probe(j, candidate, ks, &n, ret_level);
	kset_unpin(&ks);
	return rc;
}

static void bisect_job_run(struct ops_job *job)
{
	struct bisect_job *j = list_entry(job, struct bisect_job, job);

	j->search.n = j->changes.n;
	j->search.weight = j->changes.weight;
	j->search.oracle = bisect_job_ask;
	j->search.arg = j;
	j->rc = bisect_run(&j->search, &j->result);
}

/* ---- on the control thread ---- */

static void bisect_job_done(struct ops_job *job)
{
	struct bisect_job *j = list_entry(job, struct bisect_job, job);

	j->ended(j);
}

int bisect_job_submit(struct bisect_job *j, struct buf *why)
{
	must(j->changes.n > 0 && j->told && j->ended && j->runs);
	j->job = (struct ops_job){ .run = bisect_job_run, .done = bisect_job_done };
	return ops_submit(j->daemon->ops, &j->job, why);
}
