/* SPDX-License-Identifier: MIT
 * moe_fp4.c - routed experts of FP4, all at once and with the shared ones: w1 and w3 of all of them, then w2 of all.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * 128 rows of w1 and w3 give 128 columns of the hidden row, which is what shares one scale when it is rounded: so an
 * item of the first loop ends with rounded columns, and an item of the second, some rows of w2 of every expert, ends
 * with values of y. Weights are read once. A token's sum has the order of its ids, as in ref. */
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/fp4.h"
#include "plugins/avx512/moe_shared.h"

#include <errno.h>

#define MOE_PANELS (AVX512_BLOCK / DSV4_ROWS16) /* of an item of the first loop */
#define MOE_DOWN 4                              /* panels of an item of the second, for few tokens */
#define MOE_DOWN_MANY 16                        /* and for many, whose hidden rows are then read from afar less often */
#define MOE_MANY 32                             /* tokens */
#define MOE_TOKENS 64                           /* activation rows for which native weights are turned once */

/* An expert that is here and that some token chose. */
struct moe_fp4_expert {
	int32_t id;
	int64_t at, n;                                /* its part of tok, of weight and of h */
	struct avx512_fp4_matrix w1, w2, w3;
};

struct moe_fp4 {
	const struct avx512_moe *m;
	struct moe_fp4_expert *expert;                /* [n] by rising id */
	int32_t n;
	int64_t n_block;                              /* of the hidden row */
	int64_t down;                                 /* panels of an item of the second loop */
	struct avx512_fp4_act x, h;                   /* the tokens; the hidden row of each pair of expert and token */
	struct avx512_moe_shared shared;              /* if there are any */
};

int avx512_moe_fp4_wanted(const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	const struct dsv4_expert *like = dsv4_expert_like(a);

	return avx512_has_bf16(host) && a->act == DSV4_ACT_FP8 && like && like->w1.fmt == DSV4_W_FP4;
}

static void moe_fp4_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fp4 *c = arg;

	for (int64_t t = begin; t < end; t++) {
		avx512_fp4_act_row(&c->x, t, c->m->a->x + t * c->m->a->dim);
		if (c->shared.n_expert > 0)
			avx512_moe_shared_x(&c->shared, t);
	}
}

/* ---- w1 and w3 ---- */

/* Columns of block `block` of n hidden rows from pair `at` on. */
static void moe_fp4_up(const struct moe_fp4 *c, const struct moe_fp4_expert *e, int64_t block, int64_t at, int64_t n)
{
	const struct dsv4_moe_experts *a = c->m->a;
	int64_t col = block * AVX512_BLOCK, cols = avx512_min(AVX512_BLOCK, a->inter - col);
	float g[MOE_PANELS][MOE_TOKENS][DSV4_ROWS16], u[MOE_PANELS][MOE_TOKENS][DSV4_ROWS16], h[AVX512_BLOCK];
	int64_t n_panel = dsv4_rows16_panels(cols), p0 = block * MOE_PANELS;

	for (int64_t i = 0; i < n_panel; i++)
		avx512_fp4_panel(&e->w1, p0 + i, &c->x, c->m->pairs.tok + at, n,
				 i + 1 < n_panel ? avx512_fp4_at(&e->w1, p0 + i + 1) : avx512_fp4_at(&e->w3, p0), g[i]);
	for (int64_t i = 0; i < n_panel; i++)
		avx512_fp4_panel(&e->w3, p0 + i, &c->x, c->m->pairs.tok + at, n, avx512_fp4_at(&e->w3, p0 + i + 1),
				 u[i]);
	for (int64_t t = 0; t < n; t++) {
		for (int64_t i = 0; i < n_panel; i++)
			_mm512_storeu_ps(h + DSV4_ROWS16 * i,
					 x86_moe_gate(_mm512_loadu_ps(g[i][t]), _mm512_loadu_ps(u[i][t]),
						      c->m->pairs.weight[at + t], a->limit));
		avx512_fp4_act_block(&c->h, at + t, block, h, cols);
	}
}

static void moe_fp4_up_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fp4 *c = arg;
	int64_t inter = c->m->a->inter;

	for (int64_t j = begin; j < end; j++) {
		const struct moe_fp4_expert *e = &c->expert[j / c->n_block];
		int64_t col = j % c->n_block * AVX512_BLOCK;

		if (j / c->n_block >= c->n) {
			avx512_moe_shared_up(&c->shared, (int32_t)(j / c->n_block - c->n), col,
					     avx512_min(col + AVX512_BLOCK, inter));
			continue;
		}
		for (int64_t i = 0; i < e->n; i += MOE_TOKENS)
			moe_fp4_up(c, e, j % c->n_block, e->at + i, avx512_min(MOE_TOKENS, e->n - i));
	}
}

static void moe_fp4_h_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fp4 *c = arg;

	for (int64_t row = begin; row < end; row++)
		avx512_moe_shared_h(&c->shared, row);
}

/* ---- w2 ---- */

/* Adds what an expert gives to columns of y, panels [p0, p1), for n pairs from `at` on. */
static void moe_fp4_down(const struct moe_fp4 *c, const struct moe_fp4_expert *e, int64_t p0, int64_t p1, int64_t at,
			 int64_t n)
{
	const struct moe_fp4_expert *then = e + 1 < c->expert + c->n ? e + 1 : e;
	const struct dsv4_moe_experts *a = c->m->a;
	float out[MOE_TOKENS][DSV4_ROWS16];
	int32_t from[MOE_TOKENS];

	for (int64_t t = 0; t < n; t++)
		from[t] = (int32_t)(at + t);
	for (int64_t p = p0; p < p1; p++) {
		int64_t col = p * DSV4_ROWS16;

		avx512_fp4_panel(&e->w2, p, &c->h, from, n,
				 p + 1 < p1 ? avx512_fp4_at(&e->w2, p + 1) : avx512_fp4_at(&then->w2, p0), out);
		for (int64_t t = 0; t < n; t++) {
			float *y = a->y + (int64_t)c->m->pairs.tok[at + t] * a->dim + col;

			avx512_store(y, a->dim - col,
				     _mm512_add_ps(avx512_load(y, a->dim - col), _mm512_loadu_ps(out[t])));
		}
	}
}

