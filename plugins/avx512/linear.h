/* SPDX-License-Identifier: MIT
 * linear.h - matrix products with weights straight from a checkpoint, for linear, moe_route and moe_experts.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX512_LINEAR_H
#define AVX512_LINEAR_H

#include "plugins/dsv4_plugin.h"

/* Rows of activations: n_group * cols values each, plain, or e4m3 values with a scale per AVX512_ACT_BLOCK
 * columns of each group. */
struct avx512_act {
	int32_t n_group;
	int64_t n, cols;
	const float *x;     /* [n][ldx] */
	int64_t ldx;
	const float *scale; /* [n][n_group][ceil(cols / AVX512_ACT_BLOCK)], or NULL: all 1 */
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

/* Are w's format, scales and sizes something avx512_product_run can read? */
int avx512_weight_ok(const struct dsv4_weight *w, int64_t rows, int64_t cols);
/* Does an activation get rounded before this weight? */
int avx512_act_wanted(uint32_t act, const struct dsv4_weight *w);
/* Scales of one row. */
int64_t avx512_act_scales(const struct avx512_act *a);
/* Rounds the rows of a into q ([n][n_group * cols], may be a->x if dense) and scale, and points a at them. */
void avx512_act_round(struct dsv4_exec *x, const struct dsv4_host *host, struct avx512_act *a, float *q,
		    float *scale);
void avx512_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx512_product *p);

#endif
