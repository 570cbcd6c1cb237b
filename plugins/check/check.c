/* SPDX-License-Identifier: MIT
 * check.c - the driver: every entry of a plugin in every phase and weight format, on every case of its op.
 * Threads: one caller; starts and joins its own. Locks: none.
 *
 * A case runs once in the plainest way, then in others (other batches, splits, threads, contents of scratch) that
 * must give the same bits, then on ref. Everything is looked at after every run; the gravest finding names the row. */
#include "plugins/check/check.h"
#include "engine/base/mem.h"
#include "plugins/check/check_compare.h"
#include "plugins/check/check_run.h"
#include "plugins/ref/ref.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CHECK_NAN 0xffffffffu   /* scratch full of NaN, and of 0.75: max(NaN, x) hides the first, a sum shows both */
#define CHECK_OTHER 0x3f400000u
#define CHECK_TEAM 4

const struct check_shape check_shape_tiny = {
	.name = "tiny", .hidden = 128, .hc = 4, .heads = 4, .head_dim = 96, .rope = 32, .q_rank = 128,
	.o_rank = 64, .o_groups = 2, .index_heads = 4, .index_dim = 64, .index_topk = 32, .window = 64,
	.experts = 8, .experts_per_tok = 2, .inter = 128, .shared = 1, .vocab = 2048,
};
const struct check_shape check_shape_flash = {
	.name = "flash", .hidden = 4096, .hc = 4, .heads = 64, .head_dim = 512, .rope = 64, .q_rank = 1024,
	.o_rank = 1024, .o_groups = 8, .index_heads = 64, .index_dim = 128, .index_topk = 512, .window = 128,
	.experts = 256, .experts_per_tok = 6, .inter = 2048, .shared = 1, .vocab = 129280,
};

static const struct check_way check_first = { "whole", CHECK_SPLIT_WHOLE, 1, 0, CHECK_NAN, CHECK_NOTHING };

/* A quick check takes those before CHECK_QUICK_WAYS. */
static const struct check_way check_ways[] = {
	{ "weights as the checkpoint has them", CHECK_SPLIT_WHOLE, 1, 0, CHECK_OTHER, CHECK_PACKED },
	{ "two threads", CHECK_SPLIT_THREADS, 2, 0, CHECK_OTHER, CHECK_NOTHING },
	{ "one token at a time, slices of one backwards", CHECK_SPLIT_ONES_BACKWARDS, 1, 1, CHECK_NAN, CHECK_NOTHING },
	{ "three tokens at a time, uneven slices", CHECK_SPLIT_UNEVEN, 3, 3, CHECK_OTHER, CHECK_NOTHING },
	{ "without scratch", CHECK_SPLIT_WHOLE, 1, 0, CHECK_NAN, CHECK_SCRATCH },
	{ "two tokens at a time, two threads", CHECK_SPLIT_THREADS, 2, 2, CHECK_OTHER, CHECK_NOTHING },
	{ "five tokens at a time, uneven slices", CHECK_SPLIT_UNEVEN, 3, 5, CHECK_NAN, CHECK_NOTHING },
	{ "one thread", CHECK_SPLIT_THREADS, 1, 0, CHECK_OTHER, CHECK_NOTHING },
	{ "three tokens at a time, three threads", CHECK_SPLIT_THREADS, 3, 3, CHECK_NAN, CHECK_NOTHING },
	{ "one token at a time, four threads", CHECK_SPLIT_THREADS, 4, 1, CHECK_OTHER, CHECK_NOTHING },
	{ "four threads", CHECK_SPLIT_THREADS, 4, 0, CHECK_NAN, CHECK_NOTHING },
	{ "slices of one backwards", CHECK_SPLIT_ONES_BACKWARDS, 4, 0, CHECK_OTHER, CHECK_NOTHING },
	{ "uneven slices", CHECK_SPLIT_UNEVEN, 2, 0, CHECK_NAN, CHECK_NOTHING },
	{ "slices of a grain", CHECK_SPLIT_GRAINS, 1, 0, CHECK_OTHER, CHECK_NOTHING },
	{ "one token at a time", CHECK_SPLIT_WHOLE, 1, 1, CHECK_OTHER, CHECK_NOTHING },
	{ "three tokens at a time", CHECK_SPLIT_WHOLE, 1, 3, CHECK_NAN, CHECK_NOTHING },
};
#define CHECK_QUICK_WAYS 5

