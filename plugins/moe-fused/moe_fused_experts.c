/* SPDX-License-Identifier: MIT
 * moe_fused_experts.c - the chosen and the shared experts, in waves of (token, expert) pairs.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * A wave holds so many pairs that their hidden values stay in the cache. Its first pass goes over (job, 128 hidden
 * values): both products, clamp, SiLU, weight, rounding, for all tokens of the job; the second over blocks of y,
 * which adds the wave's jobs in rising id. Waves run in rising id too, so a token's sum has ref's order. */
#include "plugins/moe-fused/moe_fused.h"
#include "plugins/moe-fused/moe_fused_row.h"

#include <errno.h>

#define MOE_FUSED_WAVE 256  /* pairs */
#define MOE_FUSED_DOWN 8    /* groups of rows of y per slice */

/* One expert over some tokens. */
struct moe_fused_job {
	const struct dsv4_expert *e;
	int64_t row0, n;      /* its rows of the wave's hidden values */
	const int32_t *tok;   /* [n] */
	const float *weight;  /* [n], or NULL: all 1 */
};

struct moe_fused_call {
	struct dsv4_exec *x;
	const struct dsv4_host *host;
	const struct dsv4_moe_experts *a;
	struct moe_fused_act plain, rounded; /* the tokens, for weights of either kind */
	int64_t *start;        /* [n_expert + 1] where each expert's part of `tok` begins */
	int32_t *tok, *every;  /* [n_tok * k] tokens of each expert, rising; [n_tok] 0, 1, 2... */
	float *weight;         /* [n_tok * k] their weights */
	/* The wave. */
	int n_job;
	int64_t n_row;
	struct moe_fused_job *job; /* [MOE_FUSED_WAVE] */
	float *h, *scale;      /* [rows][inter], [rows][n_block] */
	int64_t n_block;       /* blocks of hidden values */
	int64_t t0, n_tok;     /* shared experts: the tokens of the wave */
};

/* ---- pairs by expert ---- */

/* Sorts the (token, choice) pairs by expert, tokens rising within each. */
static int moe_fused_group(struct moe_fused_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	int64_t n_pair = (int64_t)a->n_tok * a->k, n = 0;

	for (int64_t i = 0; i < n_pair; i++)
		if (a->ids[i] < 0 || a->ids[i] >= a->n_expert)
			return -EINVAL;
	memset(c->start, 0, (size_t)(a->n_expert + 1) * sizeof *c->start);
	for (int64_t i = 0; i < n_pair; i++)
		c->start[a->ids[i]]++;
	for (int32_t e = 0; e <= a->n_expert; e++) {
		int64_t mine = c->start[e];

		c->start[e] = n;
		n += mine;
	}
	for (int64_t i = 0; i < n_pair; i++) {
		int64_t at = c->start[a->ids[i]]++; /* moves each start to its end, where the next began */

		c->tok[at] = (int32_t)(i / a->k);
		c->weight[at] = a->weight[i];
	}
	memmove(c->start + 1, c->start, (size_t)a->n_expert * sizeof *c->start);
	c->start[0] = 0;
	return 0;
}

static int moe_fused_expert_ok(const struct dsv4_moe_experts *a, const struct dsv4_expert *e)
{
	return dsv4_weight_ok(&e->w1, a->inter, a->dim) && dsv4_weight_ok(&e->w2, a->dim, a->inter) &&
	       dsv4_weight_ok(&e->w3, a->inter, a->dim);
}

/* ---- first pass: hidden values ---- */

/* weight * silu(g) * u, both clamped first; NaN passes the clamps. */
static float moe_fused_hidden(float g, float u, float limit, float weight)
{
	g = g > limit ? limit : g;
	u = u > limit ? limit : u < -limit ? -limit : u;
	return weight * (g * moe_fused_sigmoid(g) * u);
}

