/* SPDX-License-Identifier: MIT
 * choices.c - parameters choose kernels (choices.def): numerics and kernel set change in one step.
 * Threads: control. Locks: none. */
#include "daemon/kernels/choices.h"
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/plugins.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <string.h>

static const struct choice {
	const char *param, *value;
	enum dsv4_family family;
	const char *tag;
} choices[] = {
#define CHOICE(param, value, family, tag) { #param, #value, DSV4_##family, tag },
#include "daemon/kernels/choices.def"
#undef CHOICE
};

/* Has the plugin, among these ops (0: all), a LOSSY one of this family that rounds so? */
static bool choice_offers(const struct dsv4_plugin *p, uint64_t ops, const struct choice *c)
{
	for (uint32_t i = 0; i < p->n_op; i++)
		if (op_family((enum dsv4_op)p->op[i].op) == c->family && (!ops || ops >> p->op[i].op & 1) &&
		    p->op[i].numerics == DSV4_LOSSY &&
		    !strcmp(p->op[i].tag, c->tag))
			return true;
	return false;
}

static void choice_drop(const struct choice *c, struct kset_overlay *ov, int *n)
{
	int kept = 0;

	for (int i = 0; i < *n; i++)
		if (ov[i].family != c->family || !choice_offers(ov[i].provider->plugin, ov[i].ops, c))
			ov[kept++] = ov[i];
	*n = kept;
}

static struct provider *choice_find(struct daemon *d, const struct choice *c)
{
	struct provider *newest = NULL;
	uint64_t generation = 0;

	list_each(p, &d->plugins->list, struct plugin, node)
		if (plugin_mapped(p) && !p->superseded && !p->forget && p->intent != INTENT_COLD &&
		    p->generation > generation && choice_offers(p->map->provider.plugin, 0, c)) {
			newest = &p->map->provider;
			generation = p->generation;
		}
	return newest;
}

/* What the overlays become when the parameter takes this value. */
static int choices_overlay(struct daemon *d, const char *param, const char *value, struct kset_overlay *ov, int *n,
			   struct buf *why)
{
	for (size_t i = 0; i < mem_countof(choices); i++)
		if (!strcmp(choices[i].param, param) && strcmp(choices[i].value, value) != 0)
			choice_drop(&choices[i], ov, n);
	for (size_t i = 0; i < mem_countof(choices); i++) {
		const struct choice *c = &choices[i];
		struct provider *p = strcmp(c->param, param) || strcmp(c->value, value) ? NULL : choice_find(d, c);

		if (p && *n == KSET_MAX_OVERLAYS)
			return buf_why(why, RC_TOO_LARGE, "more than %d overlays", KSET_MAX_OVERLAYS);
		if (p)
			ov[(*n)++] = (struct kset_overlay){ c->family, -1, p, 0 };
	}
	return 0;
}

/* The set that these values choose, pinned; the active one when they choose nothing else. */
static int choices_build(struct daemon *d, const struct kset_overlay *ov, int n, struct kernels_set **ret_s,
			 json_t **ret_changes, struct buf *why)
{
	struct kernels_set *now = d->kernels->active;
	bool same = kset_overlays_equal(ov, n, now->ov, now->n_ov);
	int r = same ? 0 : kernels_build(d, ov, n, ret_s, why);

	if (r)
		return r;
	if (same) {
		kset_pin(now->kset);
		*ret_s = now;
	}
	*ret_changes = kernels_changes(now->kset, (*ret_s)->kset);
	return 0;
}

int choices_set(struct daemon *d, json_t *values, bool keep_cache, json_t **ret_changes, struct buf *why)
{
	const struct kernels_how how = { .name = "param", .keep_cache = keep_cache };
	struct kset_overlay ov[KSET_MAX_OVERLAYS] = { 0 };
	struct kernels_set *now = d->kernels->active, *s;
	struct numerics n;
	const char *name;
	json_t *v;
	int n_ov = now->n_ov, r = 0;

	memcpy(ov, now->ov, sizeof ov);
	engine_numerics(d->engine, &n);
	json_object_foreach(values, name, v)
		if (!r && numerics_find(name, strlen(name))) {
			r = numerics_set(&n, name, json_string_value(v), why);
			r = r ? r : choices_overlay(d, name, json_string_value(v), ov, &n_ov, why);
		}
	r = r ? r : kset_overlays_reduce(ov, &n_ov, why);
	r = r ? r : choices_build(d, ov, n_ov, &s, ret_changes, why);
	return r ? r : kernels_activate(d, s, &n, &how, why);
}
