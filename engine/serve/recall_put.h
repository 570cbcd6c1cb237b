/* SPDX-License-Identifier: MIT
 * recall_put.h - the engine's side of recall.h: making one from the ring.
 * Threads: any. Locks: ring, record, one after the other. */
#ifndef ENGINE_RECALL_PUT_H
#define ENGINE_RECALL_PUT_H

#include "engine/serve/recall.h"
#include "engine/serve/ring.h"
#include "engine/text/tokenizer.h"

/* Of all that is in the ring now under that label; holds its records until recall_free(). The
 * tokenizer must outlive it. */
struct recall *recall_new(struct ring *ring, const struct tokenizer *t, const char *label, int max_context);

#endif
