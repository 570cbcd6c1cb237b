/* SPDX-License-Identifier: MIT
 * verbs_shadow.c - io.dsv4.Kernels: a second set beside a share of the live steps: start, report, stop.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/verbs/figures.h"
#include "daemon/kernels/kernels.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/warming.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>

#define SHADOW_SHARE 0.05

static double shadow_share(const struct call *c)
{
	json_t *v = json_object_get(c->params, "share");

	return v && !json_is_null(v) ? json_number_value(v) : SHADOW_SHARE;
}

static void shadow_set(json_t *o, const char *key, json_t *value)
{
	must(json_object_set_new(o, key, value) == 0);
}

static json_t *shadow_head(const struct shadow_report *r)
{
	return json_pack("{s:s, s:I, s:s, s:I, s:f}", "set", r->set, "generation", (json_int_t)r->generation, "against",
			 r->against, "against_generation", (json_int_t)r->against_generation, "share", r->share);
}

static json_t *shadow_json(struct daemon *d, const struct shadow_report *r)
{
	struct kset *active = engine_kset(d->engine);
	json_t *o = shadow_head(r);

	shadow_set(o, "against_active", json_boolean(kset_generation(active) == r->against_generation));
	kset_unpin(&active);
	shadow_set(o, "steps", json_integer((json_int_t)r->steps));
	shadow_set(o, "steps_taken", json_integer((json_int_t)r->taken));
	shadow_set(o, "batches", json_integer((json_int_t)r->batches));
	shadow_set(o, "other_batches", json_integer((json_int_t)r->other_batches));
	shadow_set(o, "failures", json_integer((json_int_t)r->failures));
	if (r->failures)
		shadow_set(o, "failure", varlink_string(r->why.data, r->why.len));
	shadow_set(o, "same", figures_same(r->row, r->n_row));
	shadow_set(o, "ops", figures_ops(r->row, r->n_row));
	return o;
}

static int shadow_get(struct call *c, struct shadow_report *ret_r, struct buf *why)
{
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	r = engine_shadow_report(c->daemon->engine, ret_r);
	return r ? buf_why(why, r, "no shadow runs; start one with 'shadow start SET'") : 0;
}

static int shadow_attempt(struct warming *w, json_t **ret_reply, struct buf *why)
{
	const char *set = call_string(w->call, "set", "");
	struct daemon *d = w->daemon;
	struct shadow_report report;
	struct kset *ks;
	int r = warming_set(w, set, why);

	r = r ? r : kernels_resolve(d, set, &ks, why);
	if (r)
		return r;
	r = engine_shadow_start(d->engine, &ks, shadow_share(w->call), why);
	kset_unpin(&ks);
	r = r ? r : shadow_get(w->call, &report, why);
	if (r)
		return r;
	log_event(LOG_LV_NOTICE, "shadow_started", "set=%s against=%s share=%g", LOGQ(report.set), LOGQ(report.against),
		  report.share);
	*ret_reply = shadow_head(&report);
	shadow_report_fini(&report);
	return 0;
}

static void shadow_end(struct warming *w)
{
	free(w);
}

int verb_shadow_start(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct warming *w;
	int r = daemon_need_engine(c->daemon, why);

	if (r)
		return r;
	w = mem_new(sizeof *w);
	*w = (struct warming){ .daemon = c->daemon, .call = c, .attempt = shadow_attempt, .end = shadow_end };
	return warming_begin(w, ret_reply, why);
}

int verb_shadow_report(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct shadow_report report;
	int r = shadow_get(c, &report, why);

	if (r)
		return r;
	*ret_reply = shadow_json(c->daemon, &report);
	shadow_report_fini(&report);
	return 0;
}

/* The last word of what is stopped is its figures. */
int verb_shadow_stop(struct call *c, json_t **ret_reply, struct buf *why)
{
	int r = verb_shadow_report(c, ret_reply, why);

	if (r == 0) {
		must_zero(engine_shadow_stop(c->daemon->engine));
		log_event(LOG_LV_NOTICE, "shadow_stopped", "set=%s",
			  LOGQ(json_string_value(json_object_get(*ret_reply, "set"))));
	}
	return r;
}
