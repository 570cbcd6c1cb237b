/* SPDX-License-Identifier: MIT
 * ref_indexer.c - tests of ref's index_score and index_topk; the selection against a full sort.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scores ---- */

#define INDEXER_MAX_PAGE 64

struct indexer_run {
	struct dsv4_index_score a;
	struct dsv4_seq seq[2];
	const float *page[2][INDEXER_MAX_PAGE];
};

/* Cuts the sequences to tokens [t0, t0 + n), as a scheduler would. */
static int indexer_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct indexer_run *r = arg;
	struct dsv4_index_score a = r->a;
	struct dsv4_seq seq[2];

	a.size = sizeof a;
	a.n_tok = n;
	a.seq = seq;
	a.n_seq = 0;
	for (int i = 0; i < 2; i++) {
		struct dsv4_seq s = r->seq[i];
		int32_t begin = s.tok0 > t0 ? s.tok0 : t0, end = s.tok0 + s.n_tok;

		end = end < t0 + n ? end : t0 + n;
		if (begin >= end)
			continue;
		s.pos0 += begin - s.tok0;
		s.tok0 = begin - t0;
		s.n_tok = end - begin;
		seq[a.n_seq++] = s;
	}
	a.q += (int64_t)t0 * a.n_head * a.dim;
	a.w += (int64_t)t0 * a.n_head;
	a.score = out + t0 * a.lds;
	return ref_index_score(x, &refkit_host, &a);
}

/* Keys of n rows in pages of page_rows; returns the memory. */
static float *indexer_keys(struct indexer_run *r, int i, int64_t n, int64_t page_rows)
{
	float *mem = refkit_floats((size_t)(n + page_rows) * (size_t)r->a.dim, 1);

	for (int64_t p = 0; p * page_rows < n; p++)
		r->page[i][p] = mem + p * page_rows * r->a.dim;
	r->seq[i].key = (struct dsv4_rows){ .size = sizeof(struct dsv4_rows),
					    .dim = (uint32_t)r->a.dim,
					    .n = n,
					    .page_rows = page_rows,
					    .page = r->page[i] };
	return mem;
}

static double indexer_want(const struct dsv4_index_score *a, int t, const float *key)
{
	double sum = 0;

	for (int h = 0; h < a->n_head; h++) {
		double dot = 0;

		for (int d = 0; d < a->dim; d++)
			dot += (double)a->q[(t * a->n_head + h) * a->dim + d] * (double)key[d];
		sum += (dot > 0 ? dot : 0) * (double)a->w[t * a->n_head + h];
	}
	return sum * (double)a->scale;
}

static void indexer_check(int n_head, int dim, int64_t pos0, int ratio)
{
	enum { N0 = 9, N1 = 4, N = N0 + N1 };
	int64_t n[2] = { (pos0 + N0) / ratio, 2 + N1 / ratio }, lds = n[0] + n[1] + 3;
	struct indexer_run r = { .a = { .n_head = n_head, .dim = dim, .scale = 0.25f, .lds = lds } };
	float *q = refkit_floats((size_t)(N * n_head * dim), 1), *w = refkit_floats((size_t)(N * n_head), 1);
	float *out = refkit_floats((size_t)(N * lds), 1), *keys[2];

	r.a.q = q;
	r.a.w = w;
	r.seq[0] = (struct dsv4_seq){ .size = sizeof r.seq[0], .n_tok = N0, .ratio = ratio, .pos0 = pos0 };
	r.seq[1] = (struct dsv4_seq){
		.size = sizeof r.seq[1], .tok0 = N0, .n_tok = N1, .ratio = ratio, .pos0 = 2 * ratio
	};
	keys[0] = indexer_keys(&r, 0, n[0], 5);
	keys[1] = indexer_keys(&r, 1, n[1], 32);
	refkit_same_bits(indexer_run, &r, N, (size_t)lds, out);
	for (int t = 0; t < N; t++) {
		int i = t >= N0;
		int64_t vis = (r.seq[i].pos0 + t - r.seq[i].tok0 + 1) / ratio;
		double size = 1e-3;

		for (int64_t k = 0; k < vis; k++)
			size = fmax(size, fabs(indexer_want(&r.a, t, keys[i] + k * dim)));
		for (int64_t k = 0; k < lds; k++)
			if (k >= vis)
				assert_true(isnan(out[t * lds + k]));
			else
				assert_true(fabs((double)out[t * lds + k] -
						 indexer_want(&r.a, t, keys[i] + k * dim)) < size * 2e-6);
	}
	free(q);
	free(w);
	free(out);
	free(keys[0]);
	free(keys[1]);
}

