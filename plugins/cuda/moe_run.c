/* SPDX-License-Identifier: MIT
 * moe_run.c - routed and shared experts: pairs are sorted by expert, go through w1 and w3, the
 * gate and w2, and are added.
 * Threads: the engine's calls. Locks: none.
 *
 * Tokens go in chunks, which bounds the memory for hidden rows and for what each pair of a
 * token and an expert gives. */
#include "plugins/cuda/moe_run.h"

#include <errno.h>

#define MOE_CHUNK 512 /* tokens */

struct moe_call {
	struct dsv4_exec *x;
	const struct dsv4_host *host;
	const struct dsv4_moe_experts *a;
	const struct moe_how *how;
	const struct dsv4_expert *table;  /* in device memory */
	const struct dsv4_expert *like;   /* what the routed ones that are here are like; NULL: none is */
	/* for the tokens of a chunk and their pairs */
	struct linear_rounded q;          /* [n_tok] x; NULL when nothing asks */
	float *g, *u, *h_scale;           /* [n_pair][inter] twice, [n_pair][scales] */
	uint8_t *h_code;                  /* [n_pair][scales * 128], or NULL */
	float *part, *shared;             /* [n_pair][dim], [n_tok][dim] or NULL */
	int32_t *at, *tok, *n_tile;       /* [n_pair] twice, [2]: tiles, then sorted pairs */
	float *weight;                    /* [n_pair] */
	struct moe_tile *tile;
};

static int moe_expert_ok(const struct dsv4_moe_experts *a, const struct dsv4_expert *e)
{
	return dsv4_weight_ok(&e->w1, a->inter, a->dim) && dsv4_weight_ok(&e->w2, a->dim, a->inter) &&
	       dsv4_weight_ok(&e->w3, a->inter, a->dim);
}

static int moe_args_ok(const struct dsv4_moe_experts *a)
{
	if (a->size < sizeof *a || a->n_tok < 0 || a->dim < 1 || a->inter < 1 || a->n_expert < 1 || a->k < 1)
		return 0;
	for (int32_t e = 0; e < a->n_shared; e++)
		if (dsv4_expert_here(&a->shared[e]) && !moe_expert_ok(a, &a->shared[e]))
			return 0;
	return 1;
}

/* Tiles at most: what the grid of the products has. */
static int64_t moe_tiles(const struct dsv4_moe_experts *a, int32_t n_tok, int32_t tile_n)
{
	int64_t n_pair = (int64_t)n_tok * a->k, full = n_pair / tile_n + a->n_expert;

	return full < n_pair ? full : n_pair;
}

static void *moe_scratch(const struct moe_call *c, int64_t n, int64_t width)
{
	return c->host->scratch(c->x, (size_t)n * (size_t)width * 4);
}

/* One byte for each column of whole blocks. */
static uint8_t *moe_code_scratch(const struct moe_call *c, int64_t n, int64_t cols)
{
	return moe_scratch(c, n, linear_act_scales(1, cols) * 32);
}

/* For activations that are rounded. */
static int moe_memory_rounded(struct moe_call *c, int64_t n_tok)
{
	const struct dsv4_moe_experts *a = c->a;

	c->q.q = moe_scratch(c, n_tok, a->dim);
	c->q.scale = moe_scratch(c, n_tok, linear_act_scales(1, a->dim));
	if (c->how->codes) {
		c->q.code = moe_code_scratch(c, n_tok, a->dim);
		c->h_code = moe_code_scratch(c, n_tok * a->k, a->inter);
		if (!c->q.code || !c->h_code)
			return -ENOMEM;
	}
	return c->q.q && c->q.scale ? 0 : -ENOMEM;
}

