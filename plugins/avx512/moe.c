/* SPDX-License-Identifier: MIT
 * moe.c - the gate's products; the chosen experts and the shared ones. doc/format.md 3.7.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Experts run one after the other in rising id over all tokens that chose them, each adding to y, so a
 * token's sum has the order of its ids; then out_scale, then the shared experts. Inside, linear.c's order. */
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/linear.h"
#include "plugins/avx512/moe.h"
#include "plugins/avx512/vec.h"

#include <errno.h>

#define MOE_GRAIN 8 /* rows per slice */

int avx512_moe_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct avx512_act act = { .n_group = 1, .n = a->n_tok, .cols = a->dim, .x = a->x, .ldx = a->dim };
	struct avx512_product p = { .w = a->gate, .a = &act, .n = a->n_tok, .ldy = a->n_expert };

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 1 || a->k > a->n_expert ||
	    !dsv4_weight_ok(a->gate, a->n_expert, a->dim))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	p.y = host->scratch(x, (size_t)a->n_tok * (size_t)a->n_expert * sizeof *p.y);
	if (!p.y)
		return -ENOMEM;
	avx512_product_run(x, host, &p);
	return x86_moe_choose(x, host, a, p.y);
}

/* ---- experts ---- */

/* One expert over some tokens. */
struct moe_job {
	const struct dsv4_moe_experts *a;
	const struct dsv4_expert *e;
	int64_t n;
	const int32_t *tok;  /* [n], or NULL: all */
	const float *weight; /* [n], or NULL: all 1 */
	float *g, *u;        /* [n][inter] */
};

static void moe_gate_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_job *j = arg;
	int64_t n = j->a->inter;

	for (int64_t i = begin; i < end; i++)
		for (int64_t d = 0; d < n; d += AVX512_LANES) {
			float *g = j->g + i * n + d;

			avx512_store(g, n - d, x86_moe_gate(avx512_load(g, n - d), avx512_load(j->u + i * n + d, n - d),
							    j->weight ? j->weight[i] : 1.0f, j->a->limit));
		}
}

/* Adds the expert's output to rows of y. */
static void moe_run(const struct avx512_moe *c, const struct moe_job *j, float *y)
{
	const struct dsv4_moe_experts *a = c->a;
	const struct dsv4_weight *w1 = &j->e->w1, *w2 = &j->e->w2, *w3 = &j->e->w3;
	struct avx512_act h = { .n_group = 1, .n = j->n, .cols = a->inter, .x = j->g, .ldx = a->inter };
	struct moe_job job = *j;

	avx512_product_run(c->x, c->host, &(struct avx512_product){
		.w = w1, .a = dsv4_weight_rounds(w1, a->act) ? &c->rounded : &c->plain, .n = j->n,
		.from = j->tok, .y = j->g, .ldy = a->inter });
	avx512_product_run(c->x, c->host, &(struct avx512_product){
		.w = w3, .a = dsv4_weight_rounds(w3, a->act) ? &c->rounded : &c->plain, .n = j->n,
		.from = j->tok, .y = j->u, .ldy = a->inter });
	c->host->parallel_for(c->x, j->n, MOE_GRAIN, moe_gate_slice, &job);
	if (dsv4_weight_rounds(w2, a->act))
		avx512_act_round(c->x, c->host, &h, j->g, c->scale);
	avx512_product_run(c->x, c->host, &(struct avx512_product){
		.w = w2, .a = &h, .n = j->n, .to = j->tok, .accumulate = 1, .y = y, .ldy = a->dim });
}

static void moe_finish_slice(void *arg, int64_t begin, int64_t end)
{
	const struct avx512_moe *c = arg;
	__m512 scale = _mm512_set1_ps(c->a->out_scale);
	int64_t stop = end * c->a->dim;

	for (int64_t i = begin * c->a->dim; i < stop; i += AVX512_LANES) {
		__m512 v = _mm512_mul_ps(avx512_load(c->a->y + i, stop - i), scale);

		if (c->shared)
			v = _mm512_add_ps(v, avx512_load(c->shared + i, stop - i));
		avx512_store(c->a->y + i, stop - i, v);
	}
}

