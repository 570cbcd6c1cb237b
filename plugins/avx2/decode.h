/* SPDX-License-Identifier: MIT
 * decode.h - weights of every format to floats in registers, eight columns or eight scales at a time.
 * Threads: any. Locks: none. */
#ifndef AVX2_DECODE_H
#define AVX2_DECODE_H

#include "plugins/dsv4_plugin.h"

#include <immintrin.h>

/* Columns that share a weight scale, and so a partial sum: 128, FP4 32, NVFP4 16. */
int64_t avx2_decode_block(const struct dsv4_weight *w);
/* The values of row r, columns [k, k + n), before scaling; k is even. In out, which must have room for n
 * rounded up to 16, or F32 weights where they stand: maybe unaligned, to be loaded as such. */
const float *avx2_decode(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out);
/* Where the scales of rows[0..8) begin, counted in scales; and their factors for block number `block`, one
 * per lane. */
void avx2_decode_lines(const struct dsv4_weight *w, const int64_t rows[8], int64_t ret_line[8]);
__m256 avx2_decode_scales(const struct dsv4_weight *w, const int64_t line[8], int64_t block);

#endif
