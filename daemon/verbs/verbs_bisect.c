/* SPDX-License-Identifier: MIT
 * verbs_bisect.c - io.dsv4.Probes.Bisect: which op, phase or parameter makes a probe fail.
 * Threads: control. Locks: none. */
#include "ctl/probe/probe.h"
#include "daemon/probes/bisect_job.h"
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/probes/probe_job.h"
#include "daemon/probes/probe_peer.h"
#include "daemon/kernels/side.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/warming.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define BISECT_RUNS 40
#define BISECT_REPEAT 3
#define BISECT_MAX_REPEAT 25

enum { BISECT_SIDE_GOOD, BISECT_SIDE_BAD, BISECT_N_SIDE };

/* One `bisect`. Its call is NULL once the peer is gone. */
struct bisect_call {
	struct warming warming;
	struct bisect_job job;
	struct side side[BISECT_N_SIDE];
	struct kernels_set *set[BISECT_N_SIDE]; /* pinned */
	json_t *names, *options;                /* [probe], {probe: {name: value}} */
};

static void bisect_call_free(struct bisect_call *b)
{
	for (int i = 0; i < BISECT_N_SIDE; i++) {
		side_fini(&b->side[i]);
		if (b->set[i])
			kernels_drop(&b->set[i]);
	}
	bisect_changes_fini(&b->job.changes);
	json_decref(b->names);
	json_decref(b->options);
	json_decref(b->job.runs);
	buf_fini(&b->job.why);
	free(b);
}

/* ---- the reply ---- */

static const char *bisect_outcome(enum bisect_outcome o)
{
	static const char *const name[] = { "found", "agree", "no_verdict", "unsettled" };

	return name[o];
}

static const char *bisect_fix(enum bisect_fix f)
{
	static const char *const name[] = { "untried", "works", "implied", "not_enough", "no_verdict" };

	return name[f];
}

static const char *bisect_level(int level)
{
	return probe_verdict_name(level == BISECT_NO_LEVEL ? PROBE_INCONCLUSIVE : (enum probe_verdict)level);
}

static json_t *bisect_texts(const struct bisect_changes *c, uint64_t which)
{
	json_t *list = json_array();

	for (int i = 0; i < c->n; i++)
		if (which >> i & 1)
			must_zero(json_array_append_new(list, json_string(buf_str(&c->change[i].text))));
	return list;
}

static json_t *bisect_all(const struct bisect_changes *c)
{
	json_t *list = json_array();

	for (int i = 0; i < c->n; i++)
		must_zero(json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:s}", "number", i + 1, "change",
								buf_str(&c->change[i].text), "believed",
								c->weight[i] < 1,
								"together", buf_str(&c->change[i].why))));
	return list;
}

static json_t *bisect_culprits(const struct bisect_job *j)
{
	json_t *list = json_array();

	for (int i = 0; i < j->result.n_culprit; i++) {
		const struct bisect_culprit *p = &j->result.culprit[i];

		must_zero(json_array_append_new(list, json_pack("{s:o, s:b, s:b}", "changes",
								bisect_texts(&j->changes, p->changes), "alone",
								p->alone, "minimal", p->minimal)));
	}
	return list;
}

static json_t *bisect_end(const struct bisect_end *e, const struct numerics *now, int level)
{
	struct buf text = { 0 };
	json_t *o;

	side_print(kset_name(e->kset), &e->numerics, now, &text);
	o = json_pack("{s:s, s:s}", "set", buf_str(&text), "verdict", bisect_level(level));
	buf_fini(&text);
	return o;
}

/* The commands, a line each. */
static json_t *bisect_commands(struct bisect_job *j, const struct numerics *now)
{
	struct kset *active = engine_kset(j->daemon->engine);
	struct buf text = { 0 }, why = { 0 };
	json_t *list = json_array();
	uint64_t which = 0;
	char *save = NULL;

	for (int i = 0; i < j->result.n_culprit; i++)
		which |= j->result.culprit[i].changes;
	if (which && bisect_changes_undo(&j->changes, which, active, now, &text, &why) == 0) {
		char *all = mem_strdup(buf_str(&text));

		for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			must_zero(json_array_append_new(list, json_string(line)));
		free(all);
	}
	kset_unpin(&active);
	buf_fini(&text);
	buf_fini(&why);
	return list;
}

