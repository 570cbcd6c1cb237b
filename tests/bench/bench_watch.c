/* SPDX-License-Identifier: MIT
 * bench_watch.c - what ops were called in steps, how long they took, what they had to read and compute.
 * Threads: main. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "plugins/op/op_name.h"
#include "tests/bench/bench_model.h"

static const struct bench_column bench_watch_columns[] = {
	{ "phase", "PHASE", -7, 0 }, { "context", "CONTEXT", 7, 0 }, { "tokens", "TOKENS", 6, 0 },
	{ "op", "OP", -12, 0 },
	{ "format", "FORMAT", -6, 0 }, { "calls", "CALLS", 6, 1 }, { "us", "US/STEP", 9, 1 },
	{ "share", "SHARE", 5, 3 },
	{ "gbs", "GB/S", 6, 1 }, { "gflops", "GFLOP/S", 8, 1 },
};

static void bench_watch_before(void *arg, const struct forward_op *o)
{
	struct bench_watch *w = arg;

	(void)o;
	w->begin = clock_ns();
}

static void bench_watch_sum_cost(struct op_cost *to, const struct op_cost *c)
{
	to->weights += c->weights;
	to->rows += c->rows;
	to->inputs += c->inputs;
	to->flops += c->flops;
}

static void bench_watch_after(void *arg, const struct forward_op *o)
{
	struct bench_watch *w = arg;
	struct bench_watch_row *r = &w->row[o->op][o->wfmt];
	struct op_cost c;

	r->seconds += clock_since(w->begin);
	r->calls++;
	op_cost(o->op, o->args, &c);
	bench_watch_sum_cost(&r->cost, &c);
}

struct forward_watch bench_watch_of(struct bench_watch *w)
{
	return (struct forward_watch){ .arg = w, .before = bench_watch_before, .after = bench_watch_after };
}

static void bench_watch_add_row(struct bench_watch_row *to, const struct bench_watch_row *r)
{
	to->calls += r->calls;
	to->seconds += r->seconds;
	bench_watch_sum_cost(&to->cost, &r->cost);
}

void bench_watch_add(struct bench_watch *to, const struct bench_watch *w)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int f = 0; f < DSV4_N_WFMT; f++)
			bench_watch_add_row(&to->row[op][f], &w->row[op][f]);
	to->steps += w->steps;
	to->seconds += w->seconds;
}

struct bench_watch_row bench_watch_sum(const struct bench_watch *w, bool matrix)
{
	struct bench_watch_row sum = { 0 };

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int f = 0; f < DSV4_N_WFMT; f++)
			if (!matrix || op == DSV4_OP_linear || op == DSV4_OP_moe_experts)
				bench_watch_add_row(&sum, &w->row[op][f]);
	return sum;
}

void bench_watch_table(struct bench_out *o, const char *name)
{
	bench_print_table(o, name, bench_watch_columns, (int)mem_countof(bench_watch_columns));
}

static bool bench_watch_weighted(int op)
{
	return op == DSV4_OP_linear || op == DSV4_OP_moe_experts || op == DSV4_OP_moe_route;
}

static void bench_watch_row(struct bench_out *o, const char *phase, int64_t context, int n_tok, const char *op,
			    const char *format, const struct bench_watch_row *r, const struct bench_watch *w)
{
	bench_print_row(o, json_pack("{s:s, s:I, s:i, s:s, s:s, s:f, s:f, s:f, s:o, s:o}", "phase", phase, "context",
				     (json_int_t)context, "tokens", n_tok, "op", op, "format", format, "calls",
				     (double)r->calls / w->steps, "us", r->seconds / w->steps * 1e6, "share",
				     r->seconds / w->seconds, "gbs",
				     bench_real(op_cost_bytes(&r->cost) / r->seconds / 1e9),
				     "gflops", bench_real(r->cost.flops / r->seconds / 1e9)));
}

void bench_watch_print(struct bench_out *o, const char *phase, int64_t context, int n_tok, const struct bench_watch *w)
{
	struct bench_watch_row outside = { .seconds = w->seconds - bench_watch_sum(w, false).seconds };

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int f = 0; f < DSV4_N_WFMT; f++)
			if (w->row[op][f].calls)
				bench_watch_row(o, phase, context, n_tok, op_name((enum dsv4_op)op),
						bench_watch_weighted(op) ? op_wfmt_name((enum dsv4_wfmt)f) : "-",
						&w->row[op][f], w);
	bench_watch_row(o, phase, context, n_tok, "(no op)", "-", &outside, w);
}