static int moe_memory(struct moe_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	int64_t n_tok = a->n_tok < MOE_CHUNK ? a->n_tok : MOE_CHUNK, n_pair = n_tok * a->k;

	c->table = a->expert_table ? a->expert_table
		 : c->host->gpu->upload(c->x, a->expert, (size_t)a->n_expert * sizeof *a->expert);
	if (a->act == DSV4_ACT_FP8 && moe_memory_rounded(c, n_tok))
		return -ENOMEM;
	c->g = moe_scratch(c, n_pair, a->inter);
	c->u = moe_scratch(c, n_pair, a->inter);
	c->h_scale = moe_scratch(c, n_pair, linear_act_scales(1, a->inter));
	c->part = moe_scratch(c, n_pair, a->dim);
	c->at = moe_scratch(c, n_pair, 1);
	c->tok = moe_scratch(c, n_pair, 1);
	c->weight = moe_scratch(c, n_pair, 1);
	c->n_tile = moe_scratch(c, 2, 1);
	c->tile = c->host->scratch(c->x, (size_t)n_pair * sizeof *c->tile);
	if (dsv4_shared_here(a) > 0) {
		c->shared = moe_scratch(c, n_tok, a->dim);
		if (!c->shared)
			return -ENOMEM;
	}
	return c->table && c->g && c->u && c->h_scale && c->part && c->at && c->tok && c->weight && c->n_tile &&
	       c->tile ? 0 : -ENOMEM;
}

/* g := weight * silu(g) * u of n rows at most; with scale, rounded. */
static int moe_gate(const struct moe_call *c, int64_t n, struct moe_gate_args args)
{
	args.inter = c->a->inter;
	args.limit = c->a->limit;
	args.g = c->g;
	args.u = c->u;
	return CUDA_KERNELS_LAUNCH(c->x, c->host, &args, .kernel = CUDA_K_moe_gate, .x = n,
				   .y = cuda_kernels_tiles(c->a->inter, 8 * 128), .z = 1, .threads = 256);
}

/* One matrix of all chosen experts: rows of x, by token or by pair, into rows of y by pair. */
static int moe_product(const struct moe_call *c, int32_t n_tok, enum moe_matrix which, const struct dsv4_weight *w,
		       struct linear_act in, float *y)
{
	const struct moe_product_args args = {
		.expert = c->table, .which = which, .tile = c->tile, .n_tile = c->n_tile,
		.from = which == MOE_W2 ? NULL : c->tok, .x = in.x, .scale = in.scale, .code = in.code, .y = y,
	};
	int32_t tile_n = c->how->tile(c->a, n_tok);

	return c->how->product(c->x, c->host, &args, w, moe_tiles(c->a, n_tok, tile_n), tile_n);
}

/* What the weight w sees of the tokens. */
static struct linear_act moe_seen(const struct moe_call *c, const struct dsv4_weight *w, const float *x)
{
	if (dsv4_weight_rounds(w, c->a->act))
		return (struct linear_act){ .x = c->q.q, .ldx = c->a->dim, .scale = c->q.scale, .code = c->q.code };
	return (struct linear_act){ .x = x, .ldx = c->a->dim };
}

/* The chosen experts of tokens [t0, t0 + n): every pair's result into part. */
static int moe_chosen(const struct moe_call *c, int32_t t0, int32_t n)
{
	const struct dsv4_moe_experts *a = c->a;
	const struct dsv4_expert *e = c->like;
	const float *x = a->x + (int64_t)t0 * a->dim;
	const struct moe_group_args group = {
		.n_pair = n * a->k, .n_expert = a->n_expert, .k = a->k, .tile_n = c->how->tile(a, n),
		.expert = c->table,
		.ids = a->ids + (int64_t)t0 * a->k, .weight = a->weight + (int64_t)t0 * a->k, .at = c->at,
		.tok = c->tok,
		.sorted_weight = c->weight, .tile = c->tile, .n_tile = c->n_tile, .n_sorted = c->n_tile + 1,
	};
	float *scale = dsv4_weight_rounds(&e->w2, a->act) ? c->h_scale : NULL;
	uint8_t *code = scale ? c->h_code : NULL;
	const struct linear_act h = { .x = c->g, .ldx = a->inter, .scale = scale, .code = code };
	int rc;

	rc = CUDA_KERNELS_LAUNCH(c->x, c->host, &group, .kernel = CUDA_K_moe_group, .x = 1, .y = 1, .z = 1,
				 .threads = 256, .shared = (size_t)a->n_expert * 2 * sizeof(int32_t));
	if (!rc)
		rc = moe_product(c, n, MOE_W1, &e->w1, moe_seen(c, &e->w1, x), c->g);
	if (!rc)
		rc = moe_product(c, n, MOE_W3, &e->w3, moe_seen(c, &e->w3, x), c->u);
	if (!rc)
		rc = moe_gate(c, (int64_t)n * a->k, (struct moe_gate_args){ .n_row = group.n_sorted,
			.weight = c->weight, .scale = scale, .code = code });
	if (!rc)
		rc = moe_product(c, n, MOE_W2, &e->w2, h, c->part);
	return rc;
}

