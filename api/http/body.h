/* SPDX-License-Identifier: MIT
 * body.h - the JSON in bodies: a request's parsed within limits, a reply's printed.
 * Threads: any. Locks: none. */
#ifndef API_BODY_H
#define API_BODY_H

#include "api/http/error.h"

#include <jansson.h>
#include <stddef.h>

#define BODY_MAX_DEPTH 64
#define BODY_MAX_VALUES 262144 /* a value costs some 100 bytes of memory however short its text */

/* Parses one JSON object. Depth and count are checked before anything is allocated. Refused: more than
 * BODY_MAX_DEPTH levels, more than BODY_MAX_VALUES values, text that is not UTF-8, raw NUL characters,
 * numbers out of a real's range, and duplicate keys (which of the two counts would depend on who reads them). What
 * mend.h knows is taken: no string has a NUL. */
int body_parse(const char *s, size_t len, json_t **ret_body, struct error *err);

/* Appends an object or array, compact, on one line. Takes over `v`. */
void body_print(struct buf *out, json_t *v);

#endif
