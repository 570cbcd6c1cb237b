/* SPDX-License-Identifier: MIT
 * verbs_kernels.c - io.dsv4.Kernels: use, rollback, list, show. (Check and bench are in verbs_check.c.)
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels.h"
#include "daemon/last_good.h"
#include "daemon/plugins.h"
#include "daemon/verbs.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- use ---- */

/* One `kernels use`: waits until every plugin named is warm, then swaps at once. */
struct kernels_use {
	struct daemon *daemon;
	struct call *call;         /* NULL once the peer is gone: then nothing is swapped */
	struct ops_job wait;       /* does nothing: when it is done, what was before it in the queue is done too */
	bool at_step;
	int n_held;
	struct plugin *held[KSET_MAX_OVERLAYS]; /* warmed for this and wanted until the swap */
};

static void use_release(struct kernels_use *u)
{
	for (int i = 0; i < u->n_held; i++)
		u->held[i]->wanted--;
	u->n_held = 0;
	plugins_settle(u->daemon);
}

static void use_hold(struct kernels_use *u, struct plugin *p)
{
	for (int i = 0; i < u->n_held; i++)
		if (u->held[i] == p)
			return;
	must(u->n_held < KSET_MAX_OVERLAYS);
	u->held[u->n_held++] = p;
	p->wanted++;
}

/* The set as it is now, with these overlays on top; 0 also when that changes nothing. */
static int use_swap(struct kernels_use *u, json_t **ret_reply, struct buf *why)
{
	json_t *specs = json_object_get(u->call->params, "specs"), *v;
	struct kernels_set *now = u->daemon->kernels->active, *next;
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	json_t *changes;
	int n = now->n_ov, r = 0;
	size_t i;

	memcpy(ov, now->ov, sizeof ov);
	json_array_foreach(specs, i, v)
		r = r ? r : kernels_spec_add(u->daemon, json_string_value(v), ov, &n, why);
	r = r ? r : kset_overlays_reduce(ov, &n, why);
	r = r ? r : kernels_build(u->daemon, ov, n, &next, why);
	if (r)
		return r;
	changes = kernels_changes(now->kset, next->kset);
	if (json_array_size(changes) == 0)
		kernels_drop(&next);
	else
		r = kernels_activate(u->daemon, next, NULL, u->at_step, "use", why);
	if (r == 0)
		*ret_reply = kernels_swapped(u->daemon, now, json_incref(changes));
	json_decref(changes);
	return r;
}

static int use_try(struct kernels_use *u, json_t **ret_reply, struct buf *why);

/* Goes on when a plugin has been warmed, or what was in the way of it is over. */
static void use_go_on(struct kernels_use *u, int rc, const char *failed)
{
	json_t *reply = NULL;
	struct buf why = { 0 };

	if (u->call && rc == 0) {
		rc = use_try(u, &reply, &why);
		if (rc == CALL_LATER)
			return;
		failed = why.len ? buf_str(&why) : rc_text(rc);
	}
	use_release(u);
	if (u->call && rc)
		call_fail(&u->call, rc, failed);
	else if (u->call)
		call_reply(&u->call, reply);
	buf_fini(&why);
	free(u);
}

static void use_warmed(void *arg, struct plugin *p, int rc, const char *why)
{
	(void)p;
	use_go_on(arg, rc, why);
}

static void use_wait_run(struct ops_job *job)
{
	(void)job;
}

static void use_wait_done(struct ops_job *job)
{
	use_go_on(list_entry(job, struct kernels_use, wait), 0, NULL);
}

/* CALL_LATER when p is not warm yet and something has begun that ends with use_go_on(). */
static int use_warm(struct kernels_use *u, struct plugin *p, struct buf *why)
{
	int r;

	use_hold(u, p);
	if (plugin_mapped(p))
		return 0;
	if (p->temp == TEMP_COLD) {
		r = plugin_warm(u->daemon, p, use_warmed, u, NULL, why);
	} else {
		u->wait = (struct ops_job){ .run = use_wait_run, .done = use_wait_done };
		r = ops_submit(u->daemon->ops, &u->wait);
		if (r)
			buf_why(why, r, "too many slow jobs are waiting");
	}
	return r ? r : CALL_LATER;
}

static int use_try(struct kernels_use *u, json_t **ret_reply, struct buf *why)
{
	json_t *specs = json_object_get(u->call->params, "specs"), *v;
	size_t i;

	json_array_foreach(specs, i, v) {
		const char *name;
		struct plugin *p = NULL;
		int r = kernels_spec_plugin(json_string_value(v), &name, why);

		r = r ? r : plugins_usable(u->daemon, name, &p, why);
		if (!r && p)
			r = use_warm(u, p, why);
		if (r)
			return r;
	}
	return use_swap(u, ret_reply, why);
}

static void use_gone(struct call *c)
{
	struct kernels_use *u = c->arg;

	u->call = NULL;
	call_fail(&c, RC_CANCELLED, NULL);
}

int verb_kernels_use(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct kernels_use *u;
	int r = daemon_need_engine(c->daemon, why);

	if (!r && json_array_size(json_object_get(c->params, "specs")) > KSET_MAX_OVERLAYS)
		r = buf_why(why, RC_TOO_LARGE, "specs: at most %d", KSET_MAX_OVERLAYS);
	if (r)
		return r;
	u = mem_new(sizeof *u);
	*u = (struct kernels_use){ .daemon = c->daemon, .call = c,
				   .at_step = !strcmp(call_string(c, "at", "admission"), "step") };
	c->arg = u;
	c->gone = use_gone;
	r = use_try(u, ret_reply, why);
	if (r == CALL_LATER)
		return r;
	use_release(u);
	free(u);
	return r;
}

int verb_kernels_rollback(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	struct kernels_set *now = d->kernels->active;
	int r = daemon_need_engine(d, why);

	r = r ? r : kernels_rollback(d, why);
	if (r == 0)
		*ret_reply = kernels_swapped(d, now, kernels_changes(now->kset, d->kernels->active->kset));
	return r;
}

/* ---- looking ---- */

int verb_kernels_show(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct kset *ks;
	int r = daemon_need_engine(c->daemon, why);

	r = r ? r : kernels_resolve(c->daemon, call_string(c, "set", "active"), &ks, why);
	if (r)
		return r;
	*ret_reply = json_pack("{s:s, s:I, s:o}", "name", kset_name(ks), "generation",
			       (json_int_t)kset_generation(ks), "slots", kernels_slots(ks));
	kset_unpin(&ks);
	return 0;
}

int verb_kernels_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	json_t *sets;
	int r = daemon_need_engine(d, why);

	if (r)
		return r;
	sets = json_array();
	list_each(s, &d->kernels->sets, struct kernels_set, node)
		if (kset_pins(s->kset) > 0)
			json_array_append_new(sets, kernels_set_json(d, s));
	*ret_reply = json_pack("{s:o, s:s}", "sets", sets, "last_good", last_good_name(d));
	return 0;
}
