/* SPDX-License-Identifier: MIT
 * eval_diff.c - compares two files of eval results, tensor by tensor, and prints the table.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/eval/eval.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How a tensor is compared, by the part of its name after the case's. */
enum eval_kind { EVAL_EQUAL, EVAL_FLOATS, EVAL_LOGITS, EVAL_SETS, EVAL_ROWS, EVAL_SHOWN };

static const struct {
	const char *part;
	enum eval_kind kind;
} eval_kinds[] = {
	{ "tokens", EVAL_EQUAL },     /* the case itself: must be the same */
	{ "positions", EVAL_EQUAL },
	{ "logits", EVAL_LOGITS },
	{ "mtp", EVAL_LOGITS },
	{ "streams", EVAL_FLOATS },
	{ "experts", EVAL_SETS },
	{ "rows", EVAL_ROWS },
	{ "margin", EVAL_SHOWN },     /* small differences of large scores: not judged */
};

/* What one row of the table says. */
struct eval_row {
	int n_pos, worst_pos;
	double median, worst, max;
	int n_top, top_bad;        /* positions with a top-1; those that differ beyond the gap */
	int n_set, set_bad, n_judged, judged_bad;
	int n_nan;                 /* positions with a NaN in both files, where none belongs */
	const int32_t *position;   /* [n_pos] of an MTP row, whose last of n_tok has no next token; else NULL */
	int64_t n_tok;
	bool unequal;
};

static bool eval_split(const char *name, size_t *ret_case, enum eval_kind *ret_kind)
{
	for (size_t i = 0; i < mem_countof(eval_kinds); i++) {
		size_t n = strlen(eval_kinds[i].part);

		for (const char *p = strchr(name, '.'); p; p = strchr(p + 1, '.')) {
			if (strncmp(p + 1, eval_kinds[i].part, n) || (p[1 + n] && p[1 + n] != '.'))
				continue;
			*ret_case = (size_t)(p - name);
			*ret_kind = eval_kinds[i].kind;
			return true;
		}
	}
	return false;
}

/* ---- floats ---- */

/* How many values are NaN in both. */
static int64_t eval_nans(const float *a, const float *b, int64_t n)
{
	int64_t count = 0;

	for (int64_t i = 0; i < n; i++)
		count += isnan(a[i]) && isnan(b[i]);
	return count;
}

/* Relative RMS of one position; infinite where a value is NaN, or infinite in one of the two. */
static double eval_rms(const float *a, const float *b, int64_t n, double *max)
{
	double num = 0, den = 0;

	for (int64_t i = 0; i < n; i++) {
		double d;

		if (a[i] == b[i]) {
			den += isfinite(b[i]) ? (double)b[i] * b[i] : 0;
			continue;
		}
		d = fabs((double)a[i] - b[i]);
		if (!isfinite(d))
			d = INFINITY;
		*max = d > *max ? d : *max;
		num += d * d;
		den += (double)b[i] * b[i];
	}
	if (num == 0)
		return 0;
	return isfinite(num) && den > 0 ? sqrt(num / den) : INFINITY;
}

static int eval_compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static bool eval_floats(const struct tensorfile_tensor *a, const struct tensorfile_tensor *b,
	struct eval_row *r)
{
	int64_t width = a->n / r->n_pos;
	double *rms = mem_try((size_t)r->n_pos, sizeof *rms);

	if (!rms)
		return false;
	for (int i = 0; i < r->n_pos; i++) {
		const float *x = a->f32 + i * width, *y = b->f32 + i * width;
		int64_t nans = eval_nans(x, y, width);

		if (nans == width && r->position && r->position[i] == r->n_tok - 1)
			continue; /* both say that there is no value */
		r->n_nan += nans > 0;
		rms[i] = eval_rms(x, y, width, &r->max);
		if (rms[i] > r->worst) {
			r->worst = rms[i];
			r->worst_pos = i;
		}
	}
	qsort(rms, (size_t)r->n_pos, sizeof *rms, eval_compare_double);
	r->median = r->n_pos % 2 ? rms[r->n_pos / 2] : (rms[r->n_pos / 2 - 1] + rms[r->n_pos / 2]) / 2;
	free(rms);
	return true;
}

