/* SPDX-License-Identifier: MIT
 * verbs_kernels.c - kernel sets and the providers in them: io.dsv4.Kernels, io.dsv4.Plugins.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/verbs.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define KERNELS_MAX_PROVIDERS 64

/* ---- slots ---- */

static const struct kset_slot *kernels_at(const struct kset *ks, int op, int ph, int wf)
{
	return kset_slot(ks, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf);
}

/* Does one entry serve all weight formats? So it is for every op that has no weight. */
static bool kernels_uniform(const struct kset *ks, int op, int ph)
{
	for (int wf = 1; wf < DSV4_N_WFMT; wf++)
		if (kernels_at(ks, op, ph, wf)->entry != kernels_at(ks, op, ph, 0)->entry)
			return false;
	return true;
}

static json_t *kernels_slot(const struct kset *ks, int op, int ph, int wf, bool uniform)
{
	const struct kset_slot *s = kernels_at(ks, op, ph, wf);
	const char *wfmt = uniform ? "all" : kset_wfmt_name((enum dsv4_wfmt)wf);

	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "op", kset_op_name((enum dsv4_op)op),
			 "family",
			 kset_family_name(kset_op_family((enum dsv4_op)op)), "phase",
			 kset_phase_name((enum dsv4_phase)ph), "wfmt", wfmt, "provider", s->provider->plugin->name,
			 "version",
			 s->provider->plugin->version, "numerics", s->entry->tag);
}

/* The set asked for, pinned: NULL or its name or generation mean the active one, the only one there is. */
static int kernels_find(struct daemon *d, const char *name, struct kset **ret_ks, struct buf *why)
{
	char generation[24];
	int r = daemon_need_engine(d, why);

	if (r)
		return r;
	*ret_ks = engine_kset(d->engine);
	snprintf(generation, sizeof generation, "%llu", (unsigned long long)kset_generation(*ret_ks));
	if (!name || !strcmp(name, kset_name(*ret_ks)) || !strcmp(name, generation))
		return 0;
	kset_unpin(ret_ks);
	return buf_why(why, RC_NOT_FOUND, "no kernel set named '%.64s'", name);
}

int verb_kernels_show(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *slots;
	struct kset *ks;
	int r = kernels_find(c->daemon, call_string(c, "set", NULL), &ks, why);

	if (r)
		return r;
	slots = json_array();
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++) {
			bool uniform = kernels_uniform(ks, op, ph);

			for (int wf = 0; wf < (uniform ? 1 : DSV4_N_WFMT); wf++)
				json_array_append_new(slots, kernels_slot(ks, op, ph, wf, uniform));
		}
	*ret_reply = json_pack("{s:s, s:I, s:o}", "name", kset_name(ks), "generation",
			       (json_int_t)kset_generation(ks),
			       "slots", slots);
	kset_unpin(&ks);
	return 0;
}

/* True the first time p is met, and notes it; a set has at most KERNELS_MAX_PROVIDERS, more are not told. */
static bool kernels_first(const struct dsv4_plugin **seen, int *n, const struct dsv4_plugin *p)
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
static json_t *kernels_providers(const struct kset *ks, int family, int ph)
{
	const struct dsv4_plugin *seen[KERNELS_MAX_PROVIDERS];
	struct buf names = { 0 };
	json_t *s;
	int n = 0;

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int wf = 0; wf < DSV4_N_WFMT && (int)kset_op_family((enum dsv4_op)op) == family; wf++) {
			const struct dsv4_plugin *p = kernels_at(ks, op, ph, wf)->provider->plugin;

			if (kernels_first(seen, &n, p))
				buf_printf(&names, "%s%s", names.len ? "+" : "", p->name);
		}
	s = json_string(buf_str(&names));
	buf_fini(&names);
	return s;
}

int verb_kernels_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *families;
	struct kset *ks;
	int r = kernels_find(c->daemon, NULL, &ks, why);

	if (r)
		return r;
	families = json_array();
	for (int f = 0; f < DSV4_N_FAMILY; f++)
		json_array_append_new(families,
				      json_pack("{s:s, s:o, s:o}", "family",
						kset_family_name((enum dsv4_family)f), "prefill",
						kernels_providers(ks, f, DSV4_PREFILL), "decode",
						kernels_providers(ks, f, DSV4_DECODE)));
	*ret_reply = json_pack("{s:[{s:s, s:I, s:b, s:o}]}", "sets", "name", kset_name(ks), "generation",
			       (json_int_t)kset_generation(ks), "active", 1, "families", families);
	kset_unpin(&ks);
	return 0;
}

/* ---- providers ---- */

static json_t *plugin_row(const struct dsv4_plugin *p)
{
	bool has[DSV4_N_FAMILY] = { false };
	json_t *families = json_array();

	for (uint32_t i = 0; i < p->n_op; i++)
		has[kset_op_family((enum dsv4_op)p->op[i].op)] = true;
	for (int f = 0; f < DSV4_N_FAMILY; f++)
		if (has[f])
			json_array_append_new(families, json_string(kset_family_name((enum dsv4_family)f)));
	return json_pack("{s:s, s:s, s:b, s:I, s:o, s:s}", "name", p->name, "version", p->version, "builtin",
			 1, "ops",
			 (json_int_t)p->n_op, "families", families, "cpu", p->cpu ? p->cpu : "");
}

/* Providers are built in until plugins are loaded from files: all stand in the active set. */
int verb_plugin_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	const struct dsv4_plugin *seen[KERNELS_MAX_PROVIDERS];
	json_t *list;
	struct kset *ks;
	int n = 0, r = kernels_find(c->daemon, NULL, &ks, why);

	if (r)
		return r;
	list = json_array();
	for (int k = 0; k < DSV4_N_OP * DSV4_N_PHASE * DSV4_N_WFMT; k++) {
		const struct dsv4_plugin *p = kernels_at(ks, k / DSV4_N_WFMT / DSV4_N_PHASE,
							 k / DSV4_N_WFMT % DSV4_N_PHASE,
							 k % DSV4_N_WFMT)->provider->plugin;

		if (kernels_first(seen, &n, p))
			json_array_append_new(list, plugin_row(p));
	}
	kset_unpin(&ks);
	*ret_reply = json_pack("{s:o}", "plugins", list);
	return 0;
}
