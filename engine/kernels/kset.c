/* SPDX-License-Identifier: MIT
 * kset.c - immutable kernel sets: ref overlaid by plugin ops, resolved once to a flat table.
 * Threads: control builds, engine pins, anyone reads, ops frees. Lock: none (atomic count). */
#include "engine/kernels/kset.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/kernels/kset_priv.h"
#include "plugins/ref/ref.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct kset {
	atomic_int pins;
	uint64_t generation;
	struct buf name;
	void (*unused)(void *arg, struct kset *ks);
	void *unused_arg;
	struct provider *provider[KSET_MAX_OVERLAYS]; /* held; each once */
	int n_provider;
	struct kset_slot slot[DSV4_N_OP][DSV4_N_PHASE][DSV4_N_WFMT];
};

/* ---- building ---- */

static bool kset_entry_ok(const struct dsv4_op_entry *e)
{
	return e->size >= sizeof *e && e->op < DSV4_N_OP && e->fn && e->tag && e->phases && e->wfmts;
}

/* Fills what the entry offers of what the overlay covers; returns the number of slots. */
static int kset_put(struct kset *ks, const struct kset_overlay *ov, const struct dsv4_op_entry *e)
{
	int n = 0;

	for (int ph = 0; ph < DSV4_N_PHASE; ph++) {
		if (!(e->phases >> ph & 1) || !kset_overlay_covers(ov, (enum dsv4_op)e->op, (enum dsv4_phase)ph))
			continue;
		for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
			if (!(e->wfmts >> wf & 1))
				continue;
			ks->slot[e->op][ph][wf] = (struct kset_slot){ e->fn, ov->provider, e };
			n++;
		}
	}
	return n;
}

static int kset_overlay(struct kset *ks, const struct kset_overlay *ov, struct buf *why)
{
	const struct dsv4_plugin *p = ov->provider->plugin;
	struct buf what = { 0 };
	int n = 0, rc = 0;

	for (uint32_t i = 0; i < p->n_op; i++) {
		if (!kset_entry_ok(&p->op[i]))
			return buf_why(why, RC_PLUGIN, "plugin %s: op entry %u is malformed", p->name, i);
		n += kset_put(ks, ov, &p->op[i]);
	}
	if (n == 0) {
		kset_overlay_print_slots(ov, &what);
		rc = buf_why(why, RC_KERNEL, "plugin %s offers nothing for %s", p->name, buf_str(&what));
		buf_fini(&what);
	}
	return rc;
}

static void kset_base(struct kset *ks)
{
	for (uint32_t i = 0; i < ref_plugin.n_op; i++) {
		enum dsv4_op op = (enum dsv4_op)ref_plugin.op[i].op;

		must(kset_entry_ok(&ref_plugin.op[i]));
		kset_put(ks, &(struct kset_overlay){ op_family(op), -1, &provider_ref, 0 }, &ref_plugin.op[i]);
	}
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++)
				must(ks->slot[op][ph][wf].fn != NULL);
}

static void kset_hold(struct kset *ks, struct provider *p)
{
	for (int i = 0; i < ks->n_provider; i++)
		if (ks->provider[i] == p)
			return;
	atomic_fetch_add(&p->users, 1);
	ks->provider[ks->n_provider++] = p;
}

int kset_build(const struct kset_overlay *ov, int n_ov, struct kset **ret_ks, struct buf *why)
{
	static atomic_uint_fast64_t generations;
	struct kset *ks;
	int rc = 0;

	if (n_ov > KSET_MAX_OVERLAYS)
		return buf_why(why, RC_TOO_LARGE, "%d overlays; at most %d", n_ov, KSET_MAX_OVERLAYS);
	ks = mem_new(sizeof *ks);
	ks->pins = 1;
	kset_base(ks);
	for (int i = 0; i < n_ov && rc == 0; i++) {
		kset_hold(ks, ov[i].provider);
		rc = kset_overlay(ks, &ov[i], why);
	}
	if (rc < 0) {
		kset_unpin(&ks);
		return rc;
	}
	kset_name_make(ks, ov, n_ov, &ks->name);
	ks->generation = atomic_fetch_add(&generations, 1) + 1;
	*ret_ks = ks;
	return 0;
}

int kset_check(const struct kset_overlay *ov, int n, struct buf *why)
{
	struct kset *ks = mem_new(sizeof *ks);
	int rc = 0;

	kset_base(ks);
	for (int i = 0; i < n && rc == 0; i++)
		rc = kset_overlay(ks, &ov[i], why);
	free(ks);
	return rc;
}

static void kset_slots(struct kset *ks, const struct kset_overlay *ov, int n, int skip)
{
	kset_base(ks);
	for (int i = 0; i < n; i++)
		if (i != skip)
			must_zero(kset_overlay(ks, &ov[i], NULL));
}

bool kset_is(const struct kset *ks, const struct kset_overlay *ov, int n)
{
	struct kset *other = mem_new(sizeof *other);
	bool same;

	kset_slots(other, ov, n, -1);
	same = memcmp(other->slot, ks->slot, sizeof ks->slot) == 0;
	free(other);
	return same;
}

bool kset_superfluous(const struct kset_overlay *ov, int n, int i)
{
	struct kset *with = mem_new(sizeof *with), *without = mem_new(sizeof *without);
	bool same;

	kset_slots(with, ov, n, -1);
	kset_slots(without, ov, n, i);
	same = memcmp(with->slot, without->slot, sizeof with->slot) == 0;
	free(with);
	free(without);
	return same;
}

/* ---- use ---- */

struct kset *kset_pin(struct kset *ks)
{
	must(atomic_fetch_add(&ks->pins, 1) > 0);
	return ks;
}

bool kset_try_pin(struct kset *ks)
{
	int n = atomic_load(&ks->pins);

	while (n > 0)
		if (atomic_compare_exchange_weak(&ks->pins, &n, n + 1))
			return true;
	return false;
}

int kset_pins(const struct kset *ks)
{
	return atomic_load(&ks->pins);
}

void kset_unpin(struct kset **pks)
{
	struct kset *ks = *pks;

	*pks = NULL;
	if (!ks || atomic_fetch_sub(&ks->pins, 1) > 1)
		return;
	if (ks->unused)
		ks->unused(ks->unused_arg, ks);
	else
		kset_free(&ks);
}

void kset_when_unused(struct kset *ks, void (*fn)(void *arg, struct kset *ks), void *arg)
{
	ks->unused = fn;
	ks->unused_arg = arg;
}

void kset_free(struct kset **pks)
{
	struct kset *ks = *pks;

	*pks = NULL;
	if (!ks)
		return;
	must(atomic_load(&ks->pins) == 0);
	for (int i = 0; i < ks->n_provider; i++)
		must(atomic_fetch_sub(&ks->provider[i]->users, 1) > 0);
	buf_fini(&ks->name);
	free(ks);
}

const struct kset_slot *kset_slot(const struct kset *ks, enum dsv4_op op, enum dsv4_phase ph,
	enum dsv4_wfmt wf)
{
	must(op < DSV4_N_OP && ph < DSV4_N_PHASE && wf < DSV4_N_WFMT);
	return &ks->slot[op][ph][wf];
}

const char *kset_name(const struct kset *ks)
{
	return buf_str(&ks->name);
}

uint64_t kset_generation(const struct kset *ks)
{
	return ks->generation;
}