/* The index of the largest value, the lowest of equals; -1 when there is none. */
static int64_t eval_top(const float *x, int64_t n, float *ret_gap)
{
	int64_t best = -1;
	float second = -INFINITY;

	for (int64_t i = 0; i < n; i++)
		if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) {
			second = best < 0 ? second : x[best];
			best = i;
		} else if (x[i] > second) {
			second = x[i];
		}
	*ret_gap = best < 0 ? 0 : x[best] - second;
	return best;
}

static void eval_tops(const struct tensorfile_tensor *a, const struct tensorfile_tensor *b, double gap,
	struct eval_row *r)
{
	int64_t width = a->n / r->n_pos;

	for (int i = 0; i < r->n_pos; i++) {
		float gap_a, gap_b;
		int64_t top_a = eval_top(a->f32 + i * width, width, &gap_a);
		int64_t top_b = eval_top(b->f32 + i * width, width, &gap_b);

		if (top_b < 0 && top_a < 0)
			continue;
		r->n_top++;
		if (top_a != top_b && (top_a < 0 || top_b < 0 || gap_b > gap))
			r->top_bad++;
	}
}

/* ---- sets ---- */

/* Sorted, without the -1 that pads; returns the count. */
static int eval_sort_set(const int32_t *from, int64_t n, int32_t *to)
{
	int count = 0;

	for (int64_t i = 0; i < n; i++) {
		int at = count;

		if (from[i] < 0)
			continue;
		for (; at > 0 && to[at - 1] > from[i]; at--)
			to[at] = to[at - 1];
		to[at] = from[i];
		count++;
	}
	return count;
}

/* The two may be padded to different widths. */
static bool eval_sets(const struct tensorfile_tensor *a, const struct tensorfile_tensor *b,
	const struct tensorfile_tensor *margin, double above, struct eval_row *r)
{
	int64_t wa = a->n / r->n_pos, wb = b->n / r->n_pos;
	int32_t *sa = mem_try((size_t)wa, sizeof *sa), *sb = mem_try((size_t)wb, sizeof *sb);

	for (int i = 0; i < r->n_pos && sa && sb; i++) {
		int na = eval_sort_set(a->i32 + i * wa, wa, sa), nb = eval_sort_set(b->i32 + i * wb, wb, sb);
		bool same = na == nb && memcmp(sa, sb, (size_t)na * sizeof *sa) == 0;
		bool judged = !margin || margin->f32[i] > above;

		r->n_set++;
		r->set_bad += !same;
		r->n_judged += judged;
		r->judged_bad += judged && !same;
	}
	free(sa);
	free(sb);
	return sa && sb;
}

/* ---- the table ---- */

static bool eval_same_shape(const struct tensorfile_tensor *a, const struct tensorfile_tensor *b,
	enum eval_kind kind)
{
	int n = kind == EVAL_ROWS ? 1 : a->n_dim;

