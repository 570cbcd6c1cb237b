/* SPDX-License-Identifier: MIT
 * op_io.c - tests of what an op is said to write: ref writes that, all of it, nothing else, and where it is told.
 * Threads: the test's own. Locks: none. */
#include "plugins/op/op_io.h"
#include "plugins/ref/ref.h"
#include "tests/unit/refkit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IO_POISON 0x5a5a5a5a
#define IO_MAX_VALUES 4096
#define IO_PAGE 2

/* One small call of an op, its memory, and what its outputs should be said to be. */
struct io_call {
	enum dsv4_op op;
	union {
		struct dsv4_linear linear;
		struct dsv4_rms_norm rms_norm;
		struct dsv4_rope rope;
		struct dsv4_hc_pre hc_pre;
		struct dsv4_hc_post hc_post;
		struct dsv4_hc_head hc_head;
		struct dsv4_compress compress;
		struct dsv4_index_score index_score;
		struct dsv4_index_topk index_topk;
		struct dsv4_attn attn;
		struct dsv4_moe_route moe_route;
		struct dsv4_moe_experts moe_experts;
		struct dsv4_sum sum;
	} args;
	int64_t rows;
	int n_out;
	struct op_out want[OP_IO_MAX_OUT]; /* name, kind and shape; data is the memory made for it */
	int32_t valid[OP_IO_MAX_OUT][8];   /* of each row, where want.valid is set */
	void *mem[32];
	int n_mem;
};

static float *io_floats(struct io_call *c, int64_t n)
{
	return c->mem[c->n_mem++] = refkit_floats((size_t)n, 1);
}

static void io_fini(struct io_call *c)
{
	while (c->n_mem > 0)
		free(c->mem[--c->n_mem]);
}

/* Poisoned memory for one more output, of which the test expects this. */
static void *io_out(struct io_call *c, const char *name, int64_t n_row, int64_t width, int64_t ld)
{
	int32_t *p = malloc(IO_MAX_VALUES * sizeof *p);

	assert_non_null(p);
	assert_true(n_row * ld < IO_MAX_VALUES);
	for (int i = 0; i < IO_MAX_VALUES; i++)
		p[i] = IO_POISON;
	c->want[c->n_out++] = (struct op_out){ .name = name, .data = p, .n_row = n_row, .width = width,
					       .ld = ld };
	return c->mem[c->n_mem++] = p;
}

/* The same for memory that the op reads first. */
static float *io_in_place(struct io_call *c, const char *name, int64_t n_row, int64_t width, int64_t ld)
{
	float *p = io_out(c, name, n_row, width, ld), *in = io_floats(c, n_row * ld);

	for (int64_t r = 0; r < n_row; r++)
		memcpy(p + r * ld, in + r * ld, (size_t)width * sizeof *p);
	c->want[c->n_out - 1].in_place = true;
	return p;
}

/* ---- one call per op; n_tok 3 unless it matters ---- */

static struct dsv4_weight io_weight(struct io_call *c, int64_t rows, int64_t cols)
{
	return (struct dsv4_weight){ .size = sizeof(struct dsv4_weight), .fmt = DSV4_W_F32, .rows = rows,
				     .cols = cols, .data = io_floats(c, rows * cols), .scale2 = 1 };
}

static void io_linear(struct io_call *c)
{
	static struct dsv4_weight w;

	w = io_weight(c, 6, 5);
	c->args.linear = (struct dsv4_linear){ .n_tok = 3, .n_group = 2, .w = &w, .ldx = 11, .ldy = 9 };
	c->args.linear.x = io_floats(c, 3 * 11);
	c->args.linear.y = io_out(c, "y", 3, 6, 9);
}

static void io_rms_norm(struct io_call *c)
{
	c->args.rms_norm = (struct dsv4_rms_norm){ .dim = 8, .n_row = 5, .eps = 1, .ldx = 9, .ldy = 10 };
	c->args.rms_norm.x = io_floats(c, 5 * 9);
	c->args.rms_norm.y = io_out(c, "y", 5, 8, 10);
}

static void io_rms_norm_in_place(struct io_call *c)
{
	float *y = io_in_place(c, "y", 5, 8, 9);

	c->args.rms_norm =
		(struct dsv4_rms_norm){ .dim = 8, .n_row = 5, .eps = 1, .x = y, .ldx = 9, .y = y, .ldy = 9 };
}

static void io_rope(struct io_call *c)
{
	c->args.rope = (struct dsv4_rope){ .n_tok = 3, .n_head = 2, .dim = 8, .rot = 4, .ldx = 19 };
	c->args.rope.cs = io_floats(c, 3 * 4);
	c->args.rope.x = io_in_place(c, "x", 3, 16, 19);
}

