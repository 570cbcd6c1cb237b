/* SPDX-License-Identifier: MIT
 * verbs_check.c - kernels held against ref, and timed, while the daemon serves.
 * Threads: control; check_job_run() with what it calls on ops. Locks: none (ops.h hands everything over). */
#include "daemon/daemon.h"
#include "daemon/kernels/check_gpu.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/plugins.h"
#include "daemon/state.h"
#include "daemon/kernels/trial.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "plugins/check/check.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK_MAX_PROVIDERS 64
#define CHECK_STAGE_MS 600000 /* one op in the child, on shapes of any size */

/* One check or bench. The control thread fills it, ops runs it, control answers. */
struct check_job {
	struct ops_job job;
	struct daemon *daemon;
	struct call *call;         /* control's alone; NULL once the peer is gone */
	struct plugin *plugin;     /* control's: wanted until the end; or NULL */
	struct kset *kset;         /* holds the providers, and only its slots count; or NULL: all that they offer */
	struct provider *provider[CHECK_MAX_PROVIDERS];
	const char *copy[CHECK_MAX_PROVIDERS]; /* the file that is mapped; NULL: built in */
	const char *copies;        /* their directory */
	int n_provider;
	bool bench, quick;
	uint64_t seed;
	int n_threads;
	struct check_shape shape;
	struct check_roof roof;
	int done, total, n_failed;
	const struct provider *now;
	json_t *rows;
	int rc;
	struct buf why;
	double seconds;
};

/* ---- on the ops thread ---- */

struct check_note {
	struct ops_note note;
	struct check_job *job;
	const char *op;
	int done, total;
};

static void check_job_note_deliver(struct ops_note *n)
{
	struct check_note *c = list_entry(n, struct check_note, note);

	if (c->job->call)
		call_progress(c->job->call, json_pack("{s:{s:s, s:i, s:i}}", "progress", "op", c->op, "done", c->done,
						      "total", c->total));
	free(c);
}

static void check_job_progress(struct check_job *j, enum dsv4_op op)
{
	struct check_note *n = mem_new(sizeof *n);

	*n = (struct check_note){ .note.fn = check_job_note_deliver, .job = j, .op = op_name(op), .done = ++j->done,
				  .total = j->total };
	ops_post(j->daemon->ops, &n->note);
}

/* JSON has no infinity. */
static json_t *check_job_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

/* What is marked exact and has other bits than ref, or other ones from time to time, is not believed any more. */
static void check_job_disprove(const struct check_job *j, const struct check_row *r)
{
	char why[400];

	if (r->entry->numerics != DSV4_EXACT || r->verdict == CHECK_PASS || r->verdict == CHECK_FAILED)
		return; /* one that returns an error has no bits */
	snprintf(why, sizeof why, "%s is marked exact and %s: %s", op_name(r->op), check_verdict_name(r->verdict),
		 r->detail);
	provider_disprove(j->now, why);
}

static void check_job_on_row(void *arg, const struct check_row *r)
{
	struct check_job *j = arg;

	check_job_disprove(j, r);
	check_job_progress(j, r->op);
	if (j->kset && kset_slot(j->kset, r->op, r->phase, r->wfmt)->entry != r->entry)
		return;
	j->n_failed += r->verdict != CHECK_PASS;
	json_array_append_new(j->rows, json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:o}", "plugin", j->now->plugin->name, "op",
		op_name(r->op), "phase", op_phase_name(r->phase), "wfmt", check_wfmt_name(r->op, r->wfmt),
		"numerics", r->entry->tag, "class", check_class_name(r->class), "verdict",
		r->n_case ? check_verdict_name(r->verdict) : "not-checked", "cases", r->n_case, "figure",
		check_job_number(r->figure), "limit", check_job_number(r->limit), "detail",
		varlink_string(r->detail, strlen(r->detail))));
}

static void check_job_on_speed(void *arg, const struct check_speed *s)
{
	struct check_job *j = arg;
	double read = s->bytes / s->ns, flop = s->flops / s->ns; /* per ns: GB/s, GFLOP/s */

	check_job_progress(j, s->op);
	if (j->kset && kset_slot(j->kset, s->op, s->phase, s->wfmt)->provider != j->now)
		return;
	json_array_append_new(j->rows, json_pack(
		"{s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "plugin", j->now->plugin->name, "op",
		op_name(s->op), "phase", op_phase_name(s->phase), "wfmt", check_wfmt_name(s->op, s->wfmt), "tokens",
		s->n_tok, "ns", check_job_number(s->ns), "times_ref", check_job_number(s->ref_ns / s->ns), "gb_s",
		check_job_number(read), "gflop_s", check_job_number(flop), "of_roof",
		check_job_number(fmax(read * 1e9 / j->roof.bytes_s, flop * 1e9 / j->roof.flops_s))));
}

