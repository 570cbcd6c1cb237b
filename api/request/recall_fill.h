/* SPDX-License-Identifier: MIT
 * recall_fill.h - histories whose reasoning got lost on the way: filled in from the server's own copy, or marked.
 * Threads: any. Locks: none of its own. */
#ifndef API_RECALL_FILL_H
#define API_RECALL_FILL_H

#include "engine/engine.h"

/* The model's own template keeps the reasoning of earlier turns where tools are offered, and many clients do not send
 * it back. Answers that were asked for under another label are never looked at. An assistant's message with calls but
 * neither reasoning_content nor reasoning gets the reasoning of the answer that made one of its calls, if that is still
 * in the request ring, and "reasoning_gap": "filled"; else the history is taken as it is, with "reasoning_gap": "open".
 * An empty reasoning_content says that there was none, and stays. The mark is for who looks at the request later; the
 * prompt has none. */
void recall_fill(const struct engine *e, const char *label, json_t *messages);

#endif
