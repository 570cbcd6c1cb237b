/* SPDX-License-Identifier: MIT
 * ref_mhc.c - tests of ref's hyper-connection ops against doc/format.md 3.1 in double.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MHC_MAX 6

/* One site with its streams, and one token's results in double. */
struct mhc_site {
	int hc, dim, n_tok, iters;
	uint32_t prec;
	float *fn, *base, *scale, *streams;
	double pre[MHC_MAX], post[MHC_MAX], comb[MHC_MAX][MHC_MAX];
};

static void mhc_init(struct mhc_site *s, int hc, int dim, int n_tok, uint32_t prec)
{
	size_t n_mix = (size_t)(2 + hc) * (size_t)hc;

	*s = (struct mhc_site){ .hc = hc, .dim = dim, .n_tok = n_tok, .iters = 20, .prec = prec };
	s->fn = refkit_floats(n_mix * (size_t)(hc * dim), 0.3);
	s->base = refkit_floats(n_mix, 2);
	s->scale = refkit_floats(3, 1);
	for (int i = 0; i < 3; i++)
		s->scale[i] *= s->prec == DSV4_PREC_BF16 ? 30 : 1; /* makes the rounding of the mixes show */
	s->streams = refkit_floats((size_t)(n_tok * hc * dim), 3);
}

static void mhc_fini(struct mhc_site *s)
{
	free(s->fn);
	free(s->base);
	free(s->scale);
	free(s->streams);
}

static double mhc_in(const struct mhc_site *s, float x)
{
	return s->prec == DSV4_PREC_BF16 ? refkit_bf16((double)x) : (double)x;
}

/* What the op stores, when it is to round. */
static double mhc_out(const struct mhc_site *s, double x)
{
	return s->prec == DSV4_PREC_BF16 ? refkit_bf16(x) : x;
}

static double mhc_sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

/* m[i] of doc/format.md for token t. */
static double mhc_mix(const struct mhc_site *s, int t, int i)
{
	int n = s->hc * s->dim;
	double dot = 0, sum = 0;

	for (int k = 0; k < n; k++) {
		double x = mhc_in(s, s->streams[t * n + k]);

		dot += mhc_in(s, s->fn[i * n + k]) * x;
		sum += x * x;
	}
	return mhc_out(s, dot / sqrt(sum / n + 1e-6));
}

static void mhc_normalise(struct mhc_site *s, int columns)
{
	for (int i = 0; i < s->hc; i++) {
		double sum = 0;

		for (int j = 0; j < s->hc; j++)
			sum += columns ? s->comb[j][i] : s->comb[i][j];
		for (int j = 0; j < s->hc; j++)
			*(columns ? &s->comb[j][i] : &s->comb[i][j]) /= sum + 1e-6;
	}
}

static void mhc_want(struct mhc_site *s, int t, int head)
{
	int hc = s->hc;

	for (int j = 0; j < hc; j++)
		s->pre[j] = mhc_out(
			s, mhc_sigmoid(mhc_mix(s, t, j) * (double)s->scale[0] + (double)s->base[j]) + 1e-6);
	if (head)
		return;
	for (int j = 0; j < hc; j++) {
		double sum = 0;

		s->post[j] = mhc_out(s, 2 * mhc_sigmoid(mhc_mix(s, t, hc + j) * (double)s->scale[1] +
							(double)s->base[hc + j]));
		for (int k = 0; k < hc; k++) {
			int i = 2 * hc + j * hc + k;

			s->comb[j][k] = exp(mhc_mix(s, t, i) * (double)s->scale[2] + (double)s->base[i]);
			sum += s->comb[j][k];
		}
		for (int k = 0; k < hc; k++)
			s->comb[j][k] = s->comb[j][k] / sum + 1e-6;
	}
	mhc_normalise(s, 1);
	for (int i = 1; i < s->iters; i++) {
		mhc_normalise(s, 0);
		mhc_normalise(s, 1);
	}
	for (int j = 0; j < hc; j++)
		for (int k = 0; k < hc; k++)
			s->comb[j][k] = mhc_out(s, s->comb[j][k]);
}

