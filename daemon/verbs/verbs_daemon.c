/* SPDX-License-Identifier: MIT
 * verbs_daemon.c - io.dsv4.Daemon: status, life cycle, logging. (Wait is in wait.c.)
 * Threads: control. Locks: none. */
#include "api/http/metrics.h"
#include "api/http/server.h"
#include "api/http/traffic.h"
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/last_good.h"
#include "daemon/tell/tell.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>
#include <unistd.h>

static void status_set(json_t *o, const char *key, json_t *value)
{
	must(json_object_set_new(o, key, value) == 0);
}

/* What the configuration says and the process is. */
static json_t *status_process(struct call *c)
{
	struct daemon *d = c->daemon;

	return json_pack("{s:s, s:s, s:i, s:f, s:o, s:s, s:s, s:s, s:s, s:s}", "state",
			 daemon_state_name(daemon_state(d)), "version", PACKAGE_VERSION, "pid", (int)getpid(),
			 "uptime_s",
			 (double)(clock_ms() - d->started) / 1000, "model_dir",
			 varlink_string(conf_text(&d->conf, CONF_model),
					strlen(conf_text(&d->conf, CONF_model))), "control",
			 conf_text(&d->conf, CONF_control), "config", daemon_config_path(d->flags),
			 "log_level",
			 log_level_name(log_get_level()), "http", d->http ? http_address(d->http) : "",
			 "level",
			 verb_level_name(c->peer.level));
}

/* What a crash and a rollback would lead to. */
static void status_kernels(struct daemon *d, json_t *o)
{
	const struct kernels_set *previous = d->kernels->previous;

	status_set(o, "started_from", json_string(start_from_name(d->kernels->from)));
	status_set(o, "last_good", json_string(last_good_name(d)));
	status_set(o, "previous", json_string(previous ? kset_name(previous->kset) : ""));
}

static void status_kept(struct daemon *d, json_t *o)
{
	struct buf kept = { 0 };

	if (engine_cache_kept(d->engine, &kept))
		status_set(o, "cache_kept", json_string(buf_str(&kept)));
	buf_fini(&kept);
}

static void status_repacked(const struct repack_view *v, json_t *o)
{
	struct buf text = { 0 };

	if (v->n_total == 0)
		return;
	buf_printf(&text, "%d/%d experts", v->n_done, v->n_total);
	if (v->state == REPACK_STOPPED)
		buf_printf(&text, ", stopped: %s", v->why);
	status_set(o, "repacked", json_string(buf_str(&text)));
	buf_fini(&text);
}

/* max_gap and what it comes to: prompt tokens in a step beside decoding, null without a limit;
 * the estimates behind it. */
static void status_pace(const struct pace *p, json_t *o)
{
	json_t *tokens = p->gap > 0 ? json_integer(pace_tokens(p)) : json_null();

	status_set(o, "beside",
		   json_pack("{s:f, s:o, s:f, s:f}", "max_gap_s", p->gap, "prompt_tokens", tokens, "token_s",
			     p->token, "decode_s", p->decode));
}

static json_t *status_gpu(struct device *d)
{
	struct device_view v;

	device_view(d, &v);
	return json_pack("{s:s, s:s, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, "
			 "s:s}", "name", device_name(d), "model", v.model, "sm", v.sm, "lost", device_broken(d),
			 "total", (json_int_t)v.total, "free", (json_int_t)v.free, "weights", (json_int_t)v.weights,
			 "work", (json_int_t)v.work, "pinned", (json_int_t)v.pinned, "experts_host",
			 (json_int_t)v.experts_host, "expert_slots", (json_int_t)v.expert_slots,
			 "expert_slot_bytes", (json_int_t)v.expert_slot_bytes, "expert_hits", (json_int_t)v.expert_hits,
			 "expert_misses", (json_int_t)v.expert_misses, "graph_steps", (json_int_t)v.graph_steps,
			 "plain_steps", (json_int_t)v.plain_steps, "graphs", (json_int_t)v.graphs,
			 "graph_nodes", v.graph_nodes, "graph_why", v.graph_why);
}

static void status_device(struct daemon *d, json_t *o)
{
	int n = d->ranks ? ranks_n(d->ranks) : 0;
	json_t *all;

	status_set(o, "device",
		   json_string(n > 1 ? conf_text(&d->conf, CONF_device) : n ? device_name(d->device) : ""));
	if (n == 0 || !device_is_gpu(d->device))
		return;
	status_set(o, "gpu", status_gpu(d->device));
	if (n == 1)
		return;
	all = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(all, status_gpu(ranks_device(d->ranks, i)));
	status_set(o, "gpus", all);
}

