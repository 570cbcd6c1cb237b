/* SPDX-License-Identifier: MIT
 * attn.h - what the kernels of cuda_attn_splitk.cu are told; C fills it, device code reads it. */
#ifndef CUDA_ATTN_SPLITK_ATTN_H
#define CUDA_ATTN_SPLITK_ATTN_H

#include "plugins/cuda/attn_args.h"

#define ATTN_CHUNK 256  /* entries of the list whose weighted rows one block adds: 4 blocks of 64 */

/* Tokens [tok0, tok0 + n_tok) of the batch; scratch is by their number among these. Grids: of the scores, tokens, tiles of
 * heads, blocks of 64 entries; of the chunks, tokens, tiles of heads, chunks; of the merge, tokens, heads. */
struct cuda_attn_splitk_args {
	struct attn_args call;
	int64_t tok0;
	/* scratch; no list of these tokens is longer than n_block blocks */
	int64_t n_block, n_chunk;
	float *score;               /* [n_tok][n_head][n_block * 64] */
	float *top;                 /* [n_tok][n_head][n_block] largest score of each block */
	float *part;                /* [n_tok][n_head][n_chunk][dim] weighted rows of a chunk */
	float *part_top, *part_den; /* [n_tok][n_head][n_chunk] relative to what, and the sum of weights */
};

#endif
