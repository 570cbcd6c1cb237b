/* SPDX-License-Identifier: MIT
 * explain.c - tests of explain.c on the tiny model: scores and ranks worked out by hand, top-k values that are tried.
 * Threads: the test's. Locks: none. */
#include "engine/base/rc.h"
#include "plugins/ref/ref.h"
#include "plugins/ref/vec.h"
#include "tests/unit/explainkit.h"
#include "tests/unit/sanitized.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

/* Index_topk's calls alternate between the two layers, as each step is one call for each. */
static int test_calls, test_k;

static int test_pick(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a, int t, int n,
	int k)
{
	struct dsv4_index_topk b = *a;

	b.n_vis += t;
	b.score += t * a->lds;
	b.rows += t * a->ldr;
	b.count += t;
	b.n_tok = n;
	b.k = k;
	return ref_index_topk(x, host, &b);
}

/* Top 8 everywhere, but in the second layer the last token's is test_k. */
static int last_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	int rc = test_pick(x, host, a, 0, a->n_tok, 8);

	return rc == 0 && test_calls++ % LAYERS == 1 ? test_pick(x, host, a, a->n_tok - 1, 1, test_k) : rc;
}

/* Half of the scores are equal, some with another sign of nought, some are none. */
static int tied_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	static const float value[] = { 0.0f, -0.0f, 1.0f, NAN, 0.0f, 1.0f, -2.0f };

	(void)x, (void)host;
	for (int t = 0; t < a->n_tok; t++)
		for (int64_t i = 0; i < a->lds; i++)
			a->score[t * a->lds + i] = value[i % 7];
	return 0;
}

static int failing_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	(void)x, (void)host, (void)a;
	return -5;
}

ODDPLUG(last, ODDPLUG_OP(index_topk, LOSSY, "odd", last_topk));
ODDPLUG(tied, ODDPLUG_OP(index_score, LOSSY, "odd", tied_score));
ODDPLUG(failing, ODDPLUG_OP(index_score, LOSSY, "odd", failing_score));
static struct provider *test_plugins[] = { &last, &tied, &failing, NULL };

/* ---- by hand ---- */

struct by_hand {
	int n;                         /* calls seen */
	double score[LAYERS][N_ROW];
};

static double by_hand_score(const struct dsv4_index_score *a, int64_t t, int64_t row)
{
	const struct dsv4_rows *keys = &a->seq[0].key;
	const float *key = ref_row(keys, row);
	double sum = 0;

	for (int h = 0; h < a->n_head; h++) {
		double dot = 0;

		for (int i = 0; i < a->dim; i++)
			dot += (double)a->q[(t * a->n_head + h) * a->dim + i] * (double)key[i];
		sum += (dot > 0 ? dot : 0) * (double)a->w[t * a->n_head + h];
	}
	return sum * (double)a->scale;
}

static void by_hand_before(void *arg, const struct forward_op *o)
{
	const struct dsv4_index_score *a = o->args;
	struct by_hand *b = arg;

	if (o->op != DSV4_OP_index_score)
		return;
	assert_int_equal(a->n_tok, N_TOK);
	for (int row = 0; row < N_ROW; row++)
		b->score[b->n][row] = by_hand_score(a, N_TOK - 1, row);
	b->n++;
}