static void status_engine(struct daemon *d, json_t *o)
{
	struct engine_status s = { 0 };
	struct kset *ks = NULL;

	if (d->engine) {
		engine_status(d->engine, &s);
		ks = engine_kset(d->engine);
	}
	status_set(o, "model", json_string(d->engine ? engine_model_name(d->engine) : ""));
	status_set(o, "max_context", json_integer(d->engine ? engine_max_context(d->engine) : 0));
	status_set(o, "threads", json_integer(s.n_threads));
	status_set(o, "kernels", json_string(ks ? kset_name(ks) : ""));
	status_set(o, "kernels_generation", json_integer(ks ? (json_int_t)kset_generation(ks) : 0));
	if (ks)
		kset_unpin(&ks);
	status_kernels(d, o);
	status_set(o, "epoch", json_integer((json_int_t)s.epoch));
	status_set(o, "speculate", json_integer(s.speculate));
	status_pace(&s.pace, o);
	status_set(o, "steps", json_integer((json_int_t)s.steps));
	status_set(o, "step_age_s", json_real(s.step_age));
	status_set(o, "state_bytes", json_integer((json_int_t)s.state_bytes));
	status_set(o, "requests", json_pack("{s:i, s:i, s:I, s:I, s:I, s:I}", "running", s.running, "queued",
					    s.queued,
					    "submitted", (json_int_t)s.requests, "finished",
					    (json_int_t)s.finished,
					    "cancelled", (json_int_t)s.cancelled, "errors",
					    (json_int_t)s.errors));
	status_set(o, "tokens", json_pack("{s:I, s:I, s:I}", "prompt", (json_int_t)s.prompt_tokens, "cached",
					  (json_int_t)s.cached_tokens, "generated",
					  (json_int_t)s.generated_tokens));
	if (d->engine)
		status_kept(d, o);
	status_repacked(&s.repack, o);
	if (s.failed)
		status_set(o, "error", varlink_string(s.why_failed, strlen(s.why_failed)));
}

int verb_status(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *o = status_process(c);

	(void)why;
	must(o != NULL);
	status_engine(c->daemon, o);
	status_device(c->daemon, o);
	*ret_reply = o;
	return 0;
}

static json_t *daemon_load_reply(struct daemon *d)
{
	int running, queued;

	daemon_load(d, &running, &queued);
	return json_pack("{s:i, s:i}", "running", running, "queued", queued);
}

int verb_metrics(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	struct buf text = { 0 };
	struct metrics *m;
	int r = daemon_need_engine(d, why);

	if (r)
		return r;
	m = metrics_new();
	tell_metrics(d, m);
	traffic_metrics(http_traffic(d->http), m);
	metrics_print(m, &text);
	metrics_free(&m);
	*ret_reply = json_pack("{s:o}", "text", varlink_string(text.data, text.len));
	buf_fini(&text);
	return 0;
}

int verb_reload(struct call *c, json_t **ret_reply, struct buf *why)
{
	return daemon_reload(c->daemon, ret_reply, why);
}

int verb_drain(struct call *c, json_t **ret_reply, struct buf *why)
{
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	engine_drain(c->daemon->engine);
	*ret_reply = daemon_load_reply(c->daemon);
	return 0;
}

int verb_resume(struct call *c, json_t **ret_reply, struct buf *why)
{
	int r = daemon_need_engine(c->daemon, why);

	(void)ret_reply;
	if (r)
		return r;
	if (c->daemon->stopping)
		return buf_why(why, RC_DRAINING, "the daemon is stopping");
	engine_resume(c->daemon->engine);
	return 0;
}

int verb_stop(struct call *c, json_t **ret_reply, struct buf *why)
{
	(void)why;
	*ret_reply = daemon_load_reply(c->daemon);
	daemon_stop(c->daemon, call_flag(c, "now"));
	return 0;
}

int verb_log_level(struct call *c, json_t **ret_reply, struct buf *why)
{
	enum log_level old = log_get_level(), level;

	(void)why;
	must_zero(log_parse_level(call_string(c, "level", ""), &level));
	log_set_level(level);
	*ret_reply = json_pack("{s:s, s:s}", "level", log_level_name(level), "previous", log_level_name(old));
	return 0;
}
