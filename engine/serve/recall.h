/* SPDX-License-Identifier: MIT
 * recall.h - what the server itself still knows of answers that a client gives back incompletely: their reasoning.
 * Threads: one at a time per object. Locks: record, while it is made and asked. */
#ifndef ENGINE_RECALL_H
#define ENGINE_RECALL_H

#include "engine/base/buf.h"

#include <stdbool.h>

struct recall;

/* Appends the reasoning that came before the call with that id; false, and nothing, when no request in the ring that
 * was submitted under this object's label made the call, when it was asked for already, or when all that was appended
 * came from more tokens than a context holds: no body has a use for more. */
bool recall_reasoning(struct recall *r, const char *call_id, struct buf *out);
void recall_free(struct recall **r);

#endif
