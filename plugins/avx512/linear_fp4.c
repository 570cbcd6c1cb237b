/* SPDX-License-Identifier: MIT
 * linear_fp4.c - y = x W^T for FP4 and rounded x: panels of sixteen output columns, fp4.h.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/fp4.h"
#include "plugins/avx512/linear.h"
#include "plugins/avx512/vec.h"

#include <errno.h>

#define LINEAR_TOKENS 32       /* activation rows of an item */
#define LINEAR_SLICE (1 << 18) /* products per slice, about */

struct linear_fp4 {
	const struct dsv4_linear *a;
	struct avx512_fp4_act act; /* group g of token t is row t * n_group + g */
	int64_t n_panel;
};

int avx512_linear_fp4_wanted(const struct dsv4_host *host, const struct dsv4_linear *a)
{
	return a->act == DSV4_ACT_FP8 && a->w->fmt == DSV4_W_FP4 && avx512_has_bf16(host) &&
	       (a->n_group == 1 || a->w->rows / a->n_group % DSV4_ROWS16 == 0);
}

static void linear_fp4_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_fp4 *c = arg;
	const struct dsv4_linear *a = c->a;

	for (int64_t i = begin; i < end; i++)
		avx512_fp4_act_row(&c->act, i, a->x + i / a->n_group * a->ldx + i % a->n_group * a->w->cols);
}

/* Item j: a panel of LINEAR_TOKENS tokens; the next item has the same tokens, which stay in a cache. */
static void linear_fp4_slice(void *arg, int64_t begin, int64_t end)
{
	const struct linear_fp4 *c = arg;
	const struct dsv4_linear *a = c->a;
	const struct avx512_fp4_matrix m = { a->w, NULL };
	float out[LINEAR_TOKENS][DSV4_ROWS16];
	int32_t from[LINEAR_TOKENS];

	for (int64_t j = begin; j < end; j++) {
		int64_t panel = j % c->n_panel, t0 = j / c->n_panel * LINEAR_TOKENS, r0 = panel * DSV4_ROWS16;
		int64_t n = avx512_min(LINEAR_TOKENS, a->n_tok - t0), group = r0 / (a->w->rows / a->n_group);

		for (int64_t i = 0; i < n; i++)
			from[i] = (int32_t)((t0 + i) * a->n_group + group);
		avx512_fp4_panel(&m, panel, &c->act, from, n, avx512_fp4_at(&m, panel + 1), out);
		for (int64_t i = 0; i < n; i++)
			avx512_store(a->y + (t0 + i) * a->ldy + r0, a->w->rows - r0, _mm512_loadu_ps(out[i]));
	}
}

int avx512_linear_fp4(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	int64_t n_row = (int64_t)a->n_tok * a->n_group, n_part = (a->n_tok + LINEAR_TOKENS - 1) / LINEAR_TOKENS;
	int64_t products = DSV4_ROWS16 * avx512_min(a->n_tok, LINEAR_TOKENS) * a->w->cols;
	struct linear_fp4 c = { .a = a, .n_panel = dsv4_rows16_panels(a->w->rows) };

	if (avx512_fp4_act_take(x, host, n_row, a->w->cols, &c.act))
		return -ENOMEM;
	host->parallel_for(x, n_row, 1, linear_fp4_round_slice, &c);
	host->parallel_for(x, c.n_panel * n_part, 1 + LINEAR_SLICE / (1 + products), linear_fp4_slice, &c);
	return 0;
}
