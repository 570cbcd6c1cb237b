/* SPDX-License-Identifier: MIT
 * gemm.h - what the kernels of cuda_gemm_fp8.cu are told; C fills it, device code reads it. */
#ifndef CUDA_GEMM_FP8_GEMM_H
#define CUDA_GEMM_FP8_GEMM_H

#include "plugins/dsv4_plugin.h"

#define GEMM_BLOCK 128       /* columns that share a scale */
#define GEMM_WARPS 8
#define GEMM_FEW_TOKENS 8    /* of a block of the kernel for few tokens, which has 16 rows */
#define GEMM_FEW_ROWS 16
#define GEMM_MANY_TOKENS 64  /* of the other, which has 128 rows */
#define GEMM_MANY_ROWS (16 * GEMM_WARPS)

/* Grid: tokens, blocks of 8 times 128 columns, groups. */
struct gemm_act_args {
	int64_t cols;        /* of a group */
	const float *x;      /* [n_tok][ldx] */
	int64_t ldx;
	void *q;             /* [n_tok][n_group][blocks * 128] e4m3 values as bf16, or codes; zero after the last column */
	float *scale;        /* [n_tok][n_group][blocks] */
};

/* Grid: tiles of tokens, tiles of a group's rows, groups. */
struct gemm_args {
	struct dsv4_weight w;
	int32_t n_tok, n_group;
	const void *q;
	const float *scale;
	float *y;            /* [n_tok][ldy] */
	int64_t ldy;
};

#endif