static void scores_and_ranks_are_those_worked_out_by_hand(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed < 5; seed += WARM_STEP) {
		struct by_hand b = { 0 };
		struct forward_watch watch = { .arg = &b, .before = by_hand_before };
		struct explainkit f;
		struct sequence *s;

		explainkit_begin(&f, test_plugins, NULL, seed);
		explainkit_run(&f);
		s = tinykit_sequence(&f.k);
		assert_int_equal(forward_run(f.k.forward,
			&(struct forward_batch){ .kset = f.k.ref, .numerics = &f.o.side.numerics,
						 .item = &(struct forward_item){ s, f.token, N_TOK, 0 }, .n_item = 1,
						 .watch = &watch }, &f.k.why), 0);
		assert_int_equal(b.n, LAYERS);
		for (int i = 0; i < LAYERS; i++) {
			const struct explain_layer *l = &f.r.layer[i];

			assert_int_equal(l->n_row, N_ROW);
			assert_int_equal(l->n_selected, 8);
			assert_int_equal(l->n_misselected, 0);
			for (int row = 0; row < N_ROW; row++) {
				int rank = 1;

				assert_true(fabs((double)l->score[row] - b.score[i][row]) <
					    1e-4 * (1 + fabs(b.score[i][row])));
				for (int n = 0; n < N_ROW; n++)
					rank += l->score[n] > l->score[row] ||
						(l->score[n] == l->score[row] && n < row);
				assert_int_equal(l->rank[row], rank);
				assert_int_equal(l->selected[row], rank <= 8);
			}
		}
		sequence_free(&s);
		explainkit_end(&f);
	}
}

static void equal_scores_and_no_numbers_rank_as_the_selection_has_it(void **state)
{
	struct explainkit f;

	(void)state;
	explainkit_begin(&f, test_plugins, "indexer=tied", 7);
	for (int k = 1; k < N_ROW; k += 3) {
		f.o.side.numerics.index_topk = k;
		explainkit_run(&f);
		assert_int_equal(f.r.layer[0].n_selected, k);
		assert_int_equal(f.r.layer[0].n_misselected, 0);
	}
	assert_int_equal(f.r.layer[0].rank[2], 1); /* 1.0 first, the lower row of two */
	assert_int_equal(f.r.layer[0].rank[5], 2);
	assert_true(f.r.layer[0].rank[0] < f.r.layer[0].rank[1] && f.r.layer[0].rank[1] < f.r.layer[0].rank[4]);
	assert_int_equal(f.r.layer[0].rank[N_ROW - 1 - (N_ROW - 1 - 3) % 7], N_ROW); /* the last NaN is last of all */
	explainkit_end(&f);
}

/* ---- the smallest top-k ---- */

/* What ranks say of a row, and of three lengths of text, is tried: that top-k takes it, one less does not. */
static void test_try(struct explainkit *f, int layer, int64_t begin, int64_t end,
		     void (*set)(struct explainkit *f, int k))
{
	struct explain_text base, t;

	explain_text(&f->r.layer[layer], begin, end, &base);
	assert_true(base.topk_any >= 1 && base.topk_any <= base.topk_text && base.topk_text <= base.topk_all);
	for (int less = 0; less < 2; less++) {
		set(f, base.topk_any - less);
		explainkit_run(f);
		explain_text(&f->r.layer[layer], begin, end, &t);
		assert_int_equal(t.n_selected > 0, !less);
		assert_int_equal(t.margin >= 0, !less);
		set(f, base.topk_text - less);
		explainkit_run(f);
		explain_text(&f->r.layer[layer], begin, end, &t);
		assert_int_equal(t.n_held, base.n_held);
		assert_int_equal(t.n_seen == t.n_held, !less);
		set(f, base.topk_all - less);
		explainkit_run(f);
		explain_text(&f->r.layer[layer], begin, end, &t);
		assert_int_equal(t.n_selected == t.end - t.first, !less);
	}
}

static void test_set_parameter(struct explainkit *f, int k)
{
	f->o.side.numerics.index_topk = k;
}

static void test_set_last(struct explainkit *f, int k)
{
	(void)f;
	test_k = k;
	test_calls = 0;
}

