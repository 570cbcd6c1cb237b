/* SPDX-License-Identifier: MIT
 * mhc.c - hyper-connections: read (pre), write (post) and the read before the head. doc/format.md 3.1.
 * Threads: engine calls, pool runs slices over tokens. Locks: none.
 *
 * prec BF16 is what an implementation gets that keeps the mixing in bf16 tensors: streams, fn and y are
 * rounded to bf16 where they enter, and so are the mixes, pre, post, comb and the results; sums and Sinkhorn
 * stay fp32. Dot products over all streams have ref_dot's order; sums over streams start at stream 0. */
#include "plugins/ref/ref.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define MHC_MAX 16 /* streams */

static float mhc_round(uint32_t prec, float x)
{
	return prec == DSV4_PREC_BF16 ? dsv4_round_bf16(x) : x;
}

/* ref_dot of the inputs as `prec` sees them. */
static float mhc_dot(uint32_t prec, const float *a, const float *b, int64_t n)
{
	float ra[REF_BLOCK], rb[REF_BLOCK], sum = 0;

	if (prec != DSV4_PREC_BF16)
		return ref_dot(a, b, n);
	for (int64_t k = 0; k < n; k += REF_BLOCK) {
		int64_t m = ref_min(REF_BLOCK, n - k);

		for (int64_t i = 0; i < m; i++) {
			ra[i] = dsv4_round_bf16(a[k + i]);
			rb[i] = dsv4_round_bf16(b[k + i]);
		}
		sum += ref_dot_block(ra, rb, m);
	}
	return sum;
}

/* What the mixes of every token have in common: n_mix rows of n weights. */
struct mhc_mix {
	const float *fn;
	int n_mix;
	int64_t n;
	uint32_t prec;
	float eps;
};

/* The mixes m[i] = fn[i] . x / rms(x); the norm comes after the products. */
static void mhc_mixes(const struct mhc_mix *k, const float *x, float *m)
{
	float r = 1.0f / sqrtf(mhc_dot(k->prec, x, x, k->n) / (float)k->n + k->eps);

	for (int i = 0; i < k->n_mix; i++)
		m[i] = mhc_round(k->prec, mhc_dot(k->prec, k->fn + i * k->n, x, k->n) * r);
}

/* y = sum_j pre[j] * streams[j] */
static void mhc_read(uint32_t prec, int hc, int64_t dim, const float *pre, const float *streams, float *y)
{
	for (int64_t d = 0; d < dim; d++) {
		float sum = 0;

		for (int j = 0; j < hc; j++)
			sum += pre[j] * mhc_round(prec, streams[j * dim + d]);
		y[d] = mhc_round(prec, sum);
	}
}

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
	const struct dsv4_hc_pre *a = arg;
	const float *scale = a->w.scale, *base = a->w.base;
	float m[(2 + MHC_MAX) * MHC_MAX], pre[MHC_MAX];
	int hc = a->hc;
	const struct mhc_mix mix = {
		.fn = a->w.fn,
		.n_mix = (2 + hc) * hc,
		.n = (int64_t)hc * a->dim,
		.prec = a->prec,
		.eps = a->norm_eps,
	};

	for (int64_t t = begin; t < end; t++) {
		const float *x = a->streams + t * hc * a->dim;
		float *post = a->post + t * hc, *comb = a->comb + t * hc * hc;

		mhc_mixes(&mix, x, m);
		for (int j = 0; j < hc; j++) {
			pre[j] = mhc_round(a->prec, ref_sigmoid(m[j] * scale[0] + base[j]) + a->hc_eps);
			post[j] = mhc_round(a->prec, 2.0f * ref_sigmoid(m[hc + j] * scale[1] + base[hc + j]));
		}
		for (int j = 0; j < hc * hc; j++)
			comb[j] = m[2 * hc + j] * scale[2] + base[2 * hc + j];
		mhc_sinkhorn(comb, hc, a->sinkhorn_iters, a->hc_eps);
		for (int j = 0; j < hc * hc; j++)
			comb[j] = mhc_round(a->prec, comb[j]);
		mhc_read(a->prec, hc, a->dim, pre, x, a->y + t * a->dim);
	}
}

int ref_hc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	struct dsv4_hc_pre c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > MHC_MAX || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, mhc_pre_slice, &c);
	return 0;
}

static void mhc_post_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_post *a = arg;
	float old[MHC_MAX];
	int hc = a->hc;

	for (int64_t t = begin; t < end; t++) {
		const float *post = a->post + t * hc, *comb = a->comb + t * hc * hc;

		for (int64_t d = 0; d < a->dim; d++) {
			float *x = a->streams + t * hc * a->dim + d;
			float y = mhc_round(a->prec, a->y[t * a->dim + d]);

			for (int j = 0; j < hc; j++)
				old[j] = mhc_round(a->prec, x[j * (int64_t)a->dim]);
			for (int k = 0; k < hc; k++) {
				float sum = post[k] * y;

				for (int j = 0; j < hc; j++)
					sum += comb[j * hc + k] * old[j];
				x[k * (int64_t)a->dim] = mhc_round(a->prec, sum);
			}
		}
	}
}

int ref_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	struct dsv4_hc_post c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > MHC_MAX || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, mhc_post_slice, &c);
	return 0;
}

static void mhc_head_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_head *a = arg;
	const struct mhc_mix mix = {
		.fn = a->w.fn,
		.n_mix = a->hc,
		.n = (int64_t)a->hc * a->dim,
		.prec = a->prec,
		.eps = a->norm_eps,
	};
	float m[MHC_MAX];

	for (int64_t t = begin; t < end; t++) {
		const float *x = a->streams + t * a->hc * a->dim;

		mhc_mixes(&mix, x, m);
		for (int j = 0; j < a->hc; j++)
			m[j] = mhc_round(a->prec,
					 ref_sigmoid(m[j] * a->w.scale[0] + a->w.base[j]) + a->hc_eps);
		mhc_read(a->prec, a->hc, a->dim, m, x, a->y + t * a->dim);
	}
}

int ref_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	struct dsv4_hc_head c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > MHC_MAX || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, mhc_head_slice, &c);
	return 0;
}
