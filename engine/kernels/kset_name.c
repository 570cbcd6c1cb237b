/* SPDX-License-Identifier: MIT
 * kset_name.c - the name of a kernel set: the shortest list of overlays that makes it.
 * Threads: any. Locks: none.
 *
 * The name says what runs, not how it was asked for: an overlay hidden by a later one is not in it, and overlays as the
 * name lists them make the same set of the same name. A plugin under all families that it offers is "all=PLUGIN". */
#include "engine/kernels/kset_priv.h"

#include <string.h>

/* Every family may have every overlay's plugin as a layer of its own in each phase; a set of that many is cut. */
#define NAME_MAX_PARTS (2 * KSET_MAX_OVERLAYS)
#define NAME_MAX_ORDERED 4 /* layers of one family in one phase */

struct name_parts {
	struct kset_overlay ov[NAME_MAX_PARTS];
	int n;
};

/* The set to be named, and what it was built from. */
struct name_set {
	const struct kset *ks;
	const struct kset_overlay *ov;
	int n_ov;
};

static void name_put(struct name_parts *p, struct kset_overlay ov)
{
	if (p->n < NAME_MAX_PARTS)
		p->ov[p->n++] = ov;
}

/* A list of providers that lie over each other, a later one winning over an earlier. */
struct name_layers {
	struct provider *p[KSET_MAX_OVERLAYS + 1];
	int n;
};

static bool name_layers_same(const struct name_layers *a, const struct name_layers *b)
{
	return a->n == b->n && memcmp(a->p, b->p, (size_t)a->n * sizeof *a->p) == 0;
}

static struct provider *name_provider(const struct kset *ks, int op, int ph, int wf)
{
	return kset_slot(ks, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf)->provider;
}

static bool name_serves(const struct kset *ks, const struct provider *p, int op, int ph)
{
	for (int wf = 0; wf < DSV4_N_WFMT; wf++)
		if (name_provider(ks, op, ph, wf) == p)
			return true;
	return false;
}

/* ---- what lies over what ---- */

/* What runs one op in one phase, for every weight format. */
struct name_slots {
	struct provider *p[DSV4_N_WFMT];
};

static void name_slots_put(struct name_slots *s, struct provider *p, int op, int ph)
{
	const struct dsv4_plugin *pl = p->plugin;

	for (uint32_t i = 0; i < pl->n_op; i++)
		for (int wf = 0; wf < DSV4_N_WFMT && (int)pl->op[i].op == op && (pl->op[i].phases >> ph & 1); wf++)
			if (pl->op[i].wfmts >> wf & 1)
				s->p[wf] = p;
}

static bool name_slots_are(struct name_slots s, struct provider *const *layer, int n, const struct kset *ks, int op,
			   int ph)
{
	for (int i = 0; i < n; i++)
		name_slots_put(&s, layer[i], op, ph);
	for (int wf = 0; wf < DSV4_N_WFMT; wf++)
		if (s.p[wf] != name_provider(ks, op, ph, wf))
			return false;
	return true;
}

/* ---- family by family ---- */

/* The plugins that serve these ops in one phase, as they were laid over each other. */
static struct name_layers name_collect(const struct name_set *s, uint64_t ops, int ph)
{
	struct name_layers l = { .n = 0 };

	for (int i = 0; i < s->n_ov; i++) {
		struct provider *p = s->ov[i].provider;
		bool serves = false;
		int kept = 0;

		for (int op = 0; op < DSV4_N_OP && p != &provider_ref; op++)
			serves |= (ops >> op & 1) &&
				kset_overlay_covers(&s->ov[i], (enum dsv4_op)op, (enum dsv4_phase)ph) &&
				name_serves(s->ks, p, op, ph);
		if (!serves)
			continue;
		for (int j = 0; j < l.n; j++)
			if (l.p[j] != p)
				l.p[kept++] = l.p[j];
		l.p[kept] = p;
		l.n = kept + 1;
	}
	return l;
}

/* Do they make these ops' slots, over ref? */
static bool name_layers_make(const struct name_set *s, const struct name_layers *l, uint64_t ops, int ph)
{
	for (int op = 0; op < DSV4_N_OP; op++) {
		struct name_slots ref = { .p = { NULL } };

		name_slots_put(&ref, &provider_ref, op, ph);
		if ((ops >> op & 1) && !name_slots_are(ref, l->p, l->n, s->ks, op, ph))
			return false;
	}
	return true;
}

static int name_before(const struct name_layers *l, int i, int j)
{
	return strcmp(l->p[i]->plugin->name, l->p[j]->plugin->name);
}

static void name_exchange(struct name_layers *l, int i, int j)
{
	struct provider *p = l->p[i];

	l->p[i] = l->p[j];
	l->p[j] = p;
}

/* The next order of them by the alphabet; false: that was the last. */
static bool name_next_order(struct name_layers *l)
{
	int i = l->n - 2, j = l->n - 1;

	while (i >= 0 && name_before(l, i, i + 1) >= 0)
		i--;
	if (i < 0)
		return false;
	while (name_before(l, j, i) <= 0)
		j--;
	name_exchange(l, i, j);
	for (int a = i + 1, b = l->n - 1; a < b; a++, b--)
		name_exchange(l, a, b);
	return true;
}

