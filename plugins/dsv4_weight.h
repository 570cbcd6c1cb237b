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

#endif
