/* SPDX-License-Identifier: MIT
 * linear.c - y = x W^T for every weight format, grouped or not.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/cuda_base.h"
#include "plugins/cuda/linear_run.h"

#include <errno.h>

int cuda_base_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	struct linear_product p;
	float *q, *scale;
	int64_t n_scale;
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_group < 1 || !a->w ||
	    !dsv4_weight_ok(a->w, a->w->rows, a->w->cols) || a->w->rows % a->n_group)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	p = (struct linear_product){ .w = a->w, .n_tok = a->n_tok, .n_group = a->n_group,
					.a = { .x = a->x, .ldx = a->ldx }, .y = a->y, .ldy = a->ldy };
	if (dsv4_weight_rounds(a->w, a->act)) {
		n_scale = linear_act_scales(a->n_group, a->w->cols);
		q = host->scratch(x, (size_t)(a->n_tok * a->n_group * a->w->cols) * sizeof *q);
		scale = host->scratch(x, (size_t)(a->n_tok * n_scale) * sizeof *scale);
		if (!q || !scale)
			return -ENOMEM;
		rc = linear_act_round(x, host, a->n_tok, a->n_group, a->w->cols, &p.a,
				      &(struct linear_rounded){ .q = q, .scale = scale });
		if (rc)
			return rc;
	}
	return linear_product_run(x, host, &p);
}
