/* SPDX-License-Identifier: MIT
 * explain_verify.c - the top-k that takes a text is one that was tried, though ranks change with it.
 * Threads: main. Locks: none. */
#include "daemon/verbs/explain_verify.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 400
#define RATIO 4
#define LAST (ROWS - 1) /* the only row that holds the text */

/* Two layers with an indexer: the first ranks the text's row alike whatever top-k is, the second by it. */
struct two_layers {
	int first;
	int (*second)(int topk);
	int runs, fail;                /* fail: the run that fails; 0: none */
};

static void fill_layer(struct explain_layer *l, int rank, int topk)
{
	*l = (struct explain_layer){ .ratio = RATIO, .n_row = ROWS, .top_k = topk };
	l->score = mem_new(ROWS * sizeof *l->score);
	l->rank = mem_new(ROWS * sizeof *l->rank);
	l->selected = mem_new(ROWS * sizeof *l->selected);
	for (int i = 0; i < ROWS; i++)
		l->rank[i] = i + 1;
	l->rank[rank - 1] = ROWS; /* the two have changed places */
	l->rank[LAST] = rank;
	for (int i = 0; i < ROWS; i++)
		l->selected[i] = l->rank[i] <= topk;
}

static int again(void *arg, int topk, struct explain_result *ret_r, struct buf *why)
{
	struct two_layers *m = arg;

	if (m->fail && m->runs == m->fail)
		return buf_why(why, RC_TIMEOUT, "it took too long");
	m->runs++;
	*ret_r = (struct explain_result){ .n_layer = 2 };
	ret_r->layer = mem_new(2 * sizeof *ret_r->layer);
	fill_layer(&ret_r->layer[0], m->first, topk);
	fill_layer(&ret_r->layer[1], m->second(topk), topk);
	return 0;
}

static const struct token_span text = { .begin = LAST * RATIO, .end = LAST * RATIO + 1 };

/* After a run under `topk`. */
static void verify(struct explain_verify *v, struct two_layers *m, int topk, int reruns)
{
	struct explain_result r;

	assert_int_equal(again(m, topk, &r, NULL), 0);
	*v = (struct explain_verify){ .place = &text, .n_place = 1, .reruns = reruns, .again = again, .arg = m };
	assert_int_equal(explain_verify(v, &r), 0);
	assert_true(m->runs <= 1 + reruns && v->n_tried == m->runs);
	explain_result_fini(&r);
}

static int verified(const struct explain_verify *v, int layer)
{
	assert_int_equal(explain_verified(v, 0, layer, EXPLAIN_SOME), explain_verified(v, 0, layer, EXPLAIN_WHOLE));
	return explain_verified(v, 0, layer, EXPLAIN_WHOLE);
}

static int steady(int topk)
{
	(void)topk;
	return 42;
}

static int rises(int topk) /* 252 at 32; taken from 280 on */
{
	return topk < 280 ? 245 + topk / 4 : 260;
}

static int comes_and_goes(int topk) /* from 100 on at even ones only, from 200 on always */
{
	return topk >= 200 || (topk >= 100 && topk % 2 == 0) ? 50 : ROWS;
}

static int runs_ahead(int topk)
{
	return topk < ROWS ? topk + 1 : ROWS;
}

static void ranks_that_do_not_change_take_two_runs(void **state)
{
	struct two_layers m = { .first = 24, .second = steady };
	struct explain_verify v;

	(void)state;
	verify(&v, &m, 32, EXPLAIN_RERUNS);
	assert_int_equal(verified(&v, EXPLAIN_ALL), 42);
	assert_int_equal(verified(&v, 0), 24);
	assert_int_equal(verified(&v, 1), 42);
	assert_int_equal(v.n_tried - 1, 2);
	assert_int_equal(v.why.len, 0);
	explain_verify_fini(&v);
}

/* What is told takes it, one less does not, whatever lies between. */
static void the_top_k_of_a_rank_that_rises_is_not_its_first_rank(void **state)
{
	static int (*const seconds[])(int) = { rises, comes_and_goes, runs_ahead };

	(void)state;
	for (size_t i = 0; i < mem_countof(seconds); i++)
		for (int topk = 1; topk < 40; topk++) {
			struct two_layers m = { .first = 24, .second = seconds[i] };
			struct explain_verify v;
			int k;

			verify(&v, &m, topk, 40);
			k = verified(&v, EXPLAIN_ALL);
			assert_in_range(k, 24, ROWS);
			assert_true(seconds[i](k) <= k && seconds[i](k - 1) > k - 1);
			assert_int_equal(verified(&v, 1), k);
			assert_int_equal(verified(&v, 0), 24);
			explain_verify_fini(&v);
		}
}

static void what_no_run_was_left_for_is_not_told(void **state)
{
	(void)state;
	for (int reruns = 0; reruns < 5; reruns++) {
		struct two_layers m = { .first = 24, .second = runs_ahead };
		struct explain_verify v;

		verify(&v, &m, 32, reruns);
		assert_int_equal(verified(&v, EXPLAIN_ALL), 0);
		assert_int_equal(verified(&v, 0), 24);
		assert_non_null(strstr(buf_str(&v.why), "reruns were used up"));
		explain_verify_fini(&v);
	}
}

static void a_rerun_that_fails_says_why(void **state)
{
	struct two_layers m = { .first = 24, .second = steady, .fail = 2 };
	struct explain_verify v;

	(void)state;
	verify(&v, &m, 32, EXPLAIN_RERUNS);
	assert_int_equal(verified(&v, EXPLAIN_ALL), 0);
	assert_string_equal(buf_str(&v.why), "it took too long");
	explain_verify_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_do_not_change_take_two_runs),
		cmocka_unit_test(the_top_k_of_a_rank_that_rises_is_not_its_first_rank),
		cmocka_unit_test(what_no_run_was_left_for_is_not_told),
		cmocka_unit_test(a_rerun_that_fails_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