/* One op, or -1: all. */
static int check_job_op(struct check_job *j, const struct provider *p, int op)
{
	struct check_options o = { .shape = &j->shape, .n_shape = 1, .seed = j->seed, .quick = j->quick, .op = op,
				   .cancel = &j->job.cancel, .report = check_job_on_row, .arg = j };
	const struct check_bench_options b = { .shape = &j->shape, .n_shape = 1, .op = op, .n_threads = j->n_threads,
					       .cancel = &j->job.cancel, .report = check_job_on_speed, .arg = j };
	struct check_gpu gpu;
	int r = check_gpu_open(&gpu, j->daemon->device, p->plugin, &o.device, &j->why);

	if (!r && j->bench && o.device)
		r = buf_why(&j->why, RC_UNSUPPORTED, "kernels of a GPU are not timed here; dsv4-bench does");
	r = r ? r : j->bench ? check_bench(p->plugin, &p->host, &b) : check_plugin(p->plugin, &p->host, &o);
	check_gpu_close(&gpu);
	j->n_failed += r > 0 && j->bench ? r : 0; /* of a check, check_job_on_row() counts those that count */
	return r < 0 ? r : 0;
}

static bool check_job_provides(const struct check_job *j, const struct provider *p, int op)
{
	for (int ph = 0; ph < DSV4_N_PHASE; ph++)
		for (int wf = 0; wf < DSV4_N_WFMT; wf++)
			if (kset_slot(j->kset, (enum dsv4_op)op, (enum dsv4_phase)ph,
				      (enum dsv4_wfmt)wf)->provider == p)
				return true;
	return false;
}

static int check_job_one_provider(struct check_job *j, const struct provider *p)
{
	int r = 0;

	j->now = p;
	if (!j->kset)
		return check_job_op(j, p, -1);
	for (int op = 0; op < DSV4_N_OP && !r; op++)
		if (check_job_provides(j, p, op))
			r = check_job_op(j, p, op);
	return r;
}

/* The trial before the plugin was warmed had tiny shapes: what would kill on the model's own, or write where requests
 * have their memory, is to die in a child as well. What is only wrong gets its row from the check. */
static int check_job_survives(struct check_job *j, int i)
{
	const struct trial_options o = { .stage_ms = CHECK_STAGE_MS, .seed = j->seed, .shape = &j->shape, .n_shape = 1,
					 .cancel = &j->job.cancel, .device = device_name(j->daemon->device) };
	struct plugin_file *pf = NULL;
	enum plugin_refusal found;
	int r;

	if (!j->copy[i])
		return 0;
	r = plugin_file_open(j->copies, j->copy[i], geteuid(), &pf, &j->why);
	r = r ? r : trial_run(pf, j->copies, &o, &j->why);
	plugin_file_free(&pf);
	found = r == RC_PLUGIN ? plugin_refusal_find(buf_str(&j->why)) : PLUGIN_ACCEPTED;
	return found == PLUGIN_REFUSED_wrong_result || found == PLUGIN_REFUSED_not_identical ? 0 : r;
}

static void check_job_run(struct ops_job *job)
{
	struct check_job *j = list_entry(job, struct check_job, job);
	double start = clock_s();
	int r = 0;

	for (int i = 0; i < j->n_provider && !r; i++)
		r = check_job_survives(j, i);
	if (!r && j->bench)
		r = check_roof_measure(j->n_threads, &j->roof);
	for (int i = 0; i < j->n_provider && !r; i++)
		r = check_job_one_provider(j, j->provider[i]);
	j->rc = r == -ECANCELED ? RC_CANCELLED : r;
	j->seconds = clock_s() - start;
}

/* ---- on the control thread ---- */

static json_t *check_job_reply(struct check_job *j)
{
	const char *verdict = j->n_failed ? "fail" : "pass";

	if (!j->bench)
		return json_pack("{s:s, s:i, s:f, s:O}", "verdict", verdict, "failed", j->n_failed, "seconds",
				 j->seconds, "rows", j->rows);
	return json_pack("{s:s, s:i, s:f, s:i, s:f, s:f, s:O}", "verdict", verdict, "failed", j->n_failed, "seconds",
			 j->seconds, "threads", j->roof.n_threads, "roof_gb_s", j->roof.bytes_s / 1e9, "roof_gflop_s",
			 j->roof.flops_s / 1e9, "rows", j->rows);
}

static void check_job_free(struct check_job *j)
{
	if (j->plugin)
		j->plugin->wanted--;
	kset_unpin(&j->kset);
	json_decref(j->rows);
	buf_fini(&j->why);
	plugins_settle(j->daemon);
	free(j);
}

static void check_job_done(struct ops_job *job)
{
	struct check_job *j = list_entry(job, struct check_job, job);

	if (j->call && j->rc)
		call_fail(&j->call, j->rc, buf_str(&j->why));
	else if (j->call && !json_array_size(j->rows))
		call_fail(&j->call, RC_UNSUPPORTED, "there was nothing to check: no case of the model's shape");
	else if (j->call)
		call_reply(&j->call, check_job_reply(j));
	check_job_free(j);
}

