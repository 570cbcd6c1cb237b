/* SPDX-License-Identifier: MIT
 * verbs_kernels.c - io.dsv4.Kernels: use, rollback, list, show. (Check and bench are in verbs_check.c.)
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/last_good.h"
#include "daemon/kernels/plugins.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/warming.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- use ---- */

/* The set as it is now, with these overlays on top; 0 also when that changes nothing. */
static int use_swap(struct warming *u, json_t **ret_reply, struct buf *why)
{
	json_t *specs = json_object_get(u->call->params, "specs"), *v;
	const struct kernels_how how = {
		.name = "use",
		.at_step = !strcmp(call_string(u->call, "at", "admission"), "step"),
		.keep_cache = call_flag(u->call, "keep_cache"),
	};
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
		r = kernels_activate(u->daemon, next, NULL, &how, why);
	if (r == 0)
		*ret_reply = kernels_swapped(u->daemon, now, json_incref(changes));
	json_decref(changes);
	return r;
}

/* Every form is right before the first plugin is warmed. */
static int use_forms(json_t *specs, struct buf *why)
{
	const char *name;
	json_t *v;
	size_t i;
	int r = 0;

	json_array_foreach(specs, i, v)
		r = r ? r : kernels_spec_plugin(json_string_value(v), &name, why);
	return r;
}

/* Waits until every plugin named is warm, then swaps at once. */
static int use_attempt(struct warming *u, json_t **ret_reply, struct buf *why)
{
	json_t *specs = json_object_get(u->call->params, "specs"), *v;
	size_t i;

	json_array_foreach(specs, i, v) {
		const char *name;
		int r = kernels_spec_plugin(json_string_value(v), &name, why);

		r = r ? r : warming_plugin(u, name, why);
		if (r)
			return r;
	}
	return use_swap(u, ret_reply, why);
}

static void use_end(struct warming *u)
{
	free(u);
}

int verb_kernels_use(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct warming *u;
	int r = daemon_need_engine(c->daemon, why);

	if (!r && json_array_size(json_object_get(c->params, "specs")) > KSET_MAX_OVERLAYS)
		r = buf_why(why, RC_TOO_LARGE, "specs: at most %d", KSET_MAX_OVERLAYS);
	r = r ? r : use_forms(json_object_get(c->params, "specs"), why);
	if (r)
		return r;
	u = mem_new(sizeof *u);
	*u = (struct warming){ .daemon = c->daemon, .call = c, .attempt = use_attempt, .end = use_end };
	return warming_begin(u, ret_reply, why);
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
			       (json_int_t)kset_generation(ks), "slots", kernels_slots(c->daemon, ks));
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
