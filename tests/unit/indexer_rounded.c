/* SPDX-License-Identifier: MIT
 * indexer_rounded.c - the plugins indexer-bf16 and indexer-fp8 are ref on rounded rows, bit by bit.
 * Threads: see refkit.h. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/plugkit.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_HEAD 3
#define DIM 133 /* more than one block of 128, no multiple of anything */
#define RATIO 4
#define N_TOK 7
#define N_KEY 2062 /* more than the plugin rounds at a time */
#define PAGE 100
#define LDS (N_KEY + 5)

typedef void round_f(float *x, int64_t n);

struct site {
	dsv4_index_score_f *fn;
	struct dsv4_index_score a;
	struct dsv4_seq seq;
	const float *page[N_KEY / PAGE + 1];
	float *q, *w, *keys;
};

static int run(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out)
{
	const struct site *s = arg;
	struct dsv4_index_score a = s->a;
	struct dsv4_seq seq = s->seq;

	seq.pos0 += t0;
	seq.n_tok = a.n_tok = n;
	a.seq = &seq;
	a.q += t0 * N_HEAD * DIM;
	a.w += t0 * N_HEAD;
	a.score = out + t0 * LDS;
	return s->fn(x, &refkit_host, &a);
}

static void site_init(struct site *s)
{
	*s = (struct site){ 0 };
	s->q = refkit_floats(N_TOK * N_HEAD * DIM, 1);
	s->w = refkit_floats(N_TOK * N_HEAD, 1);
	s->keys = refkit_floats((N_KEY + PAGE) * DIM, 1);
	for (int i = 0; i * PAGE < N_KEY; i++)
		s->page[i] = s->keys + i * PAGE * DIM;
	s->a = (struct dsv4_index_score){
		.size = sizeof s->a, .n_head = N_HEAD, .dim = DIM, .n_seq = 1, .scale = 0.25f, .q = s->q,
		.w = s->w, .lds = LDS,
	};
	/* the last token sees all keys, the first two less */
	s->seq = (struct dsv4_seq){
		.size = sizeof s->seq, .ratio = RATIO, .pos0 = (int64_t)N_KEY * RATIO - N_TOK,
		.key = { sizeof(struct dsv4_rows), DIM, N_KEY, PAGE, s->page },
	};
}

static void site_fini(struct site *s)
{
	free(s->q);
	free(s->w);
	free(s->keys);
}

static void round_bf16(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)refkit_bf16((double)x[i]);
}

static void round_fp8(float *x, int64_t n)
{
	double y[DIM];

	for (int64_t i = 0; i < n; i++)
		y[i] = (double)x[i];
	refkit_round_fp8(y, n);
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)y[i];
}

/* Rows of out that ref would leave alone at top-k k. */
static int visible(const struct site *s, int t)
{
	return (int)((s->seq.pos0 + t + 1) / RATIO);
}

static void check(const char *name, round_f *round, int32_t k)
{
	struct site s;
	struct plugkit p;
	float *got = malloc(N_TOK * LDS * sizeof *got), *want = malloc(N_TOK * LDS * sizeof *want);
	int n_scored = 0;

	plugkit_init(&p, name);
	site_init(&s);
	s.fn = (dsv4_index_score_f *)p.provider.plugin->op[0].fn;
	s.a.k = k;
	refkit_same_bits(run, &s, N_TOK, LDS, got);
	for (int i = 0; i < N_TOK * N_HEAD; i++)
		round(s.q + i * DIM, DIM);
	for (int i = 0; i < N_KEY; i++)
		round(s.keys + i * DIM, DIM);
	s.fn = ref_index_score;
	refkit_same_bits(run, &s, N_TOK, LDS, want);
	for (int t = 0; t < N_TOK; t++) {
		bool scored = visible(&s, t) > k;

		n_scored += scored;
		if (scored)
			assert_memory_equal(got + t * LDS, want + t * LDS, LDS * sizeof *got);
		else
			for (int i = 0; i < LDS; i++)
				assert_true(isnan(got[t * LDS + i])); /* as it was */
	}
	assert_int_equal(n_scored, k == 0 ? N_TOK : k == N_KEY - 1 ? 1 : 0);
	site_fini(&s);
	plugkit_fini(&p);
	free(got);
	free(want);
}

static void test_ref_on_rounded_rows(void **state)
{
	const int32_t k[] = { 0, N_KEY - 1, N_KEY };

	(void)state;
	for (int i = 0; i < 3; i++) {
		check("indexer-bf16", round_bf16, k[i]);
		check("indexer-fp8", round_fp8, k[i]);
	}
}

static void test_short_memory(void **state)
{
	struct plugkit p;
	struct site s;
	float *out = malloc(N_TOK * LDS * sizeof *out);

	(void)state;
	plugkit_init(&p, "indexer-bf16");
	site_init(&s);
	s.fn = (dsv4_index_score_f *)p.provider.plugin->op[0].fn;
	for (int n = 0; n < 2; n++) {
		struct dsv4_exec x = { .n_scratch = n };

		assert_int_equal(run(&s, &x, 0, N_TOK, out), -ENOMEM);
		refkit_release(&x);
	}
	site_fini(&s);
	plugkit_fini(&p);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ref_on_rounded_rows),
		cmocka_unit_test(test_short_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