/* Out: y, post, comb of a token side by side. */
static int mhc_run_pre(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct mhc_site *s = arg;
	size_t width = (size_t)(s->dim + s->hc + s->hc * s->hc);
	float *y = refkit_floats((size_t)(n * s->dim), 1), *post = refkit_floats((size_t)(n * s->hc), 1);
	float *comb = refkit_floats((size_t)(n * s->hc * s->hc), 1);
	struct dsv4_hc_pre a = { .size = sizeof a,
				 .n_tok = n,
				 .hc = s->hc,
				 .dim = s->dim,
				 .sinkhorn_iters = s->iters,
				 .prec = s->prec,
				 .norm_eps = 1e-6f,
				 .hc_eps = 1e-6f,
				 .w = { s->fn, s->base, s->scale },
				 .streams = s->streams + t0 * s->hc * s->dim,
				 .y = y,
				 .post = post,
				 .comb = comb };
	int rc = ref_hc_pre(x, &refkit_host, &a);

	for (int32_t t = 0; t < n; t++) {
		float *row = out + (size_t)(t0 + t) * width;

		memcpy(row, y + t * s->dim, (size_t)s->dim * sizeof *row);
		memcpy(row + s->dim, post + t * s->hc, (size_t)s->hc * sizeof *row);
		memcpy(row + s->dim + s->hc, comb + t * s->hc * s->hc, (size_t)(s->hc * s->hc) * sizeof *row);
	}
	free(y);
	free(post);
	free(comb);
	return rc;
}

static int mhc_run_head(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct mhc_site *s = arg;
	struct dsv4_hc_head a = { .size = sizeof a, .n_tok = n, .hc = s->hc, .dim = s->dim, .prec = s->prec,
				  .norm_eps = 1e-6f, .hc_eps = 1e-6f, .w = { s->fn, s->base, s->scale },
				  .streams = s->streams + t0 * s->hc * s->dim, .y = out + t0 * s->dim };

	return ref_hc_head(x, &refkit_host, &a);
}

static void mhc_read_check(struct mhc_site *s, int head, double limit)
{
	size_t dim = (size_t)s->dim, hc = (size_t)s->hc, width = head ? dim : dim + hc + hc * hc;
	float *out = refkit_floats((size_t)s->n_tok * width, 1);
	double *y = calloc(dim, sizeof *y);

	assert_non_null(y);
	refkit_same_bits(head ? mhc_run_head : mhc_run_pre, s, s->n_tok, width, out);
	for (int t = 0; t < s->n_tok; t++) {
		const float *row = out + (size_t)t * width, *x = s->streams + t * s->hc * s->dim;

		mhc_want(s, t, head);
		for (int d = 0; d < s->dim; d++) {
			y[d] = 0;
			for (int j = 0; j < s->hc; j++)
				y[d] += s->pre[j] * mhc_in(s, x[j * s->dim + d]);
			y[d] = mhc_out(s, y[d]);
		}
		assert_true(refkit_error(row, y, dim) < limit);
		if (head)
			continue;
		assert_true(refkit_error(row + dim, s->post, hc) < limit);
		for (int j = 0; j < s->hc; j++)
			assert_true(refkit_error(row + dim + hc + (size_t)j * hc, s->comb[j], hc) < limit);
	}
	free(out);
	free(y);
}

static void test_reads(void **state)
{
	static const struct {
		int hc, dim;
	} shape[] = { { 4, 128 }, { 4, 33 }, { 1, 1 }, { 2, 5 }, { 6, 17 } };
	struct mhc_site s;

	(void)state;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
		for (int head = 0; head < 2; head++)
			for (uint32_t prec = DSV4_PREC_FP32; prec <= DSV4_PREC_BF16; prec++) {
				mhc_init(&s, shape[i].hc, shape[i].dim, 7, prec);
				/* A sum near a tie may round the other way: one step of
				 * 2^-8 in one element. */
				mhc_read_check(&s, head, prec == DSV4_PREC_BF16 ? 4e-3 : 2e-6);
				mhc_fini(&s);
			}
}

