/* SPDX-License-Identifier: MIT
 * dot_fp8.h - products of FP8 matrices with activations rounded to FP8, in bf16 dot products.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * For CPUs that avx512_has_bf16(). */
#ifndef AVX512_DOT_FP8_H
#define AVX512_DOT_FP8_H

#include "plugins/avx512/linear.h"

#define AVX512_DOT_CHAINS 4
#define AVX512_DOT_TOKENS 512       /* activation rows that avx512_dot_fp8 takes at most */
#define AVX512_DOT_COLS (1 << 14)  /* columns of a matrix at most */

/* Activation rows once more, as values times their scales in bf16. */
struct avx512_dot_act {
	int64_t pitch;         /* registers of 32 values from one chain to the next, at least blocks of 128 columns */
	int64_t ld;            /* values of a row */
	uint16_t *half;        /* [n][ld]: [n_group][AVX512_DOT_CHAINS][pitch][32], 0 past the last column */
	uint8_t *fits;         /* [n][n_group] can the row be used so? */
};

/* Memory for n rows of `a`. -ENOMEM. */
int avx512_dot_act_take(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx512_act *a,
			struct avx512_dot_act *ret_d);
/* Fills row t, group g from its values, already e4m3, and their scales. */
void avx512_dot_act_row(const struct avx512_dot_act *d, const struct avx512_act *a, int64_t t, int64_t g,
			const float *q, const float *scale);
/* Can the i-th activation row of a product be used so? p->a->dot is there. */
static inline int avx512_dot_act_fits(const struct avx512_product *p, int64_t group, int64_t i)
{
	return p->a->dot->fits[(p->from ? p->from[i] : i) * p->a->n_group + group];
}

/* Can w be used so at all? */
int avx512_dot_fp8_wanted(const struct dsv4_host *host, const struct dsv4_weight *w);
/* Can row r of w be used so? All rows of a block of 128 can, or none. */
int avx512_dot_fp8_row_fits(const struct dsv4_weight *w, int64_t r);
/* Computes output columns [r0, r1) of one group, which fit, for n activation rows of the product from i0 on; those that
 * do not fit are left out. */
void avx512_dot_fp8(const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1, int64_t i0, int64_t n);

#endif
