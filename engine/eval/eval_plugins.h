/* SPDX-License-Identifier: MIT
 * eval_plugins.h - the kernel plugins of one run of dsv4-eval, from files that the user names.
 * Threads: one. Locks: none. */
#ifndef ENGINE_EVAL_PLUGINS_H
#define ENGINE_EVAL_PLUGINS_H

#include "engine/kernels/kset.h"
#include "engine/plugin/plugin_map.h"

#define EVAL_PLUGINS_MAX 16

/* Start from zeroes. */
struct eval_plugins {
	struct device *device;     /* of those that compute on a GPU; NULL: the CPU */
	struct ranks *ranks;       /* not NULL: on all of these; `device` is the first */
	int n;
	struct plugin_map *map[EVAL_PLUGINS_MAX];
	char *dir;                 /* where the mapped copies are; NULL before the first */
};

/* Maps and opens the plugin in this file, by the rules of plugin_file.h for the file and its directory.
 * RC_PLUGIN, RC_NOT_FOUND, RC_INVALID (too many, or its name is taken), -errno. */
int eval_plugins_load(struct eval_plugins *p, const char *file, struct buf *why);
/* Appends to ov what "FAMILY[.PHASE]=PLUGIN", "OP[.PHASE]=PLUGIN" or "all=PLUGIN" (every family it offers something
 * for) asks for; "all=ref" empties it. ov has room for KSET_MAX_OVERLAYS. Errors as of kset_overlay_parse(),
 * RC_INVALID when there is no room. */
int eval_plugins_overlay(struct eval_plugins *p, const char *spec, struct kset_overlay *ov, int *n, struct buf *why);
/* Closes and unmaps all; no set may use them. RC_PLUGIN when one left something behind. */
int eval_plugins_fini(struct eval_plugins *p, struct buf *why);

#endif
