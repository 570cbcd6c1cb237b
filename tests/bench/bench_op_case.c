/* SPDX-License-Identifier: MIT
 * bench_op_case.c - ops without large weights, on the check library's ordinary calls of V4-Flash's shape.
 * Threads: main; a pool's. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "plugins/check/case.h"
#include "plugins/op/op_cost.h"
#include "plugins/op/op_io.h"
#include "plugins/op/op_name.h"
#include "tests/bench/bench_op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_CASE_MAX 64                   /* calls on inputs of their own, by turns */
#define BENCH_CASE_BYTES ((double)(96 << 20)) /* of all inputs, more than caches hold */

static const struct bench_column bench_case_columns[] = {
	{ "op", "OP", -12, 0 }, { "tokens", "TOKENS", 6, 0 }, { "us", "US", 9, 1 }, { "us_p10", "P10", 9, 1 },
	{ "us_p90", "P90", 9, 1 }, { "gbs", "GB/S", 7, 1 }, { "gflops", "GFLOP/S", 8, 1 },
};

/* A call with outputs of its own. */
struct bench_case {
	struct check_case c;
	union case_args args;
	struct op_out out[OP_IO_MAX_OUT];
	void *mem[OP_IO_MAX_OUT];
	size_t bytes[OP_IO_MAX_OUT];
	int n_out;
	int32_t *visible;
	struct guard_memory memory; /* of a GPU */
	struct device *device;      /* whose memory that is, and mem's */
};

static void *bench_case_alloc(void *arg, size_t bytes)
{
	return device_alloc(arg, bytes ? bytes : 1, 1);
}

static void bench_case_free(void *arg, void *p)
{
	device_free(arg, p);
}

static int bench_case_init(struct bench_case *k, struct device *device, enum dsv4_op op, const struct case_spec *spec,
			   uint64_t seed)
{
	int rc;

	memset(k, 0, sizeof *k);
	k->device = device;
	k->memory = (struct guard_memory){ device, bench_case_alloc, bench_case_free };
	case_init(&k->c, seed, GUARD_BYTES);
	k->c.memory = device_is_gpu(device) ? &k->memory : NULL;
	rc = case_ops[op]->bench(&k->c, spec);
	if (rc)
		return rc;
	k->args = k->c.args;
	k->visible = mem_new(((size_t)op_rows(op, &k->args) + 1) * sizeof *k->visible);
	k->n_out = op_outputs(op, &k->args, k->visible, k->out);
	for (int i = 0; i < k->n_out; i++) {
		k->bytes[i] = (size_t)((k->out[i].n_row - 1) * k->out[i].ld + k->out[i].width) * 4;
		k->mem[i] = device_alloc(device, k->bytes[i], 1);
		if (!k->mem[i])
			return -ENOMEM;
		op_redirect(op, &k->args, i, k->mem[i]);
	}
	return 0;
}

static void bench_case_fini(struct bench_case *k)
{
	for (int i = 0; i < k->n_out; i++)
		device_free(k->device, k->mem[i]);
	free(k->visible);
	case_fini(&k->c);
}

static void bench_case_fill(struct bench_case *k)
{
	for (int i = 0; i < k->n_out; i++)
		if (k->out[i].in_place)
			memcpy(k->mem[i], k->out[i].data, k->bytes[i]);
}

/* `turn` calls from case `at` of n on: seconds of one, negative: failed. On a GPU what an op changes in place it
 * changes call after call. */
static double bench_case_calls(struct bench *b, struct pool *p, const struct bench_kernel *kernel, struct bench_case *k,
			       int n, int at, int turn)
{
	double took = 0, begin;

	for (int i = 0; i < turn && i < n; i++)
		bench_case_fill(&k[(at + i) % n]);
	begin = bench_gpu_begin(b->gpu);
	for (int i = 0; i < turn; i++) {
		double t = bench_op_call(b->gpu, p, kernel, &k[(at + i) % n].args);

		if (t < 0)
			return t;
		took += t;
	}
	return bench_gpu_took(b->gpu, begin, took) / turn;
}

