/* SPDX-License-Identifier: MIT
 * plugin_map.h - a plugin in this process: mapped from a fresh copy, opened, warmed, closed, unmapped for sure.
 * Threads: one at a time per mapping (ops). Locks: none. */
#ifndef ENGINE_PLUGIN_MAP_H
#define ENGINE_PLUGIN_MAP_H

#include "engine/model/provider.h"
#include "engine/plugin/plugin_file.h"

#include <stdbool.h>

struct plugin_map {
	struct provider provider;
	char *copy;                /* path of the mapped copy */
	void *handle;
};

/* dlopens `copy` (taken over, also on failure: unlinked and freed at the end) and checks the descriptor against
 * the facts. RC_PLUGIN. Then provider_open(), provider_warm() as the caller likes. */
int plugin_map_new(char *copy, const struct plugin_facts *f, provider_log_f *log, struct plugin_map **ret_m,
		   struct buf *why);
/* Closes the provider if it is open, unmaps, unlinks the copy, frees. RC_PLUGIN leaks or stays-mapped: told in
 * why; what can be freed is freed. Nulls *m always. */
int plugin_map_free(struct plugin_map **m, bool opened, struct buf *why);

#endif
