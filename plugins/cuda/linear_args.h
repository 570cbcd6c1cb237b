/* SPDX-License-Identifier: MIT
 * linear_args.h - what the kernels of linear_kernels.cuh are told; C fills it, device code reads it. */
#ifndef CUDA_LINEAR_ARGS_H
#define CUDA_LINEAR_ARGS_H

#include "plugins/dsv4_plugin.h"

/* Grid: tiles of tokens, tiles of a group's rows, groups. */
struct linear_args {
	struct dsv4_weight w;
	int32_t n_tok, n_group;
	const float *x;     /* [n_tok][ldx] */
	int64_t ldx;
	const float *scale; /* [n_tok][n_group][ceil(cols / 128)], or NULL: x is not rounded */
	float *y;           /* [n_tok][ldy] */
	int64_t ldy;
	int32_t accumulate; /* add to y */
};

/* Grid: tokens, blocks of 8 times 128 columns, groups. */
struct linear_act_args {
	int64_t cols;       /* of a group */
	const float *x;     /* [n_tok][ldx] */
	int64_t ldx;
	float *q;           /* [n_tok][n_group][cols] */
	float *scale;       /* [n_tok][n_group][ceil(cols / 128)] */
	uint8_t *code;      /* [n_tok][n_group][ceil(cols / 128) * 128] of q, zero after the last column; or NULL */
};

#endif