static void test_scores(void **state)
{
	(void)state;
	indexer_check(4, 64, 0, 4);
	indexer_check(4, 64, 551, 4);
	indexer_check(64, 128, 100, 4);
	indexer_check(1, 1, 30, 1);
	indexer_check(3, 13, 255, 2);
}

static void test_nan_key_gives_nan(void **state)
{
	struct indexer_run r = { .a = { .n_head = 1, .dim = 2, .scale = 1, .lds = 2 } };
	float q[2] = { 1, 1 }, w[1] = { 1 }, out[2], *keys = indexer_keys(&r, 0, 2, 1);

	(void)state;
	r.a.q = q;
	r.a.w = w;
	r.seq[0] = (struct dsv4_seq){
		.size = sizeof r.seq[0], .n_tok = 1, .ratio = 4, .pos0 = 7, .key = r.seq[0].key
	};
	memcpy(keys, (float[]){ NAN, 1, -1, -1 }, 4 * sizeof *keys);
	refkit_same_bits(indexer_run, &r, 1, 2, out);
	assert_true(isnan(out[0]));
	assert_true(out[1] == 0);
	free(keys);
}

/* ---- selection ---- */

struct indexer_topk {
	int32_t k;
	const int32_t *n_vis;
	const float *score;
	int64_t lds;
};

/* Out, as floats: the count, then the rows. */
static int indexer_topk_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct indexer_topk *c = arg;
	int32_t *rows = malloc((size_t)n * (size_t)(c->k + 1) * sizeof *rows),
		*count = calloc((size_t)n, sizeof *count);
	struct dsv4_index_topk a = { .size = sizeof a,
				     .n_tok = n,
				     .k = c->k,
				     .n_vis = c->n_vis + t0,
				     .score = c->score ? c->score + t0 * c->lds : NULL,
				     .lds = c->lds,
				     .rows = rows,
				     .ldr = c->k + 1,
				     .count = count };
	int rc = ref_index_topk(x, &refkit_host, &a);

	for (int32_t t = 0; t < n; t++) {
		float *o = out + (t0 + t) * (c->k + 1);

		o[0] = (float)count[t];
		for (int32_t i = 0; i < c->k; i++)
			o[1 + i] = i < count[t] ? (float)rows[t * (c->k + 1) + i] : -1;
	}
	free(rows);
	free(count);
	return rc;
}

static const float *indexer_sorted; /* the scores that indexer_before looks at */

/* Better first: NaN last, ties by row. */
static int indexer_before(const void *pa, const void *pb)
{
	int32_t a = *(const int32_t *)pa, b = *(const int32_t *)pb;
	float fa = indexer_sorted[a], fb = indexer_sorted[b];

	if (isnan(fa) != isnan(fb))
		return isnan(fa) ? 1 : -1;
	if (!isnan(fa) && fa != fb)
		return fa > fb ? -1 : 1;
	return a < b ? -1 : 1;
}

