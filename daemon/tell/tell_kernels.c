/* SPDX-License-Identifier: MIT
 * tell_kernels.c - metrics of the active kernel set, the numerics, and the plugins.
 * Threads: control. Locks: the engine's, inside calls. */
#include "api/http/metrics.h"
#include "daemon/daemon.h"
#include "daemon/kernels/plugins.h"
#include "daemon/tell/tell.h"

#include <string.h>

#define TELL_MAX_SLOTS 64 /* of one family and phase: ops x weight formats */

/* ---- the set ---- */

/* Is there an earlier slot of the same provider and numerics? */
static bool tell_seen(const struct kset_slot **seen, int n, const struct kset_slot *s)
{
	for (int i = 0; i < n; i++)
		if (seen[i]->provider == s->provider && !strcmp(seen[i]->entry->tag, s->entry->tag))
			return true;
	return false;
}

static void tell_family(const struct kset *ks, enum dsv4_family f, enum dsv4_phase ph, struct metrics *m)
{
	const struct kset_slot *seen[TELL_MAX_SLOTS];
	int n = 0;

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int wf = 0; wf < DSV4_N_WFMT && op_family((enum dsv4_op)op) == f; wf++) {
			const struct kset_slot *s = kset_slot(ks, (enum dsv4_op)op, ph, (enum dsv4_wfmt)wf);

			if (n == TELL_MAX_SLOTS || tell_seen(seen, n, s))
				continue;
			seen[n++] = s;
			metrics_put(m, METRIC_kernels_info, 1,
				    METRICS_LABELS(op_family_name(f), op_phase_name(ph), s->provider->plugin->name,
						   s->entry->tag));
		}
}

static void tell_set(struct daemon *d, struct metrics *m)
{
	struct kset *ks = engine_kset(d->engine);

	for (int f = 0; f < DSV4_N_FAMILY; f++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			tell_family(ks, (enum dsv4_family)f, (enum dsv4_phase)ph, m);
	metrics_put(m, METRIC_kernels_generation, (double)kset_generation(ks), NULL);
	kset_unpin(&ks);
}

static void tell_numerics(struct daemon *d, struct metrics *m)
{
	struct numerics n;
	char value[32];

	engine_numerics(d->engine, &n);
	for (int i = 0; i < numerics_count; i++)
		metrics_put(m, METRIC_parameter_info, 1,
			    METRICS_LABELS(numerics_table[i].name, numerics_get(&n, &numerics_table[i], value)));
}

/* ---- plugins: the newest of each name ---- */

static void tell_temperatures(struct daemon *d, struct metrics *m)
{
	const char *name[TEMP_COOLING + 1];

	for (int t = 0; t <= TEMP_COOLING; t++)
		name[t] = plugin_temperature_name((enum plugin_temperature)t);
	list_each(p, &d->plugins->list, struct plugin, node)
		if (plugins_find(d, p->name) == p)
			metrics_put_state(m, METRIC_plugin_temperature, name, TEMP_COOLING + 1,
					  (int)plugin_temperature(p), p->name);
}

static void tell_intents(struct daemon *d, struct metrics *m)
{
	const char *name[INTENT_COLD + 1];

	for (int i = 0; i <= INTENT_COLD; i++)
		name[i] = plugin_intent_name((enum plugin_intent)i);
	list_each(p, &d->plugins->list, struct plugin, node)
		if (plugins_find(d, p->name) == p)
			metrics_put_state(m, METRIC_plugin_intent, name, INTENT_COLD + 1, (int)p->intent, p->name);
}

static void tell_plugins(struct daemon *d, struct metrics *m)
{
	int old = 0;

	tell_temperatures(d, m);
	tell_intents(d, m);
	list_each(p, &d->plugins->list, struct plugin, node)
		if (plugins_find(d, p->name) == p)
			metrics_put(m, METRIC_plugin_info, 1, METRICS_LABELS(p->name, p->facts.version));
	list_each(p, &d->plugins->list, struct plugin, node)
		old += plugins_find(d, p->name) != p && plugin_mapped(p);
	metrics_put(m, METRIC_plugins_superseded, old, NULL);
}

void tell_kernels(struct daemon *d, struct metrics *m)
{
	tell_set(d, m);
	tell_numerics(d, m);
	tell_plugins(d, m);
}
