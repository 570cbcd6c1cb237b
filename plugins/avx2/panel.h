/* SPDX-License-Identifier: MIT
 * panel.h - up to sixteen rows of a matrix against some rows of activations: what every product is made of.
 * Threads: pool runs slices. Locks: none.
 *
 * The order of one element, whoever asks: a block that shares a weight scale (128 columns; FP4 32, NVFP4 16; 128 where
 * there is none) is summed, and that sum times (activation scale * weight scale) is added to the element with one
 * rounding. Floats are summed in eight lanes, over the whole row, which a tree adds at its end. FP4 and NVFP4 against
 * rounded activations are summed in integers, so that nothing is rounded inside a block, in whichever layout and order;
 * of every four blocks each has its own sum, and the tree adds these. */
#ifndef AVX2_PANEL_H
#define AVX2_PANEL_H

#include "plugins/avx2/act.h"

#define AVX2_PANEL 16        /* rows */
#define AVX2_PANEL_TOKENS 48 /* activation rows at most */

struct avx2_panel {
	const struct dsv4_weight *w;
	const void *packed;       /* w in rows of sixteen (dsv4_rows16.h), or NULL; then r0 is a multiple of 16 */
	const struct avx2_act *a; /* in avx2_act_form() of w */
	int64_t group, r0;        /* of the activations; first row */
	int n_row, n;             /* rows; activation rows */
	int64_t i0;
	const int32_t *from;      /* activation row i is from[i0 + i], or i0 + i if this is NULL */
	int vnni;                 /* has the CPU AVX-VNNI? */
};

/* out[i][r] = activation row i . row r0 + r, for all n_row rows; the other values of out mean nothing. */
void avx2_panel_digits(const struct avx2_panel *p, float (*out)[AVX2_PANEL]); /* where activations are digits */
void avx2_panel_floats(const struct avx2_panel *p, float (*out)[AVX2_PANEL]); /* where they are floats */

static inline void avx2_panel_run(const struct avx2_panel *p, float (*out)[AVX2_PANEL])
{
	if (p->a->form == AVX2_FORM_DIGITS)
		avx2_panel_digits(p, out);
	else
		avx2_panel_floats(p, out);
}

/* Where activation row i and its scales stand. */
static inline int64_t avx2_panel_from(const struct avx2_panel *p, int i)
{
	return p->from ? p->from[p->i0 + i] : p->i0 + i;
}

static inline const void *avx2_panel_x(const struct avx2_panel *p, int i)
{
	return p->a->x + avx2_panel_from(p, i) * p->a->stride +
	       p->group * p->a->n_block * (int64_t)p->a->block_size;
}

static inline const float *avx2_panel_scale(const struct avx2_panel *p, int i)
{
	return p->a->scale + (avx2_panel_from(p, i) * p->a->n_group + p->group) * p->a->n_block;
}

#endif
