/* SPDX-License-Identifier: MIT
 * plugin_refusal.h - the reasons of refusals.def: an error's text begins with the reason's name.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PLUGIN_REFUSAL_H
#define ENGINE_PLUGIN_REFUSAL_H

#include "engine/base/buf.h"

enum plugin_refusal {
	PLUGIN_ACCEPTED,
#define REFUSAL(id, name, text) PLUGIN_REFUSED_##id,
#include "engine/plugin/refusals.def"
#undef REFUSAL
	PLUGIN_N_REFUSAL
};
const char *plugin_refusal_name(enum plugin_refusal r); /* "" when accepted */
const char *plugin_refusal_text(enum plugin_refusal r); /* what the name stands for */
/* The reason that an error's text begins with; PLUGIN_ACCEPTED when it begins with none. */
enum plugin_refusal plugin_refusal_find(const char *why);
/* Writes "name: what was found" into why and returns RC_PLUGIN. The arguments may be why's own text. */
int plugin_refuse(struct buf *why, enum plugin_refusal r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
