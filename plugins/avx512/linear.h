/* SPDX-License-Identifier: MIT
 * linear.h - matrix products with weights straight from a checkpoint, for linear, moe_route and moe_experts.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX512_LINEAR_H
#define AVX512_LINEAR_H

#include "plugins/dsv4_weight.h"

struct avx512_dot_act;

/* Rows of activations: n_group * cols values each, plain, or e4m3 values with a scale per X86_ACT_BLOCK
 * columns of each group. */
struct avx512_act {
	int32_t n_group;
	int64_t n, cols;
	const float *x;     /* [n][ldx] */
	int64_t ldx;
	const float *scale; /* [n][n_group][ceil(cols / X86_ACT_BLOCK)], or NULL: all 1 */
	const struct avx512_dot_act *dot; /* the same for dot_fp8.h, or NULL */
};

/* One product. The i-th row computed reads row from[i] of the activations and goes to row to[i] of y. */
struct avx512_product {
	const struct dsv4_weight *w;
	const struct avx512_act *a;
	int64_t n;                /* rows to compute */
	const int32_t *from, *to; /* [n] each, or NULL: row i */
	int accumulate;           /* add to y instead of replacing it */
	float *y;
	int64_t ldy;
};

/* Scales of one row. */
int64_t avx512_act_scales(const struct avx512_act *a);
/* Rounds the rows of a into q ([n][n_group * cols], may be a->x if dense) and scale, and into a->dot unless NULL,
 * and points a at them. */
void avx512_act_round(struct dsv4_exec *x, const struct dsv4_host *host, struct avx512_act *a, float *q,
		    float *scale);
/* The same in two steps, for whoever is in a slice: one row, and when all are done, a's new pointers. */
void avx512_act_round_row(const struct avx512_act *a, int64_t t, float *q, float *scale);
void avx512_act_rounded(struct avx512_act *a, const float *q, const float *scale);
void avx512_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx512_product *p);
/* Output columns [r0, r1) of a product that has one group, on the calling thread; both are
 * multiples of 16, or the end. */
void avx512_product_part(const struct dsv4_host *host, const struct avx512_product *p, int64_t r0, int64_t r1);

/* The whole op for FP4 where fp4.h's kernels can do it. */
int avx512_linear_fp4_wanted(const struct dsv4_host *host, const struct dsv4_linear *a);
int avx512_linear_fp4(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a);

#endif
