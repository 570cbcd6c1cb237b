/* SPDX-License-Identifier: MIT
 * tell_proof.c - metrics that say whether answers are still right: the shadow's figures, the probes' verdicts.
 * Threads: control. Locks: the engine's, the shadow's and the history's, one after the other, inside calls. */
#include "api/http/metrics.h"
#include "ctl/probe/probe.h"
#include "daemon/daemon.h"
#include "daemon/probes/probe_history.h"
#include "daemon/probes/probe_schedule.h"
#include "daemon/tell/tell.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

/* ---- the shadow ---- */

/* One output of an op in one phase, over all layers. */
struct tell_output {
	const struct beside_row *row; /* any of them: op, phase, output */
	uint64_t runs;
	double relative, overlap;     /* the worst; -1: there was none to tell */
};

static bool tell_same_output(const struct beside_row *a, const struct beside_row *b)
{
	return a->op == b->op && a->phase == b->phase && !strcmp(a->output, b->output);
}

static void tell_output_add(struct tell_output *o, const struct beside_row *r)
{
	o->runs += r->calls;
	if (r->diff.n_set) {
		double overlap = op_diff_jaccard(&r->diff);

		o->overlap = o->overlap < 0 || overlap < o->overlap ? overlap : o->overlap;
	} else if (r->diff.n) {
		double relative = op_diff_relative(&r->diff);

		o->relative = relative > o->relative ? relative : o->relative;
	}
}

/* What was compared; malloc'd. Returns how many. */
static int tell_outputs(const struct shadow_report *r, struct tell_output **ret_o)
{
	struct tell_output *o = mem_grow(NULL, (size_t)r->n_row + 1, sizeof *o);
	int n = 0, k;

	for (int i = 0; i < r->n_row; i++) {
		if (r->row[i].calls == 0)
			continue;
		for (k = 0; k < n && !tell_same_output(o[k].row, &r->row[i]);)
			k++;
		if (k == n)
			o[n++] = (struct tell_output){ .row = &r->row[i], .relative = -1, .overlap = -1 };
		tell_output_add(&o[k], &r->row[i]);
	}
	*ret_o = o;
	return n;
}

#define TELL_OUTPUT(o) METRICS_LABELS(op_name((o)->row->op), op_phase_name((o)->row->phase), (o)->row->output)

static void tell_distances(const struct shadow_report *r, struct metrics *m)
{
	struct tell_output *o;
	int n = tell_outputs(r, &o);

	for (int i = 0; i < n; i++)
		metrics_put(m, METRIC_shadow_runs_total, (double)o[i].runs, TELL_OUTPUT(&o[i]));
	for (int i = 0; i < n; i++)
		if (o[i].relative >= 0)
			metrics_put(m, METRIC_shadow_relative_error, o[i].relative, TELL_OUTPUT(&o[i]));
	for (int i = 0; i < n; i++)
		if (o[i].overlap >= 0)
			metrics_put(m, METRIC_shadow_min_overlap, o[i].overlap, TELL_OUTPUT(&o[i]));
	free(o);
}

static void tell_shadow(struct daemon *d, struct metrics *m)
{
	struct shadow_report r;

	if (engine_shadow_report(d->engine, &r)) {
		metrics_put(m, METRIC_shadow_running, 0, NULL);
		return;
	}
	metrics_put(m, METRIC_shadow_running, 1, NULL);
	metrics_put(m, METRIC_shadow_steps_total, (double)r.steps, NULL);
	metrics_put(m, METRIC_shadow_taken_steps_total, (double)r.taken, NULL);
	metrics_put(m, METRIC_shadow_failures_total, (double)r.failures, NULL);
	tell_distances(&r, m);
	shadow_report_fini(&r);
}

/* ---- probes ---- */

static void tell_probe_counts(json_t *counts, struct metrics *m)
{
	const char *probe, *verdict;
	json_t *of, *n;

	json_object_foreach(counts, probe, of)
		json_object_foreach(of, verdict, n)
			metrics_put(m, METRIC_probe_runs_total, (double)json_integer_value(n),
				    METRICS_LABELS(probe, verdict));
}

static int tell_verdict(const char *name, const char *const *names)
{
	int v = PROBE_PASS;

	while (v < PROBE_INCONCLUSIVE && strcmp(name, names[v]) != 0)
		v++;
	return v;
}

static void tell_probe_unkept(struct daemon *d, struct metrics *m)
{
	metrics_put(m, METRIC_probe_history_unkept, probe_history_unkept(d->probe_history), NULL);
}

static void tell_probe_states(json_t *last, struct metrics *m)
{
	const char *name[PROBE_INCONCLUSIVE + 1], *probe;
	json_t *run;

	for (int v = PROBE_PASS; v <= PROBE_INCONCLUSIVE; v++)
		name[v] = probe_verdict_name((enum probe_verdict)v);
	json_object_foreach(last, probe, run) {
		json_t *verdict = json_object_get(json_object_get(run, "result"), "verdict");

		metrics_put_state(m, METRIC_probe_verdict, name, PROBE_INCONCLUSIVE + 1,
				  tell_verdict(json_string_value(verdict), name), probe);
	}
}

static void tell_probe_times(json_t *last, struct metrics *m)
{
	const char *probe;
	json_t *run;

	json_object_foreach(last, probe, run)
		metrics_put(m, METRIC_probe_last_run_time_seconds, json_number_value(json_object_get(run, "time")),
			    METRICS_LABELS(probe));
	json_object_foreach(last, probe, run)
		metrics_put(m, METRIC_probe_seconds,
			    json_number_value(json_object_get(json_object_get(run, "result"), "seconds")),
			    METRICS_LABELS(probe));
}

static void tell_probe_postponed(struct daemon *d, struct metrics *m)
{
	struct plan_row row;

	for (int i = 0; probe_name(i); i++) {
		probe_schedule_row(d, probe_name(i), &row);
		for (int k = 0; k < PLAN_REASONS && row.every; k++)
			metrics_put(m, METRIC_probe_postponed_total, (double)row.postponed[k],
				    METRICS_LABELS(row.probe, probe_plan_reasons[k]));
	}
}

/* Of many under one pattern none: their names are made by the run. */
static void tell_probe_figures(json_t *last, struct metrics *m)
{
	const char *probe, *figure;
	json_t *run, *v;
	bool many;

	json_object_foreach(last, probe, run)
		json_object_foreach(json_object_get(json_object_get(run, "result"), "figures"), figure, v)
			if (probe_figure_declared(probe, figure, &many) && !many)
				metrics_put(m, METRIC_probe_figure, json_number_value(v),
					    METRICS_LABELS(probe, figure));
}

/* The newest run of each probe that there is: what a file kept may name others. */
static json_t *tell_probe_last(struct daemon *d)
{
	json_t *last = probe_history_last(d->probe_history), *run;
	const char *probe;
	void *next;

	json_object_foreach_safe(last, next, probe, run)
		if (!probe_exists(probe))
			json_object_del(last, probe);
	return last;
}

void tell_proof(struct daemon *d, struct metrics *m)
{
	json_t *counts = probe_history_counts(d->probe_history), *last = tell_probe_last(d);

	tell_shadow(d, m);
	tell_probe_counts(counts, m);
	tell_probe_unkept(d, m);
	tell_probe_states(last, m);
	tell_probe_times(last, m);
	tell_probe_postponed(d, m);
	tell_probe_figures(last, m);
	json_decref(counts);
	json_decref(last);
}
