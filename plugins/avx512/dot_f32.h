/* SPDX-License-Identifier: MIT
 * dot_f32.h - products of matrices of any format with activations of any kind, in floats.
 * Threads: any, each on outputs of its own. Locks: none. */
#ifndef AVX512_DOT_F32_H
#define AVX512_DOT_F32_H

#include "plugins/avx512/linear.h"

#define AVX512_F32_TOKENS 64 /* activation rows that share decoded weights */

/* Computes output columns [r0, r1) of one group for n activation rows of the product from i0 on; with left_over only of
 * those that dot_fp8.h leaves out. n is at most AVX512_F32_TOKENS. */
void avx512_dot_f32(const struct dsv4_host *host, const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1,
		    int64_t i0, int64_t n, int left_over);

#endif
