/* SPDX-License-Identifier: MIT
 * sequence_ranks.c - a sequence whose rows lie on several GPUs: what is kept of it, and resumed with, is kept for all.
 * Threads: main. Locks: none. */
#include "engine/device/device.h"
#include "engine/device/queue.h"
#include "engine/model/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_RANK 3
#define N_TOK 300
#define EDGE 256

static struct sequence_layout layout[N_RANK];

static int setup(void **state)
{
	struct model_config c = { .n_layers = 2, .head_dim = 8, .index_dim = 4, .window = 64,
				  .compress_ratio = { 4, 128 } };

	(void)state;
	for (int i = 0; i < N_RANK; i++)
		sequence_layout_init(&layout[i], &c);
	for (int i = 1; i < N_RANK; i++)
		layout[0].other[layout[0].n_other++] = &layout[i];
	return 0;
}

/* What a rank's kernels would have written; the ranks differ here, so that a mixture shows. */
static float value(int rank, int64_t i)
{
	return (float)(rank * 100000 + i);
}

static void compute(struct sequence *s, int n)
{
	for (int rank = 0; rank < N_RANK; rank++) {
		struct sequence *r = sequence_rank(s, rank);

		assert_int_equal(sequence_reserve(r, n, NULL), 0);
		for (int64_t row = 0; row < n / 4; row++)
			*sequence_row(r, 0, SEQUENCE_ROWS_KV, row) = value(rank, row);
		for (int64_t pos = 0; pos < n; pos++)
			*sequence_tail(r, 0, SEQUENCE_WINDOW, pos) = value(rank, pos);
	}
	sequence_commit(s, n);
}

static void expect_rows(struct sequence *s, int rank, int as)
{
	struct dsv4_rows rows = sequence_rows(sequence_rank(s, rank), 0, SEQUENCE_ROWS_KV, EDGE / 4);

	for (int64_t i = 0; i < EDGE / 4; i++)
		assert_true(rows.page[i / rows.page_rows][i % rows.page_rows * rows.dim] == value(as, i));
}

static void keep(struct sequence_block **block, struct sequence_state **st)
{
	struct sequence *s;

	assert_int_equal(sequence_new(&layout[0], &s), 0);
	compute(s, N_TOK);
	for (int rank = 0; rank < N_RANK; rank++)
		assert_int_equal(sequence_pos(sequence_rank(s, rank)), N_TOK);
	for (int i = 0; i < 2; i++)
		block[i] = sequence_share(s, i);
	assert_true(sequence_can_save(s, EDGE));
	assert_int_equal(sequence_save(s, EDGE, st), 0);
	sequence_free(&s); /* what was shared stands on its own */
}

static void drop(struct sequence_block **block, struct sequence_state **st)
{
	sequence_block_unref(&block[0]);
	sequence_block_unref(&block[1]);
	sequence_state_unref(st);
}

static void test_shared_blocks_are_each_ranks_own(void **state)
{
	struct sequence_block *block[2];
	struct sequence_state *st;
	struct sequence *s;

	(void)state;
	keep(block, &st);
	assert_int_equal(sequence_new(&layout[0], &s), 0);
	assert_int_equal(sequence_resume(s, block, st), 0);
	drop(block, &st);
	for (int rank = 0; rank < N_RANK; rank++) {
		struct sequence *r = sequence_rank(s, rank);

		assert_int_equal(sequence_pos(r), EDGE);
		expect_rows(s, rank, rank);
		/* a state is rank 0's rows for all */
		assert_true(*sequence_tail(r, 0, SEQUENCE_WINDOW, EDGE - 1) == value(0, EDGE - 1));
	}
	sequence_free(&s);
}

/* Rows that come from a file were written for rank 0 alone. */
static void test_blocks_of_a_file_are_copied_to_all(void **state)
{
	struct sequence_block *kept[2], *block[2];
	struct sequence_state *st;
	struct sequence *s;

	(void)state;
	keep(kept, &st);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sequence_block_new(&layout[0], &block[i]), 0);
		memcpy(sequence_block_rows(&layout[0], block[i], 0, SEQUENCE_ROWS_KV),
		       sequence_block_rows(&layout[0], kept[i], 0, SEQUENCE_ROWS_KV),
		       SEQUENCE_BLOCK / 4 * (size_t)layout[0].layer[0].dim[SEQUENCE_ROWS_KV] * sizeof(float));
		sequence_block_unref(&kept[i]);
	}
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(sequence_new(&layout[0], &s), 0);
		assert_int_equal(sequence_resume(s, block, st), 0);
		for (int rank = 0; rank < N_RANK; rank++)
			expect_rows(s, rank, 0);
		sequence_free(&s);
	}
	drop(block, &st);
}

/* Admission counts what one GPU holds. */
/* Of the draft block, too, whose rows slide on as positions are committed. */
static void test_draft_positions_are_committed_on_all(void **state)
{
	struct queue *q = queue_new(device_cpu(), NULL);
	struct sequence *s;

	(void)state;
	assert_int_equal(sequence_new(&layout[0], &s), 0);
	for (int64_t pos = 0; pos < N_TOK; pos += 20) {
		for (int rank = 0; rank < N_RANK; rank++) {
			struct sequence *r = sequence_rank(s, rank);

			assert_int_equal(sequence_mtp_pos(r), pos);
			assert_int_equal(sequence_mtp_reserve(r, 20, q), 0);
			*sequence_tail(r, layout[0].n_layer, SEQUENCE_WINDOW, pos) = value(rank, pos);
		}
		sequence_mtp_commit(s, 20);
	}
	for (int rank = 0; rank < N_RANK; rank++)
		assert_true(*sequence_tail(sequence_rank(s, rank), layout[0].n_layer, SEQUENCE_WINDOW, N_TOK - 20) ==
			    value(rank, N_TOK - 20));
	sequence_free(&s);
	queue_free(&q);
}

static void test_bytes_are_those_of_one(void **state)
{
	struct sequence *s, *alone;

	(void)state;
	assert_int_equal(sequence_new(&layout[0], &s), 0);
	assert_int_equal(sequence_new(&layout[1], &alone), 0);
	compute(s, N_TOK);
	assert_int_equal(sequence_reserve(alone, N_TOK, NULL), 0);
	assert_int_equal(sequence_bytes(s), sequence_bytes(alone));
	assert_int_equal(sequence_layout_bytes(&layout[0], N_TOK), sequence_layout_bytes(&layout[1], N_TOK));
	sequence_free(&s);
	sequence_free(&alone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_blocks_are_each_ranks_own),
		cmocka_unit_test(test_blocks_of_a_file_are_copied_to_all),
		cmocka_unit_test(test_draft_positions_are_committed_on_all),
		cmocka_unit_test(test_bytes_are_those_of_one),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
