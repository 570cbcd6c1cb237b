/* SPDX-License-Identifier: MIT
 * sequence.c - sequence state: what is kept, what a failed step leaves, how much it holds.
 * Threads: main. Locks: none. */
#include "engine/model/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sequence_layout layout;

/* Layers: window only, ratio 4, ratio 128. */
static int setup(void **state)
{
	static struct model_config c = {
		.n_layers = 3, .head_dim = 6, .index_dim = 3, .window = 10, .compress_ratio = { 0, 4, 128 },
	};

	(void)state;
	sequence_layout_init(&layout, &c);
	return 0;
}

static float mark(int layer, int tail, int64_t pos)
{
	return (float)(pos * 16 + layer * 5 + tail + 1);
}

static void fill(struct sequence *s, int64_t pos, int n, float sign)
{
	for (int i = 0; i < layout.n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++)
			for (int64_t p = pos; p < pos + n && layout.layer[i].width[t]; p++)
				for (int k = 0; k < layout.layer[i].width[t]; k++)
					sequence_tail(s, i, (enum sequence_tail)t, p)[k] =
						sign * mark(i, t, p);
}

static void fill_rows(struct sequence *s, int64_t pos, int n, float sign)
{
	for (int i = 0; i < layout.n_layer; i++)
		for (int k = 0; k < SEQUENCE_N_ROWS && layout.layer[i].dim[k]; k++)
			for (int64_t r = pos / layout.layer[i].ratio;
			     r < (pos + n) / layout.layer[i].ratio; r++)
				sequence_row(s, i, (enum sequence_rows)k, r)[0] = sign * mark(i, 8 + k, r);
}

static void check_tail(struct sequence *s, int layer, int t, int64_t from, int64_t end)
{
	const float *first = sequence_tail(s, layer, (enum sequence_tail)t, from);
	int width = layout.layer[layer].width[t];

	for (int64_t p = from; p < end; p++)
		for (int k = 0; k < width; k++)
			if (first[(p - from) * width + k] != mark(layer, t, p))
				fail_msg("layer %d tail %d position %lld of %lld", layer, t, (long long)p,
					(long long)end);
}

/* All that the next token may look at is there. */
static void check(struct sequence *s)
{
	int64_t pos = sequence_pos(s), group = pos / 4 * 4;

	for (int i = 0; i < 3; i++)
		check_tail(s, i, SEQUENCE_WINDOW, pos > 9 ? pos - 9 : 0, pos);
	for (int t = SEQUENCE_KV; t <= SEQUENCE_INDEX_SCORE; t++)
		check_tail(s, 1, t, group >= 4 ? group - 4 : 0, pos);
	for (int t = SEQUENCE_KV; t <= SEQUENCE_SCORE; t++)
		check_tail(s, 2, t, pos / 128 * 128, pos);
	for (int i = 1; i < 3; i++)
		for (int k = 0; k < SEQUENCE_N_ROWS && layout.layer[i].dim[k]; k++) {
			struct dsv4_rows r = sequence_rows(s, i, (enum sequence_rows)k,
				pos / layout.layer[i].ratio);

			assert_int_equal(r.page_rows * layout.layer[i].ratio, SEQUENCE_BLOCK);
			for (int64_t n = 0; n < r.n; n++)
				assert_true(r.page[n / r.page_rows][n % r.page_rows * r.dim] ==
					    mark(i, 8 + k, n));
		}
}

static void step(struct sequence *s, int n)
{
	int64_t pos = sequence_pos(s);

	/* a step that fails after it wrote more than the one that succeeds */
	assert_int_equal(sequence_reserve(s, 2 * n + 3, queue_new(device_cpu(), NULL)), 0);
	fill(s, pos, 2 * n + 3, -1);
	fill_rows(s, pos, 2 * n + 3, -1);
	check(s);
	assert_int_equal(sequence_reserve(s, n, queue_new(device_cpu(), NULL)), 0);
	fill(s, pos, n, 1);
	fill_rows(s, pos, n, 1);
	sequence_commit(s, n);
}

static void test_keeps_what_is_needed(void **state)
{
	static const int cuts[] = { 1, 2, 3, 7, 64, 127, 128, 200 };

	(void)state;
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
		struct sequence *s;

		assert_int_equal(sequence_new(&layout, &s), 0);
		while (sequence_pos(s) < 700) {
			assert_int_equal(sequence_reserve(s, 1, queue_new(device_cpu(), NULL)), 0);
			check(s);
			step(s, cuts[i]);
		}
		sequence_free(&s);
		assert_null(s);
	}
}

/* Before position 0 of an overlapping layer lies a group that does not exist; its rows can be read: zeros. */
static void test_group_before_the_first(void **state)
{
	static const float zero[4 * 12];
	struct sequence *s;

	(void)state;
	assert_int_equal(sequence_new(&layout, &s), 0);
	assert_int_equal(sequence_reserve(s, 1, queue_new(device_cpu(), NULL)), 0);
	assert_memory_equal(sequence_tail(s, 1, SEQUENCE_KV, -4), zero, sizeof zero);
	sequence_free(&s);
}

static void test_bytes(void **state)
{
	size_t grown, base;
	struct sequence *s;

	(void)state;
	assert_int_equal(sequence_new(&layout, &s), 0);
	for (int i = 0; i < 40; i++)
		step(s, 1);
	base = sequence_bytes(s);
	step(s, 4000);
	grown = sequence_bytes(s);
	step(s, 1); /* a short step gives the long one's room back */
	assert_true(sequence_bytes(s) < grown);
	assert_true(sequence_bytes(s) > base);
	assert_in_range(sequence_bytes(s), sequence_layout_bytes(&layout, sequence_pos(s)) / 2,
		sequence_layout_bytes(&layout, sequence_pos(s)) * 2);
	sequence_free(&s);
}

static void test_mtp_has_its_own_position(void **state)
{
	struct sequence *s;

	(void)state;
	assert_int_equal(sequence_new(&layout, &s), 0);
	for (int64_t p = 0; p < 100; p++) {
		assert_int_equal(sequence_mtp_reserve(s, 1, queue_new(device_cpu(), NULL)), 0);
		for (int64_t q = p > 9 ? p - 9 : 0; q < p; q++)
			assert_true(sequence_tail(s, 3, SEQUENCE_WINDOW, q)[0] == mark(3, 0, q));
		sequence_tail(s, 3, SEQUENCE_WINDOW, p)[0] = mark(3, 0, p);
		sequence_mtp_commit(s, 1);
	}
	assert_int_equal(sequence_mtp_pos(s), 100);
	assert_int_equal(sequence_pos(s), 0);
	sequence_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keeps_what_is_needed),
		cmocka_unit_test(test_group_before_the_first),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_mtp_has_its_own_position),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
