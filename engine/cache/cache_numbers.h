/* SPDX-License-Identifier: MIT
 * cache_numbers.h - do two kernel sets with their numerics compute the same bits? The numbers' identity.
 * Threads: any. Locks: none.
 *
 * State computed by one kernel is never continued under another, unless both are EXACT and are believed to be
 * (provider_exact()): those have ref's bits. So the identity holds the parameters that alter numbers
 * (numerics_same_state) and of each slot "exact", or who provides it: name, version and the file's sha256. It survives
 * restarts, which a counter would not.
 *
 * What is believed. That a plugin's EXACT op has ref's bits is a claim; checks can refute it and never prove it.
 * Believed are the plugins that this program was built with, byte for byte: between them and ref the cache stays warm,
 * also from the first request on. Any other file counts as itself, so what it computes is found by itself alone,
 * whatever it says of itself: that costs a cold prompt after a swap, and nothing can go wrong. One of ours that is
 * refuted (disproved.h) counts as itself too, and the list of those is a part of every identity: all that was cached
 * until then, in memory and on the disk, is never found again, at once, whichever requests and writers are under way.
 *
 * "Exact" is exact to a version of ref, which is raised when what the engine computes changes, and to what ref computes
 * in this program: cache_numbers_arithmetic(). */
#ifndef ENGINE_CACHE_NUMBERS_H
#define ENGINE_CACHE_NUMBERS_H

#include "engine/kernels/kset.h"
#include "engine/kernels/numerics.h"

#include <stdbool.h>
#include <stdint.h>

/* Once, before the first identity is asked for: a digest of ref's own results, which are those of a compiler and a
 * libm (check_golden()). Zeros without it: a program that keeps no cache over its end needs none. */
void cache_numbers_arithmetic(const uint8_t golden[32]);
/* Once, like that: what the CPU has (cpus_features()), and which GPUs compute, by which a kernel may choose its
 * instructions. What is exact has the same bits everywhere. */
void cache_numbers_machine(const char *features);
/* Once, like that: on so many devices the model is (model_place_ranks()); what their experts give is added up rank by
 * rank, which for each number of them is another order, whatever the kernels. 1, if it is not called. */
void cache_numbers_ranks(int n);
void cache_numbers(const struct kset *ks, const struct numerics *n, uint8_t ret_id[32]);
/* Do the set's two phases compute the same bits? If not, what a decode step computed must not be published: a later
 * prompt would have been prefilled. */
bool cache_phases_agree(const struct kset *ks);

#endif