/* Texts whose best row is not the best of all, so that "one less" is a top-k. */
static void the_named_top_k_takes_the_text_and_one_less_does_not(void **state)
{
	static const struct {
		const char *set;
		int layer;
		void (*with)(struct explainkit *f, int k);
	} row[] = {
		{ NULL, 0, test_set_parameter }, /* the first indexer: nothing before it depends on top-k */
		{ "indexer=last", 1, test_set_last }, /* the second: all else must be held as it is */
	};
	int tried = 0;

	(void)state;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (uint32_t seed = 11; seed < 13; seed++)
			for (int64_t begin = 3; begin < N_TOK - 20; begin += 27 * WARM_STEP) {
				struct explain_text t;
				struct explainkit f;

				explainkit_begin(&f, test_plugins, row[i].set, seed);
				if (row[i].set)
					f.o.side.numerics.index_topk = N_TOK; /* room for any choice */
				row[i].with(&f, 8);
				explainkit_run(&f);
				explain_text(&f.r.layer[row[i].layer], begin, begin + 1 + begin % 11, &t);
				if (t.topk_any > 1) {
					test_try(&f, row[i].layer, begin, begin + 1 + begin % 11, row[i].with);
					tried++;
				}
				explainkit_end(&f);
			}
	assert_true(tried > 6 / WARM_STEP);
}

/* ---- which rows hold a token ---- */

static void a_token_is_held_by_its_group_and_the_next(void **state)
{
	static const struct {
		int64_t begin, end, first, last, held;
	} row[] = {
		{ 0, 1, 0, 1, 1 }, { 3, 4, 0, 1, 1 }, { 4, 5, 1, 2, 1 }, { 7, 9, 1, 3, 2 }, { 0, 100, 0, 24, 100 },
		{ 96, 100, 24, 24, 4 }, /* the next group is not complete */
		{ 98, 103, 24, 24, 2 }, { 100, 103, 25, 24, 0 },
	};
	struct explainkit f;
	int64_t begin, end;

	(void)state;
	explainkit_begin(&f, test_plugins, NULL, 3);
	explainkit_run(&f);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct explain_text t;

		explain_text(&f.r.layer[0], row[i].begin, row[i].end, &t);
		assert_int_equal(t.end - t.first, row[i].last - row[i].first + 1);
		if (t.end > t.first)
			assert_int_equal(t.first, row[i].first);
		assert_int_equal(t.n_held, row[i].held);
		assert_int_equal(t.topk_any > 0, row[i].held > 0);
		for (int64_t n = t.first; n < t.end; n++) {
			explain_row_tokens(&f.r.layer[0], n, &begin, &end);
			assert_true(begin < row[i].end && end > row[i].begin);
		}
	}
	explain_row_tokens(&f.r.layer[0], 0, &begin, &end);
	assert_true(begin == 0 && end == 4);
	explain_row_tokens(&f.r.layer[0], 5, &begin, &end);
	assert_true(begin == 16 && end == 24);
	explainkit_end(&f);
}

/* ---- how it is run ---- */

static void steps_and_phases_do_not_matter_to_right_kernels(void **state)
{
	static const int way[][2] = { { 7, N_TOK }, { 512, N_TOK - 9 }, { 50, 1 }, { 1, N_TOK } };
	struct explainkit f, g;

	(void)state;
	explainkit_begin(&g, test_plugins, NULL, 21);
	explainkit_run(&g);
	for (size_t i = 0; i < sizeof way / sizeof *way; i += WARM_STEP) {
		explainkit_begin(&f, test_plugins, NULL, 21);
		f.o.chunk = way[i][0];
		f.o.n_prompt = way[i][1];
		explainkit_run(&f);
		explainkit_same(&f.r, &g.r);
		explainkit_end(&f);
	}
	explainkit_end(&g);
}