/* Columns [c0, c1) of y: zeroes before the experts, the shared experts' part after them. */
static void moe_fp4_begin(const struct dsv4_moe_experts *a, int64_t c0, int64_t c1)
{
	for (int64_t t = 0; t < a->n_tok; t++)
		memset(a->y + t * a->dim + c0, 0, (size_t)(c1 - c0) * sizeof *a->y);
}

static void moe_fp4_end(const struct moe_fp4 *c, int64_t c0, int64_t c1)
{
	const struct dsv4_moe_experts *a = c->m->a;
	__m512 scale = _mm512_set1_ps(a->out_scale);

	if (c->shared.n_expert > 0)
		avx512_moe_shared_down(&c->shared, c0, c1);
	for (int64_t t = 0; t < a->n_tok; t++)
		for (int64_t i = c0; i < c1; i += AVX512_LANES) {
			__m512 v = _mm512_mul_ps(avx512_load(a->y + t * a->dim + i, c1 - i), scale);

			if (c->shared.n_expert > 0)
				v = _mm512_add_ps(v, avx512_load(c->shared.y + t * a->dim + i, c1 - i));
			avx512_store(a->y + t * a->dim + i, c1 - i, v);
		}
}

static void moe_fp4_down_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fp4 *c = arg;
	const struct dsv4_moe_experts *a = c->m->a;
	int64_t n_panel = dsv4_rows16_panels(a->dim);

	for (int64_t j = begin; j < end; j++) {
		int64_t p0 = j * c->down, p1 = avx512_min(p0 + c->down, n_panel);
		int64_t c0 = p0 * DSV4_ROWS16, c1 = avx512_min(p1 * DSV4_ROWS16, a->dim);

		moe_fp4_begin(a, c0, c1);
		for (const struct moe_fp4_expert *e = c->expert; e < c->expert + c->n; e++)
			for (int64_t i = 0; i < e->n; i += MOE_TOKENS)
				moe_fp4_down(c, e, p0, p1, e->at + i, avx512_min(MOE_TOKENS, e->n - i));
		moe_fp4_end(c, c0, c1);
	}
}

/* ---- all of it ---- */

static int moe_fp4_ok(const struct dsv4_moe_experts *a, const struct dsv4_expert *e)
{
	return avx512_moe_expert_ok(a, e) && e->w1.fmt == DSV4_W_FP4 && e->w2.fmt == DSV4_W_FP4 &&
	       e->w3.fmt == DSV4_W_FP4;
}

/* The experts that were chosen, with what is repacked of each at this moment. */
static int moe_fp4_experts(struct moe_fp4 *c)
{
	const struct dsv4_moe_experts *a = c->m->a;
	int64_t n_pair = (int64_t)a->n_tok * a->k;

	c->expert = c->m->host->scratch(c->m->x, (size_t)avx512_min(n_pair, a->n_expert) * sizeof *c->expert);
	if (!c->expert)
		return -ENOMEM;
	for (int32_t e = 0; e < a->n_expert; e++) {
		int64_t at = c->m->pairs.start[e], n = c->m->pairs.start[e + 1] - at;
		const struct dsv4_expert *w = &a->expert[e];
		struct dsv4_packed packed;

		if (n == 0 || !dsv4_expert_here(w))
			continue;
		if (!moe_fp4_ok(a, w))
			return -EINVAL;
		packed = dsv4_packed_take(a, e);
		c->expert[c->n++] = (struct moe_fp4_expert){ e, at, n, { &w->w1, packed.w1 }, { &w->w2, packed.w2 },
							     { &w->w3, packed.w3 } };
	}
	return 0;
}

int avx512_moe_fp4(const struct avx512_moe *m)
{
	const struct dsv4_moe_experts *a = m->a;
	struct moe_fp4 c = { .m = m, .n_block = (a->inter + AVX512_BLOCK - 1) / AVX512_BLOCK,
			     .down = a->n_tok < MOE_MANY ? MOE_DOWN : MOE_DOWN_MANY };
	int rc = moe_fp4_experts(&c);

	if (rc == 0)
		rc = avx512_fp4_act_take(m->x, m->host, a->n_tok, a->dim, &c.x);
	if (rc == 0)
		rc = avx512_fp4_act_take(m->x, m->host, (int64_t)a->n_tok * a->k, a->inter, &c.h);
	if (rc == 0 && dsv4_shared_here(a) > 0)
		rc = avx512_moe_shared_take(m, &c.shared);
	if (rc)
		return rc;
	m->host->parallel_for(m->x, a->n_tok, 1, moe_fp4_round_slice, &c);
	if (c.shared.n_expert > 0)
		avx512_moe_shared_rounded(&c.shared);
	m->host->parallel_for(m->x, (c.n + c.shared.n_expert) * c.n_block, 1, moe_fp4_up_slice, &c);
	if (c.shared.n_expert > 0)
		m->host->parallel_for(m->x, c.shared.n, 1, moe_fp4_h_slice, &c);
	m->host->parallel_for(m->x, (dsv4_rows16_panels(a->dim) + c.down - 1) / c.down, 1, moe_fp4_down_slice, &c);
	return 0;
}
