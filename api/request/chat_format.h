/* SPDX-License-Identifier: MIT
 * chat_format.h - what the content must be: response_format, and what other servers call it.
 * Threads: any. Locks: none. */
#ifndef API_CHAT_FORMAT_H
#define API_CHAT_FORMAT_H

#include "api/request/field.h"
#include "engine/engine.h"

/* Sets format and schema of the spec (the schema is the body's), and *ret_path to where the schema stands, for errors
 * of the engine; untouched without one. Two formats in one body are refused. */
int chat_format_parse(const struct field_at *b, struct generation_spec *spec, const char **ret_path, struct error *err);

#endif
