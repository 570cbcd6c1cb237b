/* SPDX-License-Identifier: MIT
 * moe.c - choose experts and their weights; run the chosen and the shared ones. doc/format.md 3.7.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * Experts run one after the other in rising id over all tokens that chose them, each adding to y, so a
 * token's sum has the order of its ids; then out_scale, then the shared experts. Inside, linear.c's order.
 * Those that are not here are passed over. */
#include "plugins/dsv4_weight.h"
#include "plugins/ref/linear.h"
#include "plugins/ref/ref.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define MOE_GRAIN 8 /* rows per slice */

/* ---- routing ---- */

struct moe_route_call {
	const struct dsv4_moe_route *a;
	float *s; /* [n_tok][n_expert] gate . x, then sqrt(softplus()) of it */
};

/* log(1 + e^z), which is z to the last bit above 20 */
static float moe_softplus(float z)
{
	return z > 20.0f ? z : log1pf(expf(z));
}

static int moe_has(const int32_t *ids, int n, int32_t id)
{
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return 1;
	return 0;
}

/* Does v rank above w? NaN is below everything, -inf included. */
static int moe_above(float v, float w)
{
	return v > w || (v == v && w != w);
}

/* The best id not yet among ids[0..n): ties to the lower id. */
static int32_t moe_best(const float *s, const float *bias, int32_t n_expert, const int32_t *ids, int n)
{
	float top = NAN;
	int32_t best = -1;

	for (int32_t e = 0; e < n_expert; e++) {
		float v = bias ? s[e] + bias[e] : s[e];

		if (!moe_has(ids, n, e) && (best < 0 || moe_above(v, top))) {
			best = e;
			top = v;
		}
	}
	return best;
}

static void moe_sort(int32_t *ids, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && ids[j] < ids[j - 1]; j--) {
			int32_t id = ids[j];

			ids[j] = ids[j - 1];
			ids[j - 1] = id;
		}
}

static void moe_route_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_route_call *c = arg;
	const struct dsv4_moe_route *a = c->a;

	for (int64_t t = begin; t < end; t++) {
		float *s = c->s + t * a->n_expert, *weight = a->weight + t * a->k, sum = 0;
		int32_t *ids = a->ids + t * a->k;

		for (int32_t e = 0; e < a->n_expert; e++)
			s[e] = sqrtf(moe_softplus(s[e]));
		if (!a->table)
			for (int i = 0; i < a->k; i++)
				ids[i] = moe_best(s, a->bias, a->n_expert, ids, i);
		moe_sort(ids, a->k);
		for (int i = 0; i < a->k; i++)
			sum += s[ids[i]];
		for (int i = 0; i < a->k; i++)
			weight[i] = s[ids[i]] / sum * a->scaling;
	}
}

/* Copies the table's rows of the tokens into ids. -EINVAL for an id that is no expert. */
static int moe_look_up(const struct dsv4_moe_route *a)
{
	const char *table = (const char *)a->table;
	int64_t id;

	for (int64_t t = 0; t < a->n_tok; t++)
		for (int64_t i = 0; i < a->k; i++) {
			memcpy(&id, table + ((int64_t)a->token[t] * a->k + i) * (int64_t)sizeof id,
			       sizeof id);
			if (a->token[t] < 0 || id < 0 || id >= a->n_expert)
				return -EINVAL;
			a->ids[t * a->k + i] = (int32_t)id;
		}
	return 0;
}

int ref_moe_route(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_route *a)
{
	struct ref_act act = { .n_group = 1, .n = a->n_tok, .cols = a->dim, .x = a->x, .ldx = a->dim };
	struct ref_product p = { .w = a->gate, .a = &act, .n = a->n_tok, .ldy = a->n_expert };
	struct moe_route_call c = { .a = a };

	if (a->size < sizeof *a || a->n_tok < 0 || a->k < 1 || a->k > a->n_expert ||
	    !ref_weight_ok(a->gate, a->n_expert, a->dim))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	if (a->table && moe_look_up(a))
		return -EINVAL;
	p.y = c.s = host->scratch(x, (size_t)a->n_tok * (size_t)a->n_expert * sizeof *c.s);
	if (!c.s)
		return -ENOMEM;
	ref_product_run(x, host, &p);
	host->parallel_for(x, a->n_tok, MOE_GRAIN, moe_route_slice, &c);
	return 0;
}

