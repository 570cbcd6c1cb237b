/* SPDX-License-Identifier: MIT
 * mhc.h - what the kernels of mhc.cu are told. */
#ifndef CUDA_BASE_MHC_H
#define CUDA_BASE_MHC_H

#include "plugins/dsv4_plugin.h"

#define MHC_MAX 16 /* streams */

/* Grid: tokens, n_mix + 1. */
struct mhc_mix_args {
	const float *fn;      /* [n_mix][n] */
	const float *streams; /* [n_tok][n] */
	int64_t n;            /* hc * dim */
	int32_t n_mix;
	uint32_t prec;
	float *mix;           /* [n_tok][n_mix + 1]: fn . x of each row, last the sum of squares */
};

/* Grid: tokens. At the head post and comb are NULL. */
struct mhc_read_args {
	int32_t hc, dim, iters;
	uint32_t prec;
	float norm_eps, hc_eps;
	const float *base, *scale, *streams, *mix;
	float *y, *post, *comb;
};

/* Grid: tokens, tiles of 256 columns. */
struct mhc_post_args {
	int32_t hc, dim;
	uint32_t prec;
	const float *y, *post, *comb;
	float *streams;
};

#endif
