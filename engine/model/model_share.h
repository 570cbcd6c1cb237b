/* SPDX-License-Identifier: MIT
 * model_share.h - which part of a model each of several GPUs has: what model_place_ranks() goes by, and the plan for
 * GPUs that are not there (placement.h).
 * Threads: any. Locks: none. */
#ifndef ENGINE_MODEL_SHARE_H
#define ENGINE_MODEL_SHARE_H

#include "engine/checkpoint/model_config.h"

#include <stdbool.h>
#include <stdint.h>

/* Can each have as many heads, with their groups of the output? blocks: their matrices are FP8, whose scales are those of
 * blocks of rows. */
bool model_can_cut_heads(const struct model_config *c, int n_rank, bool blocks);
/* Of n things, what a rank has: from *ret_first on, the count. */
int64_t model_share_of(int64_t n, int rank, int n_rank, int64_t *ret_first);
/* The same of the head's rows, which are cut in tiles of 128. */
int64_t model_head_share(const struct model_config *c, int rank, int n_rank, int64_t *ret_first);

#endif