/* Of several that may ask, the one that asking each by itself finds best. */
static void the_best_of_many_is_the_best_of_each(void **state)
{
	static const struct explain_span span[] = { { 9, 12 }, { 40, 41 } };
	const int first = N_TOK - 6;
	struct explain_result best = { 0 };
	struct explainkit f;
	int taking = -1, at_first = 0, decoded = 0;
	int32_t rank = 0;

	(void)state;
	for (uint32_t seed = 31; seed < 34; seed++, taking = -1) {
		explainkit_begin(&f, test_plugins, NULL, seed);
		f.o.n_prompt = first + 1;
		for (int n = first + 1; n <= N_TOK; n++) {
			int32_t now_rank = INT32_MAX;
			int now = 0;

			f.o.n_tokens = n;
			explainkit_run(&f);
			for (int l = 0; l < LAYERS; l++) {
				struct explain_text a, b;

				explain_text(&f.r.layer[l], span[0].begin, span[0].end, &a);
				explain_text(&f.r.layer[l], span[1].begin, span[1].end, &b);
				now += a.n_selected + b.n_selected > 0;
				now_rank = a.topk_any < now_rank ? a.topk_any : now_rank;
				now_rank = b.topk_any < now_rank ? b.topk_any : now_rank;
			}
			if (now > taking || (now == taking && now_rank < rank)) {
				taking = now;
				rank = now_rank;
				explain_result_fini(&best);
				best = f.r;
				f.r = (struct explain_result){ 0 };
			}
		}
		f.o.first = first;
		f.o.span = span;
		f.o.n_span = 2;
		explainkit_run(&f);
		explainkit_same(&f.r, &best);
		at_first += best.position == first;
		decoded += best.position > first;
		explain_result_fini(&best);
		explainkit_end(&f);
	}
	assert_true(decoded > 0 && at_first < 3);
}

static int test_left;
static int64_t test_done;

static bool test_stop(void *arg)
{
	(void)arg;
	return test_left-- == 0;
}

static void test_progress(void *arg, int64_t done, int64_t total)
{
	(void)arg;
	assert_true(done > test_done && done <= total && total == N_TOK);
	test_done = done;
}

static void it_can_be_stopped_and_says_why_it_cannot_be_run(void **state)
{
	struct explain_result r;
	struct explainkit f;

	(void)state;
	explainkit_begin(&f, test_plugins, "indexer=failing", 5);
	f.o.stop = test_stop;
	f.o.progress = test_progress;
	for (test_left = 0; test_left < 40;) {
		int left = test_left;

		test_done = 0;
		assert_int_equal(explain_run(&f.o, &r, &f.k.why), RC_CANCELLED);
		test_left = left + 13;
	}
	test_left = -1;
	assert_int_equal(explain_run(&f.o, &r, &f.k.why), RC_KERNEL);
	assert_non_null(strstr(buf_str(&f.k.why), "index_score of failing failed in layer 2, prefill"));
	assert_non_null(strstr(buf_str(&f.k.why), "(set indexer=failing)"));
	f.o.n_tokens = 0;
	assert_int_equal(explain_run(&f.o, &r, &f.k.why), RC_INVALID);
	f.o.n_tokens = f.k.model->config->max_context + 1;
	assert_int_equal(explain_run(&f.o, &r, &f.k.why), RC_CONTEXT);
	explainkit_end(&f);
	explainkit_begin(&f, test_plugins, NULL, 5);
	f.o.progress = test_progress;
	f.o.chunk = 20;
	test_done = 0;
	explainkit_run(&f);
	assert_int_equal(test_done, N_TOK);
	explainkit_end(&f);
}

static int test_init(void **state)
{
	(void)state;
	oddplug_init(test_plugins);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scores_and_ranks_are_those_worked_out_by_hand),
		cmocka_unit_test(equal_scores_and_no_numbers_rank_as_the_selection_has_it),
		cmocka_unit_test(the_named_top_k_takes_the_text_and_one_less_does_not),
		cmocka_unit_test(a_token_is_held_by_its_group_and_the_next),
		cmocka_unit_test(steps_and_phases_do_not_matter_to_right_kernels),
		cmocka_unit_test(the_best_of_many_is_the_best_of_each),
		cmocka_unit_test(it_can_be_stopped_and_says_why_it_cannot_be_run),
	};
	warm_say();
	return cmocka_run_group_tests(tests, test_init, NULL);
}