/* A GPU has no threads of the host's. */
static const struct check_way check_gpu_ways[] = {
	{ "one token at a time", CHECK_SPLIT_WHOLE, 1, 1, CHECK_OTHER, CHECK_NOTHING },
	{ "without scratch", CHECK_SPLIT_WHOLE, 1, 0, CHECK_NAN, CHECK_SCRATCH },
	{ "three tokens at a time", CHECK_SPLIT_WHOLE, 1, 3, CHECK_NAN, CHECK_NOTHING },
	{ "other scratch", CHECK_SPLIT_WHOLE, 1, 0, CHECK_OTHER, CHECK_NOTHING },
	{ "two tokens at a time", CHECK_SPLIT_WHOLE, 1, 2, CHECK_OTHER, CHECK_NOTHING },
	{ "five tokens at a time", CHECK_SPLIT_WHOLE, 1, 5, CHECK_NAN, CHECK_NOTHING },
};
#define CHECK_QUICK_GPU_WAYS 1
#define CHECK_QUICK_GPU_CALLS 32 /* that a case is split into, at most: each waits for the GPU */

const char *check_wfmt_name(enum dsv4_op op, enum dsv4_wfmt wfmt)
{
	return case_ops[op] && case_ops[op]->weighted ? op_wfmt_name(wfmt) : "-";
}

const char *check_class_name(enum check_class c)
{
	static const char *const names[] = { "exact", "set", "ulp", "nmse" };

	return names[c];
}

const char *check_verdict_name(enum check_verdict v)
{
	static const char *const names[] = { "pass", "wrong", "not-identical", "out-of-bounds", "failed" };

	return names[v];
}

/* One row while its cases run. */
struct check_work {
	const struct check_options *o;
	const struct check_shape *shape;
	int n_shape, abi_minor;
	struct check_team *team;
	struct check_kernel kernel, ref;
	struct check_limit limit;
	struct check_finding found;
	struct check_row row;
};

/* ---- one case ---- */

/* Has the case what this way leaves out? */
static bool check_way_fits(const struct check_work *w, const struct check_case *c, const struct check_way *way)
{
	union case_args args = c->args;

	if (w->o->device && w->o->quick && way->chunk && op_rows(w->row.op, &args) > way->chunk * CHECK_QUICK_GPU_CALLS)
		return false;
	return way->without != CHECK_PACKED || (case_ops[w->row.op]->native && case_ops[w->row.op]->native(&args));
}

/* The other ways, held against the first. */
static int check_identity(struct check_work *w, const struct check_case *c, const struct check_result *first)
{
	const struct check_way *ways = w->o->device ? check_gpu_ways : check_ways;
	size_t all = w->o->device ? mem_countof(check_gpu_ways) : mem_countof(check_ways);
	size_t n = !w->o->quick ? all : w->o->device ? CHECK_QUICK_GPU_WAYS : CHECK_QUICK_WAYS;
	struct check_result r;
	char name[80];

	for (size_t i = 0; i < n; i++) {
		int rc;

		if (!check_way_fits(w, c, &ways[i]))
			continue;
		rc = check_run(&w->kernel, c, &ways[i], w->team, &w->found, &r);
		snprintf(name, sizeof name, "%s: ", ways[i].name);
		if (!rc && !r.rc && !first->rc)
			check_compare_same(c, name, first, &r, &w->found);
		check_result_fini(&r);
		if (rc)
			return rc;
	}
	return 0;
}

static int check_against_ref(struct check_work *w, const struct check_case *c, const struct check_result *got)
{
	struct check_finding broken = { 0 };
	struct check_result want;
	int rc = check_run(&w->ref, c, &check_first, w->team, &broken, &want);

	if (!rc && broken.verdict)
		check_find(&w->found, CHECK_FAILED, c, "ref itself: %.100s", broken.detail);
	else if (!rc && !got->rc && !want.rc)
		rc = check_compare_ref(c, &w->limit, &want, got, &w->found, &w->row);
	check_result_fini(&want);
	return rc;
}

static int check_case(struct check_work *w, struct check_case *c)
{
	struct check_result first;
	int rc = case_keep(c);

	if (rc)
		return rc;
	if (w->o->doing)
		snprintf(w->o->doing, CHECK_DOING, "%s", c->name);
	rc = check_run(&w->kernel, c, &check_first, w->team, &w->found, &first);
	if (!rc)
		rc = check_identity(w, c, &first);
	if (!rc)
		rc = check_against_ref(w, c, &first);
	check_result_fini(&first);
	w->row.n_case++;
	return rc;
}

/* ---- one row ---- */

/* Every case has a seed of its own, the same in every plugin's check. */
static uint64_t check_seed(const struct check_work *w, int shape, int i)
{
	uint64_t seed = w->o->seed ? w->o->seed : 1;

	return seed * 0x9e3779b97f4a7c15u + (uint64_t)w->row.op * 1000003 + (uint64_t)w->row.wfmt * 10007 +
		(uint64_t)shape * 503 + (uint64_t)i;
}

