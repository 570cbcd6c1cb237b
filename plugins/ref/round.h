/* SPDX-License-Identifier: MIT
 * round.h - what happens to one row: rounding to a stored format, Hadamard, root-mean-square, rotation.
 * Threads: any. Locks: none. */
#ifndef REF_ROUND_H
#define REF_ROUND_H

#include "plugins/dsv4_plugin.h"

#define REF_KV_BLOCK 64   /* values of a KV row that share one FP8 scale */
#define REF_ACT_BLOCK 128 /* columns of an activation that share one FP8 scale */
#define REF_FP4_BLOCK 32  /* values of an index row that share one FP4 scale */

/* Splits x (n values) into e4m3 values q and the power-of-two scale that is returned: x ~ q * scale. q may be
 * x. NaN takes no part in choosing the scale and stays NaN. doc/format.md 3.2. */
float ref_round_split(const float *x, int64_t n, float *q);

/* Rounds x in place to a KV row's stored values: FP8 has one scale per REF_KV_BLOCK. -EINVAL for FP4. */
int ref_round_kv(float *x, int64_t n, uint32_t round);
/* Rounds x in place to an index row's stored values. All but NONE rotate by a Hadamard matrix first, so n
 * must be a power of two then (else -EINVAL): FP4 has a scale per REF_FP4_BLOCK, FP8 one for the row.
 * doc/format.md 3.6. */
int ref_round_index(float *x, int64_t n, uint32_t round);
/* Can rows of n_kv and n_index values be rounded so? 0 or -EINVAL; lets an op refuse
 * before its slices start. */
int ref_round_check(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index);

/* x := H x * n^-0.5 in place, H in natural (Sylvester) order; n a power of two. */
void ref_hadamard(float *x, int64_t n);

/* 1 / sqrt(mean(x^2) + eps) */
float ref_rms_scale(const float *x, int64_t n, float eps);
/* y = x * ref_rms_scale * weight; weight may be NULL, y may be x. */
void ref_rms_row(const float *x, const float *weight, int64_t n, float eps, float *y);

/* Rotates the pairs (2i, 2i + 1) of x (rot values) by cs[i] = (cos, sin), or by the conjugate. */
void ref_rope_row(float *x, int64_t rot, const float *cs, uint32_t inverse);

#endif
