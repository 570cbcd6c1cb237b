/* SPDX-License-Identifier: MIT
 * engine_activate.c - the kernel set and numerics in force: read, changed as one, taken over by running requests.
 * Threads: any; the engine thread re-pins and counts. Lock: engine. */
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

void engine_numerics(struct engine *e, struct numerics *ret_n)
{
	lock_take(&e->lock);
	*ret_n = e->numerics;
	lock_drop(&e->lock);
}

struct kset *engine_kset(struct engine *e)
{
	struct kset *ks;

	lock_take(&e->lock);
	ks = kset_pin(e->kset);
	lock_drop(&e->lock);
	return ks;
}

/* ---- may a request go on with another set? ---- */

static int engine_slots_differ(const struct kset *a, const struct kset *b, const char *whose, struct buf *why)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
				enum dsv4_family f = op_family((enum dsv4_op)op);
				const char *ta = kset_slot(a, (enum dsv4_op)op, (enum dsv4_phase)ph,
					(enum dsv4_wfmt)wf)->entry->tag;
				const char *tb = kset_slot(b, (enum dsv4_op)op, (enum dsv4_phase)ph,
					(enum dsv4_wfmt)wf)->entry->tag;

				if (strcmp(ta, tb))
					return buf_why(why, RC_INVALID, "%s.%s: %s in %s, %s in the new one",
						op_family_name(f), op_phase_name((enum dsv4_phase)ph), ta, whose, tb);
			}
	return 0;
}

static int engine_numerics_differ(const struct numerics *a, const struct numerics *b, const char *whose,
	struct buf *why)
{
	if (numerics_same_state(a, b))
		return 0;
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];
		char va[32], vb[32];

		/* drop_thinking chose the prompt's text; that is done. */
		if (row->offset != offsetof(struct numerics, drop_thinking)
		    && strcmp(numerics_get(a, row, va), numerics_get(b, row, vb)))
			return buf_why(why, RC_INVALID, "%s: %s in %s, %s in the new one", row->name, va, whose, vb);
	}
	return RC_INTERNAL;
}

/* The active set is asked first, so that the answer does not hang on whether a request happens to run. */
static int engine_may_repin(struct engine *e, const struct kset *ks, const struct numerics *n, struct buf *why)
{
	int rc = engine_slots_differ(e->kset, ks, "the active set", why);

	rc = rc ? rc : engine_numerics_differ(&e->numerics, n, "the active set", why);
	list_each(r, &e->live, struct request, live) {
		char whose[96];

		if (rc)
			return rc;
		if (r->own)
			continue;
		snprintf(whose, sizeof whose, "the set of request %s", generation_id(r->gen));
		rc = engine_slots_differ(r->kset, ks, whose, why);
		rc = rc ? rc : engine_numerics_differ(&r->task.numerics, n, whose, why);
	}
	return rc;
}

/* ---- changing ---- */

bool engine_other_numbers(const struct kset *a, const struct numerics *na, const struct kset *b,
	const struct numerics *nb)
{
	uint8_t ida[32], idb[32];

	cache_numbers(a, na, ida);
	cache_numbers(b, nb, idb);
	return memcmp(ida, idb, sizeof ida) != 0;
}

int engine_numerics_set(struct engine *e, const char *name, const char *value, struct buf *why)
{
	struct numerics n;
	int rc;

	lock_take(&e->lock);
	n = e->numerics;
	rc = numerics_set(&n, name, value, why);
	if (rc == 0) {
		e->count.epoch += engine_other_numbers(e->kset, &e->numerics, e->kset, &n);
		e->numerics = n;
	}
	lock_drop(&e->lock);
	if (rc == 0)
		cache_keep_end(e->cache);
	return rc;
}

void engine_numbers_changed(struct engine *e)
{
	lock_take(&e->lock);
	e->count.epoch++;
	lock_drop(&e->lock);
	cache_keep_end(e->cache);
}

/* Returns the set so far, to be unpinned when the lock is dropped: what that does is not ours to know. */
static struct kset *engine_install(struct engine *e, struct kset *ks, const struct numerics *n)
{
	struct kset *old = e->kset;

	e->count.epoch += engine_other_numbers(old, &e->numerics, ks, n);
	e->kset = ks;
	e->numerics = *n;
	if (ks != old)
		e->count.set_steps = e->count.set_failures = e->set_seen = 0;
	return old;
}

/* Every request that lives, but for those that brought their own, goes on with the set just installed. Returns the set
 * that some were to go on with before and now never run under, to be unpinned as above. */
static struct kset *engine_mark_all(struct engine *e)
{
	struct kset *old = e->repin;