/* ---- experts ---- */

struct moe_call {
	struct dsv4_exec *x;
	const struct dsv4_host *host;
	const struct dsv4_moe_experts *a;
	struct ref_act plain, rounded; /* the tokens, for weights of either kind */
	int64_t *start;                /* [n_expert + 1] where each expert's part of `tok` begins */
	int32_t *tok;                  /* [n_tok * k] tokens of each expert, rising */
	float *weight;                 /* [n_tok * k] their weights */
	int64_t n_max;                 /* most tokens of any expert, the shared ones included */
	float *g, *u, *scale;          /* [n_max][inter] twice, [n_max][scales] */
	float *shared;                 /* [n_tok][dim] */
};

/* One expert over some tokens. */
struct moe_job {
	const struct dsv4_moe_experts *a;
	const struct dsv4_expert *e;
	int64_t n;
	const int32_t *tok;  /* [n], or NULL: all */
	const float *weight; /* [n], or NULL: all 1 */
	float *g, *u;        /* [n][inter] */
};

/* Sorts the (token, choice) pairs by expert, tokens rising within each. */
static int moe_group(struct moe_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	int64_t n_pair = (int64_t)a->n_tok * a->k, n = 0;

	for (int64_t i = 0; i < n_pair; i++)
		if (a->ids[i] < 0 || a->ids[i] >= a->n_expert)
			return -EINVAL;
	memset(c->start, 0, (size_t)(a->n_expert + 1) * sizeof *c->start);
	for (int64_t i = 0; i < n_pair; i++)
		c->start[a->ids[i] + 1]++;
	c->n_max = dsv4_shared_here(a) > 0 ? a->n_tok : 0;
	for (int32_t e = 0; e <= a->n_expert; e++) {
		c->n_max = c->start[e] > c->n_max ? c->start[e] : c->n_max;
		n += c->start[e];
		c->start[e] = n;
	}
	/* start[e] is where e begins, and moves to its end, where e + 1 began: shift back after. */
	for (int64_t i = 0; i < n_pair; i++) {
		int64_t at = c->start[a->ids[i]]++;

		c->tok[at] = (int32_t)(i / a->k);
		c->weight[at] = a->weight[i];
	}
	memmove(c->start + 1, c->start, (size_t)a->n_expert * sizeof *c->start);
	c->start[0] = 0;
	return 0;
}

/* g := weight * silu(g) * u, both clamped first; NaN passes the clamps. */
static void moe_gate_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_job *j = arg;
	float limit = j->a->limit > 0 ? j->a->limit : INFINITY;

	for (int64_t i = begin; i < end; i++) {
		float *g = j->g + i * j->a->inter, *u = j->u + i * j->a->inter;
		float weight = j->weight ? j->weight[i] : 1.0f;

		for (int64_t d = 0; d < j->a->inter; d++) {
			float gate = g[d] > limit ? limit : g[d];
			float up = u[d] > limit ? limit : u[d] < -limit ? -limit : u[d];

			g[d] = weight * (gate * ref_sigmoid(gate) * up);
		}
	}
}

/* Adds the expert's output to rows of y. */
static void moe_run(const struct moe_call *c, const struct moe_job *j, float *y)
{
	const struct dsv4_moe_experts *a = c->a;
	const struct dsv4_weight *w1 = &j->e->w1, *w2 = &j->e->w2, *w3 = &j->e->w3;
	struct ref_act h = { .n_group = 1, .n = j->n, .cols = a->inter, .x = j->g, .ldx = a->inter };
	struct moe_job job = *j;

	ref_product_run(c->x, c->host, &(struct ref_product){
		.w = w1, .a = ref_act_wanted(a->act, w1) ? &c->rounded : &c->plain, .n = j->n, .from = j->tok,
		.y = j->g, .ldy = a->inter });
	ref_product_run(c->x, c->host, &(struct ref_product){
		.w = w3, .a = ref_act_wanted(a->act, w3) ? &c->rounded : &c->plain, .n = j->n, .from = j->tok,
		.y = j->u, .ldy = a->inter });
	c->host->parallel_for(c->x, j->n, MOE_GRAIN, moe_gate_slice, &job);
	if (ref_act_wanted(a->act, w2))
		ref_act_round(c->x, c->host, &h, j->g, c->scale);
	ref_product_run(c->x, c->host, &(struct ref_product){
		.w = w2, .a = &h, .n = j->n, .to = j->tok, .accumulate = 1, .y = y, .ldy = a->dim });
}

