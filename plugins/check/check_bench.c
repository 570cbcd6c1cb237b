/* SPDX-License-Identifier: MIT
 * check_bench.c - how long each entry of a plugin takes beside ref, on an ordinary call of each shape.
 * Threads: one caller; starts and joins its own. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "plugins/check/case.h"
#include "plugins/check/check.h"
#include "plugins/check/check_host.h"
#include "plugins/op/op_cost.h"
#include "plugins/ref/ref.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_BENCH_NS 100e6 /* calls of one op repeat until so much time is spent */
#define CHECK_BENCH_MIN 3    /* and so often, unless one call takes longer than that already */
#define CHECK_BENCH_ARENA ((size_t)256 << 20)

static const int check_bench_tokens[DSV4_N_PHASE] = { [DSV4_PREFILL] = 32, [DSV4_DECODE] = 1 };

struct check_bench_work {
	const struct check_bench_options *o;
	struct check_host host, ref_host;
	struct dsv4_exec x;
};

/* What one call writes; in place outputs are filled again before every call. */
struct check_bench_out {
	int n;
	struct op_out out[OP_IO_MAX_OUT];
	void *mem[OP_IO_MAX_OUT];
	size_t bytes[OP_IO_MAX_OUT];
	int32_t *visible;
};

static int check_bench_outputs(enum dsv4_op op, union case_args *args, struct check_bench_out *b)
{
	*b = (struct check_bench_out){ .visible = mem_try((size_t)op_rows(op, args) + 1, sizeof *b->visible) };
	if (!b->visible)
		return -ENOMEM;
	b->n = op_outputs(op, args, b->visible, b->out);
	for (int i = 0; i < b->n; i++) {
		b->bytes[i] = (size_t)((b->out[i].n_row - 1) * b->out[i].ld + b->out[i].width) * 4;
		b->mem[i] = mem_try(b->bytes[i], 1);
		if (!b->mem[i])
			return -ENOMEM;
		op_redirect(op, args, i, b->mem[i]);
	}
	return 0;
}

static void check_bench_fini(struct check_bench_out *b)
{
	for (int i = 0; i < OP_IO_MAX_OUT; i++)
		free(b->mem[i]);
	free(b->visible);
}

/* The shortest call, in ns; negative: the op returned an error. */
static double check_bench_time(struct check_bench_work *w, const struct check_host *host, enum dsv4_op op,
			       dsv4_any_f *fn, const union case_args *args, const struct check_bench_out *b)
{
	double best = -1, all = 0;

	for (int i = 0; i < CHECK_BENCH_MIN || all < CHECK_BENCH_NS; i++) {
		long long begin;
		double took;

		for (int k = 0; k < b->n; k++)
			if (b->out[k].in_place)
				memcpy(b->mem[k], b->out[k].data, b->bytes[k]);
		check_host_reset(&w->x);
		begin = clock_ns();
		if (op_call(op, fn, &w->x, &host->table, args))
			return -1;
		took = (double)(clock_ns() - begin);
		all += took;
		best = best < 0 || took < best ? took : best;
		if (took > CHECK_BENCH_NS)
			break;
	}
	return best;
}

static int check_bench_case(struct check_bench_work *w, const struct dsv4_op_entry *e, struct check_case *c,
			    struct check_speed *s)
{
	struct check_bench_out b;
	struct op_cost cost;
	union case_args args = c->args;
	int rc = check_bench_outputs(e->op, &args, &b);

	if (!rc) {
		s->ns = check_bench_time(w, &w->host, e->op, e->fn, &args, &b);
		s->ref_ns = check_bench_time(w, &w->ref_host, e->op, ref_plugin.op[e->op].fn, &args, &b);
		op_cost(e->op, &args, &cost);
		s->bytes = op_cost_bytes(&cost);
		s->flops = cost.flops;
		rc = s->ns <= 0 || s->ref_ns <= 0;
	}
	if (!rc && w->o->report)
		w->o->report(w->o->arg, s);
	check_bench_fini(&b);
	return rc;
}

/* 0, 1 when the op failed, or a negative code. */
static int check_bench_slot(struct check_bench_work *w, const struct dsv4_op_entry *e,
			    const struct check_shape *shape, int phase, int wfmt)
{
	const struct case_spec spec = { .shape = shape, .phase = (enum dsv4_phase)phase,
					.wfmt = (enum dsv4_wfmt)wfmt,
					.numerics = (enum dsv4_numerics)e->numerics,
					.n_tok = check_bench_tokens[phase] };
	struct check_speed s = { .op = e->op, .phase = spec.phase, .wfmt = spec.wfmt, .shape = shape->name,
				 .n_tok = spec.n_tok };
	struct check_case c;
	int rc;

	if (w->o->cancel && atomic_load(w->o->cancel))
		return -ECANCELED;
	case_init(&c, 1, GUARD_BYTES);
	rc = case_ops[e->op]->bench(&c, &spec);
	if (!rc)
		rc = check_bench_case(w, e, &c, &s);
	else if (rc == CASE_SKIP)
		rc = 0;
	case_fini(&c);
	return rc;
}

static int check_bench_entry(struct check_bench_work *w, const struct dsv4_op_entry *e,
			     const struct check_shape *shape)
{
	int n_failed = 0;

	if (!case_ops[e->op] || (w->o->op >= 0 && w->o->op != e->op))
		return 0;
	for (int phase = 0; phase < DSV4_N_PHASE; phase++)
		for (int wfmt = 0; wfmt < (case_ops[e->op]->weighted ? DSV4_N_WFMT : 1); wfmt++) {
			int rc;

			if (!(e->phases >> phase & 1) || !(e->wfmts >> wfmt & 1))
				continue;
			rc = check_bench_slot(w, e, shape, phase, wfmt);
			if (rc < 0)
				return rc;
			n_failed += rc;
		}
	return n_failed;
}

int check_bench(const struct dsv4_plugin *p, const struct dsv4_host *base, const struct check_bench_options *o)
{
	const struct check_shape both[] = { check_shape_tiny, check_shape_flash };
	const struct check_shape *shape = o->shape ? o->shape : both;
	struct check_bench_work w = { .o = o };
	int n_failed = 0, n = check_threads(o->n_threads), rc;

	w.x = (struct dsv4_exec){ .split = CHECK_SPLIT_THREADS, .threads = n, .n_scratch = -1 };
	check_host_init(&w.host, base);
	check_host_init(&w.ref_host, base);
	rc = check_host_arena(&w.x, CHECK_BENCH_ARENA);
	if (!rc)
		rc = check_team_new(n, &w.x.team);
	for (uint32_t i = 0; i < p->n_op && rc >= 0; i++)
		for (int s = 0; s < (o->shape ? o->n_shape : 2) && rc >= 0; s++) {
			rc = check_bench_entry(&w, &p->op[i], &shape[s]);
			n_failed += rc > 0 ? rc : 0;
		}
	check_team_free(&w.x.team);
	check_host_fini(&w.x);
	return rc < 0 ? rc : n_failed;
}
