/* SPDX-License-Identifier: MIT
 * figures.c - how far two kernel sets are apart, as JSON: for shadow and compare.
 * Threads: any. Locks: none. */
#include "daemon/verbs/figures.h"
#include "ctl/varlink.h"
#include "engine/base/must.h"

#include <math.h>
#include <string.h>

/* The rows of one output of an op in one phase, over all layers. */
struct figures_group {
	const struct beside_row *row;  /* all rows */
	int n;
	enum dsv4_op op;
	enum dsv4_phase phase;
	const char *output;
	bool first;                    /* of the op's outputs: calls that came to no result count here */
};

json_t *figures_real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *figures_cosine(const struct op_diff *d)
{
	return d->n_nonfinite ? json_null() : json_real(op_diff_cosine(d));
}

json_t *figures_layer(int layer)
{
	return layer < 0 ? json_string("head") : json_sprintf("%d", layer);
}

static void figures_set(json_t *o, const char *key, json_t *value)
{
	must(json_object_set_new(o, key, value) == 0);
}

/* Sets have an overlap and no relative error, all else the other way round. */
static void figures_diff(json_t *o, const char *relative, const struct op_diff *d)
{
	bool set = d->n_set > 0, any = d->n > 0 || set;

	figures_set(o, relative, any && !set ? figures_real(op_diff_relative(d)) : json_null());
	figures_set(o, "max", any && !set ? figures_real(d->max_abs) : json_null());
	figures_set(o, "cosine", any && !set ? figures_cosine(d) : json_null());
	figures_set(o, "overlap", set ? figures_real(op_diff_jaccard(d)) : json_null());
	figures_set(o, "values", json_integer((json_int_t)d->n));
	figures_set(o, "differing", json_integer((json_int_t)d->n_bits));
	figures_set(o, "nans", json_integer((json_int_t)d->n_nan));
	figures_set(o, "nonfinite", json_integer((json_int_t)d->n_nonfinite));
}

/* Who had the worst row, at which position, and on which of the GPUs. */
static void figures_worst(json_t *o, const struct beside_row *r)
{
	bool any = r && r->worst_pos >= 0;

	figures_set(o, "worst_row", any ? figures_real(r->diff.worst_row) : json_null());
	figures_set(o, "worst_request",
		any && r->worst_name[0] ? varlink_string(r->worst_name, strlen(r->worst_name)) : json_null());
	figures_set(o, "worst_token", any ? json_integer(r->worst_pos) : json_null());
	figures_set(o, "worst_rank", any && r->worst_rank >= 0 ? json_integer(r->worst_rank) : json_null());
}

static double figures_badness(const struct op_diff *d)
{
	return d->n_set ? 1 - op_diff_jaccard(d) : op_diff_relative(d);
}

static bool figures_member(const struct figures_group *g, const struct beside_row *r)
{
	return r->op == g->op && r->phase == g->phase
	       && (strcmp(r->output, g->output) == 0 || (!r->output[0] && g->first));
}

static json_t *figures_one_layer(const struct figures_group *g, const struct beside_row *r)
{
	json_t *o = json_object();

	figures_set(o, "layer", figures_layer(r->layer));
	figures_set(o, "calls", json_integer((json_int_t)r->calls));
	figures_diff(o, "relative", &r->diff);
	figures_worst(o, r);
	figures_set(o, "same", json_integer(g->first ? (json_int_t)r->same : 0));
	figures_set(o, "failures", json_integer(g->first ? (json_int_t)r->failures : 0));
	return o;
}

/* What the layers come to. */
struct figures_sum {
	struct op_diff diff;
	uint64_t calls, same, failures;
	const struct beside_row *layer; /* the worst as a whole */
	const struct beside_row *row;   /* the one with the worst row */
};

static void figures_add(struct figures_sum *s, const struct beside_row *r)
{
	op_diff_merge(&s->diff, &r->diff);
	s->calls += r->calls;
	s->same += r->same;
	s->failures += r->failures;
	if (r->calls && (!s->layer || figures_badness(&r->diff) > figures_badness(&s->layer->diff)))
		s->layer = r;
	if (r->worst_pos >= 0 && (!s->row || r->diff.worst_row > s->row->diff.worst_row))
		s->row = r;
}

