/* SPDX-License-Identifier: MIT
 * moe_fused.h - the ops of this plugin.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef MOE_FUSED_H
#define MOE_FUSED_H

#include "plugins/dsv4_plugin.h"

dsv4_moe_route_f moe_fused_route;
dsv4_moe_experts_f moe_fused_experts;

static inline int64_t moe_fused_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline float moe_fused_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

#endif
