/* SPDX-License-Identifier: MIT
 * check_run.c - one case run in one way: which bits come out, and was everything else left alone?
 * Threads: one caller, plus those of the split. Locks: none. */
#include "plugins/check/check_run.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_find(struct check_finding *f, enum check_verdict v, const struct check_case *c, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	/* enum check_verdict rises with gravity. */
	if (v <= f->verdict)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	f->verdict = v;
	snprintf(f->detail, sizeof f->detail, "%s: %.120s", c->name, text);
}

int64_t check_valid(const struct op_out *o, int64_t row)
{
	int64_t n = o->valid ? o->valid[row] : o->width;

	return n < 0 ? 0 : n > o->width ? o->width : n;
}

void check_result_fini(struct check_result *r)
{
	for (int i = 0; i < r->n_out; i++)
		guard_free(&r->mem[i]);
	free(r->visible);
	*r = (struct check_result){ 0 };
}

/* ---- outputs ---- */

/* Guarded memory for one output, filled with what must be there before the call. */
static int check_run_output(const struct check_case *c, const struct op_out *o, struct guard *g)
{
	size_t n = o->n_row > 0 ? (size_t)((o->n_row - 1) * o->ld + o->width) : 0;
	int rc = case_guard(c, g, n * 4, 4 * (n % 16));

	if (rc)
		return rc;
	if (o->in_place && n)
		memcpy(g->data, o->data, n * 4);
	return guard_keep(g);
}

/* Points the outputs of *args at new memory. */
static int check_run_outputs(enum dsv4_op op, const struct check_case *c, union case_args *args,
			     struct check_result *r)
{
	int64_t rows = op_rows(op, args);
	struct op_out before[OP_IO_MAX_OUT];
	int n, rc = 0;

	r->visible = mem_try((size_t)rows + 1, sizeof *r->visible);
	if (!r->visible)
		return -ENOMEM;
	n = op_outputs(op, args, r->visible, before);
	for (; r->n_out < n && !rc; r->n_out++) {
		rc = check_run_output(c, &before[r->n_out], &r->mem[r->n_out]);
		if (!rc)
			op_redirect(op, args, r->n_out, r->mem[r->n_out].data);
	}
	if (!rc)
		op_outputs(op, args, r->visible, r->out);
	return rc;
}

/* ---- was everything else left alone? ---- */

/* Columns past what the op may write, also those between rows. */
static void check_run_gaps(const struct check_kernel *k, const struct check_case *c, const union case_args *args,
			   int which, const struct check_result *r, struct check_finding *f)
{
	const struct op_out *o = &r->out[which];
	const struct case_op *op = case_ops[k->op];

	for (int64_t row = 0; row < o->n_row; row++) {
		int64_t may = op->may_write ? op->may_write(args, which, row) : check_valid(o, row);
		int64_t end = row + 1 < o->n_row ? o->ld : o->width;
		size_t at = (size_t)(row * o->ld + may) * 4, n = (size_t)(end - may) * 4;

		if (end > may && memcmp(r->mem[which].data + at, r->mem[which].copy + at, n) != 0) {
			check_find(f, CHECK_OUT_OF_BOUNDS, c, "wrote to %s[%lld] past its %lld values", o->name,
				   (long long)row, (long long)may);
			return;
		}
	}
}

/* What was changed is put back: the next run, perhaps ref's, shall not be blamed for it. */
static void check_run_input(const struct check_case *c, int i, struct check_finding *f)
{
	const struct guard *g = &c->buf[i];
	ptrdiff_t at;

	if (!guard_intact(g, &at))
		check_find(f, CHECK_OUT_OF_BOUNDS, c, "wrote at byte %td of input %d, which has %zu", at, i, g->size);
	else if ((at = guard_changed(g)) >= 0)
		check_find(f, CHECK_OUT_OF_BOUNDS, c, "changed byte %td of input %d", at, i);
	else
		return;
	guard_restore(g);
}

