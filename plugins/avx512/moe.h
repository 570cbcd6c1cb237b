/* SPDX-License-Identifier: MIT
 * moe.h - what the ways to run experts share: a call with its pairs of token and expert in order.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX512_MOE_H
#define AVX512_MOE_H

#include "plugins/avx512/linear.h"
#include "plugins/avx512/vec.h"
#include "plugins/x86/moe.h"

struct avx512_moe {
	struct dsv4_exec *x;
	const struct dsv4_host *host;
	const struct dsv4_moe_experts *a;
	struct x86_pairs pairs;
	/* The rest is moe.c's. */
	int64_t n_max;                    /* most tokens of any expert, the shared ones included */
	struct avx512_act plain, rounded; /* the tokens, for weights of either kind */
	float *g, *u, *scale;             /* [n_max][inter] twice, [n_max][scales] */
	float *shared;                    /* [n_tok][dim] what the shared experts give, or NULL */
};

int avx512_moe_expert_ok(const struct dsv4_moe_experts *a, const struct dsv4_expert *e);

/* Can fp4.h's kernels run the routed experts? */
int avx512_moe_fp4_wanted(const struct dsv4_host *host, const struct dsv4_moe_experts *a);
/* Runs them and writes y, shared experts included. 0 or -errno. */
int avx512_moe_fp4(const struct avx512_moe *m);

#endif
