/* SPDX-License-Identifier: MIT
 * attn.h - what the kernels of cuda_attn_splitk.cu are told; C fills it, device code reads it. */
#ifndef CUDA_ATTN_SPLITK_ATTN_H
#define CUDA_ATTN_SPLITK_ATTN_H

#include "plugins/dsv4_plugin.h"

#define ATTN_HEADS 8    /* most heads of a block */
#define ATTN_CHUNK 256  /* entries of the list whose weighted rows one block adds: 4 blocks of 64 */

/* Tokens [tok0, tok0 + n_tok) of the batch; scratch is by their number among these. Grids: of the scores, tokens, tiles of
 * heads, blocks of 64 entries; of the chunks, tokens, tiles of heads, chunks; of the merge, tokens, heads. */
struct cuda_attn_splitk_args {
	int32_t n_head, dim, n_seq, window;
	int32_t heads;              /* of a block */
	uint32_t prec;
	float scale;
	int64_t tok0;
	const struct dsv4_seq *seq; /* device memory */
	const float *q, *sink;
	const int32_t *rows;
	int64_t ldr;
	const int32_t *count;
	float *out;
	/* scratch; no list of these tokens is longer than n_block blocks */
	int64_t n_block, n_chunk;
	float *score;               /* [n_tok][n_head][n_block * 64] */
	float *top;                 /* [n_tok][n_head][n_block] largest score of each block */
	float *part;                /* [n_tok][n_head][n_chunk][dim] weighted rows of a chunk */
	float *part_top, *part_den; /* [n_tok][n_head][n_chunk] relative to what, and the sum of weights */
};

#endif