/* Hidden values [d, d + n) of the job's tokens [i0, i0 + n_tok). */
static void moe_fused_gate_up(const struct moe_fused_call *c, const struct moe_fused_job *j, int64_t i0, int n_tok,
			      int64_t d, int64_t n)
{
	const struct dsv4_moe_experts *a = c->a;
	const struct moe_fused_act *x1 = dsv4_weight_rounds(&j->e->w1, a->act) ? &c->rounded : &c->plain;
	const struct moe_fused_act *x3 = dsv4_weight_rounds(&j->e->w3, a->act) ? &c->rounded : &c->plain;
	float g[MOE_FUSED_SIDE][MOE_FUSED_TILE], u[MOE_FUSED_SIDE][MOE_FUSED_TILE];
	float *h = c->h + (j->row0 + i0) * a->inter, limit = a->limit > 0 ? a->limit : INFINITY;

	for (int64_t r = d; r < d + n; r += MOE_FUSED_SIDE) {
		int n_row = (int)moe_fused_min(MOE_FUSED_SIDE, d + n - r);

		moe_fused_rows(&j->e->w1, r, n_row, x1, j->tok + i0, n_tok, g);
		moe_fused_rows(&j->e->w3, r, n_row, x3, j->tok + i0, n_tok, u);
		for (int i = 0; i < n_tok; i++)
			for (int l = 0; l < n_row; l++)
				h[i * (int64_t)a->inter + r + l] = moe_fused_hidden(
					g[l][i], u[l][i], limit, j->weight ? j->weight[i0 + i] : 1.0f);
	}
}

/* Slices count (job, block of hidden values). A block is as wide as a scale, so it is rounded where it is made. */
static void moe_fused_hidden_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fused_call *c = arg;
	int64_t inter = c->a->inter;

	for (int64_t i = begin; i < end; i++) {
		const struct moe_fused_job *j = &c->job[i / c->n_block];
		int64_t b = i % c->n_block, d = b * MOE_FUSED_ACT, n = moe_fused_min(MOE_FUSED_ACT, inter - d);

		for (int64_t t = 0; t < j->n; t += MOE_FUSED_TILE)
			moe_fused_gate_up(c, j, t, (int)moe_fused_min(MOE_FUSED_TILE, j->n - t), d, n);
		if (!dsv4_weight_rounds(&j->e->w2, c->a->act))
			continue;
		for (int64_t row = j->row0; row < j->row0 + j->n; row++) {
			float *h = c->h + row * inter + d;

			c->scale[row * c->n_block + b] = moe_fused_split(h, n, h);
		}
	}
}

/* ---- second pass: down products ---- */

/* Rows r to r + n_row of the down product for the job's hidden rows [i0, i0 + n). */
static void moe_fused_down(const struct moe_fused_call *c, const struct moe_fused_job *j, int64_t r, int n_row,
			   int64_t i0, int n, float sum[MOE_FUSED_SIDE][MOE_FUSED_TILE])
{
	struct moe_fused_act h = { .x = c->h, .ldx = c->a->inter, .n_scale = c->n_block };
	int32_t at[MOE_FUSED_TILE];

	if (dsv4_weight_rounds(&j->e->w2, c->a->act))
		h.scale = c->scale;
	for (int i = 0; i < n; i++)
		at[i] = (int32_t)(j->row0 + i0 + i);
	moe_fused_rows(&j->e->w2, r, n_row, &h, at, n, sum);
}

/* Adds the job to rows r to r + n_row of y. */
static void moe_fused_down_job(const struct moe_fused_call *c, const struct moe_fused_job *j, int64_t r, int n_row)
{
	float sum[MOE_FUSED_SIDE][MOE_FUSED_TILE];

	for (int64_t t = 0; t < j->n; t += MOE_FUSED_TILE) {
		int n = (int)moe_fused_min(MOE_FUSED_TILE, j->n - t);

		moe_fused_down(c, j, r, n_row, t, n, sum);
		for (int i = 0; i < n; i++)
			for (int l = 0; l < n_row; l++)
				c->a->y[j->tok[t + i] * (int64_t)c->a->dim + r + l] += sum[l][i];
	}
}

/* Slices count groups of rows of y: adds the wave's jobs, in their order. */
static void moe_fused_down_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fused_call *c = arg;

	for (int64_t i = begin; i < end; i++)
		for (const struct moe_fused_job *j = c->job; j < c->job + c->n_job; j++)
			moe_fused_down_job(c, j, i * MOE_FUSED_SIDE,
					   (int)moe_fused_min(MOE_FUSED_SIDE, c->a->dim - i * MOE_FUSED_SIDE));
}

