/* SPDX-License-Identifier: MIT
 * kernels.c - the daemon's kernel sets: built, activated, rolled back, and swept when nobody uses them.
 * Threads: control; kernels_unused() on whichever lets a set go, sweep_run() on ops. Locks: none of its own. */
#include "daemon/crash.h"
#include "daemon/kernels/kernels.h"
#include "daemon/daemon.h"
#include "daemon/kernels/last_good.h"
#include "daemon/kernels/plugins.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernels *kernels_new(void)
{
	struct kernels *k = mem_new(sizeof *k);

	list_init(&k->sets);
	list_init(&k->dead);
	k->good = json_null();
	return k;
}

/* ---- sets that nobody uses any more ---- */

struct kernels_sweep {
	struct ops_job job;
	struct daemon *daemon;
	struct list sets;          /* of kernels_set */
};

static struct kernels_set *sweep_first(struct list *sets)
{
	return list_entry(sets->next, struct kernels_set, node);
}

static void sweep_run(struct ops_job *job)
{
	struct kernels_sweep *w = list_entry(job, struct kernels_sweep, job);

	list_each(s, &w->sets, struct kernels_set, node)
		kset_free(&s->kset);
}

static void kernels_sweep(struct daemon *d);

static void sweep_done(struct ops_job *job)
{
	struct kernels_sweep *w = list_entry(job, struct kernels_sweep, job);
	struct daemon *d = w->daemon;

	while (!list_empty(&w->sets)) {
		struct kernels_set *s = sweep_first(&w->sets);

		list_del(&s->node);
		free(s);
	}
	free(w);
	d->kernels->sweeping = false;
	kernels_sweep(d);
	plugins_settle(d);
}

static void sweep_move(struct list *from, struct list *to)
{
	while (!list_empty(from)) {
		struct list *node = from->next;

		list_del(node);
		list_put(to, node);
	}
}

/* One sweep at a time takes all that are dead; when ops is full, the next tick tries again. */
static void kernels_sweep(struct daemon *d)
{
	struct kernels *k = d->kernels;
	struct kernels_sweep *w;

	if (k->sweeping || list_empty(&k->dead))
		return;
	w = mem_new(sizeof *w);
	*w = (struct kernels_sweep){ .job = { .run = sweep_run, .done = sweep_done, .patient = true }, .daemon = d };
	list_init(&w->sets);
	sweep_move(&k->dead, &w->sets);
	if (ops_submit(d->ops, &w->job, NULL)) {
		sweep_move(&w->sets, &k->dead);
		free(w);
		return;
	}
	k->sweeping = true;
}

static void kernels_collect(struct ops_note *n)
{
	struct kernels_set *s = list_entry(n, struct kernels_set, note);
	struct kernels *k = s->daemon->kernels;

	must(s != k->active && s != k->previous);
	list_del(&s->node);
	list_put(&k->dead, &s->node);
	kernels_sweep(s->daemon);
}

/* On any thread. */
static void kernels_unused(void *arg, struct kset *ks)
{
	struct kernels_set *s = arg;

	must(s->kset == ks);
	ops_post(s->daemon->ops, &s->note);
}

void kernels_free(struct kernels **pk)
{
	struct kernels *k = *pk;

	*pk = NULL;
	if (!k)
		return;
	must(list_empty(&k->sets) && !k->sweeping);
	while (!list_empty(&k->dead)) {
		struct kernels_set *s = sweep_first(&k->dead);

		list_del(&s->node);
		kset_free(&s->kset);
		free(s);
	}
	json_decref(k->good);
	free(k);
}

/* ---- making sets ---- */

static struct kernels_set *kernels_register(struct daemon *d, struct kset *ks, const struct kset_overlay *ov, int n)
{
	struct kernels_set *s = mem_new(sizeof *s);

	*s = (struct kernels_set){ .kset = ks, .daemon = d, .note.fn = kernels_collect, .n_ov = n };
	for (int i = 0; i < n; i++) {
		s->ov[i] = ov[i];
		plugins_touch(d, ov[i].provider);
	}
	kset_when_unused(ks, kernels_unused, s);
	list_put(d->kernels->sets.next, &s->node);
	return s;
}

void kernels_adopt(struct daemon *d)
{
	struct kset *ks = engine_kset(d->engine);

	d->kernels->active = kernels_register(d, ks, NULL, 0);
	crash_engine(engine_running(d->engine));
	crash_kernels(kset_name(ks));
	kset_unpin(&ks);
}

int kernels_build(struct daemon *d, const struct kset_overlay *ov, int n, struct kernels_set **ret_s,
		  struct buf *why)
{
	struct kset *ks;
	int r = kset_build(ov, n, &ks, why);

	if (r == 0)
		*ret_s = kernels_register(d, ks, ov, n);
	return r;
}

