/* SPDX-License-Identifier: MIT
 * explain_wrong.c - explain on kernels that lose rows, choose wrongly, leave early, or are wrong in one phase only.
 * Threads: the test's. Locks: none. */
#include "plugins/ref/ref.h"
#include "tests/unit/explainkit.h"

#include <math.h>

/* ---- kernels ---- */

/* The oldest rows, whatever their scores. */
static int oldest_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	(void)x, (void)host;
	for (int t = 0; t < a->n_tok; t++) {
		a->count[t] = a->n_vis[t] < a->k ? a->n_vis[t] : a->k;
		for (int i = 0; i < a->count[t]; i++)
			a->rows[t * a->ldr + i] = i;
	}
	return 0;
}

/* Rows that there are not, among others. */
static int strange_topk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_topk *a)
{
	int rc = ref_index_topk(x, host, a);

	a->rows[(a->n_tok - 1) * a->ldr] = 0;
	a->count[a->n_tok - 1] = 1;
	return rc;
}

/* Scores nothing where all rows are kept anyway. */
static int early_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	int rc = ref_index_score(x, host, a);

	for (int t = 0; t < a->n_tok; t++) {
		int64_t n = (a->seq[0].pos0 + t + 1) / a->seq[0].ratio;

		for (int64_t i = 0; i < n && n <= a->k; i++)
			a->score[t * a->lds + i] = -1e30f * (float)i;
	}
	return rc;
}

/* The best row of each token is lost. */
static int losing_score(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	int rc = ref_index_score(x, host, a);

	for (int t = 0; t < a->n_tok; t++) {
		int64_t n = (a->seq[0].pos0 + t + 1) / a->seq[0].ratio, best = 0;
		float *score = a->score + t * a->lds;

		for (int64_t i = 1; i < n; i++)
			best = score[i] > score[best] ? i : best;
		if (n > 1)
			score[best] = -INFINITY;
	}
	return rc;
}

ODDPLUG(oldest, ODDPLUG_OP(index_topk, LOSSY, "odd", oldest_topk));
ODDPLUG(strange, ODDPLUG_OP(index_topk, LOSSY, "odd", strange_topk));
ODDPLUG(early, ODDPLUG_OP(index_score, LOSSY, "odd", early_score));
ODDPLUG(losing, ODDPLUG_OP(index_score, LOSSY, "odd", losing_score));
static struct provider *test_plugins[] = { &oldest, &strange, &early, &losing, NULL };

/* ---- tests ---- */

static void a_lost_row_is_shown_as_the_kernel_ranks_it(void **state)
{
	struct explainkit f, g;

	(void)state;
	explainkit_begin(&f, test_plugins, "indexer=losing", 5);
	explainkit_begin(&g, test_plugins, NULL, 5);
	explainkit_run(&f);
	explainkit_run(&g);
	for (int row = 0; row < N_ROW; row++)
		if (g.r.layer[0].rank[row] == 1) {
			assert_true(g.r.layer[0].selected[row] && !f.r.layer[0].selected[row]);
			assert_int_equal(f.r.layer[0].rank[row], N_ROW);
			assert_true(isinf(f.r.layer[0].score[row]));
		}
	assert_int_equal(f.r.layer[0].n_misselected, 0); /* of its own scores, its selection is right */
	explainkit_end(&f);
	explainkit_end(&g);
}

static void a_wrong_choice_shows_beside_the_ranks(void **state)
{
	struct explainkit f;

	(void)state;
	explainkit_begin(&f, test_plugins, "indexer=oldest", 5);
	explainkit_run(&f);
	assert_true(f.r.layer[0].n_misselected > 0);
	for (int row = 0; row < N_ROW; row++)
		assert_int_equal(f.r.layer[0].selected[row], row < 8);
	explainkit_end(&f);
	explainkit_begin(&f, test_plugins, "indexer=strange", 5);
	explainkit_run(&f);
	assert_int_equal(f.r.layer[0].n_selected, 1);
	explainkit_end(&f);
}

static void what_a_kernel_need_not_score_is_asked_for_again(void **state)
{
	struct explain_result all;
	struct explainkit f, g;

	(void)state;
	explainkit_begin(&f, test_plugins, "indexer=early", 9);
	explainkit_begin(&g, test_plugins, NULL, 9);
	f.o.side.numerics.index_topk = g.o.side.numerics.index_topk = N_ROW + 5;
	explainkit_run(&f);
	explainkit_run(&g);
	explainkit_same(&f.r, &g.r);
	assert_int_equal(f.r.layer[0].n_selected, N_ROW);
	/* One row is not scored at all; its rank is the first. */
	f.o.n_tokens = f.o.n_prompt = 6;
	explainkit_run(&f);
	assert_true(f.r.layer[0].n_row == 1 && isnan(f.r.layer[0].score[0]) && f.r.layer[0].rank[0] == 1);
	assert_true(f.r.layer[0].selected[0]);
	f.o.n_tokens = f.o.n_prompt = 2;
	assert_int_equal(explain_run(&f.o, &all, &f.k.why), 0);
	assert_int_equal(all.layer[0].n_row, 0);
	explain_result_fini(&all);
	explainkit_end(&f);
	explainkit_end(&g);
}

/* The kernels of a phase are asked in that phase. */
static void an_output_token_is_asked_for_in_decode(void **state)
{
	struct explainkit f;

	(void)state;
	explainkit_begin(&f, test_plugins, "indexer.decode=oldest", 5);
	explainkit_run(&f);
	assert_int_equal(f.r.layer[0].n_misselected, 0);
	f.o.n_prompt = N_TOK - 1;
	explainkit_run(&f);
	assert_true(f.r.layer[0].n_misselected > 0);
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
		cmocka_unit_test(a_lost_row_is_shown_as_the_kernel_ranks_it),
		cmocka_unit_test(a_wrong_choice_shows_beside_the_ranks),
		cmocka_unit_test(what_a_kernel_need_not_score_is_asked_for_again),
		cmocka_unit_test(an_output_token_is_asked_for_in_decode),
	};
	return cmocka_run_group_tests(tests, test_init, NULL);
}