static void check_run_bounds(const struct check_kernel *k, const struct check_case *c,
			     const union case_args *args, const struct check_result *r, struct check_finding *f)
{
	ptrdiff_t at;

	for (int i = 0; i < r->n_out; i++) {
		if (!guard_intact(&r->mem[i], &at))
			check_find(f, CHECK_OUT_OF_BOUNDS, c, "wrote at byte %td of %s, which has %zu", at,
				   r->out[i].name, r->mem[i].size);
		check_run_gaps(k, c, args, i, r, f);
	}
	for (int i = 0; i < c->n_buf; i++)
		check_run_input(c, i, f);
}

/* ---- run ---- */

/* A GPU's ops have the experts' descriptors in its memory, too, and no repacked copies. */
static void check_run_args(const struct check_kernel *k, union case_args *args)
{
	if (!k->device || k->op != DSV4_OP_moe_experts)
		return;
	args->moe_experts.packed = NULL;
	args->moe_experts.expert_table = args->moe_experts.expert; /* cases lie in memory that both read */
}

/* 0 or -EIO. */
static int check_run_wait(const struct check_kernel *k, const struct check_case *c, const struct check_way *w,
			  struct check_finding *f)
{
	char why[160] = "";

	if (!k->device || !k->device->wait(k->device->arg, why, sizeof why))
		return 0;
	check_find(f, CHECK_FAILED, c, "%s: %s", w->name, why);
	return -EIO;
}

/* One call, for tokens [t0, t0 + n). 0 or -EIO. */
static int check_run_call(const struct check_kernel *k, const struct check_case *c, const struct check_way *w,
			   const union case_args *whole, int64_t t0, int64_t n, struct dsv4_exec *x,
			   struct check_finding *f, struct check_result *r)
{
	struct dsv4_seq mem[CASE_MAX_SEQ];
	union case_args args = *whole;
	int rc;

	if (w->chunk)
		case_ops[k->op]->slice(&args, t0, n, mem);
	rc = op_call(k->op, k->fn, x, &k->host.table, &args);
	if (rc > 0 || (rc != c->want_rc && !(w->without == CHECK_SCRATCH && rc)))
		check_find(f, CHECK_FAILED, c, "%s: returned %d, expected %d", w->name, rc, c->want_rc);
	if (rc && !r->rc)
		r->rc = rc;
	rc = check_run_wait(k, c, w, f);
	if (!check_host_scratch_intact(x))
		check_find(f, CHECK_OUT_OF_BOUNDS, c, "%s: wrote outside its scratch memory", w->name);
	check_host_reset(x);
	return rc;
}

static int check_run_calls(const struct check_kernel *k, const struct check_case *c, const struct check_way *w,
			    struct check_team *team, const union case_args *args, struct check_finding *f,
			    struct check_result *r)
{
	struct dsv4_exec x = { .split = w->split, .threads = w->threads, .team = team, .rng = c->rng,
			       .poison = w->poison, .n_scratch = w->without == CHECK_SCRATCH ? 0 : -1,
			       .place = c->place, .device = k->device };
	int64_t rows = op_rows(k->op, args), chunk = w->chunk ? w->chunk * (c->together ? c->together : 1) : rows;
	const char *broke;
	int rc = 0;

	if (rows == 0)
		rc = check_run_call(k, c, w, args, 0, 0, &x, f, r);
	for (int64_t t = 0; t < rows && !rc; t += chunk)
		rc = check_run_call(k, c, w, args, t, rows - t < chunk ? rows - t : chunk, &x, f, r);
	broke = x.broke ? x.broke : k->host.broke;
	if (broke)
		check_find(f, CHECK_FAILED, c, "%s: %s", w->name, broke);
	check_host_fini(&x);
	return rc;
}

int check_run(const struct check_kernel *k, const struct check_case *c, const struct check_way *w,
	      struct check_team *team, struct check_finding *f, struct check_result *ret_r)
{
	union case_args args = c->args;
	int rc;

	*ret_r = (struct check_result){ 0 };
	if (w->without == CHECK_PACKED)
		case_ops[k->op]->native(&args);
	check_run_args(k, &args);
	rc = check_run_outputs(k->op, c, &args, ret_r);
	if (rc)
		return rc;
	rc = check_run_calls(k, c, w, team, &args, f, ret_r);
	check_run_bounds(k, c, &args, ret_r, f);
	return rc;
}