/* What a shared expert gives for n tokens, into shared or added to it. */
static int moe_shared_one(const struct moe_call *c, const struct dsv4_expert *e, const float *x, int32_t n,
			  int accumulate)
{
	const struct dsv4_moe_experts *a = c->a;
	float *scale = dsv4_weight_rounds(&e->w2, a->act) ? c->h_scale : NULL;
	int rc;

	rc = linear_product_run(c->x, c->host, &(struct linear_product){
		.w = &e->w1, .n_tok = n, .n_group = 1, .a = moe_seen(c, &e->w1, x), .y = c->g, .ldy = a->inter });
	if (!rc)
		rc = linear_product_run(c->x, c->host, &(struct linear_product){
			.w = &e->w3, .n_tok = n, .n_group = 1, .a = moe_seen(c, &e->w3, x), .y = c->u,
			.ldy = a->inter });
	if (!rc)
		rc = moe_gate(c, n, (struct moe_gate_args){ .scale = scale });
	if (!rc)
		rc = linear_product_run(c->x, c->host, &(struct linear_product){
			.w = &e->w2, .n_tok = n, .n_group = 1, .a = { .x = c->g, .ldx = a->inter, .scale = scale },
			.y = c->shared, .ldy = a->dim, .accumulate = accumulate });
	return rc;
}

/* The sum of the shared experts of tokens [t0, t0 + n) into shared. */
static int moe_shared(const struct moe_call *c, int32_t t0, int32_t n)
{
	const struct dsv4_moe_experts *a = c->a;
	int rc = 0, n_added = 0;

	for (int32_t i = 0; i < a->n_shared && !rc; i++)
		if (dsv4_expert_here(&a->shared[i]))
			rc = moe_shared_one(c, &a->shared[i], a->x + (int64_t)t0 * a->dim, n, n_added++ > 0);
	return rc;
}

static int moe_chunk(const struct moe_call *c, int32_t t0, int32_t n)
{
	const struct dsv4_moe_experts *a = c->a;
	const struct moe_sum_args sum = { .dim = a->dim, .k = c->like ? a->k : 0, .out_scale = a->out_scale,
					  .at = c->at,
					  .part = c->part, .shared = c->shared, .y = a->y + (int64_t)t0 * a->dim };
	struct linear_act in = { .x = a->x + (int64_t)t0 * a->dim, .ldx = a->dim };
	int rc = 0;

	if (c->q.q)
		rc = linear_act_round(c->x, c->host, n, 1, a->dim, &in, &c->q);
	if (!rc && c->like)
		rc = moe_chosen(c, t0, n);
	if (!rc)
		rc = moe_shared(c, t0, n);
	if (rc)
		return rc;
	return CUDA_KERNELS_LAUNCH(c->x, c->host, &sum, .kernel = CUDA_K_moe_sum, .x = n,
				   .y = cuda_kernels_tiles(a->dim, 256), .z = 1, .threads = 256,
				   .shared = (size_t)a->k * sizeof(int32_t));
}

int moe_run(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a,
	    const struct moe_how *how)
{
	struct moe_call c = { .x = x, .host = host, .a = a, .how = how };
	int rc;

	if (!moe_args_ok(a))
		return -EINVAL;
	c.like = dsv4_expert_like(a);
	if (c.like && !moe_expert_ok(a, c.like))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = moe_memory(&c);
	for (int32_t t = 0; t < a->n_tok && !rc; t += MOE_CHUNK)
		rc = moe_chunk(&c, t, a->n_tok - t < MOE_CHUNK ? a->n_tok - t : MOE_CHUNK);
	return rc;
}
