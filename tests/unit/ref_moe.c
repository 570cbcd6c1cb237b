/* SPDX-License-Identifier: MIT
 * ref_moe.c - tests of ref's routing and experts against doc/format.md 3.7 in double.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- routing ---- */

struct moe_route_run {
	struct dsv4_moe_route a;
};

/* Out: the ids as floats, then the weights. */
static int moe_route_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	struct dsv4_moe_route a = ((const struct moe_route_run *)arg)->a;
	int32_t *ids = calloc((size_t)(n * a.k), sizeof *ids);
	float *weight = calloc((size_t)(n * a.k), sizeof *weight);
	int rc;

	a.size = sizeof a;
	a.n_tok = n;
	a.token += t0;
	a.x += (int64_t)t0 * a.dim;
	a.ids = ids;
	a.weight = weight;
	rc = ref_moe_route(x, &refkit_host, &a);
	for (int32_t t = 0; t < n; t++)
		for (int i = 0; i < a.k; i++) {
			out[(t0 + t) * 2 * a.k + i] = (float)ids[t * a.k + i];
			out[(t0 + t) * 2 * a.k + a.k + i] = weight[t * a.k + i];
		}
	free(ids);
	free(weight);
	return rc;
}

static double moe_strength(const struct dsv4_moe_route *a, const double *gate, int t, int e)
{
	double z = 0;

	for (int d = 0; d < a->dim; d++)
		z += gate[e * a->dim + d] * (double)a->x[t * a->dim + d];
	return sqrt(log1p(exp(z)));
}

/* Is e among the k best of the token's s + bias? By counting those that beat it. */
static int moe_chosen(const struct dsv4_moe_route *a, const double *gate, int t, int e)
{
	double mine = moe_strength(a, gate, t, e) + (double)a->bias[e];
	int better = 0;

	for (int o = 0; o < a->n_expert; o++) {
		double v = moe_strength(a, gate, t, o) + (double)a->bias[o];

		better += v > mine || (v == mine && o < e);
	}
	return better < a->k;
}

/* Compares one token's ids and weights with what they should be. */
static void moe_route_compare(const struct dsv4_moe_route *a, const double *gate, int t, const int *ids,
			      const float *out)
{
	double sum = 0;

	for (int i = 0; i < a->k; i++)
		sum += moe_strength(a, gate, t, ids[i]);
	for (int i = 0; i < a->k; i++) {
		double want = moe_strength(a, gate, t, ids[i]) / sum * (double)a->scaling;

		assert_int_equal((int)out[i], ids[i]);
		assert_true(fabs((double)out[a->k + i] - want) < 3e-6 * want);
	}
}

static void test_learned_route(void **state)
{
	static const struct { int n_expert, k, dim; enum dsv4_wfmt fmt;
	} shape[] = {
		{ 8, 2, 128, DSV4_W_BF16 },
		{ 5, 5, 3, DSV4_W_F32 },
		{ 1, 1, 1, DSV4_W_F32 },
		{ 256, 6, 64, DSV4_W_BF16 },
	};

	(void)state;
	for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
		int n_expert = shape[s].n_expert, k = shape[s].k, ids[8];
		float *x = refkit_floats((size_t)(9 * shape[s].dim), 2),
		      *bias = refkit_floats((size_t)n_expert, 1);
		float *out = refkit_floats((size_t)(9 * 2 * k), 1);
		int32_t token[9] = { 0 };
		struct refkit_weight gate;
		struct moe_route_run run = { { .dim = shape[s].dim,
					       .n_expert = n_expert,
					       .k = k,
					       .scaling = 1.5f,
					       .gate = &gate.w,
					       .bias = bias,
					       .token = token,
					       .x = x } };

		refkit_weight_init(&gate, shape[s].fmt, DSV4_S_NONE, n_expert, shape[s].dim);
		refkit_same_bits(moe_route_run, &run, 9, (size_t)(2 * k), out);
		for (int t = 0; t < 9; t++) {
			int n = 0;

			for (int e = 0; e < n_expert; e++)
				if (moe_chosen(&run.a, gate.value, t, e))
					ids[n++] = e;
			assert_int_equal(n, k);
			moe_route_compare(&run.a, gate.value, t, ids, out + t * 2 * k);
		}
		refkit_weight_fini(&gate);
		free(x);
		free(bias);
		free(out);
	}
}

