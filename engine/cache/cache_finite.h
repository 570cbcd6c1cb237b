/* SPDX-License-Identifier: MIT
 * cache_finite.h - are cached rows numbers? What is NaN or infinite would fail every request that goes on from it.
 * Threads: any. Locks: none. */
#ifndef ENGINE_CACHE_FINITE_H
#define ENGINE_CACHE_FINITE_H

#include "engine/model/sequence.h"

#include <stdbool.h>

/* All rows of all layers, which the host reads. */
bool cache_finite_block(const struct sequence_layout *l, struct sequence_block *b);
bool cache_finite_state(const struct sequence_layout *l, struct sequence_state *st);

#endif