/* The tokens as both kinds of weight see them. */
static int moe_activations(struct avx512_moe *c)
{
	const struct dsv4_moe_experts *a = c->a;
	float *q, *scale;

	c->plain = (struct avx512_act){ .n_group = 1, .n = a->n_tok, .cols = a->dim, .x = a->x, .ldx = a->dim };
	c->rounded = c->plain;
	if (a->act != DSV4_ACT_FP8)
		return 0;
	q = c->host->scratch(c->x, (size_t)a->n_tok * (size_t)a->dim * sizeof *q);
	scale = c->host->scratch(c->x, (size_t)(a->n_tok * avx512_act_scales(&c->plain)) * sizeof *scale);
	if (!q || !scale)
		return -ENOMEM;
	avx512_act_round(c->x, c->host, &c->rounded, q, scale);
	return 0;
}

/* The memory that depends on the groups. */
static int moe_prepare(struct avx512_moe *c)
{
	const struct dsv4_moe_experts *a = c->a;
	size_t inter = (size_t)a->inter;
	struct avx512_act h = { .n_group = 1, .cols = a->inter };

	c->n_max = dsv4_shared_here(a) > 0 ? a->n_tok : 0;
	for (int32_t e = 0; e < a->n_expert; e++)
		c->n_max = avx512_max(c->n_max, c->pairs.start[e + 1] - c->pairs.start[e]);
	c->g = c->host->scratch(c->x, (size_t)c->n_max * inter * sizeof *c->g);
	c->u = c->host->scratch(c->x, (size_t)c->n_max * inter * sizeof *c->u);
	c->scale = c->host->scratch(c->x, (size_t)(c->n_max * avx512_act_scales(&h)) * sizeof *c->scale);
	if (dsv4_shared_here(a) > 0)
		c->shared = c->host->scratch(c->x, (size_t)a->n_tok * (size_t)a->dim * sizeof *c->shared);
	if (!c->g || !c->u || !c->scale || (dsv4_shared_here(a) > 0 && !c->shared))
		return -ENOMEM;
	return moe_activations(c);
}

int avx512_moe_expert_ok(const struct dsv4_moe_experts *a, const struct dsv4_expert *e)
{
	return dsv4_weight_ok(&e->w1, a->inter, a->dim) && dsv4_weight_ok(&e->w2, a->dim, a->inter) &&
	       dsv4_weight_ok(&e->w3, a->inter, a->dim);
}

/* Experts one after the other. */
static int moe_each(struct avx512_moe *c)
{
	const struct dsv4_moe_experts *a = c->a;
	size_t bytes = (size_t)a->n_tok * (size_t)a->dim * sizeof *a->y;
	int rc = moe_prepare(c);

	if (rc)
		return rc;
	memset(a->y, 0, bytes);
	for (int32_t e = 0; e < a->n_expert; e++) {
		int64_t at = c->pairs.start[e], n = c->pairs.start[e + 1] - at;

		if (n == 0 || !dsv4_expert_here(&a->expert[e]))
			continue;
		if (!avx512_moe_expert_ok(a, &a->expert[e]))
			return -EINVAL;
		moe_run(c, &(struct moe_job){ a, &a->expert[e], n, c->pairs.tok + at, c->pairs.weight + at, c->g,
					      c->u }, a->y);
	}
	if (c->shared)
		memset(c->shared, 0, bytes);
	for (int32_t e = 0; e < a->n_shared; e++) {
		if (!dsv4_expert_here(&a->shared[e]))
			continue;
		if (!avx512_moe_expert_ok(a, &a->shared[e]))
			return -EINVAL;
		moe_run(c, &(struct moe_job){ a, &a->shared[e], a->n_tok, NULL, NULL, c->g, c->u }, c->shared);
	}
	c->host->parallel_for(c->x, a->n_tok, MOE_GRAIN, moe_finish_slice, c);
	return 0;
}

int avx512_moe_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	struct avx512_moe c = { .x = x, .host = host, .a = a };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->dim < 1 || a->inter < 1 || a->n_expert < 1 || a->k < 1)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = x86_moe_pairs(x, host, a, &c.pairs);
	if (rc)
		return rc;
	return avx512_moe_fp4_wanted(host, a) ? avx512_moe_fp4(&c) : moe_each(&c);
}