static void moe_finish_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_call *c = arg;

	for (int64_t i = begin * c->a->dim; i < end * c->a->dim; i++) {
		c->a->y[i] *= c->a->out_scale;
		if (c->shared)
			c->a->y[i] += c->shared[i];
	}
}

/* The tokens as both kinds of weight see them. */
static int moe_activations(struct moe_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	float *q, *scale;

	c->plain = (struct ref_act){ .n_group = 1, .n = a->n_tok, .cols = a->dim, .x = a->x, .ldx = a->dim };
	c->rounded = c->plain;
	if (a->act != DSV4_ACT_FP8)
		return 0;
	q = c->host->scratch(c->x, (size_t)a->n_tok * (size_t)a->dim * sizeof *q);
	scale = c->host->scratch(c->x, (size_t)(a->n_tok * ref_act_scales(&c->plain)) * sizeof *scale);
	if (!q || !scale)
		return -ENOMEM;
	ref_act_round(c->x, c->host, &c->rounded, q, scale);
	return 0;
}

/* Groups the pairs, then takes the memory that depends on the groups. */
static int moe_prepare(struct moe_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	size_t n_pair = (size_t)a->n_tok * (size_t)a->k, inter = (size_t)a->inter;
	struct ref_act h = { .n_group = 1, .cols = a->inter };
	int rc;

	c->start = c->host->scratch(c->x, ((size_t)a->n_expert + 1) * sizeof *c->start);
	c->tok = c->host->scratch(c->x, n_pair * sizeof *c->tok);
	c->weight = c->host->scratch(c->x, n_pair * sizeof *c->weight);
	if (!c->start || !c->tok || !c->weight)
		return -ENOMEM;
	rc = moe_group(c);
	if (rc)
		return rc;
	c->g = c->host->scratch(c->x, (size_t)c->n_max * inter * sizeof *c->g);
	c->u = c->host->scratch(c->x, (size_t)c->n_max * inter * sizeof *c->u);
	c->scale = c->host->scratch(c->x, (size_t)(c->n_max * ref_act_scales(&h)) * sizeof *c->scale);
	if (dsv4_shared_here(a) > 0)
		c->shared = c->host->scratch(c->x, (size_t)a->n_tok * (size_t)a->dim * sizeof *c->shared);
	if (!c->g || !c->u || !c->scale || (dsv4_shared_here(a) > 0 && !c->shared))
		return -ENOMEM;
	return moe_activations(c);
}

static int moe_expert_ok(const struct dsv4_moe_experts *a, const struct dsv4_expert *e)
{
	return ref_weight_ok(&e->w1, a->inter, a->dim) && ref_weight_ok(&e->w2, a->dim, a->inter) &&
	       ref_weight_ok(&e->w3, a->inter, a->dim);
}

int ref_moe_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	size_t bytes = (size_t)a->n_tok * (size_t)a->dim * sizeof *a->y;
	struct moe_call c = { .x = x, .host = host, .a = a };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->dim < 1 || a->inter < 1 || a->n_expert < 1 || a->k < 1)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = moe_prepare(&c);
	if (rc)
		return rc;
	memset(a->y, 0, bytes);
	for (int32_t e = 0; e < a->n_expert; e++) {
		int64_t at = c.start[e], n = c.start[e + 1] - at;

		if (n == 0 || !dsv4_expert_here(&a->expert[e]))
			continue;
		if (!moe_expert_ok(a, &a->expert[e]))
			return -EINVAL;
		moe_run(&c, &(struct moe_job){ a, &a->expert[e], n, c.tok + at, c.weight + at, c.g, c.u },
			a->y);
	}
	if (c.shared)
		memset(c.shared, 0, bytes);
	for (int32_t e = 0; e < a->n_shared; e++) {
		if (!dsv4_expert_here(&a->shared[e]))
			continue;
		if (!moe_expert_ok(a, &a->shared[e]))
			return -EINVAL;
		moe_run(&c, &(struct moe_job){ a, &a->shared[e], a->n_tok, NULL, NULL, c.g, c.u }, c.shared);
	}
	host->parallel_for(x, a->n_tok, MOE_GRAIN, moe_finish_slice, &c);
	return 0;
}
