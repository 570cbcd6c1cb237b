/* SPDX-License-Identifier: MIT
 * round.h - what happens to one row: rounding to a stored format, Hadamard, root-mean-square, rotation.
 * Threads: any. Locks: none. */
#ifndef X86_ROUND_H
#define X86_ROUND_H

#include "plugins/dsv4_plugin.h"

#define X86_KV_BLOCK 64   /* values of a KV row that share one FP8 scale */
#define X86_ACT_BLOCK 128 /* columns of an activation that share one FP8 scale */
#define X86_FP4_BLOCK 32  /* values of an index row that share one FP4 scale */

/* Splits x (n values) into e4m3 values q, which may be x, and the power-of-two scale that is returned. */
float x86_round_split(const float *x, int64_t n, float *q);
/* Round x in place to a KV row's or an index row's stored values; `round` passed x86_round_check. */
void x86_round_kv(float *x, int64_t n, uint32_t round);
void x86_round_index(float *x, int64_t n, uint32_t round);
/* Can rows of n_kv and n_index values be rounded so? 0 or -EINVAL. */
int x86_round_check(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index);

/* y = x / sqrt(mean(x^2) + eps) * weight; weight may be NULL, y may be x. */
void x86_rms_row(const float *x, const float *weight, int64_t n, float eps, float *y);
/* Rotates the pairs (2i, 2i + 1) of x (rot values) by cs[i] = (cos, sin), or by the conjugate. */
void x86_rope_row(float *x, int64_t rot, const float *cs, uint32_t inverse);

#endif
