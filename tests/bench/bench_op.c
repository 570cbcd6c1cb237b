/* SPDX-License-Identifier: MIT
 * bench_op.c - kernels beside a plain read of as many bytes, or beside the peak, by turns of a millisecond.
 * Threads: main; pools of the engine. Locks: none. */
#include "tests/bench/bench_op.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/eval/eval_plugins.h"
#include "plugins/check/check.h"
#include "plugins/op/op_cost.h"
#include "plugins/op/op_io.h"
#include "plugins/op/op_name.h"
#include "tests/bench/bench_peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory's speed changes from one moment to the next: what is compared must follow at once. */
#define BENCH_OP_TURN 0.001
#define BENCH_OP_RANGES 1024   /* of the units of one turn */
#define BENCH_OP_MIN 5         /* pairs of turns */
#define BENCH_OP_L2 ((size_t)1 << 20) /* where the machine does not say */

static const struct bench_column bench_op_read_columns[] = {
	{ "op", "OP", -12, 0 }, { "what", "WHAT", -10, 0 }, { "format", "FORMAT", -11, 0 },
	{ "shape", "SHAPE", -10, 0 },
	{ "tokens", "TOKENS", 6, 0 }, { "us", "US", 8, 1 }, { "gbs", "GB/S", 6, 1 }, { "read_gbs", "READ", 6, 1 },
	{ "ratio", "RATIO", 5, 3 }, { "ratio_p25", "P25", 5, 3 }, { "ratio_p75", "P75", 5, 3 },
	{ "l2_gbs", "IN_L2", 6, 1 },
};
static const struct bench_column bench_op_peak_columns[] = {
	{ "op", "OP", -12, 0 }, { "what", "WHAT", -10, 0 }, { "format", "FORMAT", -11, 0 },
	{ "shape", "SHAPE", -10, 0 },
	{ "tokens", "TOKENS", 6, 0 }, { "ms", "MS", 8, 2 }, { "gflops", "GFLOP/S", 8, 1 }, { "peak", "PEAK", 8, 1 },
	{ "ratio", "RATIO", 5, 3 }, { "ratio_p25", "P25", 5, 3 }, { "ratio_p75", "P75", 5, 3 },
};

struct bench_op_run {
	struct bench *b;
	const struct provider *pr;
	struct pool *pool, *one;     /* all threads, one thread */
	struct bench_memory memory;
	const struct bench_peak *peak;
	size_t read_at;              /* in memory, on a GPU */
	struct buf *why;
};

/* Turn by turn: the kernel, what it is held against, and their ratio. */
struct bench_pairs {
	struct bench_samples kernel, other, ratio, call;
};

static void bench_pairs_fini(struct bench_pairs *s)
{
	bench_samples_fini(&s->kernel);
	bench_samples_fini(&s->other);
	bench_samples_fini(&s->ratio);
	bench_samples_fini(&s->call);
}

bool bench_op_find(const struct provider *pr, enum dsv4_op op, enum dsv4_phase phase, enum dsv4_wfmt fmt,
		   struct bench_kernel *ret_k)
{
	for (uint32_t i = 0; i < pr->plugin->n_op; i++) {
		const struct dsv4_op_entry *e = &pr->plugin->op[i];

		if (e->op != op || !(e->phases >> phase & 1) || !(e->wfmts >> fmt & 1))
			continue;
		*ret_k = (struct bench_kernel){ op, e->fn, &pr->host };
		return true;
	}
	return false;
}

double bench_op_call(struct bench_gpu *g, struct pool *p, const struct bench_kernel *k, const void *args)
{
	double begin;
	int rc;

	if (g) {
		queue_next_op(g->queue);
		return op_call(k->op, k->fn, queue_exec(g->queue), k->host, args) ? -1 : 0;
	}
	pool_scratch_reset(p);
	begin = clock_s();
	rc = op_call(k->op, k->fn, pool_exec(p), k->host, args);
	return rc ? -1 : clock_s() - begin;
}

int bench_op_turn_calls(double call, int most)
{
	return (int)fmin(fmax(1, BENCH_OP_TURN / fmax(call, 1e-9)), fmax(1, most));
}