static void check_job_gone(struct call *c)
{
	struct check_job *j = c->arg;

	j->call = NULL;
	atomic_store(&j->job.cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

static struct check_shape check_job_shape_model(const struct model_config *m)
{
	return (struct check_shape){
		.name = "model", .hidden = m->hidden_size, .hc = m->hc_mult, .heads = m->n_heads,
		.head_dim = m->head_dim, .rope = m->rope_dim,
		.q_rank = m->q_lora_rank, .o_rank = m->o_lora_rank, .o_groups = m->o_groups,
		.index_heads = m->index_heads, .index_dim = m->index_dim, .index_topk = m->index_topk,
		.window = m->window, .experts = m->n_experts, .experts_per_tok = m->experts_per_tok,
		.inter = m->moe_inter, .shared = m->n_shared_experts, .vocab = m->vocab_size,
	};
}

/* Rows that checking it will give. */
static int check_job_count(const struct check_job *j, const struct provider *p)
{
	int n = 0;

	for (uint32_t i = 0; i < p->plugin->n_op; i++) {
		const struct dsv4_op_entry *e = &p->plugin->op[i];
		bool weighted = strcmp(check_wfmt_name((enum dsv4_op)e->op, DSV4_W_F32), "-") != 0;
		unsigned wfmts = weighted ? e->wfmts & ((1u << DSV4_N_WFMT) - 1) : 1;

		if (!j->kset || check_job_provides(j, p, e->op))
			n += __builtin_popcount(e->phases & ((1u << DSV4_N_PHASE) - 1)) * __builtin_popcount(wfmts);
	}
	return n;
}

static void check_job_add(struct check_job *j, struct provider *p)
{
	const struct plugin *from = plugins_of(j->daemon, p);

	for (int i = 0; i < j->n_provider; i++)
		if (j->provider[i] == p)
			return;
	if (j->n_provider == CHECK_MAX_PROVIDERS)
		return;
	/* Relative to `copies`, however the state directory was named. */
	j->copy[j->n_provider] = from ? strrchr(from->map->copy, '/') + 1 : NULL;
	j->provider[j->n_provider++] = p;
	j->total += check_job_count(j, p);
}

/* The plugins of a set; of a set of nothing but ref, ref. */
static void check_job_add_set(struct check_job *j)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
				struct provider *p = kset_slot(j->kset, (enum dsv4_op)op, (enum dsv4_phase)ph,
							       (enum dsv4_wfmt)wf)->provider;

				if (p != &provider_ref)
					check_job_add(j, p);
			}
	if (!j->n_provider)
		check_job_add(j, &provider_ref);
}

static int check_job_add_plugin(struct check_job *j, const char *name, struct buf *why)
{
	struct plugin *p = plugins_find(j->daemon, name);

	if (!p && !strcmp(name, provider_ref.plugin->name)) {
		check_job_add(j, &provider_ref);
		return 0;
	}
	if (!p)
		return buf_why(why, RC_NOT_FOUND, "no plugin named '%.96s' is loaded", name);
	if (!plugin_mapped(p))
		return buf_why(why, RC_PLUGIN, "plugin %s is %s, not warm", name,
			       plugin_temperature_name(plugin_temperature(p)));
	check_job_add(j, &p->map->provider);
	j->plugin = p;
	p->wanted++;
	return 0;
}

static int check_job_targets(struct check_job *j, const char *set, const char *plugin, struct buf *why)
{
	int r = daemon_need_engine(j->daemon, why);

	if (r || plugin)
		return r ? r : check_job_add_plugin(j, plugin, why);
	r = kernels_resolve(j->daemon, set, &j->kset, why);
	if (!r)
		check_job_add_set(j);
	return r;
}

static int check_job_start(struct call *c, bool bench, const char *set, const char *plugin, struct buf *why)
{
	struct check_job *j = mem_new(sizeof *j);
	struct engine_status s;
	int r;

	*j = (struct check_job){ .job = { .run = check_job_run, .done = check_job_done }, .daemon = c->daemon,
				 .call = c, .bench = bench, .copies = state_plugins(c->daemon->state),
				 .quick = call_flag(c, "quick"),
				 .seed = (uint64_t)call_int(c, "seed", 0), .rows = json_array() };
	r = check_job_targets(j, set, plugin, why);
	if (!r) {
		engine_status(c->daemon->engine, &s);
		j->n_threads = s.n_threads;
		j->shape = check_job_shape_model(engine_config(c->daemon->engine));
		r = ops_submit(c->daemon->ops, &j->job, why);
	}
	if (r) {
		check_job_free(j);
		return r;
	}
	c->arg = j;
	c->gone = check_job_gone;
	return CALL_LATER;
}

int verb_plugin_check(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)ret_reply;
	return check_job_start(c, false, NULL, call_string(c, "name", ""), why);
}

int verb_kernels_check(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)ret_reply;
	return check_job_start(c, false, call_string(c, "set", "active"), NULL, why);
}

int verb_kernels_bench(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)ret_reply;
	return check_job_start(c, true, "active", call_string(c, "plugin", NULL), why);
}
