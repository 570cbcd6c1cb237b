/* SPDX-License-Identifier: MIT
 * model_config_priv.h - what the readers of config.json and generation_config.json share.
 * Threads: any. Locks: none. */
#ifndef ENGINE_MODEL_CONFIG_PRIV_H
#define ENGINE_MODEL_CONFIG_PRIV_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stddef.h>

/* Parses text that must be one JSON object; `file` is for messages. RC_MODEL, RC_TOO_LARGE. */
int model_config_load(const char *file, const char *json, size_t len, json_t **ret_o, struct buf *why);
/* The value (NULL: nothing) as short text for a message; returns out. */
const char *model_config_show(const json_t *v, char out[64]);

#endif