/* The same in the first order by the alphabet that makes these slots, so that the name is the slots' own; as they were
 * laid where none does, or where there are more than anybody would try. */
static struct name_layers name_layers(const struct name_set *s, uint64_t ops, int ph)
{
	struct name_layers as_laid = name_collect(s, ops, ph), l = as_laid;

	if (l.n > NAME_MAX_ORDERED)
		return l;
	for (int i = 0; i < l.n; i++)
		for (int j = i + 1; j < l.n; j++)
			if (name_before(&l, i, j) > 0)
				name_exchange(&l, i, j);
	do
		if (name_layers_make(s, &l, ops, ph))
			return l;
	while (name_next_order(&l));
	return as_laid;
}

static uint64_t name_ops(enum dsv4_family f)
{
	uint64_t ops = 0;

	for (int op = 0; op < DSV4_N_OP; op++)
		if (op_family((enum dsv4_op)op) == f)
			ops |= (uint64_t)1 << op;
	return ops;
}

/* The family as such, if that is all there is to say: what both phases have in common first. */
static void name_family(const struct name_set *s, enum dsv4_family f, struct name_parts *p)
{
	struct name_layers l[DSV4_N_PHASE];
	int same = 0;

	for (int ph = 0; ph < DSV4_N_PHASE; ph++)
		l[ph] = name_layers(s, name_ops(f), ph);
	while (same < l[0].n && same < l[1].n && l[0].p[same] == l[1].p[same])
		name_put(p, (struct kset_overlay){ f, -1, l[0].p[same++], 0 });
	for (int ph = 0; ph < DSV4_N_PHASE; ph++)
		for (int i = same; i < l[ph].n; i++)
			name_put(p, (struct kset_overlay){ f, ph, l[ph].p[i], 0 });
}

/* ---- op by op ---- */

/* The shortest list of layers that makes the op's slots of what lies beneath. */
static struct name_layers name_patch(struct name_slots beneath, const struct name_layers *l, const struct kset *ks,
				     int op, int ph)
{
	struct name_layers patch = { .p = { &provider_ref }, .n = 1 };

	for (int n = 0; n <= l->n; n++)
		if (name_slots_are(beneath, l->p + l->n - n, n, ks, op, ph)) {
			memcpy(patch.p, l->p + l->n - n, (size_t)n * sizeof *l->p);
			patch.n = n;
			return patch;
		}
	memcpy(patch.p + 1, l->p, (size_t)l->n * sizeof *l->p);
	patch.n += l->n;
	return patch;
}

/* A family named op by op over what lies beneath it: a plugin, or ref. */
struct name_by_op {
	const struct name_set *set;
	enum dsv4_family family;
	struct provider *beneath;
};

static struct name_layers name_op_patch(const struct name_by_op *b, const struct kset_overlay *base, int op, int ph)
{
	struct name_layers l = name_layers(b->set, (uint64_t)1 << op, ph);
	struct name_slots s = { .p = { NULL } };

	name_slots_put(&s, &provider_ref, op, ph);
	name_slots_put(&s, b->beneath, op, ph);
	if (base && kset_overlay_covers(base, (enum dsv4_op)op, (enum dsv4_phase)ph))
		name_slots_put(&s, base->provider, op, ph);
	return name_patch(s, &l, b->set->ks, op, ph);
}

/* With a plugin for the whole family first, or without. */
static void name_op_parts(const struct name_by_op *b, const struct kset_overlay *base, struct name_parts *p)
{
	p->n = 0;
	if (base)
		name_put(p, *base);
	for (int op = 0; op < DSV4_N_OP; op++) {
		struct name_layers l[DSV4_N_PHASE];
		bool same;

		if (op_family((enum dsv4_op)op) != b->family)
			continue;
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			l[ph] = name_op_patch(b, base, op, ph);
		same = name_layers_same(&l[0], &l[1]);
		for (int ph = 0; ph < (same ? 1 : DSV4_N_PHASE); ph++)
			for (int i = 0; i < l[ph].n; i++)
				name_put(p, (struct kset_overlay){ b->family, same ? -1 : ph, l[ph].p[i],
								   (uint64_t)1 << op });
	}
}

/* The shortest of them, in an order that does not depend on how the set was asked for. */
static void name_by_op(const struct name_by_op *b, struct name_parts *out)
{
	struct name_parts best, p;

	name_op_parts(b, NULL, &best);
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE && op_family((enum dsv4_op)op) == b->family; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT; wf++)
				for (int phase = -1; phase < DSV4_N_PHASE; phase++) {
					struct kset_overlay base = { b->family, phase,
								     name_provider(b->set->ks, op, ph, wf), 0 };

					name_op_parts(b, &base, &p);
					if (p.n < best.n)
						best = p;
				}
	for (int i = 0; i < best.n; i++)
		name_put(out, best.ov[i]);
}

