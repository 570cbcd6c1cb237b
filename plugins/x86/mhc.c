/* SPDX-License-Identifier: MIT
 * mhc.c - hyper-connections: read (pre), write (post) and the read before the head. doc/format.md 3.1.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * prec BF16 rounds fn and the streams into scratch memory first. */
#include "plugins/x86/vec.h"
#include "plugins/x86/x86.h"

#include <errno.h>

#define MHC_MAX 16     /* streams */
#define MHC_ROUND 4096 /* values per slice when inputs are rounded */
#define MHC_ROWS 2     /* of fn, per slice */

static float mhc_round(uint32_t prec, float x)
{
	return prec == DSV4_PREC_BF16 ? dsv4_round_bf16(x) : x;
}

static vec mhc_round_vec(uint32_t prec, vec x)
{
	return prec == DSV4_PREC_BF16 ? vec_bf16(x) : x;
}

static float mhc_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* ---- mixes ---- */

struct mhc_copy {
	const float *from;
	float *to;
	int64_t n;
};

static void mhc_copy_slice(void *arg, int64_t begin, int64_t end)
{
	const struct mhc_copy *c = arg;
	int64_t stop = x86_min(end * MHC_ROUND, c->n);

	for (int64_t i = begin * MHC_ROUND; i < stop; i += VEC_LANES)
		vec_store(c->to + i, stop - i, vec_bf16(vec_load(c->from + i, stop - i)));
}

/* n values rounded to bf16, in scratch memory; NULL if short. */
static const float *mhc_rounded(struct dsv4_exec *x, const struct dsv4_host *host, const float *from,
				int64_t n)
{
	struct mhc_copy c = { .from = from, .to = host->scratch(x, (size_t)n * sizeof *from), .n = n };

	if (c.to)
		host->parallel_for(x, (n + MHC_ROUND - 1) / MHC_ROUND, 1, mhc_copy_slice, &c);
	return c.to;
}

/* What pre and head have in common. */
struct mhc_read {
	int32_t n_tok, hc, dim, n_mix;
	uint32_t prec;
	float norm_eps;
	const float *fn, *streams; /* as prec sees them, once mhc_mixes has run */
	float *mix;                /* [n_tok][n_mix] fn . x, not yet over rms(x) */
	const void *args;
};

/* A few tokens: slices count rows of fn, and each is read once for all of them. */
static void mhc_row_slice(void *arg, int64_t begin, int64_t end)
{
	const struct mhc_read *r = arg;
	int64_t n = (int64_t)r->hc * r->dim;

	for (int64_t i = begin; i < end; i++)
		for (int64_t t = 0; t < r->n_tok; t++)
			r->mix[t * r->n_mix + i] = vec_dot(r->streams + t * n, r->fn + i * n, n);
}

/* Many: slices count tiles of VEC_COLS tokens by VEC_ROWS rows. A tile past the last computes that one again. */
static void mhc_tile_slice(void *arg, int64_t begin, int64_t end)
{
	const struct mhc_read *r = arg;
	int64_t n = (int64_t)r->hc * r->dim, n_part = (r->n_mix + VEC_ROWS - 1) / VEC_ROWS;
	const float *x[VEC_COLS], *row[VEC_ROWS];
	float tile[VEC_LANES];

	for (int64_t i = begin; i < end; i++) {
		int64_t t0 = i / n_part * VEC_COLS, r0 = i % n_part * VEC_ROWS;

		for (int c = 0; c < VEC_COLS; c++)
			x[c] = r->streams + x86_min(t0 + c, r->n_tok - 1) * n;
		for (int j = 0; j < VEC_ROWS; j++)
			row[j] = r->fn + x86_min(r0 + j, r->n_mix - 1) * n;
		vec_store(tile, VEC_LANES, vec_dots(x, row, n));
		for (int64_t t = t0; t < r->n_tok && t < t0 + VEC_COLS; t++)
			for (int64_t j = r0; j < r->n_mix && j < r0 + VEC_ROWS; j++)
				r->mix[t * r->n_mix + j] = tile[(t - t0) * VEC_ROWS + j - r0];
	}
}

