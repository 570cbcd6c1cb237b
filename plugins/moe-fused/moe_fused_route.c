/* SPDX-License-Identifier: MIT
 * moe_fused_route.c - from a token's values to its experts and their weights in one pass.
 * Threads: engine calls, pool runs slices over tiles of tokens, or over experts for few tokens. Locks: none. */
#include "plugins/moe-fused/moe_fused.h"
#include "plugins/moe-fused/moe_fused_row.h"

#include <errno.h>

#define MOE_FUSED_ROUTE_TILE 16 /* tokens of a slice; for so few or fewer, slices are over experts */
#define MOE_FUSED_ROUTE_GRAIN 8 /* experts per slice then */

struct moe_fused_route {
	const struct dsv4_moe_route *a;
	struct moe_fused_act x;
	float *s; /* [n_tok][n_expert] gate . x, then sqrt(softplus()) of it */
};

/* log(1 + e^z), which is z to the last bit above 20 */
static float moe_fused_softplus(float z)
{
	return z > 20.0f ? z : log1pf(expf(z));
}

/* Gate products of tokens [t0, t0 + n) with experts [e0, e1). */
static void moe_fused_route_gate(const struct moe_fused_route *c, int64_t t0, int n, int64_t e0, int64_t e1)
{
	float sum[MOE_FUSED_SIDE][MOE_FUSED_TILE];
	int32_t at[MOE_FUSED_ROUTE_TILE];

	for (int i = 0; i < n; i++)
		at[i] = (int32_t)(t0 + i);
	for (int64_t e = e0; e < e1; e += MOE_FUSED_SIDE) {
		int n_row = (int)moe_fused_min(MOE_FUSED_SIDE, e1 - e);

		moe_fused_rows(c->a->gate, e, n_row, &c->x, at, n, sum);
		for (int i = 0; i < n; i++)
			for (int l = 0; l < n_row; l++)
				c->s[(t0 + i) * c->a->n_expert + e + l] = sum[l][i];
	}
}

/* Does expert e rank above expert f? NaN is below everything, -inf included. */
static int moe_fused_route_above(const float *s, const float *bias, int32_t e, int32_t f)
{
	float v = bias ? s[e] + bias[e] : s[e], w = bias ? s[f] + bias[f] : s[f];

	return v > w || (v == v && w != w);
}

/* The k best of s + bias in one walk over a list that is kept sorted: ties to the lower id. */
static void moe_fused_route_best(const float *s, const float *bias, int32_t n_expert, int k, int32_t *ids)
{
	int n = 0;

	for (int32_t e = 0; e < n_expert; e++) {
		int i = n < k ? n++ : k - 1;

		if (i == k - 1 && e >= k && !moe_fused_route_above(s, bias, e, ids[i]))
			continue;
		for (; i > 0 && moe_fused_route_above(s, bias, e, ids[i - 1]); i--)
			ids[i] = ids[i - 1];
		ids[i] = e;
	}
}

static void moe_fused_route_sort(int32_t *ids, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && ids[j] < ids[j - 1]; j--) {
			int32_t id = ids[j];

			ids[j] = ids[j - 1];
			ids[j - 1] = id;
		}
}

/* From the gate products of token t to its ids and weights. */
static void moe_fused_route_token(const struct moe_fused_route *c, int64_t t)
{
	const struct dsv4_moe_route *a = c->a;
	float *s = c->s + t * a->n_expert, *weight = a->weight + t * a->k, sum = 0;
	int32_t *ids = a->ids + t * a->k;

	for (int32_t e = 0; e < a->n_expert; e++)
		s[e] = sqrtf(moe_fused_softplus(s[e]));
	if (!a->table)
		moe_fused_route_best(s, a->bias, a->n_expert, a->k, ids);
	moe_fused_route_sort(ids, a->k);
	for (int i = 0; i < a->k; i++)
		sum += s[ids[i]];
	for (int i = 0; i < a->k; i++)
		weight[i] = s[ids[i]] / sum * a->scaling;
}

/* Slices count tiles of tokens. */
static void moe_fused_route_tile_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fused_route *c = arg;

	for (int64_t i = begin; i < end; i++) {
		int64_t t0 = i * MOE_FUSED_ROUTE_TILE;
		int n = (int)moe_fused_min(MOE_FUSED_ROUTE_TILE, c->a->n_tok - t0);

		moe_fused_route_gate(c, t0, n, 0, c->a->n_expert);
		for (int t = 0; t < n; t++)
			moe_fused_route_token(c, t0 + t);
	}
}

/* Slices count experts; there is one tile. */
static void moe_fused_route_expert_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fused_route *c = arg;

	moe_fused_route_gate(c, 0, c->a->n_tok, begin, end);
}

/* Copies the table's rows of the tokens into ids. -EINVAL for an id that is no expert. */
static int moe_fused_route_look_up(const struct dsv4_moe_route *a)
{
	const char *table = (const char *)a->table;
	int64_t id;

	for (int64_t t = 0; t < a->n_tok; t++)
		for (int64_t i = 0; i < a->k; i++) {
			if (a->token[t] < 0)
				return -EINVAL;
			memcpy(&id, table + ((int64_t)a->token[t] * a->k + i) * (int64_t)sizeof id, sizeof id);
			if (id < 0 || id >= a->n_expert)
				return -EINVAL;
			a->ids[t * a->k + i] = (int32_t)id;
		}
	return 0;
}

int moe_fused_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct moe_fused_route c = { .a = a, .x = { .x = a->x, .ldx = a->dim } };

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 1 || a->k > a->n_expert ||
	    !dsv4_weight_ok(a->gate, a->n_expert, a->dim))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	if (a->table && moe_fused_route_look_up(a))
		return -EINVAL;
	c.s = host->scratch(x, (size_t)a->n_tok * (size_t)a->n_expert * sizeof *c.s);
	if (!c.s)
		return -ENOMEM;
	if (a->n_tok > MOE_FUSED_ROUTE_TILE) {
		host->parallel_for(x, (a->n_tok + MOE_FUSED_ROUTE_TILE - 1) / MOE_FUSED_ROUTE_TILE, 1,
				   moe_fused_route_tile_slice, &c);
		return 0;
	}
	host->parallel_for(x, a->n_expert, MOE_FUSED_ROUTE_GRAIN, moe_fused_route_expert_slice, &c);
	for (int64_t t = 0; t < a->n_tok; t++)
		moe_fused_route_token(&c, t);
	return 0;
}