static struct dsv4_hc_weights io_hc(struct io_call *c, int64_t n_mix, int64_t width)
{
	return (struct dsv4_hc_weights){ io_floats(c, n_mix * width), io_floats(c, n_mix), io_floats(c, 3) };
}

static void io_hc_pre(struct io_call *c)
{
	c->args.hc_pre = (struct dsv4_hc_pre){ .n_tok = 3, .hc = 2, .dim = 4, .sinkhorn_iters = 2,
					       .norm_eps = 1, .hc_eps = 1 };
	c->args.hc_pre.w = io_hc(c, 8, 8);
	c->args.hc_pre.streams = io_floats(c, 3 * 8);
	c->args.hc_pre.y = io_out(c, "y", 3, 4, 4);
	c->args.hc_pre.post = io_out(c, "post", 3, 2, 2);
	c->args.hc_pre.comb = io_out(c, "comb", 3, 4, 4);
}

static void io_hc_post(struct io_call *c)
{
	c->args.hc_post = (struct dsv4_hc_post){ .n_tok = 3, .hc = 2, .dim = 4 };
	c->args.hc_post.y = io_floats(c, 12);
	c->args.hc_post.post = io_floats(c, 6);
	c->args.hc_post.comb = io_floats(c, 12);
	c->args.hc_post.streams = io_in_place(c, "streams", 3, 8, 8);
}

static void io_hc_head(struct io_call *c)
{
	c->args.hc_head = (struct dsv4_hc_head){ .n_tok = 3, .hc = 2, .dim = 4, .norm_eps = 1, .hc_eps = 1 };
	c->args.hc_head.w = io_hc(c, 2, 8);
	c->args.hc_head.streams = io_floats(c, 3 * 8);
	c->args.hc_head.y = io_out(c, "y", 3, 4, 4);
}

static void io_compress(struct io_call *c)
{
	struct dsv4_compress *a = &c->args.compress;

	*a = (struct dsv4_compress){ .n_out = 3, .ratio = 2, .dim = 8, .rot = 4, .overlap = 1, .norm_eps = 1 };
	a->kv = io_floats(c, 8 * 16);
	a->score = io_floats(c, 8 * 16);
	a->ape = io_floats(c, 2 * 16);
	a->norm = io_floats(c, 8);
	a->cs = io_floats(c, 3 * 4);
	a->out = io_out(c, "out", 3, 8, 8);
}

/* Two sequences of dim 4 at ratio 2, pages of two rows: tokens 0..2 at positions 3..5 see 2, 2, 3 rows, tokens
 * 3 and 4 at positions 0 and 1 see 0 and 1. */
static void io_seqs(struct io_call *c, struct dsv4_seq seq[2])
{
	static const float *page[IO_PAGE];

	for (int i = 0; i < IO_PAGE; i++)
		page[i] = io_floats(c, 2 * 4);
	for (int i = 0; i < 2; i++) {
		struct dsv4_rows rows = { .size = sizeof rows, .dim = 4, .n = 3 - 2 * i, .page_rows = 2,
					  .page = page };

		seq[i] = (struct dsv4_seq){ .size = sizeof *seq, .tok0 = 3 * i, .n_tok = 3 - i, .ratio = 2,
					    .pos0 = 3 - 3 * i, .window = io_floats(c, 6 * 4), .kv = rows,
					    .key = rows };
	}
}

static void io_index_score_k(struct io_call *c, int32_t k, const int32_t valid[5])
{
	static struct dsv4_seq seq[2];
	struct dsv4_index_score *a = &c->args.index_score;

	io_seqs(c, seq);
	*a = (struct dsv4_index_score){ .n_tok = 5, .n_head = 2, .dim = 4, .n_seq = 2, .k = k, .scale = 1,
					.seq = seq, .lds = 4 };
	a->q = io_floats(c, 5 * 8);
	a->w = io_floats(c, 5 * 2);
	a->score = io_out(c, "score", 5, 4, 4);
	memcpy(c->valid[0], valid, 5 * sizeof *valid);
	c->want[0].valid = c->valid[0];
}

static void io_index_score(struct io_call *c)
{
	io_index_score_k(c, 0, (const int32_t[]){ 2, 2, 3, 0, 1 });
}

/* Tokens that keep all they see are not held to a score. */
static void io_index_score_some(struct io_call *c)
{
	io_index_score_k(c, 2, (const int32_t[]){ 0, 0, 3, 0, 0 });
}

static void io_index_topk(struct io_call *c)
{
	static const int32_t n_vis[3] = { 1, 5, 0 };
	struct dsv4_index_topk *a = &c->args.index_topk;

	*a = (struct dsv4_index_topk){ .n_tok = 3, .k = 2, .n_vis = n_vis, .lds = 5, .ldr = 4 };
	a->score = io_floats(c, 15);
	a->rows = io_out(c, "rows", 3, 2, 4);
	a->count = io_out(c, "count", 3, 1, 1);
	c->want[0].is_int = c->want[0].is_set = c->want[1].is_int = true;
	memcpy(c->valid[0], (const int32_t[]){ 1, 2, 0 }, 3 * sizeof(int32_t));
	c->want[0].valid = c->valid[0];
}