static void test_hash_route(void **state)
{
	static const int64_t rows[3][3] = { { 4, 0, 2 }, { 1, 2, 3 }, { 4, 3, 0 } };
	int32_t token[5] = { 2, 0, 1, 1, 2 };
	float *x = refkit_floats(5 * 10, 2), out[5 * 6];
	char table[sizeof rows + 1]; /* at an odd address, as in a checkpoint */
	struct refkit_weight gate;
	struct moe_route_run run = { { .dim = 10,
				       .n_expert = 5,
				       .k = 3,
				       .scaling = 2,
				       .gate = &gate.w,
				       .table = (const int64_t *)(const void *)(table + 1),
				       .token = token,
				       .x = x } };
	struct dsv4_exec exec = { .mode = REFKIT_WHOLE, .n_scratch = -1 };
	int64_t bad = 5;

	(void)state;
	memcpy(table + 1, rows, sizeof rows);
	refkit_weight_init(&gate, DSV4_W_F32, DSV4_S_NONE, 5, 10);
	refkit_same_bits(moe_route_run, &run, 5, 6, out);
	for (int t = 0; t < 5; t++) {
		static const int sorted[3][3] = { { 0, 2, 4 }, { 1, 2, 3 }, { 0, 3, 4 } };

		moe_route_compare(&run.a, gate.value, t, sorted[token[t]], out + t * 6);
	}
	memcpy(table + 1, &bad, sizeof bad);
	assert_int_equal(moe_route_run(&run, &exec, 0, 5, out), -EINVAL);
	refkit_release(&exec);
	refkit_weight_fini(&gate);
	free(x);
}

static void test_route_ties_and_nan(void **state)
{
	float x[2] = { 1, 0 }, bias[6] = { 0, 2, 1, 2, 1, 2 }, out[8];
	float zero[13] = { 0 };
	int32_t token[1] = { 0 };
	struct dsv4_weight gate = {
		.size = sizeof gate, .fmt = DSV4_W_F32, .rows = 6, .cols = 2, .data = zero, .scale2 = 1
	};
	struct moe_route_run run = { { .dim = 2,
				       .n_expert = 6,
				       .k = 3,
				       .scaling = 3,
				       .gate = &gate,
				       .bias = bias,
				       .token = token,
				       .x = x } };

	(void)state;
	run.a.k = 2;
	refkit_same_bits(moe_route_run, &run, 1, 4, out);
	assert_true(out[0] == 1 && out[1] == 3 && out[2] == 1.5f && out[3] == 1.5f);
	bias[0] = NAN;
	refkit_same_bits(moe_route_run, &run, 1, 4, out);
	assert_true(out[0] == 1 && out[1] == 3);
	run.a.k = 3;
	bias[1] = NAN;
	refkit_same_bits(moe_route_run, &run, 1, 6, out);
	assert_true(out[0] == 2 && out[1] == 3 && out[2] == 5);
	bias[5] = -INFINITY; /* a masked expert comes before broken ones */
	run.a.k = 4;
	refkit_same_bits(moe_route_run, &run, 1, 8, out);
	assert_true(out[0] == 2 && out[1] == 3 && out[2] == 4 && out[3] == 5);
	run.a.k = 3;
	x[0] = NAN; /* every strength is NaN: still three different experts */
	refkit_same_bits(moe_route_run, &run, 1, 6, out);
	assert_true(out[0] == 0 && out[1] == 1 && out[2] == 2 && isnan(out[3]));
}

static void test_large_logits(void **state)
{
	float x[1] = { 1000 }, w[2] = { 1, -1 }, out[4];
	int32_t token[1] = { 0 };
	struct dsv4_weight gate = {
		.size = sizeof gate, .fmt = DSV4_W_F32, .rows = 2, .cols = 1, .data = w, .scale2 = 1
	};
	struct moe_route_run run = {
		{ .dim = 1, .n_expert = 2, .k = 2, .scaling = 1.5f, .gate = &gate, .token = token, .x = x }
	};
	float bias[2] = { 0 };

	(void)state;
	run.a.bias = bias;
	refkit_same_bits(moe_route_run, &run, 1, 4, out);
	assert_true(out[2] == 1.5f && out[3] == 0);
}

/* ---- experts ---- */

#define MOE_MAX 8

struct moe_model {
	struct dsv4_moe_experts a;
	struct refkit_weight w[MOE_MAX + 2][3]; /* routed, then shared; w1, w2, w3 */
	struct dsv4_expert expert[MOE_MAX + 2];
	float *x, *weight;
	int32_t *ids;
	int n_tok;
};

struct moe_shape {
	int n_tok, dim, inter, n_expert, k, n_shared;
	enum dsv4_wfmt fmt, shared_fmt;
	enum dsv4_act act;
	float limit, out_scale;
};