	if (a->type != b->type || a->n_dim != b->n_dim || a->n_dim < 1)
		return false;
	for (int i = 0; i < n; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

static bool eval_right_type(const struct tensorfile_tensor *t, enum eval_kind kind)
{
	bool ints = kind == EVAL_EQUAL || kind == EVAL_SETS || kind == EVAL_ROWS;

	return t->type == (ints ? TENSORFILE_I32 : TENSORFILE_F32);
}

/* "NAME.margin.L" for "NAME.rows.L". */
static const struct tensorfile_tensor *eval_margin_of(const struct tensorfile *b, const char *name,
	size_t case_len)
{
	const struct tensorfile_tensor *m;
	struct buf text = { 0 };

	buf_printf(&text, "%.*s.margin%s", (int)case_len, name, name + case_len + strlen(".rows"));
	m = tensorfile_find(b, buf_str(&text));
	buf_fini(&text);
	return m && m->type == TENSORFILE_F32 ? m : NULL;
}

/* For "NAME.mtp": the positions, whose last one alone may be without values. */
static void eval_mtp_positions(const struct tensorfile *b, const char *name, size_t case_len,
	struct eval_row *r)
{
	const struct tensorfile_tensor *tokens, *positions;
	struct buf text = { 0 };

	buf_printf(&text, "%.*s.tokens", (int)case_len, name);
	tokens = tensorfile_find(b, buf_str(&text));
	buf_clear(&text);
	buf_printf(&text, "%.*s.positions", (int)case_len, name);
	positions = tensorfile_find(b, buf_str(&text));
	buf_fini(&text);
	if (tokens && positions && positions->type == TENSORFILE_I32 && positions->n == r->n_pos) {
		r->position = positions->i32;
		r->n_tok = tokens->n;
	}
}

static bool eval_beyond(const struct eval_row *r, enum eval_kind kind, const struct eval_limits *l)
{
	bool floats = kind == EVAL_FLOATS || kind == EVAL_LOGITS;

	if (r->unequal || r->n_nan > 0)
		return true;
	if (l->worst < 0)
		return false;
	if (floats && (r->worst > l->worst || (l->median >= 0 && r->median > l->median)))
		return true;
	return r->top_bad > 0;
}

static void eval_print(struct buf *out, const char *name, const struct eval_row *r, enum eval_kind kind,
	const char *verdict)
{
	buf_printf(out, "%-24s %5d", name, r->n_pos);
	if (kind == EVAL_EQUAL)
		buf_printf(out, " %9s %9s %9s", r->unequal ? "unequal" : "equal", "", "");
	else if (kind == EVAL_SETS || kind == EVAL_ROWS)
		buf_printf(out, " %9s %9s %9s", "", "", "");
	else
		buf_printf(out, " %9.2e %9.2e %9.2e", r->median, r->worst, r->max);
	if (kind == EVAL_LOGITS)
		buf_printf(out, " %4d/%-4d", r->n_top - r->top_bad, r->n_top);
	else
		buf_printf(out, " %9s", "");
	if (r->n_set)
		buf_printf(out, " %4d/%-4d", r->n_set - r->set_bad, r->n_set);
	else
		buf_printf(out, " %9s", "");
	buf_printf(out, " %s\n", verdict);
}

static bool eval_compare(const struct tensorfile_tensor *x, const struct tensorfile_tensor *y,
	enum eval_kind kind, const struct tensorfile_tensor *margin, const struct eval_limits *l,
	struct eval_row *r)
{
	if (margin && margin->n != r->n_pos)
		margin = NULL;
	switch (kind) {
	case EVAL_EQUAL:
		r->unequal = memcmp(x->i32, y->i32, (size_t)x->n * sizeof *x->i32) != 0;
		return true;
	case EVAL_SETS:
	case EVAL_ROWS:
		return eval_sets(x, y, margin, l->margin, r);
	case EVAL_LOGITS:
		eval_tops(x, y, l->gap, r);
		return eval_floats(x, y, r);
	case EVAL_FLOATS:
	case EVAL_SHOWN:
		return eval_floats(x, y, r);
	}
	return false;
}

/* Sets of all tensors of a kind, since a share of one tensor's few positions would say little. */
struct eval_total {
	int n, bad;
};

/* One tensor of both files; is it beyond the limits? Sets count into `total`. */
static bool eval_diff_tensor(const struct tensorfile *b, const struct tensorfile_tensor *x,
	const struct tensorfile_tensor *y, const struct eval_limits *l, struct eval_total *total,
	struct buf *out)
{
	struct eval_row r = { .n_pos = (int)x->dim[0] };
	enum eval_kind kind = EVAL_EQUAL;
	size_t case_len = 0;
	bool beyond = true;
	const struct tensorfile_tensor *margin;
	const char *verdict;

	must(eval_split(x->name, &case_len, &kind));
	margin = kind == EVAL_ROWS ? eval_margin_of(b, x->name, case_len) : NULL;
	if (strcmp(x->name + case_len, ".mtp") == 0)
		eval_mtp_positions(b, x->name, case_len, &r);
	if (!eval_same_shape(x, y, kind) || !eval_right_type(x, kind) || !eval_right_type(y, kind)) {
		verdict = "shape or type differs";
	} else if (r.n_pos == 0) {
		verdict = "empty";
		beyond = false;
	} else if (!eval_compare(x, y, kind, margin, l, &r)) {
		verdict = "no memory to compare";
	} else {
		beyond = eval_beyond(&r, kind, l);
		verdict = r.n_nan ? "NaN in both" : beyond ? "BEYOND" : "";
		total[kind].n += r.n_judged;
		total[kind].bad += r.judged_bad;
	}
	eval_print(out, x->name, &r, kind, verdict);
	return beyond;
}

/* Is the tensor's part in the list "logits,streams"? */
static bool eval_listed(const char *only, const char *name, size_t case_len)
{
	const char *part = name + case_len + 1;
	size_t n = strcspn(part, ".");

	for (; only && *only; only += strcspn(only, ",") + (only[strcspn(only, ",")] == ','))
		if (strcspn(only, ",") == n && memcmp(only, part, n) == 0)
			return true;
	return !only;
}

static bool eval_wants(const struct tensorfile_tensor *t, const struct eval_limits *l,
	enum eval_kind *ret_kind)
{
	size_t len;

	return eval_split(t->name, &len, ret_kind) &&
	       (*ret_kind == EVAL_EQUAL || eval_listed(l->only, t->name, len));
}

static void eval_only_in(const struct tensorfile *a, const struct tensorfile *b, const struct eval_limits *l,
	const char *which, struct buf *out)
{
	enum eval_kind kind;

	for (int i = 0; i < a->n; i++)
		if (eval_wants(&a->tensor[i], l, &kind) && !tensorfile_find(b, a->tensor[i].name))
			buf_printf(out, "%-24s only in %s\n", a->tensor[i].name, which);
}

static int eval_total_sets(const struct eval_total *t, const char *what, const struct eval_limits *l,
	struct buf *out)
{
	bool beyond = l->worst >= 0 && t->n - t->bad < l->sets * t->n;

	if (t->n)
		buf_printf(out, "%s: %d of %d sets equal%s\n", what, t->n - t->bad, t->n,
			beyond ? " BEYOND" : "");
	return beyond;
}

int eval_diff(const struct tensorfile *a, const struct tensorfile *b, const struct eval_limits *l,
	struct buf *out)
{
	struct eval_total total[EVAL_SHOWN + 1] = { 0 };
	int common = 0, beyond = 0;
	enum eval_kind kind;

	buf_printf(out, "%-24s %5s %9s %9s %9s %9s %9s\n", "tensor", "pos", "rms med", "rms worst", "max abs",
		"top-1", "sets");
	for (int i = 0; i < a->n; i++) {
		const struct tensorfile_tensor *y = tensorfile_find(b, a->tensor[i].name);

		if (!y || !eval_wants(&a->tensor[i], l, &kind))
			continue;
		beyond += eval_diff_tensor(b, &a->tensor[i], y, l, total, out);
		common += kind != EVAL_EQUAL;
	}
	eval_only_in(a, b, l, "A", out);
	eval_only_in(b, a, l, "B", out);
	beyond += eval_total_sets(&total[EVAL_SETS], "experts", l, out);
	beyond += eval_total_sets(&total[EVAL_ROWS], "rows above the margin", l, out);
	return common ? beyond : -1;
}
