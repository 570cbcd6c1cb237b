/* SPDX-License-Identifier: MIT
 * stop.h - finds stop strings in text that comes in pieces, and holds back only what may begin one.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_STOP_H
#define ENGINE_STOP_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define STOP_MAX_BYTES 1024 /* of one stop string */

struct stop_match;

/* Strings are copied; n may be 0. RC_INVALID: more than GEN_MAX_STOPS, or an empty or overlong one, named. */
int stop_match_new(const char *const *stop, int n, struct stop_match **ret_m, struct buf *why);
void stop_match_free(struct stop_match **m);

/* Appends to `out` what can no longer be part of a stop string; every byte put comes out once, but for the
 * stop string found and what follows it. True when one was found (the first to end; of those the longest). */
bool stop_match_put(struct stop_match *m, const char *text, size_t len, struct buf *out);
/* Which of the strings that was, by its index; -1: none so far. */
int stop_match_found(const struct stop_match *m);
/* No more text will follow what was put: appends what was held back, and starts afresh. */
void stop_match_flush(struct stop_match *m, struct buf *out);

#endif