static enum dsv4_sfmt moe_sfmt(enum dsv4_wfmt f)
{
	return f == DSV4_W_NVFP4		    ? DSV4_S_E4M3
	       : f == DSV4_W_FP4 || f == DSV4_W_FP8 ? DSV4_S_E8M0
						    : DSV4_S_NONE;
}

static void moe_init(struct moe_model *m, const struct moe_shape *s)
{
	*m = (struct moe_model){ .n_tok = s->n_tok };
	m->a = (struct dsv4_moe_experts){ .dim = s->dim,
					  .inter = s->inter,
					  .n_expert = s->n_expert,
					  .k = s->k,
					  .n_shared = s->n_shared,
					  .act = s->act,
					  .limit = s->limit,
					  .out_scale = s->out_scale,
					  .expert = m->expert,
					  .shared = m->expert + s->n_expert };
	for (int e = 0; e < s->n_expert + s->n_shared; e++) {
		enum dsv4_wfmt f = e < s->n_expert ? s->fmt : s->shared_fmt;

		refkit_weight_init(&m->w[e][0], f, moe_sfmt(f), s->inter, s->dim);
		refkit_weight_init(&m->w[e][1], f, moe_sfmt(f), s->dim, s->inter);
		refkit_weight_init(&m->w[e][2], f, moe_sfmt(f), s->inter, s->dim);
		m->expert[e] = (struct dsv4_expert){ m->w[e][0].w, m->w[e][1].w, m->w[e][2].w };
	}
	m->x = refkit_floats((size_t)(s->n_tok * s->dim), 1);
	m->weight = refkit_floats((size_t)(s->n_tok * s->k), 1);
	m->ids = calloc((size_t)(s->n_tok * s->k), sizeof *m->ids);
	assert_non_null(m->ids);
	/* k neighbours; where there is room, no token chooses the last expert. */
	for (int t = 0; t < s->n_tok; t++) {
		int first = s->n_expert > s->k ? (int)refkit_below((uint32_t)(s->n_expert - s->k)) : 0;

		for (int i = 0; i < s->k; i++)
			m->ids[t * s->k + i] = first + i;
	}
	m->a.x = m->x;
	m->a.ids = m->ids;
	m->a.weight = m->weight;
}

static void moe_fini(struct moe_model *m)
{
	for (int e = 0; e < m->a.n_expert + m->a.n_shared; e++)
		for (int i = 0; i < 3; i++)
			refkit_weight_fini(&m->w[e][i]);
	free(m->x);
	free(m->weight);
	free(m->ids);
}

static int moe_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	struct dsv4_moe_experts a = ((const struct moe_model *)arg)->a;

	a.size = sizeof a;
	a.n_tok = n;
	a.x += (int64_t)t0 * a.dim;
	a.ids += (int64_t)t0 * a.k;
	a.weight += (int64_t)t0 * a.k;
	a.y = out + (int64_t)t0 * a.dim;
	return ref_moe_experts(x, &refkit_host, &a);
}

/* Rounds a row as activations are before a weight of this format. */
static void moe_round(const struct moe_model *m, const struct dsv4_weight *w, double *x)
{
	if (m->a.act == DSV4_ACT_FP8 && w->fmt != DSV4_W_F32 && w->fmt != DSV4_W_BF16)
		for (int64_t k = 0; k < w->cols; k += 128)
			refkit_round_fp8(x + k, w->cols - k < 128 ? w->cols - k : 128);
}

static double moe_dot(const struct refkit_weight *w, int64_t r, const double *x)
{
	double sum = 0;

	for (int64_t k = 0; k < w->w.cols; k++)
		sum += w->value[r * w->w.cols + k] * x[k];
	return sum;
}

/* y += scale * expert e of token t */
static void moe_want(const struct moe_model *m, int e, int t, double weight, double scale, double *y)
{
	const struct refkit_weight *w = m->w[e];
	double x[256], h[256], limit = m->a.limit > 0 ? (double)m->a.limit : INFINITY;

	for (int d = 0; d < m->a.dim; d++)
		x[d] = (double)m->x[t * m->a.dim + d];
	moe_round(m, &w[0].w, x);
	for (int i = 0; i < m->a.inter; i++) {
		double g = fmin(moe_dot(&w[0], i, x), limit),
		       u = fmax(fmin(moe_dot(&w[2], i, x), limit), -limit);

		/* To fp32, which the rounding that follows then sees as the op does. */
		h[i] = (double)(float)(weight * (g / (1 + exp(-g)) * u));
	}
	moe_round(m, &w[1].w, h);
	for (int d = 0; d < m->a.dim; d++)
		y[d] += scale * moe_dot(&w[1], d, h);
}

