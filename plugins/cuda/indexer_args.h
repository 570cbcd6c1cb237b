/* SPDX-License-Identifier: MIT
 * indexer_args.h - what kernels of the indexer are told; C fills it, device code reads it. */
#ifndef CUDA_INDEXER_ARGS_H
#define CUDA_INDEXER_ARGS_H

#include "plugins/dsv4_plugin.h"

struct indexer_score_args {
	int32_t n_head, dim, n_seq, k;
	float scale;
	const struct dsv4_seq *seq; /* device memory */
	const float *q, *w;
	float *score;
	int64_t lds;
};

struct indexer_topk_args {
	int32_t k;
	const int32_t *n_vis;
	const float *score;         /* or NULL: no token has more than k */
	int64_t lds;
	int32_t *rows;
	int64_t ldr;
	int32_t *count;
};

#endif
