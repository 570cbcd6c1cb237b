/* SPDX-License-Identifier: MIT
 * check_compare.c - are two results of one case the same bits, or as near as the op's class asks?
 * Threads: one caller. Locks: none. */
#include "plugins/check/check_compare.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_COMPARE_FLOOR 0x1p-140 /* denormals have too few bits for relative errors; flushing them is more */
#define CHECK_COMPARE_FLIPS 0.002    /* values that may fall on the other side of a rounding edge, at least two */
#define CHECK_COMPARE_MANY 16        /* values, of all or of a row or column, whose mean square is one to go by */
#define CHECK_COMPARE_GROUPS 4        /* groups from which on half of them tell something */
#define CHECK_COMPARE_PART 8         /* times the limit of the whole, for a row or column of many values */

struct check_limit check_limit_of(const struct dsv4_op_entry *e)
{
	static const struct {
		enum check_class class;
		double order, lossy, few_order, few_lossy, tie_order, tie_lossy;
	} table[DSV4_N_OP] = {
#define LIMIT(op, class, order, lossy, few_order, few_lossy, tie_order, tie_lossy, reason) \
	[DSV4_OP_##op] = { CHECK_##class, order, lossy, few_order, few_lossy, tie_order, tie_lossy },
#include "plugins/check/check_limits.def"
#undef LIMIT
	};
	bool set = table[e->op].class == CHECK_SET;

	if (e->numerics == DSV4_EXACT)
		return (struct check_limit){ .class = CHECK_EXACT };
	if (e->numerics == DSV4_ORDER)
		return (struct check_limit){ table[e->op].class, table[e->op].order, table[e->op].few_order,
					     table[e->op].tie_order };
	return (struct check_limit){ set ? CHECK_SET : CHECK_NMSE, table[e->op].lossy, table[e->op].few_lossy,
				     table[e->op].tie_lossy };
}

static float check_compare_f32(const struct op_out *o, int64_t row, int64_t col)
{
	float f;

	memcpy(&f, (const char *)o->data + (row * o->ld + col) * 4, sizeof f);
	return f;
}

static int32_t check_compare_i32(const struct op_out *o, int64_t row, int64_t col)
{
	return ((const int32_t *)o->data)[row * o->ld + col];
}

static bool check_compare_bits(const struct op_out *a, const struct op_out *b, int64_t row, int64_t col)
{
	float x = check_compare_f32(a, row, col), y = check_compare_f32(b, row, col);

	return dsv4_f32_bits(x) == dsv4_f32_bits(y) || (!a->is_int && isnan(x) && isnan(y));
}

/* Notes that one element is not as expected. */
static void check_compare_find(struct check_finding *f, enum check_verdict v, const struct check_case *c,
			       const char *name, const struct op_out *want, const struct op_out *got, int64_t row,
			       int64_t col)
{
	float w = check_compare_f32(want, row, col), g = check_compare_f32(got, row, col);

	if (want->is_int)
		check_find(f, v, c, "%s%s[%lld][%lld]: got %d, expected %d", name, want->name, (long long)row,
			   (long long)col, check_compare_i32(got, row, col), check_compare_i32(want, row, col));
	else
		check_find(f, v, c, "%s%s[%lld][%lld]: got %.9g (%08x), expected %.9g (%08x)", name, want->name,
			   (long long)row, (long long)col, (double)g, dsv4_f32_bits(g), (double)w,
			   dsv4_f32_bits(w));
}

/* Defined values whose bits differ; the first is noted. */
static int64_t check_compare_count(const struct check_case *c, enum check_verdict v, const char *name,
				   const struct op_out *want, const struct op_out *got, struct check_finding *f)
{
	int64_t n = 0;

	for (int64_t row = 0; row < want->n_row; row++)
		for (int64_t col = 0; col < check_valid(want, row); col++) {
			if (check_compare_bits(want, got, row, col))
				continue;
			if (n++ == 0)
				check_compare_find(f, v, c, name, want, got, row, col);
		}
	return n;
}

void check_compare_same(const struct check_case *c, const char *name, const struct check_result *a,
			const struct check_result *b, struct check_finding *f)
{
	/* From the last to the first: a count that differs explains the rows that do. */
	for (int i = a->n_out; i-- > 0;)
		check_compare_count(c, CHECK_NOT_IDENTICAL, name, &a->out[i], &b->out[i], f);
}

/* ---- distances ---- */

/* figure / limit decides which case a row shows; with limit 0 the figure alone. */
static void check_compare_far(struct check_row *row, double figure, double limit)
{
	double now = limit > 0 ? figure / limit : figure;
	double was = row->limit > 0 ? row->figure / row->limit : row->figure;

	if (now > was) {
		row->figure = figure;
		row->limit = limit;
	}
}

struct check_sums {
	double err2, ref2, worst; /* worst: the largest error, in units of its row's largest value;
				   * infinite when one of the two is no finite number */
	int64_t n, at_row, at_col; /* at: where */
};

static void check_compare_element(struct check_sums *s, double a, double b, double top, int64_t row, int64_t col)
{
	double e = fabs(b - a), far = top > 0 ? e / top : e;
	bool special = !isfinite(a) || !isfinite(b);

	s->n++;
	if (isfinite(a))
		s->ref2 += a * a;
	if (a == b || (isnan(a) && isnan(b)) || (!special && e <= CHECK_COMPARE_FLOOR))
		return;
	if (special)
		e = far = INFINITY;
	s->err2 += e * e;
	if (far <= s->worst)
		return;
	s->worst = far;
	s->at_row = row;
	s->at_col = col;
}

/* skip: rows not to be compared, or NULL. */
static struct check_sums check_compare_sums(const struct op_out *want, const struct op_out *got, const bool *skip)
{
	struct check_sums s = { 0 };

