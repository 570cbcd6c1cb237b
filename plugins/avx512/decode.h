/* SPDX-License-Identifier: MIT
 * decode.h - weights of every format to floats, sixteen columns at a time.
 * Threads: any. Locks: none. */
#ifndef AVX512_DECODE_H
#define AVX512_DECODE_H

#include "plugins/dsv4_plugin.h"

/* Values of row r, columns [k, k + n); k a multiple of 128, n at most that. FP4 and NVFP4 come with their scales,
 * which for E8M0 is exact. Rounds n up to 16 and fills with zeroes. */
void avx512_decode(const struct dsv4_weight *w, int64_t r, int64_t k, int64_t n, float *out);
/* What is still to be multiplied to those: an FP8 block's scale, else 1. */
float avx512_decode_scale(const struct dsv4_weight *w, int64_t r, int64_t k);

#endif