/* Is every plugin in it the newest of its name? A name typed now does not mean what an older one made. */
static bool kernels_current(struct daemon *d, const struct kernels_set *s)
{
	for (int i = 0; i < s->n_ov; i++) {
		struct plugin *p = plugins_of(d, s->ov[i].provider);

		if (p && p->superseded)
			return false;
	}
	return true;
}

struct kernels_set *kernels_find(struct daemon *d, const char *name)
{
	list_each(s, &d->kernels->sets, struct kernels_set, node) {
		char generation[24];

		snprintf(generation, sizeof generation, "%llu", (unsigned long long)kset_generation(s->kset));
		if (strcmp(generation, name) && (strcmp(kset_name(s->kset), name) || !kernels_current(d, s)))
			continue;
		if (kset_try_pin(s->kset))
			return s;
	}
	return NULL;
}

void kernels_drop(struct kernels_set **s)
{
	struct kset *ks = (*s)->kset;

	*s = NULL;
	kset_unpin(&ks);
}

/* ---- swapping ---- */

static void kernels_forget_previous(struct kernels *k)
{
	struct kset *ks = k->previous ? k->previous->kset : NULL;

	k->previous = NULL;
	kset_unpin(&ks);
}

void kernels_close(struct kernels *k)
{
	kernels_forget_previous(k);
	k->active = NULL;
}

static bool kernels_has(const struct kernels_set *s, const struct provider *p)
{
	for (int i = 0; i < s->n_ov; i++)
		if (s->ov[i].provider == p)
			return true;
	return false;
}

void kernels_let_go(struct daemon *d, const struct provider *p)
{
	struct kernels_set *s = d->kernels->previous;

	if (!s || !kernels_has(s, p))
		return;
	log_event(LOG_LV_NOTICE, "kernels_no_previous", "was=%s", LOGQ(kset_name(s->kset)));
	kernels_forget_previous(d->kernels);
}

/* What the operator wants cold is not kept warm for a rollback. */
static void kernels_let_go_cold(struct daemon *d)
{
	list_each(p, &d->plugins->list, struct plugin, node)
		if (p->map && p->intent == INTENT_COLD)
			kernels_let_go(d, &p->map->provider);
}

static void kernels_log(const char *how, const struct kset *from, const struct kset *to, bool at_step)
{
	/* A site of its own for each line: which set computed what is never left out, however many swaps there are. */
	struct log_site site = { 0 };

	if (!log_wants(LOG_LV_NOTICE))
		return;
	log_write(&site, LOG_LV_NOTICE, "kernels_activated",
		  "how=%s from=%s from_generation=%llu to=%s to_generation=%llu at=%s", how, LOGQ(kset_name(from)),
		  (unsigned long long)kset_generation(from), LOGQ(kset_name(to)),
		  (unsigned long long)kset_generation(to), at_step ? "step" : "admission");
}

/* Nobody is to wonder later where an answer got its numbers from. */
static void kernels_log_kept(struct daemon *d)
{
	struct log_site site = { 0 };
	struct buf kept = { 0 };

	if (log_wants(LOG_LV_WARN) && engine_cache_kept(d->engine, &kept))
		log_write(&site, LOG_LV_WARN, "cache_kept", "across=%s", LOGQ(buf_str(&kept)));
	buf_fini(&kept);
}

int kernels_activate(struct daemon *d, struct kernels_set *s, const struct numerics *n, const struct kernels_how *how,
		     struct buf *why)
{
	struct kernels *k = d->kernels;
	struct kernels_set *old = k->active;
	struct kset *ks = s->kset, *pin = kset_pin(old->kset);
	const struct engine_change change = { .numerics = n, .at_step = how->at_step, .keep_cache = how->keep_cache };
	int r = engine_change(d->engine, &ks, &change, why);

	if (r == 0 && how->keep_cache)
		kernels_log_kept(d);
	if (r || s == old) {
		kset_unpin(&ks);
		kset_unpin(&pin);
		return r;
	}
	k->active = s;
	crash_kernels(kset_name(s->kset));
	kernels_forget_previous(k);
	k->previous = old;
	kernels_log(how->name, old->kset, s->kset, how->at_step);
	kernels_let_go_cold(d);
	return 0;
}

int kernels_rollback(struct daemon *d, struct buf *why)
{
	struct kernels_set *to = d->kernels->previous;

	if (!to)
		return buf_why(why, RC_NOT_FOUND, "there is no previous kernel set to go back to");
	kset_pin(to->kset);
	return kernels_activate(d, to, NULL, &(struct kernels_how){ .name = "rollback" }, why);
}

bool kernels_holds(struct daemon *d, const struct provider *p)
{
	list_each(s, &d->kernels->sets, struct kernels_set, node)
		if (kset_pins(s->kset) > 0 && kernels_has(s, p))
			return true;
	return false;
}

void kernels_tick(struct daemon *d)
{
	kernels_sweep(d);
	last_good_tick(d);
	start_tick(d);
	plugins_settle(d);
}