	for (int64_t row = 0; row < want->n_row; row++) {
		int64_t n = skip && skip[row] ? 0 : check_valid(want, row);
		double top = 0;

		for (int64_t col = 0; col < n; col++)
			if (isfinite(check_compare_f32(want, row, col)))
				top = fmax(top, fabs((double)check_compare_f32(want, row, col)));
		for (int64_t col = 0; col < n; col++)
			check_compare_element(&s, (double)check_compare_f32(want, row, col),
					      (double)check_compare_f32(got, row, col), top, row, col);
	}
	return s;
}

/* What a limit on nmse becomes where values may fall on the other side of a rounding edge: each moves `spread` of
 * the n outputs by a step of a value that may be `times` the usual, which is more where the n are few. */
static double check_compare_allow(const struct check_case *c, double limit, int64_t n, double times)
{
	double step = (double)c->step, of = (double)n / (double)(c->spread ? c->spread : 1);
	double flips = fmax(2, CHECK_COMPARE_FLIPS * of);

	return n ? limit + times * times * step * step * fmin(1, flips / of) : limit;
}

/* ---- rows and columns ---- */

/* One row, or one column over the rows. */
struct check_part {
	double err2, ref2, worst; /* worst: the largest error */
	int64_t n, at_row, at_col; /* at: where */
};

static void check_part_add(struct check_part *p, const struct op_out *want, const struct op_out *got, int64_t row,
			   int64_t col)
{
	double a = (double)check_compare_f32(want, row, col), e = fabs((double)check_compare_f32(got, row, col) - a);

	/* What is no number has been judged with the whole; if it is as wrong as can be, the case has failed. */
	if (!isfinite(a) || !isfinite(e))
		return;
	p->n++;
	p->ref2 += a * a;
	if (e <= CHECK_COMPARE_FLOOR)
		return;
	p->err2 += e * e;
	if (e <= p->worst)
		return;
	p->worst = e;
	p->at_row = row;
	p->at_col = col;
}

/* mean2: the mean square of the whole output. */
static void check_part_judge(const struct check_case *c, const struct check_limit *l, const struct check_part *p,
			     double mean2, const char *what, const struct op_out *want, const struct op_out *got,
			     struct check_finding *f, struct check_row *row)
{
	double figure = p->err2 > 0 ? p->err2 / fmax(p->ref2, mean2 * (double)p->n) : 0, limit = l->few;