static void moe_check(const struct moe_shape *s, double limit)
{
	struct moe_model m;
	size_t dim = (size_t)s->dim;
	float *out = refkit_floats((size_t)s->n_tok * dim, 1);
	double *y = malloc(dim * sizeof *y);

	assert_non_null(y);
	moe_init(&m, s);
	refkit_same_bits(moe_run, &m, s->n_tok, dim, out);
	for (int t = 0; t < s->n_tok; t++) {
		memset(y, 0, dim * sizeof *y);
		for (int i = 0; i < s->k; i++)
			moe_want(&m, m.ids[t * s->k + i], t, (double)m.weight[t * s->k + i],
				 (double)s->out_scale, y);
		for (int e = 0; e < s->n_shared; e++)
			moe_want(&m, s->n_expert + e, t, 1, 1, y);
		assert_true(refkit_error(out + (size_t)t * dim, y, dim) < limit);
	}
	moe_fini(&m);
	free(out);
	free(y);
}

static void test_experts(void **state)
{
	static const struct moe_shape exact[] = {
		{ 7, 128, 128, 8, 2, 1, DSV4_W_FP4, DSV4_W_FP8, DSV4_ACT_NONE, 10, 1 },
		{ 5, 40, 24, 4, 3, 0, DSV4_W_F32, DSV4_W_F32, DSV4_ACT_NONE, 0, 1 },
		{ 5, 40, 24, 4, 3, 2, DSV4_W_F32, DSV4_W_BF16, DSV4_ACT_FP8, 0.5f, 1.5f },
		{ 4, 48, 16, 3, 2, 1, DSV4_W_NVFP4, DSV4_W_FP8, DSV4_ACT_NONE, 2, 1 },
		{ 70, 8, 4, 2, 1, 1, DSV4_W_BF16, DSV4_W_F32, DSV4_ACT_NONE, 10, 1 },
		{ 1, 2, 2, 1, 1, 1, DSV4_W_FP8, DSV4_W_FP4, DSV4_ACT_NONE, 10, 2 },
	};
	struct moe_shape s;

	(void)state;
	for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
		moe_check(&exact[i], 3e-6);
	/* With rounding, a value of the hidden row near a tie may take the other side: a step
	 * of one in 128. */
	for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
		s = exact[i];
		s.act = DSV4_ACT_FP8;
		moe_check(&s, 1e-2);
	}
}

/* A hash table may name an expert twice: it then counts twice. */
static void test_expert_named_twice(void **state)
{
	struct moe_shape s = { 3, 16, 8, 3, 2, 0, DSV4_W_F32, DSV4_W_F32, DSV4_ACT_NONE, 0, 1 };
	struct moe_model m;
	float once[48], twice[48];

	(void)state;
	moe_init(&m, &s);
	for (int i = 0; i < 6; i++) {
		m.ids[i] = 1;
		m.weight[i] = i % 2 ? 0.0f : 1.0f;
	}
	refkit_same_bits(moe_run, &m, 3, 16, once);
	for (int i = 0; i < 6; i++)
		m.weight[i] = 0.5f;
	refkit_same_bits(moe_run, &m, 3, 16, twice);
	for (int i = 0; i < 48; i++)
		assert_true(fabsf(once[i] - twice[i]) < 1e-6f);
	moe_fini(&m);
}

static void test_nan_stays_with_its_token(void **state)
{
	struct moe_shape s = { 4, 128, 32, 3, 2, 1, DSV4_W_FP4, DSV4_W_FP8, DSV4_ACT_FP8, 10, 1 };
	float clean[4 * 128], out[4 * 128];
	struct moe_model m;

	(void)state;
	moe_init(&m, &s);
	refkit_same_bits(moe_run, &m, 4, 128, clean);
	m.x[128 + 5] = NAN;
	refkit_same_bits(moe_run, &m, 4, 128, out);
	assert_memory_equal(out, clean, 128 * sizeof *out);
	assert_memory_equal(out + 256, clean + 256, 256 * sizeof *out);
	for (int d = 0; d < 128; d++)
		assert_true(isnan(out[128 + d]));
	moe_fini(&m);
}

/* A token's bits with experts that are not here are those of a call for it alone with a list of those that are. Where
 * that list is empty, it is number 0 that weighs nothing. */
