/* SPDX-License-Identifier: MIT
 * ref_attn.c - tests of ref's attention against a plain softmax in double.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ATTN_MAX_PAGE 128

/* Two sequences side by side in one batch. */
struct attn_run {
	struct dsv4_attn a;
	struct dsv4_seq seq[2];
	const float *page[2][ATTN_MAX_PAGE];
	float *mem[8];
	int n_mem;
};

static float *attn_floats(struct attn_run *r, int64_t n, double scale)
{
	return r->mem[r->n_mem++] = refkit_floats((size_t)n, scale);
}

static void attn_fini(struct attn_run *r)
{
	while (r->n_mem > 0)
		free(r->mem[--r->n_mem]);
}

/* Cuts the sequences to tokens [t0, t0 + n), and their windows to what those need. */
static int attn_run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct attn_run *r = arg;
	struct dsv4_attn a = r->a;
	struct dsv4_seq seq[2];

	a.size = sizeof a;
	a.n_tok = n;
	a.seq = seq;
	a.n_seq = 0;
	for (int i = 0; i < 2; i++) {
		struct dsv4_seq s = r->seq[i];
		int32_t begin = s.tok0 > t0 ? s.tok0 : t0, end = s.tok0 + s.n_tok;
		int64_t first;

		end = end < t0 + n ? end : t0 + n;
		if (begin >= end)
			continue;
		s.pos0 += begin - s.tok0;
		s.tok0 = begin - t0;
		s.n_tok = end - begin;
		first = s.pos0 - a.window + 1 > 0 ? s.pos0 - a.window + 1 : 0;
		s.window += (first - s.window_pos0) * a.dim;
		s.window_pos0 = first;
		seq[a.n_seq++] = s;
	}
	a.q += (int64_t)t0 * a.n_head * a.dim;
	if (a.rows) {
		a.rows += t0 * a.ldr;
		a.count += t0;
	}
	a.out = out + (int64_t)t0 * a.n_head * a.dim;
	return ref_attn(x, &refkit_host, &a);
}

static void attn_seq_init(struct attn_run *r, int i, int64_t pos0, int32_t n_tok, int32_t ratio,
			  int64_t page_rows)
{
	struct dsv4_seq *s = &r->seq[i];
	int64_t first = pos0 - r->a.window + 1 - i; /* the second holds one row more than it needs */
	int64_t n = ratio ? (pos0 + n_tok) / ratio : 0;
	float *rows = attn_floats(r, (n + page_rows) * r->a.dim, 1);

	*s = (struct dsv4_seq){
		.size = sizeof *s, .tok0 = r->a.n_tok, .n_tok = n_tok, .ratio = ratio, .pos0 = pos0
	};
	s->window_pos0 = first > 0 ? first : 0;
	s->window = attn_floats(r, (pos0 + n_tok - s->window_pos0) * r->a.dim, 1);
	for (int64_t p = 0; p * page_rows < n; p++)
		r->page[i][p] = rows + p * page_rows * r->a.dim;
	s->kv = (struct dsv4_rows){ .size = sizeof s->kv,
				    .dim = (uint32_t)r->a.dim,
				    .n = n,
				    .page_rows = page_rows,
				    .page = r->page[i] };
	r->a.n_tok += n_tok;
}

/* The rows token t attends to, in order; returns how many. */
static int attn_list(const struct attn_run *r, int t, const float **list)
{
	const struct dsv4_seq *s = &r->seq[t >= r->seq[1].tok0];
	int64_t pos = s->pos0 + t - s->tok0, vis = s->ratio ? (pos + 1) / s->ratio : 0;
	int n = 0;

	for (int64_t p = pos - r->a.window + 1; p <= pos; p++)
		if (p >= 0)
			list[n++] = s->window + (p - s->window_pos0) * r->a.dim;
	for (int64_t i = 0; i < (r->a.rows ? r->a.count[t] : vis); i++) {
		int64_t row = r->a.rows ? r->a.rows[t * r->a.ldr + i] : i;

		list[n++] = s->kv.page[row / s->kv.page_rows] + row % s->kv.page_rows * r->a.dim;
	}
	return n;
}

/* As prec sees it; the emulation knows lists of one block only. */
static double attn_round(const struct attn_run *r, double x)
{
	return r->a.prec == DSV4_PREC_BF16 ? refkit_bf16(x) : x;
}

static void attn_want(const struct attn_run *r, int t, int h, double *out)
{
	const struct dsv4_attn *a = &r->a;
	const float *q = a->q + (t * a->n_head + h) * a->dim;
	static const float *list[4096];
	static double score[4096];
	int n = attn_list(r, t, list);
	double top = -INFINITY, den;

	for (int i = 0; i < n; i++) {
		score[i] = 0;
		for (int d = 0; d < a->dim; d++)
			score[i] += (double)q[d] * (double)list[i][d];
		score[i] = attn_round(r, score[i] * (double)a->scale);
		top = fmax(top, score[i]);
	}
	assert_true(a->prec == DSV4_PREC_FP32 || n <= 64);
	den = exp((double)a->sink[h] - top);
	for (int d = 0; d < a->dim; d++)
		out[d] = 0;
	for (int i = 0; i < n; i++) {
		double p = exp(score[i] - top);

		den += p;
		for (int d = 0; d < a->dim; d++)
			out[d] += attn_round(r, p) * (double)list[i][d];
	}
	for (int d = 0; d < a->dim; d++)
		out[d] /= den;
}