static int bench_op_failed(struct bench_op_run *r, const struct bench_kernel *k)
{
	return r->why->len ? RC_DEVICE : buf_why(r->why, RC_KERNEL, "%s of %s failed", op_name(k->op),
						 r->pr->plugin->name);
}

/* `turn` calls from number `at` on: seconds of one, negative: failed. */
static double bench_op_calls(struct bench_op_run *r, const struct bench_kernel *k, const struct bench_units *u, int at,
			     int turn)
{
	double begin = bench_gpu_begin(r->b->gpu), took = 0;

	for (int i = 0; i < turn; i++) {
		double t = bench_op_call(r->b->gpu, r->pool, k, u->unit[(at + i) % u->n].args);

		if (t < 0)
			return t;
		took += t;
	}
	return bench_gpu_took(r->b->gpu, begin, took) / turn;
}

/* ---- one token: beside a read ---- */

/* The same: GB/s, negative: failed. */
static double bench_op_turn(struct bench_op_run *r, const struct bench_kernel *k, const struct bench_units *u, int at,
			    int turn, double *ret_call)
{
	double bytes = 0;

	for (int i = 0; i < turn; i++)
		bytes += u->unit[(at + i) % u->n].bytes;
	*ret_call = bench_op_calls(r, k, u, at, turn);
	return *ret_call < 0 ? -1 : bytes / (*ret_call * turn) / 1e9;
}

/* A GPU reads as many bytes in order, on and on through the working set. */
static double bench_op_read_gpu(struct bench_op_run *r, double bytes)
{
	size_t n = (size_t)fmin(bytes, (double)r->memory.size) / 16 * 16;
	double took;

	if (r->read_at + n > r->memory.size)
		r->read_at = 0;
	took = bench_gpu_read(r->b->gpu, r->memory.mem + r->read_at, n);
	r->read_at += n;
	return took < 0 ? took : (double)n / took / 1e9;
}

static double bench_op_read(struct bench_op_run *r, const struct bench_units *u, int at, int turn)
{
	struct bench_range range[BENCH_OP_RANGES];
	double bytes = 0;
	int n = 0;

	for (int i = 0; i < turn; i++) {
		const struct bench_unit *unit = &u->unit[(at + i) % u->n];

		for (int k = 0; k < unit->n_range && n < BENCH_OP_RANGES; k++) {
			range[n++] = unit->range[k];
			bytes += (double)unit->range[k].n;
		}
	}
	return r->b->gpu ? bench_op_read_gpu(r, bytes) : bytes / bench_read(r->pool, range, n) / 1e9;
}

/* Calls before all others: of a GPU one of each, which bring what the host wrote. */
static int bench_op_warm(const struct bench_op_run *r, const struct bench_units *u)
{
	return r->b->gpu ? u->n : 1;
}

/* Kernel and read go on through the units, so that neither meets what the other has just brought into a cache. */
static int bench_op_pairs(struct bench_op_run *r, const struct bench_kernel *k, const struct bench_units *u,
			  struct bench_pairs *s)
{
	double begin, call, gbs = bench_op_turn(r, k, u, 0, bench_op_warm(r, u), &call), other;
	int at = 1, turn = bench_op_turn_calls(call, u->n / 4);

	if (gbs < 0)
		return bench_op_failed(r, k);
	begin = clock_s();
	while (s->ratio.n < BENCH_OP_MIN || clock_s() - begin < r->b->args.seconds) {
		bool first = s->ratio.n % 2;

		other = first ? bench_op_read(r, u, at + turn, turn) : 0;
		gbs = bench_op_turn(r, k, u, at, turn, &call);
		other = first ? other : bench_op_read(r, u, at + turn, turn);
		if (gbs < 0 || other < 0)
			return bench_op_failed(r, k);
		at = (at + 2 * turn) % u->n;
		bench_samples_add(&s->kernel, gbs);
		bench_samples_add(&s->other, other);
		bench_samples_add(&s->ratio, gbs / other);
		bench_samples_add(&s->call, call);
		bench_progress_show(&r->b->bar, op_name(k->op), clock_s() - begin, r->b->args.seconds);
	}
	return 0;
}

