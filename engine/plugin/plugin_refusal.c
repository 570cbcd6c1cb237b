/* SPDX-License-Identifier: MIT
 * plugin_refusal.c - the reasons of refusals.def: an error's text begins with the reason's name.
 * Threads: any. Locks: none. */
#include "engine/plugin/plugin_refusal.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

static const struct {
	const char *name, *text;
} plugin_refusals[] = {
	{ "", "" },
#define REFUSAL(id, name, text) { name, text },
#include "engine/plugin/refusals.def"
#undef REFUSAL
};

const char *plugin_refusal_name(enum plugin_refusal r)
{
	must(r >= 0 && r < PLUGIN_N_REFUSAL);
	return plugin_refusals[r].name;
}

const char *plugin_refusal_text(enum plugin_refusal r)
{
	must(r >= 0 && r < PLUGIN_N_REFUSAL);
	return plugin_refusals[r].text;
}

enum plugin_refusal plugin_refusal_find(const char *why)
{
	size_t n = strcspn(why, ":");

	for (int r = PLUGIN_ACCEPTED + 1; r < PLUGIN_N_REFUSAL; r++)
		if (strlen(plugin_refusals[r].name) == n && !strncmp(why, plugin_refusals[r].name, n))
			return (enum plugin_refusal)r;
	return PLUGIN_ACCEPTED;
}

int plugin_refuse(struct buf *why, enum plugin_refusal r, const char *fmt, ...)
{
	struct buf text = { 0 };
	va_list ap;

	buf_printf(&text, "%s: ", plugin_refusal_name(r));
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	buf_why(why, RC_PLUGIN, "%s", buf_str(&text));
	buf_fini(&text);
	return RC_PLUGIN;
}