	e->repin = list_empty(&e->live) ? NULL : kset_pin(e->kset);
	e->repin_epoch = e->count.epoch;
	list_each(r, &e->live, struct request, live)
		r->repin = !r->own;
	/* Else a request that waits for its consumer would hold the old set until it is read again. */
	e->woken = true;
	must_zero(pthread_cond_signal(&e->cond));
	return old;
}

/* ---- rows of the numbers before ---- */

struct engine_kept {
	uint8_t from[32], to[32];
	uint64_t epoch;            /* of from */
	struct buf names;          /* the sets' */
};

/* Before the change; lock held. */
static void engine_kept_from(struct engine *e, struct engine_kept *k)
{
	cache_numbers(e->kset, &e->numerics, k->from);
	k->epoch = e->count.epoch;
	buf_printf(&k->names, "%s (epoch %llu)", kset_name(e->kset), (unsigned long long)k->epoch);
}

/* After it; lock held. */
static void engine_kept_to(struct engine *e, struct engine_kept *k)
{
	cache_numbers(e->kset, &e->numerics, k->to);
	if (memcmp(k->from, k->to, sizeof k->to) == 0)
		return;
	buf_clear(&e->kept);
	buf_printf(&e->kept, "%s -> %s (epoch %llu)", buf_str(&k->names), kset_name(e->kset),
		(unsigned long long)e->count.epoch);
}

/* What was kept stays so across a change that left the numbers as they were, if that was to keep it. */
static void engine_kept_apply(struct engine *e, bool keep, struct engine_kept *k)
{
	if (!keep)
		cache_keep_end(e->cache);
	else if (memcmp(k->from, k->to, sizeof k->to) != 0)
		cache_keep(e->cache, k->from, k->to);
}

bool engine_cache_kept(struct engine *e, struct buf *ret_across)
{
	if (!cache_keeps(e->cache))
		return false;
	lock_take(&e->lock);
	buf_adds(ret_across, buf_str(&e->kept));
	lock_drop(&e->lock);
	return true;
}

/* ---- changing both ---- */

static void engine_tell_repack(struct engine *e)
{
	struct kset *ks = engine_kset(e);

	engine_repack_set(e, ks);
	kset_unpin(&ks);
}

int engine_activate(struct engine *e, struct kset **ks, const struct numerics *n, bool at_step, struct buf *why)
{
	return engine_change(e, ks, &(struct engine_change){ .numerics = n, .at_step = at_step }, why);
}

int engine_change(struct engine *e, struct kset **ks, const struct engine_change *change, struct buf *why)
{
	struct kset *old = NULL, *skipped = NULL;
	struct engine_kept kept = { 0 };
	struct numerics now;
	int rc = 0;

	lock_take(&e->lock);
	now = change->numerics ? *change->numerics : e->numerics;
	if (change->at_step)
		rc = engine_may_repin(e, *ks, &now, why);
	if (rc == 0) {
		engine_kept_from(e, &kept);
		old = engine_install(e, *ks, &now);
		*ks = NULL;
		engine_kept_to(e, &kept);
		if (change->at_step)
			skipped = engine_mark_all(e);
	}
	lock_drop(&e->lock);
	if (rc == 0)
		engine_kept_apply(e, change->keep_cache, &kept);
	engine_tell_repack(e);
	buf_fini(&kept.names);
	kset_unpin(&old);
	kset_unpin(&skipped);
	return rc;
}

/* ---- the engine thread ---- */

void engine_set_ran(struct engine *e, const struct kset *ks, int rc)
{
	struct engine_status *s = &e->count;

	lock_take(&e->lock);
	s->kernel_failures += rc == RC_KERNEL || rc == RC_DEVICE;
	if (ks == e->kset) {
		s->set_failures += rc == RC_KERNEL || rc == RC_DEVICE;
		s->set_steps += rc == 0 && e->set_seen != s->steps + 1;
		if (rc == 0)
			e->set_seen = s->steps + 1;
	}
	lock_drop(&e->lock);
}

static struct request *engine_first_marked(struct engine *e)
{
	must(lock_held(&e->lock));
	list_each(r, &e->live, struct request, live)
		if (r->repin)
			return r;
	return NULL;
}

void engine_repin(struct engine *e)
{
	struct request *r;
	struct kset *old;

	do {
		uint64_t epoch;

		lock_take(&e->lock);
		epoch = e->repin_epoch;
		r = engine_first_marked(e);
		if (r) {
			old = request_repin(r, kset_pin(e->repin));
			r->repin = false;
		} else {
			old = e->repin;
			e->repin = NULL;
		}
		lock_drop(&e->lock);
		if (r) {
			record_repinned(r->rec, kset_name(r->kset), kset_generation(r->kset), epoch,
				r->n_prompt - r->task.left);
			request_cache_repinned(r);
		}
		kset_unpin(&old);
	} while (r);
}
