/* SPDX-License-Identifier: MIT
 * indexer.h - what the kernel of indexer.cu that scores is told. */
#ifndef CUDA_BASE_INDEXER_H
#define CUDA_BASE_INDEXER_H

#include "plugins/cuda/indexer_args.h"

#define INDEXER_WARPS 8
#define INDEXER_KEYS 8    /* of a warp */

/* Grid: tokens, tiles of 64 keys. Dynamic shared memory: dim * lanes floats. */
struct cuda_base_score_args {
	struct indexer_score_args call;
	int32_t lanes;    /* heads at a time, at most 32 */
};

#endif
