/* SPDX-License-Identifier: MIT
 * moe.h - what experts need besides matrix products: who computes which token, and what stands between w1, w3 and w2.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef X86_MOE_H
#define X86_MOE_H

#include "plugins/x86/vec.h"

/* The pairs of token and choice by expert: expert e has [start[e], start[e + 1]), tokens rising. */
struct x86_pairs {
	int64_t *start; /* [n_expert + 1] */
	int32_t *tok;   /* [n_tok * k] */
	float *weight;  /* [n_tok * k] */
};

/* 0; -EINVAL for an id that is no expert, -ENOMEM. */
int x86_moe_pairs(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a,
		  struct x86_pairs *ret_p);
/* Chooses by s [n_tok][n_expert], the products with the gate, which are overwritten. 0; -EINVAL for a table that names
 * no expert, -ENOMEM. */
int x86_moe_choose(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a, float *s);

/* weight * silu(g) * u, both clamped first. NaN passes the clamps: min and max give their second operand when one is
 * NaN. */
static inline vec x86_moe_gate(vec g, vec u, float weight, float limit)
{
	vec most = vec_set(limit > 0 ? limit : INFINITY), least = vec_xor(most, vec_set(-0.0f));
	vec gate = vec_min(most, g), up = vec_max(least, vec_min(most, u));

	return vec_set(weight) * (gate * vec_sigmoid(gate) * up);
}

#endif
