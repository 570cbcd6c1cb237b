/* SPDX-License-Identifier: MIT
 * mhc_bf16.c - plugin mhc-bf16: hyper-connections with the mixing kept in bf16, whatever prec asks for.
 * Threads: engine calls, pool runs slices over tokens. Locks: none.
 *
 * The tag "bf16-mix": streams, fn and y are rounded to bf16 where they enter, and so are the mixes, pre, post,
 * comb and the results; sums, sigmoid and Sinkhorn stay fp32, in ref's orders. So its bits are those of ref
 * at mhc_precision=bf16, and its distance from ref at fp32 is that of the rounding alone.
 * Measured against ref at fp32 on the tiny model's own activations, call by call: relative error 2.6e-3 (hc_pre,
 * hc_head; worst single token 7.6e-3) and 2.1e-3 (hc_post), cosine above 0.99998.
 * It shows what bf16 mixing does to answers, not what it saves: on a CPU the rounding is extra work, and kcheck
 * --bench has it at 0.4 to 1.0 of ref's speed. */
#include "plugins/dsv4_plugin.h"

#include <errno.h>

#define MHC_BF16_MAX 16    /* streams */
#define MHC_BF16_BLOCK 128 /* terms summed apart from the rest, as in ref */
#define MHC_BF16_TILE 4    /* tokens that share one rounding of fn */
#define MHC_BF16_MIXES ((2 + MHC_BF16_MAX) * MHC_BF16_MAX)

static int64_t mhc_bf16_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- four values at a time; n of them count, the others are zero ---- */

typedef float mhc_bf16_v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t mhc_bf16_u4 __attribute__((vector_size(16), aligned(4), may_alias));

static inline mhc_bf16_v4 mhc_bf16_load(const float *p, int64_t n)
{
	mhc_bf16_v4 v = { 0 };

	if (n >= 4)
		return *(const mhc_bf16_v4 *)p;
	memcpy(&v, p, (size_t)n * sizeof *p);
	return v;
}

static inline void mhc_bf16_store(float *p, int64_t n, mhc_bf16_v4 v)
{
	memcpy(p, &v, n >= 4 ? sizeof v : (size_t)n * sizeof *p);
}

/* dsv4_round_bf16() of each: to nearest even, NaN stays NaN. */
static inline mhc_bf16_v4 mhc_bf16_round4(mhc_bf16_v4 f)
{
	mhc_bf16_u4 b = (mhc_bf16_u4)f, up = b + 0x7fff + (b >> 16 & 1);
	mhc_bf16_u4 nan = (mhc_bf16_u4)((b & 0x7fffffff) > 0x7f800000);

	return (mhc_bf16_v4)(((up & ~nan) | ((b | 0x400000) & nan)) & 0xffff0000);
}

/* Rounds n values; zeroes follow up to a multiple of eight. */
static void mhc_bf16_round(const float *x, int64_t n, float *out)
{
	for (int64_t i = 0; i < (n + 7) / 8 * 8; i += 4)
		mhc_bf16_store(out + i, 4, mhc_bf16_round4(mhc_bf16_load(x + i, n - i > 0 ? n - i : 0)));
}

/* Eight lanes of every eighth term, then a tree: the order of ref's blocks. Zeroes at the end change no sum. */
static float mhc_bf16_dot(const float *a, const float *b, int64_t n)
{
	mhc_bf16_v4 lo = { 0 }, hi = { 0 };

	for (int64_t k = 0; k < n; k += 8) {
		lo += mhc_bf16_load(a + k, 4) * mhc_bf16_load(b + k, 4);
		hi += mhc_bf16_load(a + k + 4, 4) * mhc_bf16_load(b + k + 4, 4);
	}
	lo += hi;
	return (lo[0] + lo[2]) + (lo[1] + lo[3]);
}

static float mhc_bf16_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* What the mixes of all tokens have in common: n_mix rows of n weights. */
struct mhc_bf16_site {
	const float *fn;
	int n_mix;
	int64_t n;
	float eps;
};