/* ---- all families ---- */

/* Do the parts from `first` on make the family's slots, over ref? */
static bool name_family_is(const struct kset *ks, enum dsv4_family f, const struct name_parts *p, int first)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE && op_family((enum dsv4_op)op) == f; ph++) {
			struct name_slots s = { .p = { NULL } };

			name_slots_put(&s, &provider_ref, op, ph);
			for (int i = first; i < p->n; i++)
				if (kset_overlay_covers(&p->ov[i], (enum dsv4_op)op, (enum dsv4_phase)ph))
					name_slots_put(&s, p->ov[i].provider, op, ph);
			if (!name_slots_are(s, NULL, 0, ks, op, ph))
				return false;
		}
	return true;
}

static void name_families(const struct name_set *s, struct name_parts *p)
{
	for (int f = 0; f < DSV4_N_FAMILY; f++) {
		const struct name_by_op b = { s, (enum dsv4_family)f, &provider_ref };
		int first = p->n;

		name_family(s, (enum dsv4_family)f, p);
		if (name_family_is(s->ks, (enum dsv4_family)f, p, first))
			continue;
		p->n = first;
		name_by_op(&b, p);
	}
}

/* ---- all=PLUGIN ---- */

static int name_offered(const struct provider *p)
{
	int n = 0;

	for (int f = 0; f < DSV4_N_FAMILY; f++)
		n += kset_offers(p->plugin, (enum dsv4_family)f);
	return n;
}

static bool name_has_ops(const struct name_parts *full, enum dsv4_family f)
{
	for (int i = 0; i < full->n; i++)
		if (full->ov[i].family == f && full->ov[i].ops)
			return true;
	return false;
}

/* What is left to say of family f over p at the bottom of it: ref again where nothing else serves. */
static void name_family_over(const struct name_parts *full, enum dsv4_family f, struct provider *p,
			     struct name_parts *rest)
{
	bool met[DSV4_N_PHASE] = { false };

	for (int i = 0; i < full->n; i++) {
		const struct kset_overlay *o = &full->ov[i];
		bool first = false;

		if (o->family != f)
			continue;
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			if (o->phase < 0 || o->phase == ph) {
				first |= !met[ph];
				met[ph] = true;
			}
		if (!first || o->provider != p)
			name_put(rest, *o);
	}
	if (!kset_offers(p->plugin, f) || (met[0] && met[1]))
		return;
	for (int ph = 0; ph < DSV4_N_PHASE; ph++)
		if (!met[ph] && (met[!ph] || ph == 0))
			name_put(rest, (struct kset_overlay){ f, met[!ph] ? ph : -1, &provider_ref, 0 });
}

/* The parts after all=p, when the two together make the set. */
static bool name_over(const struct name_set *s, const struct name_parts *full, struct provider *p,
		      struct name_parts *rest)
{
	struct name_parts whole = { .n = 0 };

	rest->n = 0;
	for (int f = 0; f < DSV4_N_FAMILY; f++) {
		bool offers = kset_offers(p->plugin, (enum dsv4_family)f);
		const struct name_by_op b = { s, (enum dsv4_family)f, offers ? p : &provider_ref };

		if (offers)
			name_put(&whole, (struct kset_overlay){ (enum dsv4_family)f, -1, p, 0 });
		if (name_has_ops(full, (enum dsv4_family)f))
			name_by_op(&b, rest);
		else
			name_family_over(full, (enum dsv4_family)f, p, rest);
	}
	if (whole.n + rest->n > NAME_MAX_PARTS)
		return false;
	for (int i = 0; i < rest->n; i++)
		whole.ov[whole.n++] = rest->ov[i];
	return kset_is(s->ks, whole.ov, whole.n);
}

/* The plugin that saves most parts; NULL: none saves any. */
static struct provider *name_base(const struct name_set *s, const struct name_parts *full, struct name_parts *ret_rest)
{
	struct provider *best = NULL;
	int least = full->n;

	for (int i = 0; i < full->n; i++) {
		struct provider *p = full->ov[i].provider;
		struct name_parts rest;

		if (p == best || p == &provider_ref || name_offered(p) < 2 || !name_over(s, full, p, &rest) ||
		    rest.n + 1 >= least)
			continue;
		best = p;
		least = rest.n + 1;
		*ret_rest = rest;
	}
	return best;
}

void kset_name_make(const struct kset *ks, const struct kset_overlay *ov, int n, struct buf *out)
{
	const struct name_set s = { ks, ov, n };
	struct name_parts full = { .n = 0 }, rest;
	const struct name_parts *p = &full;
	struct provider *base;

	name_families(&s, &full);
	base = name_base(&s, &full, &rest);
	if (base) {
		buf_printf(out, "all=%s", base->plugin->name);
		p = &rest;
	}
	for (int i = 0; i < p->n; i++) {
		if (out->len)
			buf_addc(out, ',');
		kset_overlay_print(&p->ov[i], out);
	}
	if (!out->len)
		buf_adds(out, provider_ref.plugin->name);
}