static void io_attn(struct io_call *c)
{
	static struct dsv4_seq seq[2];
	struct dsv4_attn *a = &c->args.attn;

	io_seqs(c, seq);
	*a = (struct dsv4_attn){ .n_tok = 5, .n_head = 2, .dim = 4, .n_seq = 2, .window = 4, .scale = 1,
				 .seq = seq };
	a->q = io_floats(c, 5 * 8);
	a->sink = io_floats(c, 2);
	a->out = io_out(c, "out", 5, 8, 8);
}

static void io_moe_route(struct io_call *c)
{
	static struct dsv4_weight gate;
	struct dsv4_moe_route *a = &c->args.moe_route;

	gate = io_weight(c, 5, 4);
	*a = (struct dsv4_moe_route){ .n_tok = 3, .dim = 4, .n_expert = 5, .k = 2, .scaling = 1, .gate = &gate };
	a->x = io_floats(c, 12);
	a->ids = io_out(c, "ids", 3, 2, 2);
	a->weight = io_out(c, "weight", 3, 2, 2);
	c->want[0].is_int = c->want[0].is_set = true;
}

static void io_moe_experts(struct io_call *c)
{
	static struct dsv4_expert expert[2];
	static const int32_t ids[] = { 0, 1, 1 };
	struct dsv4_moe_experts *a = &c->args.moe_experts;

	for (int i = 0; i < 2; i++)
		expert[i] = (struct dsv4_expert){ io_weight(c, 6, 4), io_weight(c, 4, 6), io_weight(c, 6, 4) };
	*a = (struct dsv4_moe_experts){ .n_tok = 3, .dim = 4, .inter = 6, .n_expert = 2, .k = 1, .n_shared = 1,
					.out_scale = 1, .expert = expert, .shared = expert, .ids = ids };
	a->x = io_floats(c, 12);
	a->weight = io_floats(c, 3);
	a->y = io_out(c, "y", 3, 4, 4);
}

static void io_sum(struct io_call *c)
{
	c->args.sum = (struct dsv4_sum){ .dim = 8, .n_row = 5, .n_part = 2, .every = 2, .ldb = 9, .ldx = 10, .ldp = 51,
					 .ldy = 11 };
	c->args.sum.base = io_floats(c, 3 * 9);
	c->args.sum.x = io_floats(c, 2 * 51);
	c->args.sum.y = io_out(c, "y", 5, 8, 11);
}

typedef void io_make_f(struct io_call *c);
static const struct { enum dsv4_op op; io_make_f *make; int64_t rows; } io_calls[] = {
#define OP(op, family, args, text) { DSV4_OP_##op, io_##op, \
	DSV4_OP_##op == DSV4_OP_rms_norm || DSV4_OP_##op == DSV4_OP_index_score || DSV4_OP_##op == DSV4_OP_attn || \
	DSV4_OP_##op == DSV4_OP_sum ? 5 : 3 },
#include "plugins/ops.def"
#undef OP
	{ DSV4_OP_rms_norm, io_rms_norm_in_place, 5 },
	{ DSV4_OP_index_score, io_index_score_some, 5 },
};

static void io_make(struct io_call *c, size_t i)
{
	uint32_t size = (uint32_t)op_args_size(io_calls[i].op);

	refkit_seed((uint32_t)i + 1);
	*c = (struct io_call){ .op = io_calls[i].op };
	io_calls[i].make(c);
	memcpy(&c->args, &size, sizeof size); /* each begins with it */
	c->rows = io_calls[i].rows;
}

static int io_run(struct io_call *c)
{
	struct dsv4_exec x = { .mode = REFKIT_WHOLE, .n_scratch = -1 };
	int rc;

	for (uint32_t i = 0; i < ref_plugin.n_op; i++)
		if (ref_plugin.op[i].op == c->op) {
			rc = op_call(c->op, ref_plugin.op[i].fn, &x, &refkit_host, &c->args);
			refkit_release(&x);
			return rc;
		}
	fail_msg("ref lacks op %d", c->op);
	return -1;
}

/* Is value i of the memory of `want` one that the op is to write? */
static bool io_written(const struct op_out *want, int64_t i)
{
	int64_t row = i / want->ld, col = i % want->ld;

	return row < want->n_row && col < (want->valid ? want->valid[row] : want->width);
}

/* ---- tests ---- */

