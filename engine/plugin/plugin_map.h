/* SPDX-License-Identifier: MIT
 * plugin_map.h - a plugin in this process: mapped from a fresh copy, opened, warmed, closed, unmapped for sure.
 * Threads: one at a time per mapping (ops). Locks: none. */
#ifndef ENGINE_PLUGIN_MAP_H
#define ENGINE_PLUGIN_MAP_H

#include "engine/kernels/provider.h"
#include "engine/plugin/plugin_file.h"

#include <stdbool.h>

struct plugin_map {
	struct provider provider;
	char *copy;                /* path of the mapped copy */
	void *handle;
	bool opened;
};

/* dlopens `copy`, a copy of the file, and checks the descriptor against its facts. Takes `copy` over, also on failure:
 * it is unlinked and freed at the end. RC_PLUGIN cannot-map, no-symbol, facts-differ. */
int plugin_map_new(char *copy, const struct plugin_file *pf, provider_log_f *log, struct plugin_map **ret_m,
		   struct buf *why);
/* Before plugin_map_open(): one that computes on a GPU does so on this; on each, where it is called for several, rank
 * 0's first. Nothing for others. */
void plugin_map_on(struct plugin_map *m, struct device *d);
/* Calls the plugin's open(), warm(). RC_PLUGIN open-failed, warm-failed: only plugin_map_free() may follow. */
int plugin_map_open(struct plugin_map *m, struct buf *why);
int plugin_map_warm(struct plugin_map *m, struct buf *why);
/* Calls the plugin's close() if it is open; it may be opened again. RC_PLUGIN leaks. No set may use the provider. */
int plugin_map_close(struct plugin_map *m, struct buf *why);
/* Calls the plugin's close() if it is open, unmaps, unlinks the copy, frees. RC_PLUGIN leaks or stays-mapped: told in
 * why; what can be freed is freed. No set may use the provider. NULL is fine; nulls *m always. */
int plugin_map_free(struct plugin_map **m, struct buf *why);

#endif
