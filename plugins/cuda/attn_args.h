/* SPDX-License-Identifier: MIT
 * attn_args.h - what kernels of attention are told; C fills it, device code reads it. */
#ifndef CUDA_ATTN_ARGS_H
#define CUDA_ATTN_ARGS_H

#include "plugins/dsv4_plugin.h"

#define ATTN_BLOCK 64    /* entries of a list that get one running maximum: part of what the numbers are */
#define ATTN_HEADS 8     /* most heads that threads of a block have */
#define ATTN_THREADS 128 /* of a block */

struct attn_args {
	int32_t n_head, dim, n_seq, window;
	int32_t heads;              /* that threads of a block have, at most ATTN_HEADS */
	uint32_t prec;
	float scale;
	const struct dsv4_seq *seq; /* device memory */
	const float *q, *sink;
	const int32_t *rows;
	int64_t ldr;
	const int32_t *count;
	float *out;
};

#endif
