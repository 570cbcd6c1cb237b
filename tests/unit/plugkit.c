/* SPDX-License-Identifier: MIT
 * plugkit.c - this tree's own plugins, mapped, for tests that run them in the model.
 * Threads: the test's. Locks: none. */
#include "tests/unit/plugkit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plugkit_init(struct plugkit *p, const char *name)
{
	const char *top = getenv("top_builddir");
	struct buf why = { 0 };
	char path[4096];
	const struct dsv4_plugin *plugin;

	snprintf(path, sizeof path, "%s/plugins/%s.so", top ? top : ".", name);
	p->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!p->handle)
		fail_msg("%s", dlerror());
	plugin = dlsym(p->handle, DSV4_PLUGIN_SYMBOL);
	assert_non_null(plugin);
	assert_string_equal(plugin->name, name);
	provider_init(&p->provider, plugin, NULL);
	if (provider_open(&p->provider, &why) < 0 || provider_warm(&p->provider, &why) < 0)
		fail_msg("%s: %s", name, buf_str(&why));
	buf_fini(&why);
}

void plugkit_fini(struct plugkit *p)
{
	struct buf why = { 0 };

	if (provider_close(&p->provider, &why) < 0)
		fail_msg("%s: %s", p->provider.plugin->name, buf_str(&why));
	dlclose(p->handle);
	buf_fini(&why);
}

static struct provider *plugkit_find(void *arg, const char *name)
{
	struct plugkit *p = arg;

	return strcmp(name, p->provider.plugin->name) ? NULL : &p->provider;
}

struct kset *plugkit_set(struct plugkit *p, const char *families)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	char *list = strdup(families), *save, *word;
	struct buf why = { 0 };
	struct kset *ks;
	int n = 0;

	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char spec[128];

		snprintf(spec, sizeof spec, "%s=%s", word, p->provider.plugin->name);
		if (kset_overlay_parse(&ov[n++], spec, plugkit_find, p, &why) < 0)
			fail_msg("%s: %s", spec, buf_str(&why));
	}
	if (kset_build(ov, n, &ks, &why) < 0)
		fail_msg("%s: %s", families, buf_str(&why));
	free(list);
	buf_fini(&why);
	return ks;
}