static void attn_check(struct attn_run *r, double limit)
{
	size_t dim = (size_t)r->a.dim, width = (size_t)r->a.n_head * dim;
	float *out = refkit_floats((size_t)r->a.n_tok * width, 1);
	double *want = calloc(dim, sizeof *want);

	assert_non_null(want);
	refkit_same_bits(attn_run, r, r->a.n_tok, width, out);
	for (int t = 0; t < r->a.n_tok; t++)
		for (int h = 0; h < r->a.n_head; h++) {
			attn_want(r, t, h, want);
			assert_true(refkit_error(out + (size_t)t * width + (size_t)h * dim, want, dim) <
				    limit);
		}
	free(out);
	free(want);
}

static void attn_init(struct attn_run *r, int n_head, int dim, int window, double q_scale)
{
	*r = (struct attn_run){ .a = { .n_head = n_head, .dim = dim, .window = window } };
	r->a.scale = 1 / sqrtf((float)dim);
	r->a.sink = attn_floats(r, n_head, 3);
	r->a.q = attn_floats(r, 20 * n_head * dim, q_scale);
}

static void test_window_and_all_rows(void **state)
{
	struct attn_run r;

	(void)state;
	attn_init(&r, 4, 96, 64, 3);
	attn_seq_init(&r, 0, 0, 11, 4, 3);
	attn_seq_init(&r, 1, 250, 9, 4, 32);
	attn_check(&r, 1e-6);
	attn_fini(&r);
	attn_init(&r, 1, 1, 1, 1);
	attn_seq_init(&r, 0, 5, 3, 1, 1);
	attn_seq_init(&r, 1, 0, 1, 0, 1);
	attn_check(&r, 1e-6);
	attn_fini(&r);
	attn_init(&r, 3, 130, 128, 2);
	attn_seq_init(&r, 0, 127, 4, 128, 1);
	attn_seq_init(&r, 1, 1000, 2, 128, 7);
	attn_check(&r, 1e-6);
	attn_fini(&r);
}

static void test_chosen_rows(void **state)
{
	int32_t rows[8 * 32], count[8];
	struct attn_run r;

	(void)state;
	attn_init(&r, 2, 24, 16, 3);
	attn_seq_init(&r, 0, 60, 5, 4, 2);
	attn_seq_init(&r, 1, 300, 3, 4, 8);
	r.a.rows = rows;
	r.a.ldr = 32;
	r.a.count = count;
	for (int t = 0; t < 8; t++) {
		count[t] = 0;
		for (int i = 0; i < 15; i++)
			if (refkit_below(2))
				rows[t * 32 + count[t]++] = i;
	}
	count[3] = 0; /* the window alone */
	attn_check(&r, 1e-6);
	attn_fini(&r);
}

static void test_sharp_scores_and_sinks(void **state)
{
	struct attn_run r;
	float sink[4] = { -INFINITY, 1e30f, -1e30f, 60 };

	(void)state;
	attn_init(&r, 4, 64, 70, 300); /* scores of some hundreds */
	attn_seq_init(&r, 0, 200, 6, 2, 16);
	attn_seq_init(&r, 1, 3, 2, 0, 1);
	r.a.sink = sink;
	attn_check(&r, 1e-4);
	attn_fini(&r);
}

static void test_bf16(void **state)
{
	struct attn_run r;

	(void)state;
	attn_init(&r, 2, 64, 24, 3);
	attn_seq_init(&r, 0, 90, 4, 4, 16);
	attn_seq_init(&r, 1, 10, 2, 4, 16);
	r.a.prec = DSV4_PREC_BF16;
	attn_check(&r, 1e-5);
	attn_fini(&r);
}

static void test_nan_stays_in_its_head(void **state)
{
	enum { W = 2 * 8 };
	struct attn_run r;
	float *q, clean[2 * W], out[2 * W];

	(void)state;
	attn_init(&r, 2, 8, 4, 1);
	attn_seq_init(&r, 0, 9, 1, 4, 1);
	attn_seq_init(&r, 1, 0, 1, 4, 1);
	refkit_same_bits(attn_run, &r, 2, W, clean);
	q = (float *)r.a.q;
	q[3] = NAN;
	refkit_same_bits(attn_run, &r, 2, W, out);
	assert_true(isnan(out[0]));
	assert_memory_equal(out + 8, clean + 8, sizeof out - 8 * sizeof *out);
	attn_fini(&r);
}

static void test_refuses(void **state)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE };
	struct attn_run r;
	struct dsv4_attn a;

	(void)state;
	attn_init(&r, 1, 8, 4, 1);
	attn_seq_init(&r, 0, 9, 1, 4, 1);
	a = r.a;
	a.size = sizeof a;
	a.seq = r.seq;
	a.n_seq = 1;
	r.seq[0].window_pos0++; /* the oldest row of the window is missing */
	assert_int_equal(ref_attn(&x, &refkit_host, &a), -EINVAL);
	r.seq[0].window_pos0--;
	r.seq[0].kv.dim = 7;
	assert_int_equal(ref_attn(&x, &refkit_host, &a), -EINVAL);
	attn_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_and_all_rows), cmocka_unit_test(test_chosen_rows),
		cmocka_unit_test(test_sharp_scores_and_sinks), cmocka_unit_test(test_bf16),
		cmocka_unit_test(test_nan_stays_in_its_head), cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests_name("ref_attn", tests, NULL, NULL);
}
