/* SPDX-License-Identifier: MIT
 * moe.c - experts, all at once: w1 and w3 of all the chosen and the shared ones, then w2 of all. doc/format.md 3.7.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * 128 rows of w1 and w3 give 128 columns of the hidden row, which is what shares one scale when it is rounded: so an
 * item of the first loop ends with columns as w2 wants them, and an item of the second, some rows of w2 of every
 * expert, with values of y. Weights are read once. A token's sum has the order of its ids, as in ref; inside,
 * panel.h's. */
#include "plugins/avx2/avx2.h"
#include "plugins/avx2/linear.h"
#include "plugins/avx2/panel.h"
#include "plugins/x86/moe.h"
#include "plugins/x86/x86.h"

#include <errno.h>
#include <string.h>

#define MOE_PANELS (AVX2_ACT_COLS / AVX2_PANEL) /* of an item of the first loop */
#define MOE_DOWN 4                              /* panels of an item of the second, at most */
#define MOE_DOWN_MANY 16                        /* for many tokens: hidden rows are read from afar less often */
#define MOE_MANY 32                             /* tokens */

int avx2_moe_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct avx2_act act;
	float *s;

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 1 || a->k > a->n_expert ||
	    !dsv4_weight_ok(a->gate, a->n_expert, a->dim))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	s = host->scratch(x, (size_t)a->n_tok * (size_t)a->n_expert * sizeof *s);
	if (!s || avx2_act_make(x, host, avx2_act_form(DSV4_ACT_NONE, a->gate), a->x, a->dim, a->n_tok, 1, a->dim,
				&act))
		return -ENOMEM;
	avx2_product_run(x, host, &(struct avx2_product){ .w = a->gate, .a = &act, .y = s, .ldy = a->n_expert });
	return x86_moe_choose(x, host, a, s);
}

/* ---- experts ---- */

/* One that is here and has something to do. */
struct moe_expert {
	const struct dsv4_expert *e;
	struct dsv4_packed packed;
	int64_t n;                /* tokens */
	const int32_t *tok;       /* [n], or NULL: all */
	const float *weight;      /* [n], or NULL: all 1 */
	struct avx2_act h;        /* [n] hidden rows as w2 wants them */
};

struct moe_call {
	const struct dsv4_moe_experts *a;
	struct x86_pairs pairs;
	struct avx2_act act[AVX2_N_FORM]; /* the tokens, in the forms that are wanted */
	struct moe_expert *expert;        /* [n] the chosen ones by rising id, then the shared ones */
	int64_t n, n_chosen;
	int64_t n_block, n_panel;         /* of a hidden row; of a row of y */
	int64_t down;                     /* panels of an item of the second loop */
	float *shared;                    /* [n_tok][dim] what the shared experts give, or NULL */
	int vnni;
};

/* Of panel number `panel` of w, the products with rows a[from[i0..i0 + n)]. */
static void moe_panel(const struct moe_call *c, const struct dsv4_weight *w, const void *packed,
		      const struct avx2_act *a,
		      const int32_t *from, int64_t panel, int64_t i0, int n, float (*out)[AVX2_PANEL])
{
	int64_t r0 = panel * AVX2_PANEL;

	avx2_panel_run(&(struct avx2_panel){
		.w = w, .packed = packed, .a = a, .r0 = r0, .n_row = (int)x86_min(AVX2_PANEL, w->rows - r0),
		.i0 = i0, .n = n, .from = from, .vnni = c->vnni }, out);
}

/* ---- w1 and w3 ---- */