/* Rows r to r + n_row of y for tokens [t, t + n) of a wave of shared experts, which all have the same tokens:
 * y = y * out_scale + their sum. */
static void moe_fused_shared_tile(const struct moe_fused_call *c, int64_t r, int n_row, int64_t t, int n)
{
	float sum[MOE_FUSED_SIDE][MOE_FUSED_TILE], all[MOE_FUSED_SIDE][MOE_FUSED_TILE] = { 0 };

	for (int e = 0; e < c->n_job; e++) {
		moe_fused_down(c, &c->job[e], r, n_row, t, n, sum);
		for (int l = 0; l < n_row; l++)
			for (int i = 0; i < n; i++)
				all[l][i] += sum[l][i];
	}
	for (int i = 0; i < n; i++)
		for (int l = 0; l < n_row; l++) {
			float *y = c->a->y + (c->t0 + t + i) * c->a->dim + r + l;

			*y *= c->a->out_scale;
			if (c->n_job)
				*y += all[l][i];
		}
}

/* Slices count groups of rows of y. */
static void moe_fused_shared_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fused_call *c = arg;

	for (int64_t r = begin * MOE_FUSED_SIDE; r < moe_fused_min(end * MOE_FUSED_SIDE, c->a->dim);
	     r += MOE_FUSED_SIDE)
		for (int64_t t = 0; t < c->n_tok; t += MOE_FUSED_TILE)
			moe_fused_shared_tile(c, r, (int)moe_fused_min(MOE_FUSED_SIDE, c->a->dim - r), t,
					      (int)moe_fused_min(MOE_FUSED_TILE, c->n_tok - t));
}

/* ---- waves ---- */

/* Runs the wave and begins the next. */
static void moe_fused_run(struct moe_fused_call *c, dsv4_slice_f *down)
{
	if (c->n_job)
		c->host->parallel_for(c->x, c->n_job * c->n_block, 1, moe_fused_hidden_slice, c);
	c->host->parallel_for(c->x, (c->a->dim + MOE_FUSED_SIDE - 1) / MOE_FUSED_SIDE, MOE_FUSED_DOWN, down, c);
	c->n_job = 0;
	c->n_row = 0;
}

static void moe_fused_put(struct moe_fused_call *c, const struct dsv4_expert *e, const int32_t *tok,
			  const float *weight, int64_t n)
{
	c->job[c->n_job++] = (struct moe_fused_job){ e, c->n_row, n, tok, weight };
	c->n_row += n;
}

/* The chosen experts that are here, in rising id; one with many tokens may span waves. */
static int moe_fused_chosen(struct moe_fused_call *c)
{
	const struct dsv4_moe_experts *a = c->a;

	for (int32_t e = 0; e < a->n_expert; e++) {
		int64_t n = 0;

		if (c->start[e] == c->start[e + 1] || !dsv4_expert_here(&a->expert[e]))
			continue;
		if (!moe_fused_expert_ok(a, &a->expert[e]))
			return -EINVAL;
		for (int64_t at = c->start[e]; at < c->start[e + 1]; at += n) {
			n = moe_fused_min(c->start[e + 1] - at, MOE_FUSED_WAVE - c->n_row);
			moe_fused_put(c, &a->expert[e], c->tok + at, c->weight + at, n);
			if (c->n_row == MOE_FUSED_WAVE)
				moe_fused_run(c, moe_fused_down_slice);
		}
	}
	if (c->n_job)
		moe_fused_run(c, moe_fused_down_slice);
	return 0;
}

/* All shared experts that are here over as many tokens as a wave has room for. */
static int moe_fused_shared(struct moe_fused_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	int32_t here = dsv4_shared_here(a);
	int64_t most = here > 0 ? MOE_FUSED_WAVE / here : MOE_FUSED_WAVE;

	for (int32_t e = 0; e < a->n_shared; e++)
		if (dsv4_expert_here(&a->shared[e]) && !moe_fused_expert_ok(a, &a->shared[e]))
			return -EINVAL;
	for (c->t0 = 0; c->t0 < a->n_tok; c->t0 += c->n_tok) {
		c->n_tok = moe_fused_min(most, a->n_tok - c->t0);
		for (int32_t e = 0; e < a->n_shared; e++)
			if (dsv4_expert_here(&a->shared[e]))
				moe_fused_put(c, &a->shared[e], c->every + c->t0, NULL, c->n_tok);
		moe_fused_run(c, moe_fused_shared_slice);
	}
	return 0;
}

