/* SPDX-License-Identifier: MIT
 * dsv4_weight.h - what a kernel asks of a weight before it computes.
 * Part of the plugin ABI's headers. Threads: any. Locks: none. */
#ifndef DSV4_WEIGHT_H
#define DSV4_WEIGHT_H

#include "dsv4_plugin.h"

/* Is it a matrix of these sizes, in a format and with scales that the ABI has? */
static inline int dsv4_weight_ok(const struct dsv4_weight *w, int64_t rows, int64_t cols)
{
	if (!w || w->size < sizeof *w || w->rows != rows || w->cols != cols || !w->data)
		return 0;
	switch (w->fmt) {
	case DSV4_W_F32:
	case DSV4_W_BF16:
		return w->sfmt == DSV4_S_NONE;
	case DSV4_W_FP8:
		return w->scale && (w->sfmt == DSV4_S_E8M0 || w->sfmt == DSV4_S_F32);
	case DSV4_W_FP4:
		return w->scale && w->sfmt == DSV4_S_E8M0;
	case DSV4_W_NVFP4:
		return w->scale && w->sfmt == DSV4_S_E4M3;
	default:
		return 0;
	}
}

/* Are activations rounded before they meet this weight? */
static inline int dsv4_weight_rounds(const struct dsv4_weight *w, uint32_t act)
{
	return act == DSV4_ACT_FP8 && w->fmt != DSV4_W_F32 && w->fmt != DSV4_W_BF16;
}

/* Is it on this device? */
static inline int dsv4_expert_here(const struct dsv4_expert *e)
{
	return e->w1.data != NULL;
}

/* The first routed expert that is here, whose formats and sizes they all have; NULL: none is. */
static inline const struct dsv4_expert *dsv4_expert_like(const struct dsv4_moe_experts *a)
{
	for (int32_t e = 0; e < a->n_expert; e++)
		if (dsv4_expert_here(&a->expert[e]))
			return &a->expert[e];
	return NULL;
}

/* How many of the shared ones are. */
static inline int32_t dsv4_shared_here(const struct dsv4_moe_experts *a)
{
	int32_t n = 0;

	for (int32_t e = 0; e < a->n_shared; e++)
		n += dsv4_expert_here(&a->shared[e]);
	return n;
}

#endif
