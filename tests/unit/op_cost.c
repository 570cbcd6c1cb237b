/* SPDX-License-Identifier: MIT
 * op_cost.c (test) - tests of what a call must read and compute, which speeds are shown against: by hand.
 * Threads: the test's own. Locks: none. */
#include "plugins/check/case_matrix.h"
#include "plugins/op/op_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct dsv4_weight cost_weight(enum dsv4_wfmt fmt, bool f32_scale, int64_t rows, int64_t cols)
{
	return (struct dsv4_weight){ .size = sizeof(struct dsv4_weight), .fmt = (uint8_t)fmt,
				     .sfmt = (uint8_t)case_matrix_sfmt(fmt, f32_scale), .rows = rows, .cols = cols,
				     .data = "here" };
}

/* All are whole numbers. */
static void cost_equal(enum dsv4_op op, const union case_args *a, int64_t bytes, int64_t flops)
{
	struct op_cost c;

	op_cost(op, a, &c);
	assert_int_equal((int64_t)op_cost_bytes(&c), bytes);
	assert_int_equal((int64_t)c.flops, flops);
}

static void test_matrix(void **state)
{
	static const struct { enum dsv4_wfmt fmt; bool f32_scale; int64_t rows, cols, bytes; } cases[] = {
		{ DSV4_W_F32, false, 3, 5, 60 },
		{ DSV4_W_BF16, false, 3, 5, 30 },
		{ DSV4_W_FP8, false, 130, 200, 26000 + 2 * 2 },
		{ DSV4_W_FP8, true, 130, 200, 26000 + 2 * 2 * 4 },
		{ DSV4_W_FP8, false, 128, 128, 128 * 128 + 1 },
		{ DSV4_W_FP4, false, 4, 33, 4 * 17 + 4 * 2 },
		{ DSV4_W_NVFP4, false, 4, 33, 4 * 17 + 4 * 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct dsv4_weight w = cost_weight(cases[i].fmt, cases[i].f32_scale, cases[i].rows, cases[i].cols);

		assert_int_equal((int64_t)op_cost_weight(&w), cases[i].bytes);
	}
}

static void test_linear(void **state)
{
	struct dsv4_weight w = cost_weight(DSV4_W_FP8, false, 130, 200);
	union case_args a = { .linear = { .n_tok = 3, .n_group = 1, .w = &w } };

	(void)state;
	cost_equal(DSV4_OP_linear, &a, 26004 + 3 * 200 * 4, 2 * 3 * 130 * 200);
	a.linear.n_group = 2; /* each row of the matrix still meets 200 columns, but of twice the x */
	cost_equal(DSV4_OP_linear, &a, 26004 + 3 * 400 * 4, 2 * 3 * 130 * 200);
}

static void test_attn(void **state)
{
	const struct dsv4_rows kv = { .dim = 8, .n = 3, .page_rows = 4 };
	struct dsv4_seq seq = { .n_tok = 2, .ratio = 4, .pos0 = 10, .kv = kv };
	const int32_t count[2] = { 1, 1 }, rows[2] = { 0, 1 };
	union case_args a = { .attn = { .n_tok = 2, .n_head = 2, .dim = 8, .n_seq = 1, .window = 4, .seq = &seq } };

	(void)state;
	/* positions 10 and 11 see 4 window rows each, 5 in all, and 2 and 3 compressed ones, 3 in all */
	cost_equal(DSV4_OP_attn, &a, 4 * 8 * (5 + 3 + 2 * 2), 4 * (4 + 2 + 4 + 3) * 2 * 8);
	a.attn.rows = rows;
	a.attn.count = count;
	a.attn.ldr = 1;
	cost_equal(DSV4_OP_attn, &a, 4 * 8 * (5 + 2 + 2 * 2), 4 * (4 + 1 + 4 + 1) * 2 * 8);
	/* positions 0 and 1: one and two window rows, two in all */
	seq.pos0 = 0;
	a.attn.rows = NULL;
	cost_equal(DSV4_OP_attn, &a, 4 * 8 * (2 + 0 + 2 * 2), 4 * (1 + 2) * 2 * 8);
}

static void test_moe(void **state)
{
	struct dsv4_weight gate = cost_weight(DSV4_W_BF16, false, 5, 16), up = cost_weight(DSV4_W_F32, false, 4, 8);
	const struct dsv4_expert e = { up, cost_weight(DSV4_W_F32, false, 8, 4), up };
	struct dsv4_expert all[3] = { e, e, e };
	const int32_t ids[2] = { 1, 1 };
	union case_args route = { .moe_route = { .n_tok = 3, .dim = 16, .n_expert = 5, .k = 2, .gate = &gate } };
	union case_args a = { .moe_experts = { .n_tok = 2, .dim = 8, .inter = 4, .n_expert = 3, .k = 1, .n_shared = 1,
					       .expert = all, .shared = &e, .ids = ids } };

	(void)state;
	cost_equal(DSV4_OP_moe_route, &route, 5 * 16 * 2 + 3 * 16 * 4, 2 * 3 * 5 * 16);
	/* one expert of three is read, and the shared one */
	cost_equal(DSV4_OP_moe_experts, &a, 2 * 8 * 4 + 2 * (3 * 4 * 8 * 4), 2 * 2 * 6 * 8 * 4);
	all[1].w1.data = NULL; /* it is not here */
	cost_equal(DSV4_OP_moe_experts, &a, 2 * 8 * 4 + 3 * 4 * 8 * 4, 2 * 6 * 8 * 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix), cmocka_unit_test(test_linear), cmocka_unit_test(test_attn),
		cmocka_unit_test(test_moe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
