/* SPDX-License-Identifier: MIT
 * attn.h - what the kernel of attn.cu is told. */
#ifndef CUDA_BASE_ATTN_H
#define CUDA_BASE_ATTN_H

#include "plugins/dsv4_plugin.h"

#define ATTN_HEADS 8 /* most heads of a block */

/* Grid: tokens, tiles of `heads` heads. Dynamic shared memory: 2 * heads * dim floats. */
struct attn_args {
	int32_t n_head, dim, n_seq, window;
	int32_t heads;              /* of a block, at most ATTN_HEADS */
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
