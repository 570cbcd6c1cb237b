/* SPDX-License-Identifier: MIT
 * unwrap.h - the text in {"input": "..."}, while its JSON still comes in pieces.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_UNWRAP_H
#define API_UNWRAP_H

#include "engine/base/buf.h"

#include <stdbool.h>

enum unwrap_state { UNWRAP_BEFORE, UNWRAP_TEXT, UNWRAP_AFTER, UNWRAP_OTHER };

/* Start from {0}. */
struct unwrap {
	struct buf json;         /* all of it so far */
	size_t at;               /* bytes of it that are dealt with */
	enum unwrap_state state; /* OTHER: it is no such object */
};

/* Appends to `out` what can be told of the text by now: whole characters. */
void unwrap_put(struct unwrap *u, const char *json, size_t len, struct buf *out);
/* No more comes. Of any other object, its one string if it has just that, else the JSON as it came. Finishes u. */
void unwrap_end(struct unwrap *u, struct buf *out);
void unwrap_fini(struct unwrap *u);

#endif
