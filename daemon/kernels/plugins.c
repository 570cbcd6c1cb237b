/* SPDX-License-Identifier: MIT
 * plugins.c - the daemon's plugins: what the operator wants of each (intent), and what is true (temperature).
 * Threads: control. Locks: none. */
#include "daemon/crash.h"
#include "daemon/kernels/plugins.h"
#include "ctl/varlink.h"
#include "daemon/daemon.h"
#include "daemon/kernels/exactness.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

struct plugins *plugins_new(void)
{
	struct plugins *ps = mem_new(sizeof *ps);

	list_init(&ps->list);
	return ps;
}

void plugins_drop(struct plugin *p)
{
	must(!p->map);
	list_del(&p->node);
	free(p->name);
	free(p->path);
	free(p->complaint);
	free(p);
}

void plugins_free(struct plugins **pps)
{
	struct plugins *ps = *pps;

	*pps = NULL;
	if (!ps)
		return;
	while (!list_empty(&ps->list)) {
		struct plugin *p = list_entry(ps->list.next, struct plugin, node);
		struct buf why = { 0 };

		if (p->map && plugin_map_free(&p->map, &why))
			log_event(LOG_LV_WARN, "plugin_complaint", "name=%s why=%s", p->name,
				  LOGQ(buf_str(&why)));
		buf_fini(&why);
		plugins_drop(p);
	}
	free(ps);
}

/* ---- asking ---- */

bool plugin_mapped(const struct plugin *p)
{
	return p->temp == TEMP_WARM;
}

enum plugin_temperature plugin_temperature(const struct plugin *p)
{
	return plugin_mapped(p) && (p->wanted || atomic_load(&p->map->provider.users) > 0) ? TEMP_BUSY : p->temp;
}

const char *plugin_intent_name(enum plugin_intent i)
{
	static const char *const names[] = { "auto", "warm", "cold" };

	return names[i];
}

const char *plugin_temperature_name(enum plugin_temperature t)
{
	static const char *const names[] = { "init", "cold", "warm", "busy", "cooling" };

	return names[t];
}

struct plugin *plugins_find(struct daemon *d, const char *name)
{
	list_each(p, &d->plugins->list, struct plugin, node)
		if (!p->superseded && !p->forget && !strcmp(p->name, name))
			return p;
	return NULL;
}

int plugins_need(struct daemon *d, const char *name, struct plugin **ret_p, struct buf *why)
{
	*ret_p = plugins_find(d, name);
	if (!*ret_p && strcmp(name, provider_ref.plugin->name) == 0)
		return buf_why(why, RC_INVALID, "%s is built in: it is always there, and always warm", name);
	return *ret_p ? 0 : buf_why(why, RC_NOT_FOUND, "no plugin named '%.96s' is loaded", name);
}

struct plugin *plugins_of(struct daemon *d, const struct provider *provider)
{
	list_each(p, &d->plugins->list, struct plugin, node)
		if (p->map && &p->map->provider == provider)
			return p;
	return NULL;
}

struct provider *plugins_provider(void *arg, const char *name)
{
	struct plugin *p = plugins_find(arg, name);

	return p && plugin_mapped(p) && p->intent != INTENT_COLD ? &p->map->provider : NULL;
}

int plugins_usable(struct daemon *d, const char *name, struct plugin **ret_p, struct buf *why)
{
	struct plugin *p = plugins_find(d, name);

	*ret_p = p;
	if (!p)
		return strcmp(name, provider_ref.plugin->name) == 0 ? 0 :
		       buf_why(why, RC_NOT_FOUND, "no plugin named '%.96s' is loaded", name);
	if (p->intent == INTENT_COLD)
		return plugin_refuse(why, PLUGIN_REFUSED_intent_cold, "the operator's intent for %s is cold", name);
	return 0;
}

/* ---- cooling what is due ---- */

void plugins_touch(struct daemon *d, const struct provider *provider)
{
	struct plugin *p = plugins_of(d, provider);

	if (p)
		p->idle_since = 0;
}

static bool plugins_due(struct daemon *d, struct plugin *p, long long now)
{
	if (p->superseded || p->forget || p->intent == INTENT_COLD)
		return true;
	if (!p->idle_since)
		p->idle_since = now;
	/* Before anything is served the start still wants what it has loaded. */
	return p->intent == INTENT_AUTO && d->http && now - p->idle_since >= conf_int(&d->conf, CONF_cooldown) * 1000;
}

