/* SPDX-License-Identifier: MIT
 * cache_numbers.h - do two kernel sets with their numerics compute the same bits? The numbers' identity.
 * Threads: any. Locks: none.
 *
 * State computed by one kernel is never continued under another, unless both are EXACT: those have ref's bits. So the
 * identity holds the parameters that alter numbers (numerics_same_state) and of each slot "exact", or who provides it:
 * name, version and the file's sha256. It survives restarts, which a counter would not. "Exact" is exact to a version
 * of ref, which is raised when what the engine computes changes. */
#ifndef ENGINE_CACHE_NUMBERS_H
#define ENGINE_CACHE_NUMBERS_H

#include "engine/model/kset.h"
#include "engine/model/numerics.h"

#include <stdbool.h>
#include <stdint.h>

void cache_numbers(const struct kset *ks, const struct numerics *n, uint8_t ret_id[32]);
/* Do the set's two phases compute the same bits? If not, what a decode step computed must not be published: a later
 * prompt would have been prefilled. */
bool cache_phases_agree(const struct kset *ks);

#endif