	if (p->n >= CHECK_COMPARE_MANY)
		limit = fmin(l->few, CHECK_COMPARE_PART * l->limit);
	limit = check_compare_allow(c, limit, p->n, 4);
	check_compare_far(row, figure, limit);
	if (!(figure <= limit))
		check_compare_find(f, CHECK_WRONG, c, what, want, got, p->at_row, p->at_col);
}

/* column [width], of zeroes. */
static void check_compare_parts(const struct check_case *c, const struct check_limit *l, const struct op_out *want,
				const struct op_out *got, const bool *skip, double mean2, struct check_part *column,
				struct check_finding *f, struct check_row *row)
{
	for (int64_t r = 0; r < want->n_row; r++) {
		int64_t n = skip && skip[r] ? 0 : check_valid(want, r);
		struct check_part p = { 0 };

		for (int64_t col = 0; col < n; col++) {
			check_part_add(&p, want, got, r, col);
			check_part_add(&column[col], want, got, r, col);
		}
		check_part_judge(c, l, &p, mean2, "a row is far off, ", want, got, f, row);
	}
	for (int64_t col = 0; col < want->width; col++)
		check_part_judge(c, l, &column[col], mean2, "a column is far off, ", want, got, f, row);
}

static int check_compare_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Where a value on the other side of an edge moves `spread` outputs side by side (a head), few such groups have one:
 * what is off in half of them has not been rounded, or otherwise, though by energy it may pass for a few large
 * flips. */
static int check_compare_groups(const struct check_case *c, const struct check_limit *l, const struct op_out *want,
				const struct op_out *got, const bool *skip, double mean2, struct check_finding *f)
{
	int64_t per_row = want->width / c->spread, n = 0;
	double *nmse = mem_try((size_t)(want->n_row * per_row) + 1, sizeof *nmse);

	if (!nmse)
		return -ENOMEM;
	for (int64_t r = 0; r < want->n_row; r++)
		for (int64_t g = 0; !(skip && skip[r]) && (g + 1) * c->spread <= check_valid(want, r); g++) {
			struct check_part p = { 0 };

			for (int64_t col = g * c->spread; col < (g + 1) * c->spread; col++)
				check_part_add(&p, want, got, r, col);
			nmse[n++] = p.err2 > 0 ? p.err2 / fmax(p.ref2, mean2 * (double)p.n) : 0;
		}
	qsort(nmse, (size_t)n, sizeof *nmse, check_compare_order);
	if (n >= CHECK_COMPARE_GROUPS && !(nmse[n / 2] <= l->few))
		check_find(f, CHECK_WRONG, c,
			   "%s: half of its %lld groups of %lld values are off by %.2g and more, expected %.2g at most",
			   want->name, (long long)n, (long long)c->spread, nmse[n / 2], l->few);
	free(nmse);
	return 0;
}

static int check_compare_floats(const struct check_case *c, const struct check_limit *l, const struct op_out *want,
				const struct op_out *got, const bool *skip, struct check_finding *f,
				struct check_row *row)
{
	struct check_sums s = check_compare_sums(want, got, skip);
	double ref2 = fmax(s.ref2, (double)c->typical * (double)c->typical * (double)s.n);
	double figure, limit = l->limit;
	struct check_part *column;