/* The fix, where it is not simply known to work. */
static void bisect_said_fix(const struct bisect_result *r, struct buf *out)
{
	static const char *const said[] = {
		[BISECT_FIX_UNTRIED] = "fix not tried",
		[BISECT_FIX_IMPLIED] = "every other change was in a run that did not",
		[BISECT_FIX_BAD] = "the fix is not enough",
		[BISECT_FIX_UNSURE] = "with the fix it came to no verdict",
	};

	if (r->n_culprit && said[r->fix])
		buf_printf(out, "; %s", said[r->fix]);
}

/* What a person reads first. */
static void bisect_said(const struct bisect_job *j, struct buf *out)
{
	const struct bisect_result *r = &j->result;
	const struct bisect_changes *c = &j->changes;

	if (c->n == 0)
		buf_adds(out, "there is nothing to exchange: both have the same kernels and parameters");
	else if (r->outcome == BISECT_AGREE)
		buf_printf(out, "nothing to look for: the good end came to %s, the bad one to %s%s",
			   bisect_level(r->good_level),
			   bisect_level(r->bad_level), r->good_level > r->bad_level ?
			   "; exchange --good and --bad to see what makes the good end fail" : "");
	else if (r->outcome == BISECT_NO_VERDICT)
		buf_printf(out, "%s %s came to no verdict", j->probe,
			   r->good_level == BISECT_NO_LEVEL ? "under the good end" : "under the bad end");
	for (int i = 0; i < r->n_culprit; i++) {
		const struct bisect_culprit *p = &r->culprit[i];
		bool more = false;

		buf_adds(out, i ? "; and so does " : "");
		for (int k = 0; k < c->n; k++)
			if (p->changes >> k & 1) {
				buf_printf(out, "%s%s", more ? " together with " : "", buf_str(&c->change[k].text));
				more = true;
			}
		buf_printf(out, "%s%s", p->alone ? " alone makes it " : " flips it to ", bisect_level(r->bad_level));
		buf_adds(out, !p->alone && r->fix == BISECT_FIX_GOOD ? ", which without it it does not" : "");
		buf_adds(out, p->minimal ? "" : ", perhaps not all of that");
	}
	bisect_said_fix(r, out);
	if (r->outcome == BISECT_UNSETTLED)
		buf_printf(out, "%snot settled after %d runs", out->len ? "; " : "", r->runs);
}

static json_t *bisect_reply(struct bisect_job *j)
{
	struct numerics now;
	struct buf said = { 0 };
	json_t *o;

	engine_numerics(j->daemon->engine, &now);
	bisect_said(j, &said);
	o = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:O}", "probe", j->probe, "outcome",
		      bisect_outcome(j->result.outcome), "said", buf_str(&said), "probe_runs", j->result.runs, "good",
		      bisect_end(&j->changes.good, &now, j->result.good_level), "bad",
		      bisect_end(&j->changes.bad, &now, j->result.bad_level), "culprits", bisect_culprits(j), "left",
		      bisect_texts(&j->changes, j->result.left), "fix", bisect_commands(j, &now), "fix_tried",
		      bisect_fix(j->result.fix), "changes", bisect_all(&j->changes), "runs", j->runs);
	must(o != NULL);
	buf_fini(&said);
	return o;
}

/* ---- the job ---- */

static void bisect_told(struct bisect_job *j, int run, int total)
{
	struct bisect_call *b = list_entry(j, struct bisect_call, job);

	if (b->warming.call)
		call_progress(b->warming.call,
			      json_pack("{s:{s:s, s:i, s:i}}", "progress", "probe", j->probe, "done", run,
					"total", total));
}

static void bisect_ended(struct bisect_job *j)
{
	struct bisect_call *b = list_entry(j, struct bisect_call, job);
	struct call *c = b->warming.call;

	if (c && j->rc)
		call_fail(&c, j->rc, buf_str(&j->why));
	else if (c)
		call_reply(&c, bisect_reply(j));
	bisect_call_free(b);
}