/* ---- the op ---- */

struct moe_fused_round {
	const struct moe_fused_call *c;
	float *q, *scale;
};

/* Slices count tokens. */
static void moe_fused_round_slice(void *arg, int64_t begin, int64_t end)
{
	const struct moe_fused_round *r = arg;
	int64_t dim = r->c->a->dim, n_scale = r->c->rounded.n_scale;

	for (int64_t t = begin; t < end; t++)
		for (int64_t b = 0; b < n_scale; b++) {
			int64_t k = t * dim + b * MOE_FUSED_ACT;

			r->scale[t * n_scale + b] = moe_fused_split(
				r->c->a->x + k, moe_fused_min(MOE_FUSED_ACT, dim - b * MOE_FUSED_ACT), r->q + k);
		}
}

/* The tokens as both kinds of weight see them. */
static int moe_fused_activations(struct moe_fused_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	struct moe_fused_round r = { .c = c };

	c->plain = (struct moe_fused_act){ .x = a->x, .ldx = a->dim };
	c->rounded = c->plain;
	if (a->act != DSV4_ACT_FP8)
		return 0;
	c->rounded.n_scale = (a->dim + MOE_FUSED_ACT - 1) / MOE_FUSED_ACT;
	r.q = c->host->scratch(c->x, (size_t)a->n_tok * (size_t)a->dim * sizeof *r.q);
	r.scale = c->host->scratch(c->x, (size_t)(a->n_tok * c->rounded.n_scale) * sizeof *r.scale);
	if (!r.q || !r.scale)
		return -ENOMEM;
	c->host->parallel_for(c->x, a->n_tok, 1, moe_fused_round_slice, &r);
	c->rounded.x = r.q;
	c->rounded.scale = r.scale;
	return 0;
}

static int moe_fused_prepare(struct moe_fused_call *c)
{
	const struct dsv4_moe_experts *a = c->a;
	size_t n_pair = (size_t)a->n_tok * (size_t)a->k;
	size_t n_row = (size_t)moe_fused_min(MOE_FUSED_WAVE, (int64_t)a->n_tok * ((int64_t)a->k + a->n_shared));

	c->n_block = (a->inter + MOE_FUSED_ACT - 1) / MOE_FUSED_ACT;
	c->start = c->host->scratch(c->x, ((size_t)a->n_expert + 1) * sizeof *c->start);
	c->tok = c->host->scratch(c->x, n_pair * sizeof *c->tok);
	c->every = c->host->scratch(c->x, (size_t)a->n_tok * sizeof *c->every);
	c->weight = c->host->scratch(c->x, n_pair * sizeof *c->weight);
	c->job = c->host->scratch(c->x, MOE_FUSED_WAVE * sizeof *c->job);
	c->h = c->host->scratch(c->x, n_row * (size_t)a->inter * sizeof *c->h);
	c->scale = c->host->scratch(c->x, n_row * (size_t)c->n_block * sizeof *c->scale);
	if (!c->start || !c->tok || !c->every || !c->weight || !c->job || !c->h || !c->scale)
		return -ENOMEM;
	for (int32_t t = 0; t < a->n_tok; t++)
		c->every[t] = t;
	return moe_fused_activations(c);
}

int moe_fused_experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	struct moe_fused_call c = { .x = x, .host = host, .a = a };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->dim < 1 || a->inter < 1 || a->n_expert < 1 || a->k < 1 ||
	    a->n_shared < 0 || a->n_shared > MOE_FUSED_WAVE)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = moe_fused_prepare(&c);
	if (rc == 0)
		rc = moe_fused_group(&c);
	if (rc)
		return rc;
	memset(a->y, 0, (size_t)a->n_tok * (size_t)a->dim * sizeof *a->y);
	rc = moe_fused_chosen(&c);
	return rc ? rc : moe_fused_shared(&c);
}
