/* SPDX-License-Identifier: MIT
 * opaque.h - reasoning as a token that clients keep and send back without reading it.
 * Threads: any. Locks: none.
 *
 * Two protocols have one: Anthropic's thinking signature, OpenAI's encrypted reasoning. Here nothing is secret in it
 * and nothing is proved by it: it is for clients that ask not to be shown the reasoning, and for requests of which
 * nothing is kept. */
#ifndef API_OPAQUE_H
#define API_OPAQUE_H

#include "engine/base/buf.h"

#include <stdbool.h>

/* Appends a token that stands beside the text: it names it, and holds nothing. */
void opaque_mark(struct buf *out, const char *text, size_t len);
/* Appends a token that holds the text. */
void opaque_hold(struct buf *out, const char *text, size_t len);
/* Appends the text that a token holds; false, and nothing appended, for a mark and for other servers' tokens. */
bool opaque_open(struct buf *out, const char *token, size_t len);

#endif