/* m[t][i] = fn[i] . x[t] / rms(x[t]) of n_tok <= MHC_BF16_TILE tokens. */
static void mhc_bf16_mixes(const struct mhc_bf16_site *s, const float *x, int64_t n_tok,
			   float m[][MHC_BF16_MIXES])
{
	float rx[MHC_BF16_TILE][MHC_BF16_BLOCK], fn[MHC_BF16_BLOCK], square[MHC_BF16_TILE] = { 0 };

	memset(m, 0, (size_t)n_tok * sizeof *m);
	for (int64_t k = 0; k < s->n; k += MHC_BF16_BLOCK) {
		int64_t n = mhc_bf16_min(MHC_BF16_BLOCK, s->n - k);

		for (int64_t t = 0; t < n_tok; t++) {
			mhc_bf16_round(x + t * s->n + k, n, rx[t]);
			square[t] += mhc_bf16_dot(rx[t], rx[t], n);
		}
		for (int i = 0; i < s->n_mix; i++) {
			mhc_bf16_round(s->fn + i * s->n + k, n, fn);
			for (int64_t t = 0; t < n_tok; t++)
				m[t][i] += mhc_bf16_dot(fn, rx[t], n);
		}
	}
	for (int64_t t = 0; t < n_tok; t++) {
		float r = 1.0f / sqrtf(square[t] / (float)s->n + s->eps);

		for (int i = 0; i < s->n_mix; i++)
			m[t][i] = dsv4_round_bf16(m[t][i] * r);
	}
}

/* y = sum_j pre[j] * streams[j] */
static void mhc_bf16_read(int hc, int64_t dim, const float *pre, const float *streams, float *y)
{
	for (int64_t d = 0; d < dim; d += 4) {
		mhc_bf16_v4 sum = { 0 };

		for (int j = 0; j < hc; j++)
			sum += pre[j] * mhc_bf16_round4(mhc_bf16_load(streams + j * dim + d, dim - d));
		mhc_bf16_store(y + d, dim - d, mhc_bf16_round4(sum));
	}
}

/* Divides each line of c by (its sum + eps): elements `step` apart, lines `line` apart. */
static void mhc_bf16_balance(float *c, int hc, int step, int line, float eps)
{
	for (int i = 0; i < hc; i++) {
		float sum = 0;

		for (int j = 0; j < hc; j++)
			sum += c[i * line + j * step];
		for (int j = 0; j < hc; j++)
			c[i * line + j * step] /= sum + eps;
	}
}

/* softmax of rows, + eps, columns, then iters - 1 times rows, columns (doc/format.md 3.1) */
static void mhc_bf16_sinkhorn(float *c, int hc, int iters, float eps)
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
	mhc_bf16_balance(c, hc, hc, 1, eps);
	for (int i = 1; i < iters; i++) {
		mhc_bf16_balance(c, hc, 1, hc, eps);
		mhc_bf16_balance(c, hc, hc, 1, eps);
	}
}

static int mhc_bf16_ok(uint32_t size, size_t want, int32_t n_tok, int32_t hc, int32_t dim)
{
	return size >= want && n_tok >= 0 && hc >= 1 && hc <= MHC_BF16_MAX && dim >= 1;
}

/* Slices of the reading ops count tiles of tokens. */
static int64_t mhc_bf16_tiles(int32_t n_tok)
{
	return ((int64_t)n_tok + MHC_BF16_TILE - 1) / MHC_BF16_TILE;
}

/* ---- hc_pre ---- */

/* Token t from its mixes m. */
static void mhc_bf16_pre_token(const struct dsv4_hc_pre *a, int64_t t, const float *m)
{
	const float *scale = a->w.scale, *base = a->w.base;
	float *post = a->post + t * a->hc, *comb = a->comb + t * a->hc * a->hc, pre[MHC_BF16_MAX];
	int hc = a->hc;

	for (int j = 0; j < hc; j++) {
		pre[j] = dsv4_round_bf16(mhc_bf16_sigmoid(m[j] * scale[0] + base[j]) + a->hc_eps);
		post[j] = dsv4_round_bf16(2.0f * mhc_bf16_sigmoid(m[hc + j] * scale[1] + base[hc + j]));
	}
	for (int j = 0; j < hc * hc; j++)
		comb[j] = m[2 * hc + j] * scale[2] + base[2 * hc + j];
	mhc_bf16_sinkhorn(comb, hc, a->sinkhorn_iters, a->hc_eps);
	for (int j = 0; j < hc * hc; j++)
		comb[j] = dsv4_round_bf16(comb[j]);
	mhc_bf16_read(hc, a->dim, pre, a->streams + t * hc * a->dim, a->y + t * a->dim);
}

