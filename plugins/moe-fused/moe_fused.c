/* SPDX-License-Identifier: MIT
 * moe_fused.c - plugin moe-fused: routing and experts in one or two passes over the batch.
 * Threads: any (constants only). Locks: none.
 *
 * EXACT: every element is summed in ref's order with ref's rounding, so a swap changes nothing but the time. No bit
 * differed from ref on the tiny model's activations and in kcheck's cases, in any weight format.
 * What is fused: moe_fused_route.c goes from the gate product to the chosen ids in one slice per tile of tokens.
 * moe_fused_experts.c takes the (token, expert) pairs in waves; one pass makes a wave's hidden values, from both
 * products to the rounding, a second one adds the down products to y. */
#include "plugins/moe-fused/moe_fused.h"

#define MOE_FUSED_OPS(OP) \
	OP(moe_route,   BOTH, ANY, EXACT, "fp32", moe_fused_route) \
	OP(moe_experts, BOTH, ANY, EXACT, "fp32", moe_fused_experts)
DSV4_PLUGIN("moe-fused", "1.0", "", "", MOE_FUSED_OPS, NULL, NULL, NULL)