/* 0 or -ENOMEM */
static int mhc_mixes(struct dsv4_exec *x, const struct dsv4_host *host, struct mhc_read *r)
{
	int64_t n = (int64_t)r->hc * r->dim;

	r->mix = host->scratch(x, (size_t)r->n_tok * (size_t)r->n_mix * sizeof *r->mix);
	if (r->prec == DSV4_PREC_BF16) {
		r->fn = mhc_rounded(x, host, r->fn, r->n_mix * n);
		r->streams = mhc_rounded(x, host, r->streams, r->n_tok * n);
	}
	if (!r->mix || !r->fn || !r->streams)
		return -ENOMEM;
	if (r->n_tok < VEC_COLS)
		host->parallel_for(x, r->n_mix, MHC_ROWS, mhc_row_slice, r);
	else
		host->parallel_for(x, (r->n_tok + VEC_COLS - 1) / VEC_COLS * ((r->n_mix + VEC_ROWS - 1) / VEC_ROWS), 1,
				   mhc_tile_slice, r);
	return 0;
}

/* The mixes of token t: fn . x / rms(x); the norm comes after the products. */
static const float *mhc_mix(const struct mhc_read *r, int64_t t)
{
	int64_t n = (int64_t)r->hc * r->dim;
	const float *x = r->streams + t * n;
	float *m = r->mix + t * r->n_mix, scale = 1.0f / sqrtf(vec_dot(x, x, n) / (float)n + r->norm_eps);

	for (int32_t i = 0; i < r->n_mix; i++)
		m[i] = mhc_round(r->prec, m[i] * scale);
	return m;
}

/* y = sum_j pre[j] * streams[j] of token t */
static void mhc_sum(const struct mhc_read *r, int64_t t, const float *pre, float *y)
{
	const float *x = r->streams + t * r->hc * r->dim;

	for (int64_t d = 0; d < r->dim; d += VEC_LANES) {
		vec sum = vec_set(0), s;

		for (int j = 0; j < r->hc; j++) {
			s = vec_load(x + (int64_t)j * r->dim + d, r->dim - d);
			sum = vec_fma(vec_set(pre[j]), s, sum);
		}
		vec_store(y + d, r->dim - d, mhc_round_vec(r->prec, sum));
	}
}

/* ---- pre ---- */

/* Divides each line of c by (its sum + eps): rows with step 1 between elements and hc between lines, columns
 * the other way round. */
static void mhc_balance(float *c, int hc, int step, int line, float eps)
{
	for (int i = 0; i < hc; i++) {
		float sum = 0;

		for (int j = 0; j < hc; j++)
			sum += c[i * line + j * step];
		for (int j = 0; j < hc; j++)
			c[i * line + j * step] /= sum + eps;
	}
}

/* Makes c nearly doubly stochastic: softmax of rows, + eps, columns, then iters - 1 times rows, columns. */
static void mhc_sinkhorn(float *c, int hc, int iters, float eps)
{
	for (int j = 0; j < hc; j++) {
		float *row = c + j * hc, top = row[0], sum = 0;

		for (int k = 1; k < hc; k++)
			top = fmaxf(top, row[k]);
		for (int k = 0; k < hc; k++)
			sum += row[k] = expf(row[k] - top);
		for (int k = 0; k < hc; k++)
			row[k] = row[k] / sum + eps;
	}
	mhc_balance(c, hc, hc, 1, eps);
	for (int i = 1; i < iters; i++) {
		mhc_balance(c, hc, 1, hc, eps);
		mhc_balance(c, hc, hc, 1, eps);
	}
}

