/* SPDX-License-Identifier: MIT
 * linear.c - y = x W^T for every weight format, grouped or not: panels of sixteen output columns, panel.h.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/avx2/linear.h"
#include "plugins/avx2/avx2.h"
#include "plugins/avx2/panel.h"
#include "plugins/x86/vec.h"
#include "plugins/x86/x86.h"

#include <errno.h>
#include <string.h>

#define LINEAR_SLICE (1 << 18) /* products per slice, about */
#define LINEAR_FEWEST 12       /* activation rows of a panel that keep its inner loops busy */

/* How a product is cut: an item is a panel of n_tok activation rows. */
struct linear_cut {
	const struct avx2_product *p;
	int64_t n_panel;       /* of one group */
	int64_t n_tok, n_part; /* activation rows of an item, items of a panel */
	int vnni;
};

static void linear_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_cut *c = arg;
	const struct avx2_product *p = c->p;
	int64_t rows = p->w->rows / p->a->n_group;
	float out[AVX2_PANEL_TOKENS][AVX2_PANEL];

	for (int64_t j = begin; j < end; j++) {
		int64_t group = j / c->n_part / c->n_panel, r = j / c->n_part % c->n_panel * AVX2_PANEL;
		int64_t i0 = j % c->n_part * c->n_tok;
		struct avx2_panel panel = { .w = p->w, .a = p->a, .group = group, .r0 = group * rows + r,
					    .n_row = (int)x86_min(AVX2_PANEL, rows - r),
					    .n = (int)x86_min(c->n_tok, p->a->n - i0), .i0 = i0, .vnni = c->vnni };

		avx2_panel_run(&panel, out);
		for (int i = 0; i < panel.n; i++)
			memcpy(p->y + (i0 + i) * p->ldy + panel.r0, out[i], (size_t)panel.n_row * sizeof **out);
	}
}

void avx2_product_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx2_product *p)
{
	int64_t n_group = p->a->n_group, n_panel = (p->w->rows / n_group + AVX2_PANEL - 1) / AVX2_PANEL, products;
	struct linear_cut c = { .p = p, .n_panel = n_panel, .n_tok = AVX2_PANEL_TOKENS, .vnni = x86_has_vnni(host) };

	/* Few output columns leave threads idle unless the activation rows are cut finer. */
	while (c.n_tok > LINEAR_FEWEST &&
	       n_group * n_panel * ((p->a->n + c.n_tok - 1) / c.n_tok) < 2 * host->n_threads(x))
		c.n_tok /= 2;
	c.n_part = (p->a->n + c.n_tok - 1) / c.n_tok;
	products = AVX2_PANEL * x86_min(p->a->n, c.n_tok) * p->a->cols;
	host->parallel_for(x, n_group * n_panel * c.n_part, 1 + LINEAR_SLICE / (1 + products), linear_slice, &c);
}

int avx2_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	struct avx2_act act;
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_group < 1 || !a->w ||
	    !dsv4_weight_ok(a->w, a->w->rows, a->w->cols) || a->w->rows % a->n_group)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = avx2_act_make(x, host, avx2_act_form(a->act, a->w), a->x, a->ldx, a->n_tok, a->n_group, a->w->cols, &act);
	if (!rc)
		avx2_product_run(x, host, &(struct avx2_product){
			.w = a->w, .a = &act, .y = a->y, .ldy = a->ldy });
	return rc;
}