static json_t *figures_group(const struct figures_group *g)
{
	json_t *o = json_object(), *layers = json_array();
	struct figures_sum s = { 0 };
	bool bad;

	for (int i = 0; i < g->n; i++)
		if (figures_member(g, &g->row[i])) {
			figures_add(&s, &g->row[i]);
			json_array_append_new(layers, figures_one_layer(g, &g->row[i]));
		}
	bad = s.layer && figures_badness(&s.layer->diff) > 0;
	figures_set(o, "op", json_string(op_name(g->op)));
	figures_set(o, "phase", json_string(op_phase_name(g->phase)));
	figures_set(o, "output", json_string(g->output));
	figures_set(o, "calls", json_integer((json_int_t)s.calls));
	figures_diff(o, "mean", &s.diff);
	figures_set(o, "worst", bad && !s.layer->diff.n_set ? figures_real(op_diff_relative(&s.layer->diff))
							    : json_null());
	figures_set(o, "worst_overlap", bad && s.layer->diff.n_set ? figures_real(op_diff_jaccard(&s.layer->diff))
								   : json_null());
	figures_set(o, "worst_layer", bad ? figures_layer(s.layer->layer) : json_null());
	figures_worst(o, s.row);
	figures_set(o, "same", json_integer(g->first ? (json_int_t)s.same : 0));
	figures_set(o, "failures", json_integer(g->first ? (json_int_t)s.failures : 0));
	figures_set(o, "layers", layers);
	return o;
}

/* Was the op run twice in the phase, or tried? Was it met there at all? */
static bool figures_twice(const struct beside_row *row, int n, int op, int ph, bool *ret_met)
{
	bool twice = false;

	*ret_met = false;
	for (int i = 0; i < n; i++)
		if ((int)row[i].op == op && (int)row[i].phase == ph) {
			*ret_met = true;
			twice |= row[i].calls || row[i].failures;
		}
	return twice;
}

json_t *figures_same(const struct beside_row *row, int n)
{
	json_t *list = json_array();

	for (int op = 0; op < DSV4_N_OP; op++) {
		bool met[DSV4_N_PHASE], twice[DSV4_N_PHASE], any = false;

		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			any |= twice[ph] = figures_twice(row, n, op, ph, &met[ph]);
		if (!any && (met[DSV4_PREFILL] || met[DSV4_DECODE]))
			json_array_append_new(list, json_string(op_name((enum dsv4_op)op)));
		for (int ph = 0; ph < DSV4_N_PHASE && any; ph++)
			if (met[ph] && !twice[ph])
				json_array_append_new(list, json_sprintf("%s.%s", op_name((enum dsv4_op)op),
									 op_phase_name((enum dsv4_phase)ph)));
	}
	return list;
}

/* The op's outputs in one phase; where every run failed, one without a name. */
static void figures_op(struct figures_group g, json_t *list)
{
	const char *seen[OP_IO_MAX_OUT];
	bool met;
	int n_seen = 0;

	if (!figures_twice(g.row, g.n, (int)g.op, (int)g.phase, &met))
		return;

	for (int i = 0; i < g.n; i++) {
		const struct beside_row *r = &g.row[i];
		int k = 0;

		if (r->op != g.op || r->phase != g.phase)
			continue;
		while (k < n_seen && strcmp(seen[k], r->output))
			k++;
		if (k == n_seen && r->output[0] && n_seen < OP_IO_MAX_OUT)
			seen[n_seen++] = r->output;
	}
	if (n_seen == 0)
		seen[n_seen++] = "";
	for (int k = 0; k < n_seen; k++) {
		g.output = seen[k];
		g.first = k == 0;
		json_array_append_new(list, figures_group(&g));
	}
}

json_t *figures_ops(const struct beside_row *row, int n)
{
	json_t *list = json_array();

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			figures_op((struct figures_group){ .row = row, .n = n, .op = (enum dsv4_op)op,
							   .phase = (enum dsv4_phase)ph }, list);
	return list;
}
