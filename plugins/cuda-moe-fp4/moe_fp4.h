/* SPDX-License-Identifier: MIT
 * moe_fp4.h - the sizes that both halves of cuda-moe-fp4 know. */
#ifndef CUDA_MOE_FP4_MOE_FP4_H
#define CUDA_MOE_FP4_MOE_FP4_H

#define MOE_FP4_TILE 8   /* pairs of one expert that a block computes */
#define MOE_FP4_ROWS 32  /* rows of the matrix that it has */

/* The same on sm_100. */
#define MOE_FP4_SM100_TILE 32
#define MOE_FP4_SM100_ROWS 128
#define MOE_FP4_SM100_THREADS 256

#endif