static void moe_check_here(const struct moe_shape *s, uint32_t here)
{
	size_t dim = (size_t)s->dim;
	float *out = refkit_floats((size_t)s->n_tok * dim, 1), *want = refkit_floats(dim, 1);
	struct dsv4_expert shared[2];
	struct moe_model m, one;
	int n_shared = 0;

	moe_init(&m, s);
	for (int e = s->n_expert; e < s->n_expert + s->n_shared; e++)
		if (here >> e & 1)
			shared[n_shared++] = m.expert[e];
	for (int e = 1; e < s->n_expert + s->n_shared; e++)
		if (!(here >> e & 1))
			m.expert[e].w1.data = NULL;
	refkit_same_bits(moe_run, &m, s->n_tok, dim, out);
	for (int t = 0; t < s->n_tok; t++) {
		struct dsv4_exec x = { .mode = REFKIT_WHOLE, .n_scratch = -1 };
		float weight[MOE_MAX] = { 0 };
		int32_t ids[MOE_MAX] = { 0 };
		int k = 0;

		for (int i = t * s->k; i < (t + 1) * s->k; i++)
			if (m.expert[m.ids[i]].w1.data) {
				weight[k] = m.weight[i];
				ids[k++] = m.ids[i];
			}
		one = m;
		one.a.x = m.x + (size_t)t * dim;
		one.a.ids = ids;
		one.a.weight = weight;
		one.a.k = k ? k : 1;
		one.a.shared = shared;
		one.a.n_shared = n_shared;
		assert_int_equal(moe_run(&one, &x, 0, 1, want), 0);
		refkit_release(&x);
		assert_memory_equal(out + (size_t)t * dim, want, dim * sizeof *want);
	}
	free(out);
	free(want);
	moe_fini(&m);
}

static void test_experts_that_are_not_here(void **state)
{
	struct moe_shape s = { 12, 130, 40, 6, 2, 2, DSV4_W_FP4, DSV4_W_FP8, DSV4_ACT_FP8, 10, 1.5f };
	static const uint32_t here[] = { 0xff, 0xc7, 0xf9, 0x47, 0x87, 0x07, 0x01 };

	(void)state;
	for (size_t i = 0; i < sizeof here / sizeof *here; i++)
		moe_check_here(&s, here[i]);
}

/* Whatever the rest of its struct says, and with nobody here the result is zeroes. */
static void test_nobody_is_here(void **state)
{
	struct moe_shape s = { 3, 16, 8, 3, 2, 1, DSV4_W_F32, DSV4_W_F32, DSV4_ACT_NONE, 10, 1.5f };
	float out[48], zero[48] = { 0 };
	struct moe_model m;

	(void)state;
	moe_init(&m, &s);
	memset(m.expert, 0, sizeof m.expert);
	refkit_same_bits(moe_run, &m, 3, 16, out);
	assert_memory_equal(out, zero, sizeof out);
	moe_fini(&m);
}

static void test_refuses(void **state)
{
	struct moe_shape s = { 2, 16, 8, 3, 2, 1, DSV4_W_FP4, DSV4_W_FP8, DSV4_ACT_FP8, 10, 1 };
	struct dsv4_exec x = { .mode = REFKIT_WHOLE, .n_scratch = -1 };
	struct moe_model m;
	float out[32];

	(void)state;
	moe_init(&m, &s);
	for (int n = 0; n < 9; n++) {
		x.n_scratch = n;
		assert_int_equal(moe_run(&m, &x, 0, 2, out), -ENOMEM);
		refkit_release(&x);
	}
	x.n_scratch = 9;
	assert_int_equal(moe_run(&m, &x, 0, 2, out), 0);
	refkit_release(&x);
	x.n_scratch = -1;
	m.ids[1] = 3;
	assert_int_equal(moe_run(&m, &x, 0, 2, out), -EINVAL);
	refkit_release(&x);
	m.ids[1] = m.ids[0];
	m.expert[m.ids[0]].w2.cols = 9;
	assert_int_equal(moe_run(&m, &x, 0, 2, out), -EINVAL);
	refkit_release(&x);
	moe_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learned_route), cmocka_unit_test(test_hash_route),
		cmocka_unit_test(test_route_ties_and_nan), cmocka_unit_test(test_large_logits),
		cmocka_unit_test(test_experts), cmocka_unit_test(test_expert_named_twice),
		cmocka_unit_test(test_nan_stays_with_its_token), cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_experts_that_are_not_here), cmocka_unit_test(test_nobody_is_here),
	};

	return cmocka_run_group_tests_name("ref_moe", tests, NULL, NULL);
}