static void test_few_iterations_end_on_columns(void **state)
{
	struct mhc_site s;
	float out[2 + 2 + 4];

	(void)state;
	mhc_init(&s, 2, 2, 1, DSV4_PREC_FP32);
	s.iters = 1;
	refkit_same_bits(mhc_run_pre, &s, 1, 8, out);
	for (int k = 0; k < 2; k++)
		assert_true(fabsf(out[4 + k] + out[6 + k] - 1) < 1e-5f);
	assert_true(fabsf(out[4] + out[5] - 1) > 1e-3f); /* rows do not sum to one yet */
	mhc_read_check(&s, 0, 2e-6);
	mhc_fini(&s);
}

struct mhc_post_run {
	const struct mhc_site *s;
	const float *y, *post, *comb;
};

static int mhc_run_post(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct mhc_post_run *r = arg;
	int hc = r->s->hc, dim = r->s->dim;
	struct dsv4_hc_post a = { .size = sizeof a,
				  .n_tok = n,
				  .hc = hc,
				  .dim = dim,
				  .prec = r->s->prec,
				  .y = r->y + t0 * dim,
				  .post = r->post + t0 * hc,
				  .comb = r->comb + t0 * hc * hc,
				  .streams = out + t0 * hc * dim };

	memcpy(a.streams, r->s->streams + t0 * hc * dim, (size_t)(n * hc * dim) * sizeof(float));
	return ref_hc_post(x, &refkit_host, &a);
}

static void test_write(void **state)
{
	struct mhc_site s;

	(void)state;
	for (uint32_t prec = DSV4_PREC_FP32; prec <= DSV4_PREC_BF16; prec++) {
		float *y = refkit_floats(5 * 19, 2), *post = refkit_floats(5 * 4, 2),
		      *comb = refkit_floats(5 * 16, 1);
		float *out = refkit_floats(5 * 4 * 19, 1);
		double want[4 * 19];
		struct mhc_post_run run = { &s, y, post, comb };

		mhc_init(&s, 4, 19, 5, prec);
		refkit_same_bits(mhc_run_post, &run, 5, 4 * 19, out);
		for (int t = 0; t < 5; t++) {
			for (int k = 0; k < 4; k++)
				for (int d = 0; d < 19; d++) {
					double v = (double)post[t * 4 + k] * (double)y[t * 19 + d];

					for (int j = 0; j < 4; j++)
						v += (double)comb[t * 16 + j * 4 + k] *
						     (double)s.streams[(t * 4 + j) * 19 + d];
					want[k * 19 + d] = v;
				}
			assert_true(refkit_error(out + t * 76, want, 76) < (prec ? 1e-2 : 1e-6));
		}
		for (int i = 0; prec && i < 5 * 76; i++)
			assert_true(out[i] == dsv4_round_bf16(out[i]));
		mhc_fini(&s);
		free(y);
		free(post);
		free(comb);
		free(out);
	}
}

static void test_refuses(void **state)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE };
	struct dsv4_hc_pre pre = { .size = sizeof pre, .n_tok = 1, .hc = 17, .dim = 1 };
	struct dsv4_hc_post post = { .size = sizeof post, .n_tok = 1, .hc = 0, .dim = 1 };
	struct dsv4_hc_head head = { .size = 4 };

	(void)state;
	assert_int_equal(ref_hc_pre(&x, &refkit_host, &pre), -EINVAL);
	assert_int_equal(ref_hc_post(&x, &refkit_host, &post), -EINVAL);
	assert_int_equal(ref_hc_head(&x, &refkit_host, &head), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads), cmocka_unit_test(test_few_iterations_end_on_columns),
		cmocka_unit_test(test_write), cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("ref_mhc", tests, NULL, NULL);
}
