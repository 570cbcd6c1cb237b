/* SPDX-License-Identifier: MIT
 * kernels_json.c - kernel sets as replies: slots, what differs between two sets, families.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/plugins.h"
#include "engine/base/must.h"

#include <stdbool.h>

#define KERNELS_MAX_PROVIDERS 64

static const struct kset_slot *slot_at(const struct kset *ks, int op, int ph, int wf)
{
	return kset_slot(ks, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf);
}

/* Does one entry serve all weight formats? So it is for every op that has no weight. */
static bool slots_uniform(const struct kset *ks, int op, int ph)
{
	for (int wf = 1; wf < DSV4_N_WFMT; wf++)
		if (slot_at(ks, op, ph, wf)->entry != slot_at(ks, op, ph, 0)->entry ||
		    slot_at(ks, op, ph, wf)->provider != slot_at(ks, op, ph, 0)->provider)
			return false;
	return true;
}

/* {op, family, phase, wfmt}; to be completed. */
static json_t *slot_place(int op, int ph, int wf, bool uniform)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "op", op_name((enum dsv4_op)op), "family",
			 op_family_name(op_family((enum dsv4_op)op)), "phase",
			 op_phase_name((enum dsv4_phase)ph), "wfmt",
			 uniform ? "all" : op_wfmt_name((enum dsv4_wfmt)wf));
}

static void slot_set(json_t *o, const char *key, const char *value)
{
	must(json_object_set_new(o, key, json_string(value)) == 0);
}

/* Which of the plugins of one name: as in Plugins.List; 0 for ref. */
static json_int_t slot_generation(struct daemon *d, const struct kset_slot *s)
{
	const struct plugin *p = plugins_of(d, s->provider);

	return p ? (json_int_t)p->generation : 0;
}

json_t *kernels_slots(struct daemon *d, const struct kset *ks)
{
	json_t *slots = json_array();

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++) {
			bool uniform = slots_uniform(ks, op, ph);

			for (int wf = 0; wf < (uniform ? 1 : DSV4_N_WFMT); wf++) {
				const struct kset_slot *s = slot_at(ks, op, ph, wf);
				json_t *o = slot_place(op, ph, wf, uniform);

				slot_set(o, "provider", s->provider->plugin->name);
				slot_set(o, "version", s->provider->plugin->version);
				slot_set(o, "numerics", s->entry->tag);
				json_object_set_new(o, "plugin_generation", json_integer(slot_generation(d, s)));
				json_array_append_new(slots, o);
			}
		}
	return slots;
}

static json_t *slot_change(const struct kset *before, const struct kset *after, int op, int ph, int wf,
			   bool uniform)
{
	const struct kset_slot *a = slot_at(before, op, ph, wf), *b = slot_at(after, op, ph, wf);
	json_t *o;

	if (a->provider == b->provider && a->entry == b->entry)
		return NULL;
	o = slot_place(op, ph, wf, uniform);
	slot_set(o, "before", a->provider->plugin->name);
	slot_set(o, "after", b->provider->plugin->name);
	slot_set(o, "numerics_before", a->entry->tag);
	slot_set(o, "numerics_after", b->entry->tag);
	return o;
}

json_t *kernels_changes(const struct kset *before, const struct kset *after)
{
	json_t *list = json_array();

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++) {
			bool uniform = slots_uniform(before, op, ph) && slots_uniform(after, op, ph);

			for (int wf = 0; wf < (uniform ? 1 : DSV4_N_WFMT); wf++) {
				json_t *o = slot_change(before, after, op, ph, wf, uniform);

				if (o)
					json_array_append_new(list, o);
			}
		}
	return list;
}

/* ---- sets in a list ---- */

/* True the first time p is met, and notes it; a set has at most KERNELS_MAX_PROVIDERS, more are not told. */
static bool set_first(const struct dsv4_plugin **seen, int *n, const struct dsv4_plugin *p)
{
	for (int i = 0; i < *n; i++)
		if (seen[i] == p)
			return false;
	if (*n == KERNELS_MAX_PROVIDERS)
		return false;
	seen[(*n)++] = p;
	return true;
}

/* "ref", or "avx2+ref" where several providers share a family's slots of one phase. */
static json_t *set_providers(const struct kset *ks, int family, int ph)
{
	const struct dsv4_plugin *seen[KERNELS_MAX_PROVIDERS];
	struct buf names = { 0 };
	json_t *s;
	int n = 0;

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int wf = 0; wf < DSV4_N_WFMT && (int)op_family((enum dsv4_op)op) == family; wf++) {
			const struct dsv4_plugin *p = slot_at(ks, op, ph, wf)->provider->plugin;

			if (set_first(seen, &n, p))
				buf_printf(&names, "%s%s", names.len ? "+" : "", p->name);
		}
	s = json_string(buf_str(&names));
	buf_fini(&names);
	return s;
}

json_t *kernels_set_json(struct daemon *d, const struct kernels_set *s)
{
	const struct kset *ks = s->kset;
	const struct kernels *k = d->kernels;
	json_t *families = json_array();
	int pins = kset_pins(ks);

	for (int f = 0; f < DSV4_N_FAMILY; f++)
		json_array_append_new(families,
				      json_pack("{s:s, s:o, s:o}", "family",
						op_family_name((enum dsv4_family)f), "prefill",
						set_providers(ks, f, DSV4_PREFILL), "decode",
						set_providers(ks, f, DSV4_DECODE)));
	return json_pack("{s:s, s:I, s:b, s:b, s:b, s:i, s:o}", "name", kset_name(ks), "generation",
			 (json_int_t)kset_generation(ks), "active", s == k->active, "previous",
			 s == k->previous, "last_good", kset_generation(ks) == k->good_generation, "pins", pins,
			 "families", families);
}

json_t *kernels_swapped(struct daemon *d, const struct kernels_set *before, json_t *changes)
{
	const struct kernels *k = d->kernels;
	const struct kset *ks = k->active->kset;

	return json_pack("{s:b, s:s, s:I, s:s, s:o}", "changed", k->active != before, "name", kset_name(ks),
			 "generation", (json_int_t)kset_generation(ks), "previous",
			 k->previous ? kset_name(k->previous->kset) : "", "changes", changes);
}