/* The same kernel by one thread on a matrix that stays in its L2 cache; NaN where that says nothing. */
static double bench_op_in_l2(struct bench_op_run *r, const struct bench_kernel *k, const struct bench_linear *l)
{
	size_t l2 = r->b->host.l2 ? r->b->host.l2 : BENCH_OP_L2;
	size_t row = op_cost_data(l->fmt, 1, l->cols);
	int64_t step = 128 * l->n_group, rows = (int64_t)(l2 / 2 / row) / step * step;
	struct bench_linear small = *l;
	struct bench_units u;
	struct bench_samples s = { 0 };
	double begin = clock_s(), gbs = NAN;

	small.rows = rows < step ? step : rows;
	if (r->b->gpu)
		return NAN;
	if (bench_units_linear(&u, &r->memory, r->one, &small, 1, 1, NULL) == 0) {
		for (int i = 0; i < BENCH_OP_MIN || clock_s() - begin < r->b->args.seconds / 10; i++)
			bench_samples_add(&s, bench_op_call(NULL, r->one, k, u.unit[0].args));
		gbs = u.unit[0].bytes / bench_samples_at(&s, 0.5) / 1e9;
	}
	bench_samples_fini(&s);
	bench_units_fini(&u);
	return gbs;
}

/* ---- many tokens: beside the peak ---- */

static double bench_op_peak(struct bench_op_run *r)
{
	return (r->b->gpu ? bench_gpu_peak(r->b->gpu, BENCH_GPU_MMA, 2 * BENCH_OP_TURN) :
			    bench_peak_run(r->pool, r->peak, 2 * BENCH_OP_TURN)) / 1e9;
}

static int bench_op_against_peak(struct bench_op_run *r, const struct bench_kernel *k, const struct bench_units *u,
				 struct bench_pairs *s)
{
	/* All units compute as much. A GPU's first calls bring what the host wrote. */
	int turn = r->b->gpu ? bench_op_turn_calls(bench_op_calls(r, k, u, 0, bench_op_warm(r, u)), 1000) : 1;
	double begin = clock_s();

	for (int i = 0; s->ratio.n < BENCH_OP_MIN || clock_s() - begin < r->b->args.seconds; i += turn) {
		double call = bench_op_calls(r, k, u, i % u->n, turn);
		double peak = call < 0 ? call : bench_op_peak(r), gflops = u->unit[0].flops / call / 1e9;

		if (peak < 0)
			return bench_op_failed(r, k);
		bench_samples_add(&s->kernel, gflops);
		bench_samples_add(&s->other, peak);
		bench_samples_add(&s->ratio, gflops / peak);
		bench_samples_add(&s->call, call);
		bench_progress_show(&r->b->bar, op_name(k->op), clock_s() - begin, r->b->args.seconds);
	}
	return 0;
}

/* ---- rows of the tables ---- */

static json_t *bench_op_ratio(struct bench_pairs *s, json_t *row)
{
	json_object_set_new(row, "ratio", bench_real(bench_samples_at(&s->ratio, 0.5)));
	json_object_set_new(row, "ratio_p25", bench_real(bench_samples_at(&s->ratio, 0.25)));
	json_object_set_new(row, "ratio_p75", bench_real(bench_samples_at(&s->ratio, 0.75)));
	json_object_set_new(row, "pairs", json_integer(s->ratio.n));
	return row;
}

static json_t *bench_op_row(struct bench_op_run *r, const struct bench_kernel *k, const struct bench_units *u,
			    int n_tok, struct bench_pairs *s)
{
	json_t *row = json_object();
	double call;
	bool many = n_tok > 1;
	int rc = many ? bench_op_against_peak(r, k, u, s) : bench_op_pairs(r, k, u, s);

	if (rc) {
		json_decref(row);
		return NULL;
	}
	call = bench_samples_at(&s->call, 0.5);
	json_object_set_new(row, "op", json_string(op_name(k->op)));
	json_object_set_new(row, "tokens", json_integer(n_tok));
	json_object_set_new(row, many ? "ms" : "us", bench_real(call * (many ? 1e3 : 1e6)));
	json_object_set_new(row, many ? "gflops" : "gbs", bench_real(bench_samples_at(&s->kernel, 0.5)));
	json_object_set_new(row, many ? "peak" : "read_gbs", bench_real(bench_samples_at(&s->other, 0.5)));
	json_object_set_new(row, "bytes", bench_real(u->unit[0].bytes));
	json_object_set_new(row, "flops", bench_real(u->unit[0].flops));
	return bench_op_ratio(s, row);
}