/* Block `block` of n hidden rows from the i0-th on. */
static void moe_up(const struct moe_call *c, const struct moe_expert *e, int64_t block, int64_t i0, int n)
{
	const struct dsv4_weight *w1 = &e->e->w1, *w3 = &e->e->w3;
	float g[MOE_PANELS][AVX2_PANEL_TOKENS][AVX2_PANEL], u[MOE_PANELS][AVX2_PANEL_TOKENS][AVX2_PANEL],
		h[AVX2_ACT_COLS];
	int64_t p0 = block * MOE_PANELS, cols = x86_min(AVX2_ACT_COLS, c->a->inter - block * AVX2_ACT_COLS);
	uint32_t act = c->a->act;

	for (int64_t i = 0; i * AVX2_PANEL < cols; i++)
		moe_panel(c, w1, e->packed.w1, &c->act[avx2_act_form(act, w1)], e->tok, p0 + i, i0, n, g[i]);
	for (int64_t i = 0; i * AVX2_PANEL < cols; i++)
		moe_panel(c, w3, e->packed.w3, &c->act[avx2_act_form(act, w3)], e->tok, p0 + i, i0, n, u[i]);
	for (int t = 0; t < n; t++) {
		for (int64_t i = 0; i < cols; i += VEC_LANES) {
			const float *gate = g[i / AVX2_PANEL][t] + i % AVX2_PANEL,
				*up = u[i / AVX2_PANEL][t] + i % AVX2_PANEL;

			vec_store(h + i, cols - i, x86_moe_gate(vec_load(gate, cols - i), vec_load(up, cols - i),
								e->weight ? e->weight[i0 + t] : 1.0f, c->a->limit));
		}
		avx2_act_put(&e->h, i0 + t, block, h, cols);
	}
}

static void moe_up_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_call *c = arg;

	for (int64_t j = begin; j < end; j++) {
		const struct moe_expert *e = &c->expert[j / c->n_block];

		for (int64_t i = 0; i < e->n; i += AVX2_PANEL_TOKENS)
			moe_up(c, e, j % c->n_block, i, (int)x86_min(AVX2_PANEL_TOKENS, e->n - i));
	}
}

/* ---- w2 ---- */

/* Adds what an expert gives to columns of y, panels [p0, p1). */
static void moe_down(const struct moe_call *c, const struct moe_expert *e, int64_t p0, int64_t p1, float *y)
{
	int64_t dim = c->a->dim;
	float out[AVX2_PANEL_TOKENS][AVX2_PANEL];

	for (int64_t i0 = 0; i0 < e->n; i0 += AVX2_PANEL_TOKENS)
		for (int64_t p = p0; p < p1; p++) {
			int64_t n = x86_min(AVX2_PANEL_TOKENS, e->n - i0), end = x86_min((p + 1) * AVX2_PANEL, dim);

			moe_panel(c, &e->e->w2, e->packed.w2, &e->h, NULL, p, i0, (int)n, out);
			for (int64_t t = 0; t < n; t++)
				for (int64_t i = p * AVX2_PANEL; i < end; i += VEC_LANES) {
					float *to = y + (e->tok ? e->tok[i0 + t] : i0 + t) * dim + i;

					vec_store(to, end - i, vec_load(to, end - i) +
							       vec_load(out[t] + i % AVX2_PANEL, end - i));
				}
		}
}

/* Columns [c0, c1) of y: zeroes before the experts. */
static void moe_begin(const struct moe_call *c, int64_t c0, int64_t c1)
{
	for (int64_t t = 0; t < c->a->n_tok; t++) {
		memset(c->a->y + t * c->a->dim + c0, 0, (size_t)(c1 - c0) * sizeof *c->a->y);
		if (c->shared)
			memset(c->shared + t * c->a->dim + c0, 0, (size_t)(c1 - c0) * sizeof *c->shared);
	}
}

static void moe_end(const struct moe_call *c, int64_t c0, int64_t c1)
{
	for (int64_t t = 0; t < c->a->n_tok; t++)
		for (int64_t i = c0; i < c1; i += VEC_LANES) {
			float *y = c->a->y + t * c->a->dim + i;
			vec v = vec_load(y, c1 - i) * vec_set(c->a->out_scale);

			if (c->shared)
				v += vec_load(c->shared + t * c->a->dim + i, c1 - i);
			vec_store(y, c1 - i, v);
		}
}

