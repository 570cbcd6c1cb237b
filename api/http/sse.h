/* SPDX-License-Identifier: MIT
 * sse.h - the framing of server-sent events.
 * Threads: any. Locks: none. */
#ifndef API_SSE_H
#define API_SSE_H

#include "engine/base/buf.h"

#include <jansson.h>

/* "data: {...}\n\n"; takes over `event`. */
void sse_data(struct buf *out, json_t *event);
/* "event: NAME" before it, for the protocols that name their events; takes over `event`. */
void sse_event(struct buf *out, const char *name, json_t *event);
/* A comment, which clients ignore: it keeps proxies patient and finds out whether anyone still listens. */
void sse_comment(struct buf *out, const char *text);
/* "data: [DONE]\n\n", the last thing in every stream of the protocols that have no terminal event of their own. */
void sse_done(struct buf *out);

#endif