static enum dsv4_phase bench_op_phase(int n_tok)
{
	return n_tok == 1 ? DSV4_DECODE : DSV4_PREFILL;
}

static int bench_op_linear(struct bench_op_run *r, const struct bench_linear *l, int n_tok)
{
	struct bench_pairs s = { 0 };
	struct bench_kernel k;
	struct bench_units u;
	char shape[48];
	json_t *row;
	int rc;

	if (!bench_op_find(r->pr, DSV4_OP_linear, bench_op_phase(n_tok), l->fmt, &k))
		return 0;
	rc = bench_units_linear(&u, &r->memory, r->pool, l, n_tok, n_tok == 1 ? 0 : 2, r->why);
	row = rc ? NULL : bench_op_row(r, &k, &u, n_tok, &s);
	bench_units_fini(&u);
	bench_pairs_fini(&s);
	if (!row)
		return rc ? rc : RC_KERNEL;
	snprintf(shape, sizeof shape, "%lldx%lld", (long long)l->rows, (long long)l->cols);
	json_object_set_new(row, "what", json_string(l->name));
	json_object_set_new(row, "format", json_string(op_wfmt_name(l->fmt)));
	json_object_set_new(row, "shape", json_string(shape));
	json_object_set_new(row, "groups", json_integer(l->n_group));
	json_object_set_new(row, "act", json_string(l->act == DSV4_ACT_FP8 ? "fp8" : "none"));
	if (n_tok == 1)
		json_object_set_new(row, "l2_gbs", bench_real(bench_op_in_l2(r, &k, l)));
	bench_print_row(&r->b->out, row);
	return 0;
}

static int bench_op_experts(struct bench_op_run *r, enum dsv4_wfmt fmt, bool packed, int n_tok)
{
	const struct bench_args *args = &r->b->args;
	const struct bench_layer l = { .fmt = fmt, .packed = packed,
				       .inter = args->rows ? (int)args->rows : check_shape_flash.inter,
				       .dim = args->rows ? (int)args->cols : check_shape_flash.hidden };
	struct bench_pairs s = { 0 };
	struct bench_kernel k;
	struct bench_units u;
	char format[32];
	json_t *row;
	int rc;

	if (!bench_op_find(r->pr, DSV4_OP_moe_experts, bench_op_phase(n_tok), fmt, &k))
		return 0;
	rc = bench_units_experts(&u, &r->memory, r->pool, &l, n_tok, r->why);
	row = rc ? NULL : bench_op_row(r, &k, &u, n_tok, &s);
	bench_units_fini(&u);
	bench_pairs_fini(&s);
	if (!row)
		return rc ? rc : RC_KERNEL;
	snprintf(format, sizeof format, "%s%s", op_wfmt_name(fmt), packed ? " packed" : "");
	json_object_set_new(row, "what", json_string("layer"));
	json_object_set_new(row, "format", json_string(format));
	json_object_set_new(row, "shape", json_string("6+1 of 256"));
	bench_print_row(&r->b->out, row);
	return 0;
}

/* ---- what is measured ---- */

static bool bench_op_wanted(const struct bench_op_run *r, enum dsv4_op op, enum dsv4_wfmt fmt)
{
	const struct bench_args *a = &r->b->args;

	return (a->op < 0 || a->op == (int)op) && (a->format < 0 || a->format == (int)fmt);
}

/* With a shape of one's own a format is measured once. */
static bool bench_op_other_shape(const struct bench_args *a, int i, struct bench_linear *l)
{
	*l = bench_linears[i];
	if (!a->rows)
		return true;
	for (int before = 0; before < i; before++)
		if (bench_linears[before].fmt == l->fmt)
			return false;
	*l = (struct bench_linear){ "-", l->fmt, a->rows, a->cols, 1, l->act };
	return true;
}

