/* SPDX-License-Identifier: MIT
 * mhc.h - what the kernels of cuda_mhc.cu are told; C fills it, device code reads it. */
#ifndef CUDA_MHC_MHC_H
#define CUDA_MHC_MHC_H

#include "plugins/dsv4_plugin.h"

#define MHC_MAX 16        /* streams */
#define MHC_SLICE 2048    /* terms of a dot product that one warp sums */
#define MHC_TOKENS 4      /* that share a read of the weights */
#define MHC_WARPS 8
#define MHC_COLUMNS 1024  /* of the result, of a block */

/* Grid: slices, tiles of tokens, tiles of mixes. */
struct cuda_mhc_mix_args {
	const float *fn;      /* [n_mix][n] */
	const float *streams; /* [n_tok][n] */
	int64_t n;            /* hc * dim */
	int32_t n_tok, n_mix;
	uint32_t prec;
	float *part;          /* [slices][n_tok][n_mix + 1]: of fn . x of each row, last of the sum of squares */
};

/* Grid: tokens, tiles of columns. At the head post and comb are NULL. */
struct cuda_mhc_read_args {
	int32_t n_tok, hc, dim, iters, n_slice;
	uint32_t prec;
	float norm_eps, hc_eps;
	const float *base, *scale, *streams, *part;
	float *y, *post, *comb;
};

#endif
