/* SPDX-License-Identifier: MIT
 * eval_plugins.c - the kernel plugins of one run of dsv4-eval, from files that the user names.
 * Threads: one. Locks: none. */
#include "engine/eval/eval_plugins.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For kset_overlay_parse(); arg is the struct eval_plugins. */
static struct provider *eval_plugins_find(void *arg, const char *name)
{
	struct eval_plugins *p = arg;

	for (int i = 0; i < p->n; i++)
		if (!strcmp(p->map[i]->provider.plugin->name, name))
			return &p->map[i]->provider;
	return NULL;
}

static int eval_plugins_make_dir(struct eval_plugins *p, struct buf *why)
{
	const char *tmp = getenv("TMPDIR");
	struct buf name = { 0 };
	int rc = 0;

	buf_printf(&name, "%s/dsv4-eval-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	p->dir = mem_strdup(buf_str(&name));
	if (!mkdtemp(p->dir)) {
		rc = buf_why(why, -errno, "%s: %s", buf_str(&name), strerror(errno));
		free(p->dir);
		p->dir = NULL;
	}
	buf_fini(&name);
	return rc;
}

/* Its directory is the one that the user named it in. */
static int eval_plugins_file(const char *file, struct plugin_file **ret_pf, struct buf *why)
{
	const char *slash = strrchr(file, '/');
	struct buf dir = { 0 };
	int rc;

	buf_printf(&dir, "%.*s", slash && slash > file ? (int)(slash - file) : 1, slash ? file : ".");
	rc = plugin_file_open(buf_str(&dir), slash ? slash + 1 : file, geteuid(), ret_pf, why);
	buf_fini(&dir);
	return rc;
}

static int eval_plugins_map(struct eval_plugins *p, const struct plugin_file *pf, struct buf *why)
{
	struct plugin_map *m = NULL;
	char *copy;
	struct device *d = p->device ? p->device : device_cpu();
	int rc = plugin_facts_fit(&pf->facts, d, why);

	if (rc == 0 && (p->n == EVAL_PLUGINS_MAX || eval_plugins_find(p, pf->facts.name) ||
			!strcmp(pf->facts.name, "ref")))
		rc = buf_why(why, RC_INVALID, "%s: %s", pf->facts.name,
			p->n == EVAL_PLUGINS_MAX ? "too many plugins" : "there is a plugin of this name already");
	if (rc == 0 && !p->dir)
		rc = eval_plugins_make_dir(p, why);
	if (rc == 0)
		rc = plugin_file_copy(pf, p->dir, &copy, why);
	if (rc == 0)
		rc = plugin_map_new(copy, pf, NULL, &m, why);
	for (int i = 0; rc == 0 && i < (p->ranks ? ranks_n(p->ranks) : 1); i++)
		plugin_map_on(m, p->ranks ? ranks_device(p->ranks, i) : d);
	if (rc == 0)
		rc = plugin_map_open(m, why);
	if (rc == 0)
		rc = plugin_map_warm(m, why);
	if (rc == 0)
		p->map[p->n++] = m;
	else
		plugin_map_free(&m, NULL);
	return rc;
}

int eval_plugins_load(struct eval_plugins *p, const char *file, struct buf *why)
{
	struct plugin_file *pf = NULL;
	int rc = eval_plugins_file(file, &pf, why);

	if (rc == 0)
		rc = eval_plugins_map(p, pf, why);
	plugin_file_free(&pf);
	return rc;
}

int eval_plugins_overlay(struct eval_plugins *p, const char *spec, struct kset_overlay *ov, int *n, struct buf *why)
{
	return kset_overlays_add(ov, n, spec, eval_plugins_find, p, why);
}

int eval_plugins_fini(struct eval_plugins *p, struct buf *why)
{
	int rc = 0;

	while (p->n > 0 && rc == 0)
		rc = plugin_map_free(&p->map[--p->n], why);
	while (p->n > 0)
		plugin_map_free(&p->map[--p->n], NULL);
	if (p->dir)
		rmdir(p->dir);
	free(p->dir);
	p->dir = NULL;
	return rc;
}
