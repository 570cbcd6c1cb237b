/* SPDX-License-Identifier: MIT
 * kset_name.c - the name of a kernel set: the shortest list of overlays that makes it.
 * Threads: any. Locks: none.
 *
 * The name says what runs, not how it was asked for: an overlay hidden by a later one is not in it, and overlays as the
 * name lists them make the same set of the same name. A plugin under all families that it offers is "all=PLUGIN". */
#include "engine/model/kset_priv.h"

/* Every family may have every overlay's plugin as a layer of its own in each phase; a set of that many is cut. */
#define NAME_MAX_PARTS (2 * KSET_MAX_OVERLAYS)

struct name_parts {
	struct kset_overlay ov[NAME_MAX_PARTS];
	int n;
};

static void name_put(struct name_parts *p, enum dsv4_family f, int phase, struct provider *provider)
{
	if (p->n < NAME_MAX_PARTS)
		p->ov[p->n++] = (struct kset_overlay){ f, phase, provider };
}

/* ---- family by family ---- */

static bool name_serves(const struct kset *ks, const struct provider *p, enum dsv4_family f, int ph)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int wf = 0; wf < DSV4_N_WFMT && op_family((enum dsv4_op)op) == f; wf++)
			if (kset_slot(ks, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf)->provider == p)
				return true;
	return false;
}

/* The plugins that serve a family in one phase, a later one winning over an earlier. Returns how many. */
static int name_layers(const struct kset *ks, const struct kset_overlay *ov, int n_ov, enum dsv4_family f, int ph,
		       struct provider **layer)
{
	int n = 0;

	for (int i = 0; i < n_ov; i++) {
		struct provider *p = ov[i].provider;
		int kept = 0;

		if (ov[i].family != f || (ov[i].phase >= 0 && ov[i].phase != ph) || p == &provider_ref ||
		    !name_serves(ks, p, f, ph))
			continue;
		for (int j = 0; j < n; j++)
			if (layer[j] != p)
				layer[kept++] = layer[j];
		layer[kept] = p;
		n = kept + 1;
	}
	return n;
}

/* What both phases have in common first. */
static void name_families(const struct kset *ks, const struct kset_overlay *ov, int n_ov, struct name_parts *p)
{
	for (int f = 0; f < DSV4_N_FAMILY; f++) {
		struct provider *layer[DSV4_N_PHASE][KSET_MAX_OVERLAYS];
		int n[DSV4_N_PHASE], same = 0;

		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			n[ph] = name_layers(ks, ov, n_ov, (enum dsv4_family)f, ph, layer[ph]);
		while (same < n[0] && same < n[1] && layer[0][same] == layer[1][same])
			name_put(p, (enum dsv4_family)f, -1, layer[0][same++]);
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int i = same; i < n[ph]; i++)
				name_put(p, (enum dsv4_family)f, ph, layer[ph][i]);
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
			name_put(rest, f, o->phase, o->provider);
	}
	if (!kset_offers(p->plugin, f) || (met[0] && met[1]))
		return;
	for (int ph = 0; ph < DSV4_N_PHASE; ph++)
		if (!met[ph] && (met[!ph] || ph == 0))
			name_put(rest, f, met[!ph] ? ph : -1, &provider_ref);
}

/* The parts after all=p, when the two together make the set. */
static bool name_over(const struct kset *ks, const struct name_parts *full, struct provider *p, struct name_parts *rest)
{
	struct name_parts whole = { .n = 0 };

	rest->n = 0;
	for (int f = 0; f < DSV4_N_FAMILY; f++) {
		if (kset_offers(p->plugin, (enum dsv4_family)f))
			name_put(&whole, (enum dsv4_family)f, -1, p);
		name_family_over(full, (enum dsv4_family)f, p, rest);
	}
	if (whole.n + rest->n > NAME_MAX_PARTS)
		return false;
	for (int i = 0; i < rest->n; i++)
		whole.ov[whole.n++] = rest->ov[i];
	return kset_is(ks, whole.ov, whole.n);
}

/* The plugin that saves most parts; NULL: none saves any. */
static struct provider *name_base(const struct kset *ks, const struct name_parts *full, struct name_parts *ret_rest)
{
	struct provider *best = NULL;
	int least = full->n;

	for (int i = 0; i < full->n; i++) {
		struct provider *p = full->ov[i].provider;
		struct name_parts rest;

		if (p == best || name_offered(p) < 2 || !name_over(ks, full, p, &rest) || rest.n + 1 >= least)
			continue;
		best = p;
		least = rest.n + 1;
		*ret_rest = rest;
	}
	return best;
}

void kset_name_make(const struct kset *ks, const struct kset_overlay *ov, int n, struct buf *out)
{
	struct name_parts full = { .n = 0 }, rest;
	const struct name_parts *p = &full;
	struct provider *base;

	name_families(ks, ov, n, &full);
	base = name_base(ks, &full, &rest);
	if (base) {
		buf_printf(out, "all=%s", base->plugin->name);
		p = &rest;
	}
	for (int i = 0; i < p->n; i++)
		buf_printf(out, "%s%s%s%s=%s", out->len ? "," : "", op_family_name(p->ov[i].family),
			   p->ov[i].phase < 0 ? "" : ".",
			   p->ov[i].phase < 0 ? "" : op_phase_name((enum dsv4_phase)p->ov[i].phase),
			   p->ov[i].provider->plugin->name);
	if (!out->len)
		buf_adds(out, provider_ref.plugin->name);
}
