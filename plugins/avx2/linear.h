/* SPDX-License-Identifier: MIT
 * linear.h - matrix products with weights straight from a checkpoint, for linear, moe_route and moe_experts.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX2_LINEAR_H
#define AVX2_LINEAR_H

#include "plugins/avx2/act.h"
#include "plugins/dsv4_weight.h"

/* One product: every row of a with every row of w. */
struct avx2_product {
	const struct dsv4_weight *w;
	const struct avx2_act *a;   /* in avx2_act_form() of w */
	float *y;
	int64_t ldy;
};

void avx2_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx2_product *p);

#endif