static int bench_case_measure(struct bench *b, struct pool *p, const struct bench_kernel *kernel, struct bench_case *k,
			      int n, int n_tok)
{
	struct bench_samples s = { 0 };
	int turn = b->gpu ? bench_op_turn_calls(bench_case_calls(b, p, kernel, k, n, 0, n), 1000) : 1;
	double begin = clock_s(), us;
	struct op_cost cost;

	for (int i = 0; i < n || clock_s() - begin < b->args.seconds / 2; i += turn) {
		double took = bench_case_calls(b, p, kernel, k, n, i % n, turn);

		if (took < 0) {
			bench_samples_fini(&s);
			return RC_KERNEL;
		}
		bench_samples_add(&s, took * 1e6);
		bench_progress_show(&b->bar, op_name(kernel->op), clock_s() - begin, b->args.seconds / 2);
	}
	op_cost(kernel->op, &k->args, &cost);
	us = bench_samples_at(&s, 0.5);
	bench_print_row(&b->out, json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:f, s:f}", "op", op_name(kernel->op),
					   "tokens",
					   n_tok, "us", bench_real(us), "us_p10", bench_real(bench_samples_at(&s, 0.1)),
					   "us_p90",
					   bench_real(bench_samples_at(&s, 0.9)), "gbs",
					   bench_real(op_cost_bytes(&cost) / us / 1e3), "gflops",
					   bench_real(cost.flops / us / 1e3), "bytes", op_cost_bytes(&cost),
					   "flops", cost.flops));
	bench_samples_fini(&s);
	return 0;
}

static int bench_case_op(struct bench *b, const struct provider *pr, struct pool *p, enum dsv4_op op, int n_tok,
			 struct buf *why)
{
	const struct case_spec spec = { .shape = &check_shape_flash, .phase = n_tok == 1 ? DSV4_DECODE : DSV4_PREFILL,
					.wfmt = op == DSV4_OP_moe_route ? DSV4_W_BF16 : DSV4_W_F32, .n_tok = n_tok };
	struct bench_case *k = mem_new(BENCH_CASE_MAX * sizeof *k);
	struct bench_kernel kernel;
	struct op_cost cost;
	double all = 0;
	int n = 0, rc = 0;

	if (bench_op_find(pr, op, spec.phase, spec.wfmt, &kernel))
		while (n < BENCH_CASE_MAX && all < BENCH_CASE_BYTES && rc == 0) {
			rc = bench_case_init(&k[n], b->gpu ? b->gpu->device : device_cpu(), op, &spec, (uint64_t)n + 1);
			if (rc) {
				bench_case_fini(&k[n]);
				break;
			}
			op_cost(op, &k[n++].args, &cost);
			all += op_cost_bytes(&cost);
		}
	rc = rc == CASE_SKIP ? 0 : rc;
	if (n > 0 && rc == 0)
		rc = bench_case_measure(b, p, &kernel, k, n, n_tok);
	while (n > 0)
		bench_case_fini(&k[--n]);
	free(k);
	return rc && !why->len ? buf_why(why, rc, "%s of %s failed", op_name(op), pr->plugin->name) : rc;
}

int bench_op_cases(struct bench *b, const struct provider *pr, struct pool *p, struct buf *why)
{
	const struct bench_list *l = &b->args.tokens;
	int rc = 0;

	bench_print_table(&b->out, "other", bench_case_columns, (int)mem_countof(bench_case_columns));
	for (int i = 0; i < l->n; i++)
		for (int op = 0; op < DSV4_N_OP && rc == 0; op++)
			if (op != DSV4_OP_linear && op != DSV4_OP_moe_experts && case_ops[op] &&
			    (b->args.op < 0 || b->args.op == op) && b->args.format < 0)
				rc = bench_case_op(b, pr, p, (enum dsv4_op)op, (int)l->v[i], why);
	return rc;
}
