/* SPDX-License-Identifier: MIT
 * moe_fused_row.h - some rows of a weight matrix times some rows of activations, in ref's order.
 * Threads: any. Locks: none. */
#ifndef MOE_FUSED_ROW_H
#define MOE_FUSED_ROW_H

#include "plugins/dsv4_weight.h"

#define MOE_FUSED_TILE 64  /* activation rows that share one decoded block of weights */
#define MOE_FUSED_SIDE 4   /* rows of weights that are multiplied side by side */
#define MOE_FUSED_ACT 128  /* columns of an activation that share one FP8 scale */

/* Rows of activations, plain, or e4m3 values with a scale per MOE_FUSED_ACT columns. */
struct moe_fused_act {
	const float *x;     /* [.][ldx] */
	int64_t ldx;
	const float *scale; /* [.][n_scale], or NULL: all 1 */
	int64_t n_scale;
};

/* Splits n values into e4m3 values q, which may be x, and the power-of-two scale that is returned. */
float moe_fused_split(const float *x, int64_t n, float *q);
/* sum[l][i] = row r + l of w times row at[i] of a; n_row <= MOE_FUSED_SIDE, n <= MOE_FUSED_TILE. */
void moe_fused_rows(const struct dsv4_weight *w, int64_t r, int n_row, const struct moe_fused_act *a,
		    const int32_t *at, int n, float sum[MOE_FUSED_SIDE][MOE_FUSED_TILE]);

#endif