	if (l->class == CHECK_ULP && c->step == 0.0f) {
		figure = s.worst * 0x1p23;
	} else {
		figure = s.err2 == 0 ? 0 : ref2 == 0 ? INFINITY : s.err2 / ref2;
		limit = check_compare_allow(c, s.n < CHECK_COMPARE_MANY ? l->few : limit, s.n, 2);
	}
	check_compare_far(row, figure, limit);
	if (!(figure <= limit))
		check_compare_find(f, CHECK_WRONG, c, "", want, got, s.at_row, s.at_col);
	/* Units in the last place are counted value by value as it is. */
	if (figure == 0 || l->class == CHECK_ULP)
		return 0;
	column = mem_try((size_t)want->width + 1, sizeof *column);
	if (!column)
		return -ENOMEM;
	check_compare_parts(c, l, want, got, skip, ref2 / (double)s.n, column, f, row);
	free(column);
	return c->step > 0 && c->spread > 1 ? check_compare_groups(c, l, want, got, skip, ref2 / (double)s.n, f) : 0;
}

/* ---- sets ---- */

static bool check_compare_has(const struct op_out *o, int64_t row, int32_t id)
{
	for (int64_t i = 0; i < check_valid(o, row); i++)
		if (check_compare_i32(o, row, i) == id)
			return true;
	return false;
}

/* The lowest and the highest value of the ids that only `a` has; false when there are none. */
static bool check_compare_only(const struct check_case *c, enum dsv4_op op, const struct op_out *a,
			       const struct op_out *b, int64_t row, double range[2])
{
	bool any = false;

	for (int64_t i = 0; i < check_valid(a, row); i++) {
		int32_t id = check_compare_i32(a, row, i);
		double v;

		if (check_compare_has(b, row, id))
			continue;
		v = case_ops[op]->rank ? case_ops[op]->rank(&c->args, row, id) : NAN;
		if (!any || !(v >= range[0]))
			range[0] = v;
		if (!any || !(v <= range[1]))
			range[1] = v;
		any = true;
	}
	return any;
}

static bool check_compare_rising(const struct op_out *o, int64_t row)
{
	for (int64_t i = 1; i < check_valid(o, row); i++)
		if (check_compare_i32(o, row, i) <= check_compare_i32(o, row, i - 1))
			return false;
	return true;
}

/* May `got` stand for `want`: rising, and other ids only where their values tie? */
static bool check_compare_tie(const struct check_case *c, enum dsv4_op op, double tie, const struct op_out *want,
			      const struct op_out *got, int64_t row)
{
	double a[2], b[2], far;

	if (tie < 0 || !check_compare_rising(got, row))
		return false;
	if (!check_compare_only(c, op, want, got, row, a) || !check_compare_only(c, op, got, want, row, b))
		return true; /* both rising and as many: the same */
	far = fmax(fabs(a[1] - b[0]), fabs(b[1] - a[0]));
	return far <= tie * fmax(fabs(a[1]), fabs(b[1]));
}

/* Rows of sets that differ by more than ties; `skip` gets the rows that differ at all. */
static void check_compare_set(const struct check_case *c, const struct check_limit *l, const struct op_out *want,
			      const struct op_out *got, bool *skip, struct check_finding *f, struct check_row *row)
{
	int64_t n_wrong = 0;

	for (int64_t r = 0; r < want->n_row; r++) {
		int64_t n = check_valid(want, r), col = 0;

		while (col < n && check_compare_i32(want, r, col) == check_compare_i32(got, r, col))
			col++;
		skip[r] = col < n;
		if (!skip[r] || check_compare_tie(c, row->op, l->tie, want, got, r))
			continue;
		if (n_wrong++ == 0)
			check_compare_find(f, CHECK_WRONG, c, "", want, got, r, col);
	}
	if (l->class == CHECK_SET)
		check_compare_far(row, (double)n_wrong, 0);
}

/* ---- all outputs of a case ---- */

static void check_compare_exact(const struct check_case *c, const struct check_result *want,
				const struct check_result *got, struct check_finding *f, struct check_row *row)
{
	int64_t n = 0;

	for (int i = want->n_out; i-- > 0;)
		n += check_compare_count(c, CHECK_WRONG, "", &want->out[i], &got->out[i], f);
	check_compare_far(row, (double)n, 0);
}

/* Counts are compared as they are, sets as sets, floats by the limit. */
static int check_compare_near(const struct check_case *c, const struct check_limit *l,
			      const struct check_result *want, const struct check_result *got, bool *skip,
			      struct check_finding *f, struct check_row *row)
{
	int rc = 0;

	for (int i = want->n_out; i-- > 0;)
		if (want->out[i].is_int && !want->out[i].is_set)
			check_compare_count(c, CHECK_WRONG, "", &want->out[i], &got->out[i], f);
	for (int i = 0; i < want->n_out; i++)
		if (want->out[i].is_set)
			check_compare_set(c, l, &want->out[i], &got->out[i], skip, f, row);
	for (int i = 0; i < want->n_out && !rc; i++)
		if (!want->out[i].is_int)
			rc = check_compare_floats(c, l, &want->out[i], &got->out[i], skip, f, row);
	return rc;
}

int check_compare_ref(const struct check_case *c, const struct check_limit *l, const struct check_result *want,
		      const struct check_result *got, struct check_finding *f, struct check_row *row)
{
	bool *skip = mem_try((size_t)(want->n_out ? want->out[0].n_row : 0) + 1, sizeof *skip);
	int rc = 0;

	if (!skip)
		return -ENOMEM;
	for (int i = 0; i < want->n_out; i++)
		op_diff_add(&row->diff, &want->out[i], got->out[i].data, 0);
	if (l->class == CHECK_EXACT)
		check_compare_exact(c, want, got, f, row);
	else
		rc = check_compare_near(c, l, want, got, skip, f, row);
	free(skip);
	return rc;
}