static int indexer_rising(const void *a, const void *b)
{
	return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

static void indexer_topk_check(const float *score, const int32_t *n_vis, int32_t n_tok, int64_t lds,
			       int32_t k)
{
	struct indexer_topk c = { k, n_vis, score, lds };
	float *out = refkit_floats((size_t)(n_tok * (k + 1)), 1);
	int32_t *order = malloc((size_t)lds * sizeof *order);

	assert_non_null(order);
	refkit_same_bits(indexer_topk_run, &c, n_tok, (size_t)k + 1, out);
	for (int32_t t = 0; t < n_tok; t++) {
		int32_t n = n_vis[t] < k ? n_vis[t] : k;

		for (int32_t i = 0; i < n_vis[t]; i++)
			order[i] = i;
		indexer_sorted = score + t * lds;
		qsort(order, (size_t)n_vis[t], sizeof *order, indexer_before);
		qsort(order, (size_t)n, sizeof *order, indexer_rising);
		assert_int_equal((int)out[t * (k + 1)], n);
		for (int32_t i = 0; i < n; i++)
			assert_int_equal((int)out[t * (k + 1) + 1 + i], order[i]);
	}
	free(out);
	free(order);
}

static void test_selects_like_a_sort(void **state)
{
	enum { N = 40, LDS = 300 };
	static const float odd[] = { NAN,   -NAN,   INFINITY, -INFINITY, 0.0f,
				     -0.0f, 1e-45f, -1e-45f,  3e38f,	 -3e38f };
	static const int32_t ks[] = { 1, 2, 32, 299, 300 };
	float *score = refkit_floats(N * LDS, 10);
	int32_t n_vis[N];

	(void)state;
	for (int t = 0; t < N; t++) {
		n_vis[t] = (int32_t)refkit_below(LDS + 1);
		for (int i = 0; i < LDS; i++)
			if (t % 4 == 1)
				score[t * LDS + i] = truncf(score[t * LDS + i]); /* many ties */
			else if (t % 4 == 2)
				score[t * LDS + i] = odd[refkit_below(10)];
			else if (t % 4 == 3)
				score[t * LDS + i] = (float)(i % 2) * 1e-3f;
	}
	n_vis[0] = 0;
	n_vis[1] = n_vis[2] = n_vis[3] = LDS;
	for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
		indexer_topk_check(score, n_vis, N, LDS, ks[i]);
	free(score);
}

static void test_zeros_tie(void **state)
{
	static const float score[8] = { -1, -0.0f, 0.0f, -0.0f, 0.0f, -2, -0.0f, 0.0f };
	static const int32_t n_vis[1] = { 8 };

	(void)state;
	for (int32_t k = 1; k < 8; k++)
		indexer_topk_check(score, n_vis, 1, 8, k);
}

static void test_no_scores_needed_when_all_fit(void **state)
{
	static const int32_t n_vis[3] = { 0, 3, 4 };
	struct indexer_topk c = { 4, n_vis, NULL, 0 };
	float out[15];

	(void)state;
	refkit_same_bits(indexer_topk_run, &c, 3, 5, out);
	assert_true(out[0] == 0 && out[5] == 3 && out[10] == 4);
	for (int i = 0; i < 4; i++)
		assert_true(out[11 + i] == (float)i);
}

static void test_refuses(void **state)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE };
	int32_t n_vis[1] = { 5 }, rows[8], count[1];
	struct dsv4_index_topk a = {
		.size = sizeof a, .n_tok = 1, .k = 4, .n_vis = n_vis, .rows = rows, .ldr = 8, .count = count
	};

	(void)state;
	assert_int_equal(ref_index_topk(&x, &refkit_host, &a), -EINVAL); /* scores are needed */
	a.k = 5;
	assert_int_equal(ref_index_topk(&x, &refkit_host, &a), 0);
	a.ldr = 4;
	assert_int_equal(ref_index_topk(&x, &refkit_host, &a), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scores), cmocka_unit_test(test_nan_key_gives_nan),
		cmocka_unit_test(test_selects_like_a_sort), cmocka_unit_test(test_zeros_tie),
		cmocka_unit_test(test_no_scores_needed_when_all_fit), cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("ref_indexer", tests, NULL, NULL);
}