static void moe_down_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_call *c = arg;

	for (int64_t j = begin; j < end; j++) {
		int64_t p0 = j * c->down, p1 = x86_min(p0 + c->down, c->n_panel);
		int64_t c0 = p0 * AVX2_PANEL, c1 = x86_min(p1 * AVX2_PANEL, c->a->dim);

		moe_begin(c, c0, c1);
		for (int64_t e = 0; e < c->n; e++)
			moe_down(c, &c->expert[e], p0, p1, e < c->n_chosen ? c->a->y : c->shared);
		moe_end(c, c0, c1);
	}
}

/* ---- all of it ---- */

/* The tokens as w wants them, made at the first call for their form. */
static int moe_tokens(struct dsv4_exec *x, const struct dsv4_host *host, struct moe_call *c,
		      const struct dsv4_weight *w)
{
	enum avx2_form form = avx2_act_form(c->a->act, w);

	if (c->act[form].x)
		return 0;
	return avx2_act_make(x, host, form, c->a->x, c->a->dim, c->a->n_tok, 1, c->a->dim, &c->act[form]);
}

static int moe_add(struct dsv4_exec *x, const struct dsv4_host *host, struct moe_call *c, const struct moe_expert *e)
{
	const struct dsv4_moe_experts *a = c->a;
	struct moe_expert *to = &c->expert[c->n++];
	int rc;

	if (!dsv4_weight_ok(&e->e->w1, a->inter, a->dim) || !dsv4_weight_ok(&e->e->w2, a->dim, a->inter) ||
	    !dsv4_weight_ok(&e->e->w3, a->inter, a->dim))
		return -EINVAL;
	*to = *e;
	rc = avx2_act_take(x, host, avx2_act_form(a->act, &e->e->w2), e->n, 1, a->inter, &to->h);
	if (rc == 0)
		rc = moe_tokens(x, host, c, &e->e->w1);
	return rc ? rc : moe_tokens(x, host, c, &e->e->w3);
}

static int moe_add_all(struct dsv4_exec *x, const struct dsv4_host *host, struct moe_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	const int64_t *start = c->pairs.start;
	int rc = 0;

	c->expert = host->scratch(x, (size_t)(x86_min((int64_t)a->n_tok * a->k, a->n_expert) + a->n_shared) *
				     sizeof *c->expert);
	if (!c->expert)
		return -ENOMEM;
	for (int32_t e = 0; e < a->n_expert && rc == 0; e++)
		if (start[e] < start[e + 1] && dsv4_expert_here(&a->expert[e]))
			rc = moe_add(x, host, c, &(struct moe_expert){
				.e = &a->expert[e], .packed = dsv4_packed_take(a, e), .n = start[e + 1] - start[e],
				.tok = c->pairs.tok + start[e], .weight = c->pairs.weight + start[e] });
	c->n_chosen = c->n;
	for (int32_t e = 0; e < a->n_shared && rc == 0; e++)
		if (dsv4_expert_here(&a->shared[e]))
			rc = moe_add(x, host, c, &(struct moe_expert){ .e = &a->shared[e], .n = a->n_tok });
	return rc;
}

int avx2_moe_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	struct moe_call c = { .a = a, .vnni = x86_has_vnni(host) };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->dim < 1 || a->inter < 1 || a->n_expert < 1 || a->k < 1)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	if (dsv4_shared_here(a) > 0) {
		c.shared = host->scratch(x, (size_t)a->n_tok * (size_t)a->dim * sizeof *c.shared);
		if (!c.shared)
			return -ENOMEM;
	}
	rc = x86_moe_pairs(x, host, a, &c.pairs);
	if (rc == 0)
		rc = moe_add_all(x, host, &c);
	if (rc)
		return rc;
	c.n_block = (a->inter + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS;
	c.n_panel = (a->dim + AVX2_PANEL - 1) / AVX2_PANEL;
	c.down = 1 + x86_min(c.n_panel / (4 * host->n_threads(x)),
			     a->n_tok < MOE_MANY ? MOE_DOWN - 1 : MOE_DOWN_MANY - 1);
	host->parallel_for(x, c.n * c.n_block, 1, moe_up_slice, &c);
	host->parallel_for(x, (c.n_panel + c.down - 1) / c.down, 1, moe_down_slice, &c);
	return 0;
}