static int bench_op_tokens(struct bench_op_run *r, int n_tok)
{
	struct bench_linear l;
	int rc = 0;

	for (int i = 0; i < bench_n_linears && rc == 0; i++)
		if (bench_op_wanted(r, DSV4_OP_linear, bench_linears[i].fmt) &&
		    bench_op_other_shape(&r->b->args, i, &l))
			rc = bench_op_linear(r, &l, n_tok);
	for (int f = 0; f < DSV4_N_WFMT && rc == 0; f++) {
		enum dsv4_wfmt fmt = (enum dsv4_wfmt)f;

		/* Of the others the first is of no model, the second of none yet. */
		if (!bench_op_wanted(r, DSV4_OP_moe_experts, fmt) || (r->b->args.format < 0 && fmt != DSV4_W_FP4))
			continue;
		rc = bench_op_experts(r, fmt, false, n_tok);
		if (rc == 0 && fmt == DSV4_W_FP4 && !r->b->gpu)
			rc = bench_op_experts(r, fmt, true, n_tok);
	}
	return rc;
}

static int bench_op_tables(struct bench_op_run *r)
{
	const struct bench_list *l = &r->b->args.tokens;
	struct bench_out *o = &r->b->out;
	int rc = 0;

	bench_print_table(o, "weights_read", bench_op_read_columns, (int)mem_countof(bench_op_read_columns));
	for (int i = 0; i < l->n && rc == 0; i++)
		if (l->v[i] == 1)
			rc = bench_op_tokens(r, 1);
	bench_print_table(o, "arithmetic", bench_op_peak_columns, (int)mem_countof(bench_op_peak_columns));
	for (int i = 0; i < l->n && rc == 0; i++)
		if (l->v[i] > 1)
			rc = bench_op_tokens(r, (int)l->v[i]);
	bench_memory_free(&r->memory);
	return rc ? rc : bench_op_cases(r->b, r->pr, r->pool, r->why);
}

static void bench_op_set_note(struct bench_op_run *r)
{
	double gb = (double)r->memory.size / 1e9;

	if (r->b->gpu)
		bench_print_note(&r->b->out, "set", "%.2f GB; matrices in random order; peak: %s", gb,
				 bench_gpu_peak_name(BENCH_GPU_MMA));
	else
		bench_print_note(&r->b->out, "set",
				 "%.2f GB, %.0f %% in huge pages; matrices in random order; peak: %s", gb,
				 100 * bench_memory_huge(&r->memory), r->peak->name);
}

static int bench_op_with(struct bench *b, const struct provider *pr, struct buf *why)
{
	struct bench_op_run r = { .b = b, .pr = pr, .peak = bench_peak_of(&b->host), .why = why };
	int rc = pool_new(b->args.threads, &r.pool);

	rc = rc ? rc : pool_new(1, &r.one);
	if (rc == 0)
		rc = b->gpu ? bench_memory_new_on(&r.memory, b->args.memory, b->gpu->device, why) :
			      bench_memory_new(&r.memory, b->args.memory, r.pool, why);
	if (rc == 0) {
		bench_print_note(&b->out, "plugin", "%s %s", pr->plugin->name, pr->plugin->version);
		bench_op_set_note(&r);
		rc = bench_op_tables(&r);
	}
	bench_memory_free(&r.memory);
	pool_free(&r.pool);
	pool_free(&r.one);
	return rc;
}

int bench_op(struct bench *b, struct buf *why)
{
	struct eval_plugins plugins = { .device = b->gpu ? b->gpu->device : NULL };
	int rc, end;

	if (strcmp(b->args.what, "ref") == 0)
		return b->gpu ? buf_why(why, RC_INVALID, "ref computes on the CPU, not on %s", b->args.device) :
				bench_op_with(b, &provider_ref, why);
	rc = eval_plugins_load(&plugins, b->args.what, why);
	if (rc == 0 && b->gpu && !plugins.map[0]->provider.host.gpu)
		rc = buf_why(why, RC_INVALID, "%s computes on the CPU, not on %s",
			     plugins.map[0]->provider.plugin->name, b->args.device);
	rc = rc ? rc : bench_op_with(b, &plugins.map[0]->provider, why);
	end = eval_plugins_fini(&plugins, rc ? NULL : why);
	return rc ? rc : end;
}
