/* SPDX-License-Identifier: MIT
 * kernels_spec.c - kernel sets as operators name them: overlays, plugins, sets that exist.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/last_good.h"
#include "daemon/kernels/plugins.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct provider *spec_any(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return &provider_ref;
}

int kernels_spec_read(const char *spec, struct kset_overlay *ov, int *n, const char **ret_name, struct buf *why)
{
	int r = kset_overlays_add(ov, n, spec, spec_any, NULL, why);

	if (r == 0)
		*ret_name = strchr(spec, '=') + 1;
	return r;
}

int kernels_spec_plugin(const char *spec, const char **ret_name, struct buf *why)
{
	struct kset_overlay one[KSET_MAX_OVERLAYS];
	int n = 0;

	return kernels_spec_read(spec, one, &n, ret_name, why);
}

/* A plugin that is known but cannot be used now has a better reason than "no plugin is loaded". */
static int spec_usable(struct daemon *d, const char *name, struct buf *why)
{
	struct plugin *p;
	int r = plugins_usable(d, name, &p, why);

	if (!r && p && p->temp == TEMP_COOLING)
		r = plugin_refuse(why, PLUGIN_REFUSED_cooling, "%s is being closed; try again", name);
	else if (!r && p && !plugin_mapped(p))
		r = buf_why(why, RC_PLUGIN, "plugin %s is %s, not warm", name,
			    plugin_temperature_name(plugin_temperature(p)));
	return r;
}

int kernels_spec_add(struct daemon *d, const char *spec, struct kset_overlay *ov, int *n, struct buf *why)
{
	const char *name;
	int r = kernels_spec_plugin(spec, &name, why);

	r = r ? r : kset_overlays_add(ov, n, spec, plugins_provider, d, why);
	if (r == RC_NOT_FOUND) {
		int reason = spec_usable(d, name, why);

		r = reason ? reason : r;
	}
	return r ? r : kset_overlays_reduce(ov, n, why);
}

void kernels_spec_print(const struct kset_overlay *ov, struct buf *out)
{
	kset_overlay_print(ov, out);
}

/* ---- a set by any name ---- */

static int spec_build(struct daemon *d, const char *text, struct kernels_set **ret_s, struct buf *why)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	char *all = mem_strdup(text), *save = NULL;
	int n = 0, r = 0;

	for (char *s = strtok_r(all, ",", &save); s && !r; s = strtok_r(NULL, ",", &save))
		r = kernels_spec_add(d, s, ov, &n, why);
	free(all);
	r = r ? r : kset_overlays_reduce(ov, &n, why);
	return r ? r : kernels_build(d, ov, n, ret_s, why);
}

static int spec_build_all(struct daemon *d, const char *name, struct kernels_set **ret_s, struct buf *why)
{
	struct buf spec = { 0 };
	int r;

	buf_printf(&spec, "all=%s", name);
	r = spec_build(d, buf_str(&spec), ret_s, why);
	buf_fini(&spec);
	return r;
}

/* Sets with a name of their own; NULL when `text` is none of these names. */
static struct kernels_set *spec_role(struct daemon *d, const char *text)
{
	struct kernels *k = d->kernels;
	struct kernels_set *s = !strcmp(text, "active") ? k->active : !strcmp(text, "previous") ? k->previous : NULL;

	if (s)
		kset_pin(s->kset);
	return s;
}

int kernels_resolve_set(struct daemon *d, const char *text, struct kernels_set **ret_s, struct buf *why)
{
	struct kernels_set *s = spec_role(d, text);

	if (!s && !strcmp(text, "last-good"))
		return last_good_resolve(d, ret_s, why);
	if (!s && !strcmp(text, "previous"))
		return buf_why(why, RC_NOT_FOUND, "there is no previous kernel set");
	s = s ? s : kernels_find(d, text);
	*ret_s = s;
	if (s)
		return 0;
	if (strchr(text, '='))
		return spec_build(d, text, ret_s, why);
	if (!strcmp(text, provider_ref.plugin->name) || plugins_find(d, text))
		return spec_build_all(d, text, ret_s, why);
	return buf_why(why, RC_NOT_FOUND, "no kernel set or plugin named '%.96s'", text);
}

int kernels_resolve(struct daemon *d, const char *text, struct kset **ret_ks, struct buf *why)
{
	struct kernels_set *s;
	int r = kernels_resolve_set(d, text, &s, why);

	if (r == 0)
		*ret_ks = s->kset;
	return r;
}