/* Case i of shape number s. 0 also when there is none. */
static int check_one(struct check_work *w, int s, int i)
{
	const struct case_spec spec = { .shape = &w->shape[s], .phase = w->row.phase, .wfmt = w->row.wfmt,
					.numerics = (enum dsv4_numerics)w->row.entry->numerics,
					.abi_minor = w->abi_minor, .quick = w->o->quick, .odd = s == 0 };
	struct check_case c;
	char what[sizeof c.name];
	int rc;

	if (w->o->cancel && atomic_load(w->o->cancel))
		return -ECANCELED;
	case_init(&c, check_seed(w, s, i), w->o->fence || w->o->device ? (enum guard_place)(i % 3) : GUARD_BYTES);
	c.memory = w->o->device ? &w->o->device->memory : NULL;
	rc = case_ops[w->row.op]->make(&c, &spec, i);
	memcpy(what, c.name, sizeof what);
	case_name(&c, "%s %s, %.100s", op_name(w->row.op), spec.shape->name, what);
	/* What a kernel finds wrong with its input it cannot return. */
	if (!rc && c.want_rc && w->o->device)
		rc = CASE_SKIP;
	if (!rc)
		rc = check_case(w, &c);
	case_fini(&c);
	return rc == CASE_SKIP ? 0 : rc;
}

/* Is there no more to see? A GPU that wrote outside of a buffer may be of no more use in the next case, which would be
 * told instead. */
static bool check_row_over(const struct check_work *w)
{
	return (w->o->first && w->row.n_case > 0) || (w->o->device && w->found.verdict == CHECK_OUT_OF_BOUNDS);
}

static int check_row(struct check_work *w, const struct dsv4_op_entry *e, enum dsv4_phase phase,
		     enum dsv4_wfmt wfmt)
{
	int rc = 0;

	w->kernel.op = w->ref.op = e->op;
	w->kernel.host.broke = w->ref.host.broke = NULL;
	w->kernel.fn = e->fn;
	w->ref.fn = ref_plugin.op[e->op].fn;
	w->limit = check_limit_of(e);
	w->found = (struct check_finding){ 0 };
	w->row = (struct check_row){ .op = e->op, .phase = phase, .wfmt = wfmt, .entry = e,
				     .class = w->limit.class, .limit = w->limit.limit };
	for (int s = 0; s < w->n_shape; s++)
		for (int i = 0; i < case_ops[e->op]->n && !rc && !check_row_over(w); i++)
			rc = check_one(w, s, i);
	if (rc && rc != -EIO)
		return rc;
	w->row.verdict = w->found.verdict;
	memcpy(w->row.detail, w->found.detail, sizeof w->row.detail);
	if (w->o->report)
		w->o->report(w->o->arg, &w->row);
	return rc ? rc : w->row.verdict != CHECK_PASS;
}

/* ---- one plugin ---- */

/* All phases and weight formats of one entry; adds to *n_failed. */
static int check_entry(struct check_work *w, const struct dsv4_op_entry *e, int *n_failed)
{
	if (!case_ops[e->op] || (w->o->op >= 0 && w->o->op != e->op))
		return 0;
	for (int phase = 0; phase < DSV4_N_PHASE; phase++)
		for (int wfmt = 0; wfmt < (case_ops[e->op]->weighted ? DSV4_N_WFMT : 1); wfmt++) {
			int rc;

			if (!(e->phases >> phase & 1) || !(e->wfmts >> wfmt & 1))
				continue;
			rc = check_row(w, e, (enum dsv4_phase)phase, (enum dsv4_wfmt)wfmt);
			if (rc < 0)
				return rc;
			*n_failed += rc;
		}
	return 0;
}

int check_plugin(const struct dsv4_plugin *p, const struct dsv4_host *base, const struct check_options *o)
{
	const struct check_shape both[] = { check_shape_tiny, check_shape_flash };
	struct check_work w = { .o = o, .shape = o->shape ? o->shape : both,
				.n_shape = o->shape ? o->n_shape : 2, .abi_minor = p->abi_minor };
	int n_failed = 0, rc = check_team_new(CHECK_TEAM, &w.team);

	if (rc)
		return rc;
	check_host_init(&w.kernel.host, base);
	check_host_init(&w.ref.host, base);
	if (o->device) {
		w.kernel.device = o->device;
		check_host_on(&w.kernel.host, o->device);
	}
	for (uint32_t i = 0; i < p->n_op && !rc; i++)
		rc = check_entry(&w, &p->op[i], &n_failed);
	check_team_free(&w.team);
	return rc ? rc : n_failed;
}
