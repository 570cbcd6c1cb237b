/* SPDX-License-Identifier: MIT
 * plugin_map.c - a plugin in this process: mapped from a fresh copy, opened, warmed, closed, unmapped for sure.
 * Threads: one at a time per mapping (ops). Locks: none. */
#include "engine/plugin/plugin_map.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Some part of the copy is still in the address space. By the last component, which no other file ever had: the
 * kernel shows the path as it resolved it, and marks it when it is unlinked. */
static bool plugin_map_is_mapped(const char *copy)
{
	const char *name = strrchr(copy, '/');
	FILE *f = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t cap = 0;
	bool found = false;

	while (f && !found && getline(&line, &cap, f) > 0)
		found = strstr(line, name) != NULL;
	free(line);
	if (f)
		fclose(f);
	return found || !f;
}

/* dlclose, and is it gone. A destructor, a thread-local or a unique symbol of C++ can keep it. */
static int plugin_map_unmap(struct plugin_map *m, struct buf *why)
{
	if (m->handle && dlclose(m->handle))
		return plugin_refuse(why, PLUGIN_REFUSED_stays_mapped, "%s: %s", m->copy, dlerror());
	if (plugin_map_is_mapped(m->copy))
		return plugin_refuse(why, PLUGIN_REFUSED_stays_mapped, "%s is mapped after dlclose", m->copy);
	return 0;
}

static int plugin_map_load(struct plugin_map *m, const struct plugin_file *pf, provider_log_f *log, struct buf *why)
{
	const struct dsv4_plugin *p;

	m->handle = dlopen(m->copy, RTLD_NOW | RTLD_LOCAL);
	if (!m->handle)
		return plugin_refuse(why, PLUGIN_REFUSED_map, "%s", dlerror());
	p = dlsym(m->handle, DSV4_PLUGIN_SYMBOL);
	if (!p)
		return plugin_refuse(why, PLUGIN_REFUSED_no_symbol, "%s is not exported", DSV4_PLUGIN_SYMBOL);
	provider_init(&m->provider, p, log);
	memcpy(m->provider.sha256, pf->sha256, sizeof pf->sha256);
	return plugin_facts_match(&pf->facts, p, why);
}

int plugin_map_new(char *copy, const struct plugin_file *pf, provider_log_f *log, struct plugin_map **ret_m,
		   struct buf *why)
{
	struct plugin_map *m = mem_new(sizeof *m);
	int rc;

	must(strchr(copy, '/'));
	m->copy = copy;
	rc = plugin_map_load(m, pf, log, why);
	if (rc)
		plugin_map_free(&m, NULL);
	else
		*ret_m = m;
	return rc;
}

void plugin_map_on(struct plugin_map *m, struct device *d)
{
	must(!m->opened);
	if (*m->provider.plugin->gpu && device_is_gpu(d))
		provider_on(&m->provider, d);
}

/* The provider's own words behind the name of the refusal. */
static int plugin_map_refuse(struct buf *why, enum plugin_refusal r, const struct buf *text)
{
	return plugin_refuse(why, r, "%s", buf_str(text));
}

int plugin_map_open(struct plugin_map *m, struct buf *why)
{
	struct buf text = { 0 };
	int rc;

	must(!m->opened);
	rc = provider_open(&m->provider, &text);
	m->opened = !rc;
	if (rc)
		plugin_map_refuse(why, PLUGIN_REFUSED_open_failed, &text);
	buf_fini(&text);
	return rc;
}

int plugin_map_warm(struct plugin_map *m, struct buf *why)
{
	struct buf text = { 0 };
	int rc;

	must(m->opened);
	rc = provider_warm(&m->provider, &text);
	if (rc)
		plugin_map_refuse(why, PLUGIN_REFUSED_warm_failed, &text);
	buf_fini(&text);
	return rc;
}

/* After an open() that failed there is nothing to close, but it must not have kept anything either. */
int plugin_map_close(struct plugin_map *m, struct buf *why)
{
	struct buf text = { 0 };
	int rc = 0;

	if (m->opened)
		rc = provider_close(&m->provider, &text);
	else if (atomic_load(&m->provider.n_alloc))
		rc = buf_why(&text, RC_PLUGIN, "open() failed and left %ld bytes", atomic_load(&m->provider.bytes));
	m->opened = false;
	/* Told once; what was left is lost. */
	atomic_store(&m->provider.n_alloc, 0);
	atomic_store(&m->provider.bytes, 0);
	if (rc)
		plugin_map_refuse(why, PLUGIN_REFUSED_leaks, &text);
	buf_fini(&text);
	return rc;
}

int plugin_map_free(struct plugin_map **mp, struct buf *why)
{
	struct plugin_map *m = *mp;
	struct buf left = { 0 }, mapped = { 0 };
	int rc, rc_unmap;

	if (!m)
		return 0;
	*mp = NULL;
	rc = plugin_map_close(m, &left);
	rc_unmap = plugin_map_unmap(m, &mapped);
	if (rc || rc_unmap)
		buf_why(why, RC_PLUGIN, "%s%s%s", buf_str(&left), rc && rc_unmap ? "; " : "", buf_str(&mapped));
	provider_fini(&m->provider);
	unlink(m->copy);
	free(m->copy);
	free(m);
	buf_fini(&left);
	buf_fini(&mapped);
	return rc ? rc : rc_unmap;
}
