/* SPDX-License-Identifier: MIT
 * generation_config.h - generation_config.json of a checkpoint: the model's sampling defaults (doc/format.md 1).
 * Threads: any. Locks: none. */
#ifndef ENGINE_GENERATION_CONFIG_H
#define ENGINE_GENERATION_CONFIG_H

#include "engine/checkpoint/model_config.h"

/* Sets the sampling defaults of *c; absent fields leave it, unknown ones are ignored. RC_MODEL, RC_TOO_LARGE;
 * *c is unchanged then. */
int generation_config_parse(const char *json, size_t len, struct model_config *c, struct buf *why);

#endif