static void bisect_gone(struct call *c)
{
	struct bisect_call *b = c->arg;

	b->warming.call = NULL;
	atomic_store(&b->job.job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

/* ---- the call ---- */

static int bisect_call_sets(struct bisect_call *b, struct buf *why)
{
	struct bisect_end end[BISECT_N_SIDE];
	int r = 0;

	for (int i = 0; i < BISECT_N_SIDE && !r; i++)
		r = warming_set(&b->warming, buf_str(&b->side[i].set), why);
	for (int i = 0; i < BISECT_N_SIDE && !r; i++)
		r = kernels_resolve_set(b->job.daemon, buf_str(&b->side[i].set), &b->set[i], why);
	for (int i = 0; i < BISECT_N_SIDE && !r; i++)
		end[i] = (struct bisect_end){ .kset = b->set[i]->kset, .ov = b->set[i]->ov, .n_ov = b->set[i]->n_ov,
					      .numerics = b->side[i].numerics };
	if (r == 0)
		bisect_changes_find(&end[BISECT_SIDE_GOOD], &end[BISECT_SIDE_BAD], &b->job.changes);
	return r;
}

static int bisect_call_attempt(struct warming *w, json_t **ret_reply, struct buf *why)
{
	struct bisect_call *b = list_entry(w, struct bisect_call, warming);
	int r = bisect_call_sets(b, why);

	if (r)
		return r;
	if (b->job.changes.n == 0) {
		b->job.result = (struct bisect_result){ .outcome = BISECT_AGREE, .good_level = BISECT_NO_LEVEL,
							.bad_level = BISECT_NO_LEVEL };
		*ret_reply = bisect_reply(&b->job);
		return 0;
	}
	r = bisect_job_submit(&b->job, why);
	if (r)
		return r;
	w->call->arg = b;
	w->call->gone = bisect_gone;
	return WARMING_TAKEN;
}

static void bisect_call_end(struct warming *w)
{
	bisect_call_free(list_entry(w, struct bisect_call, warming));
}

/* By default: is what is in force as good as the reference with the model's own parameters? */
static int bisect_call_sides(struct bisect_call *b, const struct call *c, struct buf *why)
{
	const char *good = call_string(c, "good", NULL), *bad = call_string(c, "bad", "active");
	struct engine *e = b->job.daemon->engine;
	struct numerics now, native;
	int r;

	engine_numerics(e, &now);
	numerics_init(&native, NUMERICS_NATIVE, engine_config(e)->index_topk);
	r = side_read(&b->side[BISECT_SIDE_GOOD], good ? &now : &native, good ? good : provider_ref.plugin->name, why);
	return r ? r : side_read(&b->side[BISECT_SIDE_BAD], &now, bad, why);
}

static int bisect_call_search(struct bisect_call *b, const struct call *c, struct buf *why)
{
	long long repeat = call_int(c, "repeat", BISECT_REPEAT), runs = call_int(c, "max_runs", BISECT_RUNS);

	if (repeat < 1 || repeat > BISECT_MAX_REPEAT)
		return buf_why(why, RC_INVALID, "repeat: must be within 1 to %d", BISECT_MAX_REPEAT);
	if (runs < 2 || runs > BISECT_MAX_RUNS)
		return buf_why(why, RC_INVALID, "max_runs: must be within 2 to %d", BISECT_MAX_RUNS);
	b->job.search = (struct bisect_options){ .repeat = (int)repeat, .max_runs = (int)runs,
						 .sampled = bisect_job_samples(b->job.probe),
						 .confirm = !call_flag(c, "no_confirm") };
	return 0;
}

static int bisect_call_fill(struct bisect_call *b, struct call *c, struct buf *why)
{
	const char *probe = call_string(c, "probe", NULL);
	int r;

	if (!probe || !probe_exists(probe))
		return buf_why(why, RC_NOT_FOUND, "no probe named '%.96s'", probe ? probe : "");
	r = probe_here_under(probe, why);
	if (r)
		return r;
	b->names = json_pack("[s]", probe);
	b->options = json_object();
	b->job.probe = json_string_value(json_array_get(b->names, 0));
	b->job.runs = json_array();
	r = verbs_probe_options(c, b->names, b->options, why);
	b->job.options = json_object_get(b->options, probe);
	r = r ? r : bisect_call_search(b, c, why);
	return r ? r : bisect_call_sides(b, c, why);
}

int verb_bisect(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct bisect_call *b;
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	b = mem_new(sizeof *b);
	b->warming = (struct warming){ .daemon = c->daemon, .call = c, .attempt = bisect_call_attempt,
				       .end = bisect_call_end };
	b->job.daemon = c->daemon;
	b->job.told = bisect_told;
	b->job.ended = bisect_ended;
	r = bisect_call_fill(b, c, why);
	if (r) {
		bisect_call_free(b);
		return r;
	}
	return warming_begin(&b->warming, ret_reply, why);
}
