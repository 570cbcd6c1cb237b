/* SPDX-License-Identifier: MIT
 * start_check.c - [kernels] is looked at without a daemon: words, the plugins' files, what these offer.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/plugins.h"
#include "daemon/kernels/start.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A plugin's file, and can it run here? */
static int check_open(const struct conf *c, const char *file, struct plugin_file **ret_pf, struct buf *why)
{
	char *path = plugin_file_name(file);
	int r = plugin_file_open(conf_text(c, CONF_dir), path, geteuid(), ret_pf, why);

	free(path);
	r = r ? r : plugin_facts_fit(&(*ret_pf)->facts, strcmp(conf_text(c, CONF_device), "cpu") ? NULL : device_cpu(),
				     why);
	if (r)
		plugin_file_free(ret_pf);
	return r;
}

/* The file of a plugin's name: of what `load` names the last that has it, else NAME.so. */
static int check_find(const struct conf *c, const char *name, struct plugin_file **ret_pf, struct buf *why)
{
	json_t *load = start_words(conf_text(c, CONF_load)), *w;
	struct plugin_file *pf;
	size_t i;

	*ret_pf = NULL;
	json_array_foreach(load, i, w) {
		pf = NULL;
		if (check_open(c, json_string_value(w), &pf, NULL) == 0 && !strcmp(pf->facts.name, name)) {
			plugin_file_free(ret_pf);
			*ret_pf = pf;
		} else {
			plugin_file_free(&pf);
		}
	}
	json_decref(load);
	return *ret_pf ? 0 : check_open(c, name, ret_pf, why);
}

static bool check_offers(const struct plugin_facts *f, const struct kset_overlay *ov, int n)
{
	for (int i = 0; i < f->n_op; i++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int o = 0; o < n; o++)
				if ((f->op[i].phases >> ph & 1) &&
				    kset_overlay_covers(&ov[o], (enum dsv4_op)f->op[i].op, (enum dsv4_phase)ph))
					return true;
	return n == 0; /* all=NAME */
}

static int check_spec(const struct conf *c, const char *spec, struct buf *why)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	struct plugin_file *pf = NULL;
	const char *name;
	int n = 0, r = kernels_spec_read(spec, ov, &n, &name, why);

	if (r || !strcmp(name, provider_ref.plugin->name))
		return r;
	r = check_find(c, name, &pf, why);
	if (!r && strcmp(pf->facts.name, name) != 0)
		r = buf_why(why, RC_CONFIG, "%s is plugin %s", pf->path, pf->facts.name);
	if (!r && !check_offers(&pf->facts, ov, n))
		r = buf_why(why, RC_CONFIG, "plugin %s has no such op", name);
	plugin_file_free(&pf);
	return r;
}

/* Their files need not be there. */
static int check_names(const struct conf *c, enum conf_key key, const char *name, struct buf *why)
{
	json_t *names = start_words(conf_text(c, key)), *w;
	size_t i;
	int r = 0;

	json_array_foreach(names, i, w)
		if (!r && !plugin_facts_is_name(json_string_value(w)))
			r = buf_why(why, RC_CONFIG, "[kernels] %s: %s is no plugin's name", name, json_string_value(w));
	json_decref(names);
	return r;
}

static int check_use(const struct conf *c, struct buf *why)
{
	const char *text = conf_text(c, CONF_use);
	json_t *use = strcmp(text, "auto") && strcmp(text, provider_ref.plugin->name) ? start_words(text) :
		json_array();
	struct buf reason = { 0 };
	json_t *w;
	size_t i;
	int r = 0;

	json_array_foreach(use, i, w)
		if ((r = check_spec(c, json_string_value(w), &reason)) != 0) {
			r = buf_why(why, RC_CONFIG, "[kernels] use: %s: %s", json_string_value(w),
				    reason.len ? buf_str(&reason) : rc_text(r));
			break;
		}
	json_decref(use);
	buf_fini(&reason);
	return r;
}

int start_check(const struct conf *c, struct buf *why)
{
	int r = check_names(c, CONF_prefer, "prefer", why);

	r = r ? r : check_names(c, CONF_prefer_gpu, "prefer_gpu", why);
	return r ? r : check_use(c, why);
}