static void mhc_bf16_pre_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_pre *a = arg;
	const struct mhc_bf16_site site = {
		.fn = a->w.fn,
		.n_mix = (2 + a->hc) * a->hc,
		.n = (int64_t)a->hc * a->dim,
		.eps = a->norm_eps,
	};
	float m[MHC_BF16_TILE][MHC_BF16_MIXES];

	for (int64_t i = begin; i < end; i++) {
		int64_t t0 = i * MHC_BF16_TILE, n = mhc_bf16_min(MHC_BF16_TILE, a->n_tok - t0);

		mhc_bf16_mixes(&site, a->streams + t0 * site.n, n, m);
		for (int64_t t = 0; t < n; t++)
			mhc_bf16_pre_token(a, t0 + t, m[t]);
	}
}

static int mhc_bf16_hc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	struct dsv4_hc_pre c = *a;

	if (!mhc_bf16_ok(a->size, sizeof *a, a->n_tok, a->hc, a->dim))
		return -EINVAL;
	host->parallel_for(x, mhc_bf16_tiles(a->n_tok), 1, mhc_bf16_pre_slice, &c);
	return 0;
}

/* ---- hc_post ---- */

/* Four channels of token t, or the last n. */
static void mhc_bf16_post4(const struct dsv4_hc_post *a, int64_t t, int64_t d)
{
	const float *post = a->post + t * a->hc, *comb = a->comb + t * a->hc * a->hc;
	float *x = a->streams + t * a->hc * a->dim + d;
	mhc_bf16_v4 old[MHC_BF16_MAX], sum, y = mhc_bf16_round4(mhc_bf16_load(a->y + t * a->dim + d, a->dim - d));

	for (int j = 0; j < a->hc; j++)
		old[j] = mhc_bf16_round4(mhc_bf16_load(x + j * (int64_t)a->dim, a->dim - d));
	for (int k = 0; k < a->hc; k++) {
		sum = post[k] * y;
		for (int j = 0; j < a->hc; j++)
			sum += comb[j * a->hc + k] * old[j];
		mhc_bf16_store(x + k * (int64_t)a->dim, a->dim - d, mhc_bf16_round4(sum));
	}
}

static void mhc_bf16_post_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_post *a = arg;

	for (int64_t t = begin; t < end; t++)
		for (int64_t d = 0; d < a->dim; d += 4)
			mhc_bf16_post4(a, t, d);
}

static int mhc_bf16_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	struct dsv4_hc_post c = *a;

	if (!mhc_bf16_ok(a->size, sizeof *a, a->n_tok, a->hc, a->dim))
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, mhc_bf16_post_slice, &c);
	return 0;
}

/* ---- hc_head ---- */

static void mhc_bf16_head_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_head *a = arg;
	const struct mhc_bf16_site site = {
		.fn = a->w.fn,
		.n_mix = a->hc,
		.n = (int64_t)a->hc * a->dim,
		.eps = a->norm_eps,
	};
	float m[MHC_BF16_TILE][MHC_BF16_MIXES], pre[MHC_BF16_MAX];

	for (int64_t i = begin; i < end; i++) {
		int64_t t0 = i * MHC_BF16_TILE, n = mhc_bf16_min(MHC_BF16_TILE, a->n_tok - t0);

		mhc_bf16_mixes(&site, a->streams + t0 * site.n, n, m);
		for (int64_t t = 0; t < n; t++) {
			for (int j = 0; j < a->hc; j++)
				pre[j] = dsv4_round_bf16(
					mhc_bf16_sigmoid(m[t][j] * a->w.scale[0] + a->w.base[j]) + a->hc_eps);
			mhc_bf16_read(a->hc, a->dim, pre, a->streams + (t0 + t) * site.n,
				      a->y + (t0 + t) * a->dim);
		}
	}
}

static int mhc_bf16_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	struct dsv4_hc_head c = *a;

	if (!mhc_bf16_ok(a->size, sizeof *a, a->n_tok, a->hc, a->dim))
		return -EINVAL;
	host->parallel_for(x, mhc_bf16_tiles(a->n_tok), 1, mhc_bf16_head_slice, &c);
	return 0;
}

#define MHC_BF16_OPS(OP) \
	OP(hc_pre,  BOTH, ANY, LOSSY, "bf16-mix", mhc_bf16_hc_pre) \
	OP(hc_post, BOTH, ANY, LOSSY, "bf16-mix", mhc_bf16_hc_post) \
	OP(hc_head, BOTH, ANY, LOSSY, "bf16-mix", mhc_bf16_hc_head)
DSV4_PLUGIN("mhc-bf16", "1.0", "", "", MHC_BF16_OPS, NULL, NULL, NULL)
