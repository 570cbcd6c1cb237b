/* SPDX-License-Identifier: MIT
 * indexer.h - what the kernels of indexer.cu are told. */
#ifndef CUDA_BASE_INDEXER_H
#define CUDA_BASE_INDEXER_H

#include "plugins/dsv4_plugin.h"

#define INDEXER_WARPS 8
#define INDEXER_KEYS 8    /* of a warp */

/* Grid: tokens, tiles of 64 keys. Dynamic shared memory: dim * lanes floats. */
struct indexer_score_args {
	int32_t n_head, dim, n_seq, k;
	int32_t lanes;            /* heads at a time, at most 32 */
	float scale;
	const struct dsv4_seq *seq; /* device memory */
	const float *q, *w;
	float *score;
	int64_t lds;
};

/* Grid: tokens. */
struct indexer_topk_args {
	int32_t k;
	const int32_t *n_vis;
	const float *score;       /* or NULL: no token has more than k */
	int64_t lds;
	int32_t *rows;
	int64_t ldr;
	int32_t *count;
};

#endif
