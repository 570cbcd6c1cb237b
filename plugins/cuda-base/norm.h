/* SPDX-License-Identifier: MIT
 * norm.h - what the kernels of norm.cu are told. */
#ifndef CUDA_BASE_NORM_H
#define CUDA_BASE_NORM_H

#include "plugins/dsv4_plugin.h"

/* Grid: rows. */
struct norm_rms_args {
	int32_t dim;
	float eps;
	const float *weight; /* [dim], or NULL */
	const float *x;
	int64_t ldx;
	float *y;
	int64_t ldy;
};

/* Grid: tokens, heads. Dynamic shared memory: dim floats. */
struct norm_rope_args {
	int32_t dim, rot;
	uint32_t inverse, kv, index;
	const float *cs;     /* [n_tok][rot/2][2] */
	float *x;
	int64_t ldx;
};

/* Grid: rows, tiles of as many columns as a block has threads. */
struct norm_sum_args {
	int32_t dim, n_part, every;
	const float *base;   /* or NULL */
	int64_t ldb;
	const float *x;
	int64_t ldx, ldp;
	float *y;
	int64_t ldy;
};

#endif