static void mhc_pre_slice(void *arg, int64_t begin, int64_t end)
{
	const struct mhc_read *r = arg;
	const struct dsv4_hc_pre *a = r->args;
	const float *scale = a->w.scale, *base = a->w.base;
	float pre[MHC_MAX];
	int hc = a->hc;

	for (int64_t t = begin; t < end; t++) {
		float *post = a->post + t * hc, *comb = a->comb + t * hc * hc;
		const float *m = mhc_mix(r, t);

		for (int j = 0; j < hc; j++) {
			pre[j] = mhc_round(a->prec, mhc_sigmoid(m[j] * scale[0] + base[j]) + a->hc_eps);
			post[j] = mhc_round(a->prec, 2.0f * mhc_sigmoid(m[hc + j] * scale[1] + base[hc + j]));
		}
		for (int j = 0; j < hc * hc; j++)
			comb[j] = m[2 * hc + j] * scale[2] + base[2 * hc + j];
		mhc_sinkhorn(comb, hc, a->sinkhorn_iters, a->hc_eps);
		for (int j = 0; j < hc * hc; j++)
			comb[j] = mhc_round(a->prec, comb[j]);
		mhc_sum(r, t, pre, a->y + t * a->dim);
	}
}

int x86_hc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	struct mhc_read r = { .n_tok = a->n_tok, .hc = a->hc, .dim = a->dim, .n_mix = (2 + a->hc) * a->hc,
			      .prec = a->prec, .norm_eps = a->norm_eps, .fn = a->w.fn, .streams = a->streams,
			      .args = a };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > MHC_MAX || a->dim < 1)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = mhc_mixes(x, host, &r);
	if (rc == 0)
		host->parallel_for(x, a->n_tok, 1, mhc_pre_slice, &r);
	return rc;
}

/* ---- post ---- */

/* A vector of channels of one token, in place. */
static void mhc_post_vec(const struct dsv4_hc_post *a, int64_t t, int64_t d)
{
	const float *post = a->post + t * a->hc, *comb = a->comb + t * a->hc * a->hc;
	float *x = a->streams + t * a->hc * a->dim + d;
	vec y = mhc_round_vec(a->prec, vec_load(a->y + t * a->dim + d, a->dim - d)), old[MHC_MAX], sum;

	for (int j = 0; j < a->hc; j++)
		old[j] = mhc_round_vec(a->prec, vec_load(x + (int64_t)j * a->dim, a->dim - d));
	for (int k = 0; k < a->hc; k++) {
		sum = vec_set(post[k]) * y;
		for (int j = 0; j < a->hc; j++)
			sum = vec_fma(vec_set(comb[j * a->hc + k]), old[j], sum);
		vec_store(x + (int64_t)k * a->dim, a->dim - d, mhc_round_vec(a->prec, sum));
	}
}

static void mhc_post_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_post *a = arg;

	for (int64_t t = begin; t < end; t++)
		for (int64_t d = 0; d < a->dim; d += VEC_LANES)
			mhc_post_vec(a, t, d);
}

int x86_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	struct dsv4_hc_post c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > MHC_MAX || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, mhc_post_slice, &c);
	return 0;
}

/* ---- head ---- */

static void mhc_head_slice(void *arg, int64_t begin, int64_t end)
{
	const struct mhc_read *r = arg;
	const struct dsv4_hc_head *a = r->args;
	float pre[MHC_MAX];

	for (int64_t t = begin; t < end; t++) {
		const float *m = mhc_mix(r, t);

		for (int j = 0; j < a->hc; j++)
			pre[j] = mhc_round(a->prec,
					   mhc_sigmoid(m[j] * a->w.scale[0] + a->w.base[j]) + a->hc_eps);
		mhc_sum(r, t, pre, a->y + t * a->dim);
	}
}

int x86_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	struct mhc_read r = { .n_tok = a->n_tok, .hc = a->hc, .dim = a->dim, .n_mix = a->hc, .prec = a->prec,
			      .norm_eps = a->norm_eps, .fn = a->w.fn, .streams = a->streams, .args = a };
	int rc;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > MHC_MAX || a->dim < 1)
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	rc = mhc_mixes(x, host, &r);
	if (rc == 0)
		host->parallel_for(x, a->n_tok, 1, mhc_head_slice, &r);
	return rc;
}
