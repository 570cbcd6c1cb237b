/* SPDX-License-Identifier: MIT
 * indexer.h - what the kernels of cuda_indexer.cu are told; C fills it, device code reads it. */
#ifndef CUDA_INDEXER_INDEXER_H
#define CUDA_INDEXER_INDEXER_H

#include "plugins/cuda/indexer_args.h"

#define INDEXER_WARPS 4
#define INDEXER_WARP_KEYS 16                           /* of a warp */
#define INDEXER_KEYS (INDEXER_WARPS * INDEXER_WARP_KEYS) /* of a block */
#define INDEXER_HEADS 64   /* most heads in shared memory at a time */
#define INDEXER_PAD 8      /* bf16 between rows in shared memory, so that ldmatrix meets every bank */
#define INDEXER_CACHED 8192 /* keys of one token that top-k keeps in shared memory */

/* Grid: tokens, tiles of 64 keys. Dynamic shared memory: (64 + heads) rows of ld bf16. */
struct cuda_indexer_score_args {
	struct indexer_score_args call;
	int32_t heads;            /* at a time, a multiple of 16; 0: a row is too long for tensor cores */
	int32_t ld;               /* dim up to the next 16, and the pad */
};

/* Grid: tokens. Dynamic shared memory: `cached` words. */
struct cuda_indexer_topk_args {
	struct indexer_topk_args call;
	int32_t cached;
};

#endif
