/* SPDX-License-Identifier: MIT
 * pyjson.h - JSON text exactly as Python's json.dumps(ensure_ascii=False) writes it.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PYJSON_H
#define ENGINE_PYJSON_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stddef.h>

/* Nesting that loading and dumping accept. */
#define PYJSON_MAX_DEPTH 64
/* Values that loading accepts: one of three bytes may cost hundreds in memory. */
#define PYJSON_MAX_VALUES 262144

/* As json.loads: besides JSON it knows NaN, Infinity and integers of any size, which become tagged strings
 * that pyjson_dump writes back as they were. RC_JSON, RC_TOO_LARGE (nested too deep, or too many
 * values). */
int pyjson_load(const char *text, size_t len, json_t **ret_v, struct buf *why);
/* Appends the value, its members in their order. RC_TOO_LARGE when nested too deep. */
int pyjson_dump(const json_t *v, struct buf *out);
/* Is it a string to Python: a JSON string that is no tagged number. */
int pyjson_is_string(const json_t *v);
/* Appends text (UTF-8) escaped for the inside of a JSON string, without the quotes. */
void pyjson_escape(const char *text, size_t len, struct buf *out);
/* Appends repr() of a float; "NaN", "Infinity", "-Infinity" for those. */
void pyjson_float(double v, struct buf *out);

#endif