/* Nobody but the control thread makes users of one that has none, so what is seen unused stays so. */
void plugins_tell_crash(struct daemon *d)
{
	struct buf names = { 0 };

	list_each(p, &d->plugins->list, struct plugin, node)
		if (p->map)
			buf_printf(&names, "%s%s", names.len ? " " : "", p->name);
	crash_plugins(buf_str(&names));
	buf_fini(&names);
}

void plugins_settle(struct daemon *d)
{
	long long now = clock_ms();
	struct list *at, *next;

	for (at = d->plugins->list.next; at != &d->plugins->list; at = next) {
		struct plugin *p = list_entry(at, struct plugin, node);
		enum plugin_temperature t = plugin_temperature(p);

		next = at->next;
		if (p->wanted)
			continue;
		if (t == TEMP_BUSY)
			p->idle_since = 0;
		else if (t == TEMP_WARM && plugins_due(d, p, now))
			plugin_cool(d, p); /* when ops is full: at the next tick */
		else if (t == TEMP_COLD && ((p->superseded && !p->complaint) || p->forget))
			plugins_drop(p);
	}
}

void plugin_complain(struct plugin *p, const char *why)
{
	free(p->complaint);
	p->complaint = why ? mem_strdup(why) : NULL;
}

/* ---- as JSON ---- */

static json_t *plugin_phases_json(unsigned phases)
{
	json_t *a = json_array();

	for (int ph = 0; ph < DSV4_N_PHASE; ph++)
		if (phases >> ph & 1)
			json_array_append_new(a, json_string(op_phase_name((enum dsv4_phase)ph)));
	return a;
}

static json_t *plugin_wfmts_json(uint32_t wfmts)
{
	json_t *a = json_array();
	uint32_t all = (1u << DSV4_N_WFMT) - 1;

	if ((wfmts & all) == all)
		json_array_append_new(a, json_string("all"));
	else
		for (int wf = 0; wf < DSV4_N_WFMT; wf++)
			if (wfmts >> wf & 1)
				json_array_append_new(a, json_string(op_wfmt_name((enum dsv4_wfmt)wf)));
	return a;
}

json_t *plugin_ops_json(const struct plugin_facts *f)
{
	json_t *ops = json_array();

	for (int i = 0; i < f->n_op; i++) {
		const struct plugin_fact_op *o = &f->op[i];

		json_array_append_new(ops, json_pack(
			"{s:s, s:s, s:o, s:o, s:s, s:s, s:s}", "op", op_name((enum dsv4_op)o->op), "family",
			op_family_name(op_family((enum dsv4_op)o->op)), "phases",
			plugin_phases_json(o->phases), "weights", plugin_wfmts_json(o->wfmts), "numerics",
			op_numerics_name((enum dsv4_numerics)o->numerics), "tag", o->tag, "reads",
			o->reads & DSV4_READS_PACKED ? "packed" : "native"));
	}
	return ops;
}

static bool plugin_json_has(json_t *array, const char *s)
{
	json_t *v;
	size_t i;

	json_array_foreach(array, i, v)
		if (!strcmp(json_string_value(v), s))
			return true;
	return false;
}

/* What the ops are of, and how they round: each once. */
static json_t *plugin_words(const struct plugin_facts *f, bool tags)
{
	json_t *a = json_array();

	for (int i = 0; i < f->n_op; i++) {
		const char *s = tags ? f->op[i].tag : op_family_name(op_family((enum dsv4_op)f->op[i].op));

		if (!plugin_json_has(a, s))
			json_array_append_new(a, json_string(s));
	}
	return a;
}

json_t *plugin_json(const struct plugin *p)
{
	const struct plugin_facts *f = &p->facts;
	int users = p->map ? atomic_load(&p->map->provider.users) : 0;
	const char *complaint = p->complaint ? p->complaint : exactness_why(p->sha256);

	return json_pack("{s:s, s:s, s:b, s:o, s:s, s:s, s:s, s:i, s:I, s:b, s:i, s:o, s:o, s:s, s:s, s:o}", "name",
			 p->name, "version", f->version, "builtin", 0, "file",
			 varlink_string(p->path, strlen(p->path)), "sha256", p->sha256, "intent",
			 plugin_intent_name(p->intent), "temperature",
			 plugin_temperature_name(plugin_temperature(p)), "users", users, "generation",
			 (json_int_t)p->generation, "superseded", p->superseded && p->generation, "ops", f->n_op,
			 "families", plugin_words(f, false), "tags", plugin_words(f, true), "cpu", f->cpu, "exact",
			 exactness_name(f, p->sha256), "complaint", varlink_string(complaint, strlen(complaint)));
}