static void test_outputs_are_named_with_their_shapes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof io_calls / sizeof *io_calls; i++) {
		struct op_out out[OP_IO_MAX_OUT];
		int32_t visible[8];
		struct io_call c;

		io_make(&c, i);
		assert_int_equal(io_run(&c), 0); /* index_topk's valid is what it counted */
		assert_int_equal(op_outputs(c.op, &c.args, visible, out), c.n_out);
		for (int o = 0; o < c.n_out; o++) {
			const struct op_out *w = &c.want[o];

			assert_string_equal(out[o].name, w->name);
			assert_ptr_equal(out[o].data, w->data);
			assert_true(out[o].n_row == w->n_row && out[o].width == w->width && out[o].ld == w->ld);
			assert_int_equal(out[o].is_int, w->is_int);
			assert_int_equal(out[o].is_set, w->is_set);
			assert_int_equal(out[o].in_place, w->in_place);
			assert_int_equal(!out[o].valid, !w->valid);
			if (w->valid)
				assert_memory_equal(out[o].valid, w->valid, (size_t)w->n_row * sizeof *w->valid);
		}
		io_fini(&c);
	}
}

/* All that is said to be written is written, and nothing else. */
static void test_outputs_are_complete(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof io_calls / sizeof *io_calls; i++) {
		struct io_call c;

		io_make(&c, i);
		assert_int_equal(io_run(&c), 0);
		for (int o = 0; o < c.n_out; o++)
			for (int64_t v = 0; v < IO_MAX_VALUES; v++)
				if (io_written(&c.want[o], v))
					assert_int_not_equal(((int32_t *)c.want[o].data)[v], IO_POISON);
				else if (!(c.op == DSV4_OP_index_score && c.args.index_score.k > 0))
					assert_int_equal(((int32_t *)c.want[o].data)[v], IO_POISON);
		io_fini(&c);
	}
}

/* A call that is pointed elsewhere leaves the first memory alone and computes the same. */
static void test_redirect(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof io_calls / sizeof *io_calls; i++) {
		int32_t *other[OP_IO_MAX_OUT], *first[OP_IO_MAX_OUT];
		struct io_call c, redirected;

		io_make(&c, i);
		redirected = c;
		for (int o = 0; o < c.n_out; o++) {
			size_t bytes = IO_MAX_VALUES * sizeof(int32_t);

			first[o] = malloc(bytes);
			other[o] = malloc(bytes);
			assert_true(first[o] && other[o]);
			memcpy(first[o], c.want[o].data, bytes);
			memcpy(other[o], c.want[o].data, bytes);
			op_redirect(c.op, &redirected.args, o, other[o]);
		}
		assert_int_equal(io_run(&redirected), 0);
		for (int o = 0; o < c.n_out; o++)
			assert_memory_equal(c.want[o].data, first[o], IO_MAX_VALUES * sizeof(int32_t));
		assert_int_equal(io_run(&c), 0);
		for (int o = 0; o < c.n_out; o++) {
			assert_memory_equal(c.want[o].data, other[o], IO_MAX_VALUES * sizeof(int32_t));
			assert_memory_not_equal(other[o], first[o], IO_MAX_VALUES * sizeof(int32_t));
			free(first[o]);
			free(other[o]);
		}
		io_fini(&c);
	}
}

/* Run twice in a row, an op in place works on its own result: the second call must read what was redirected. */
static void test_in_place_reads_the_copy(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof io_calls / sizeof *io_calls; i++) {
		struct io_call c, copy;
		int32_t *before;

		io_make(&c, i);
		if (c.want[0].in_place) {
			before = malloc(IO_MAX_VALUES * sizeof *before);
			assert_non_null(before);
			memcpy(before, c.want[0].data, IO_MAX_VALUES * sizeof *before);
			copy = c;
			op_redirect(c.op, &copy.args, 0, before);
			assert_int_equal(io_run(&c), 0);
			assert_int_equal(io_run(&copy), 0);
			assert_memory_equal(before, c.want[0].data, IO_MAX_VALUES * sizeof *before);
			free(before);
		}
		io_fini(&c);
	}
}

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof io_calls / sizeof *io_calls; i++) {
		struct io_call c;

		io_make(&c, i);
		assert_true(op_rows(c.op, &c.args) == c.rows);
		io_fini(&c);
	}
}

/* The size that each op asks for: one less is refused, which proves that it is this op's struct. */
static void test_args_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof io_calls / sizeof *io_calls; i++) {
		struct io_call c;
		uint32_t less;

		io_make(&c, i);
		less = (uint32_t)op_args_size(c.op) - 1;
		memcpy(&c.args, &less, sizeof less);
		assert_int_equal(io_run(&c), -EINVAL);
		io_fini(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outputs_are_named_with_their_shapes),
		cmocka_unit_test(test_outputs_are_complete),
		cmocka_unit_test(test_redirect),
		cmocka_unit_test(test_in_place_reads_the_copy),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_args_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
