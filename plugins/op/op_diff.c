/* SPDX-License-Identifier: MIT
 * op_diff.c - how far two results of one op are apart.
 * Threads: any. Locks: none. */
#include "plugins/op/op_diff.h"

#include <math.h>
#include <string.h>

/* Error and reference of one row. */
struct op_diff_row { double err2, ref2; };

/* A pair of which one is no number, or both: the same on both sides, or as wrong as can be. */
static void op_diff_special(struct op_diff *d, struct op_diff_row *r, double a, double b)
{
	if (a == b || (isnan(a) && isnan(b)))
		return;
	if (isnan(b) && !isnan(a))
		d->n_nan++;
	d->n_nonfinite++;
	r->err2 = d->max_abs = INFINITY;
}

static void op_diff_value(struct op_diff *d, struct op_diff_row *r, double a, double b)
{
	double e = fabs(b - a);

	if (!isfinite(a) || !isfinite(b)) {
		op_diff_special(d, r, a, b);
		return;
	}
	r->err2 += e * e;
	r->ref2 += a * a;
	d->dot += a * b;
	d->b2 += b * b;
	d->max_abs = fmax(d->max_abs, e);
}

static double op_diff_ratio(double err2, double ref2)
{
	if (err2 == 0)
		return 0;
	return ref2 == 0 ? INFINITY : err2 / ref2;
}

static void op_diff_worst(struct op_diff *d, double error, int64_t at)
{
	if (error > d->worst_row) {
		d->worst_row = error;
		d->worst_at = at;
	}
}

static void op_diff_row_add(struct op_diff *d, const struct op_out *o, const char *a, const char *b, int64_t n,
	int64_t at)
{
	struct op_diff_row r = { 0 };

	for (int64_t i = 0; i < n; i++, a += 4, b += 4) {
		float fa, fb;
		int32_t ia, ib;

		d->n++;
		d->n_bits += memcmp(a, b, 4) != 0;
		memcpy(&fa, a, sizeof fa);
		memcpy(&fb, b, sizeof fb);
		memcpy(&ia, a, sizeof ia);
		memcpy(&ib, b, sizeof ib);
		if (o->is_int)
			op_diff_value(d, &r, ia, ib);
		else
			op_diff_value(d, &r, (double)fa, (double)fb);
	}
	d->err2 += r.err2;
	d->ref2 += r.ref2;
	op_diff_worst(d, sqrt(op_diff_ratio(r.err2, r.ref2)), at);
}

static bool op_diff_rising(const int32_t *v, int64_t n)
{
	for (int64_t i = 1; i < n; i++)
		if (v[i] <= v[i - 1])
			return false;
	return true;
}

static bool op_diff_has(const int32_t *v, int64_t n, int32_t x)
{
	for (int64_t i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

/* Members of the set v, and of them how many are in w too; in whatever order, and repeated, each counts once. */
static int64_t op_diff_members(const int32_t *v, const int32_t *w, int64_t n, int64_t *ret_common)
{
	int64_t n_member = 0, common = 0;

	for (int64_t i = 0; i < n; i++)
		if (!op_diff_has(v, i, v[i])) {
			n_member++;
			common += op_diff_has(w, n, v[i]);
		}
	*ret_common = common;
	return n_member;
}

/* The same of two rising lists, in one pass. */
static int64_t op_diff_common(const int32_t *v, int64_t n, const int32_t *w, int64_t m)
{
	int64_t common = 0;

	for (int64_t i = 0, j = 0; i < n && j < m;) {
		common += v[i] == w[j];
		if (v[i] <= w[j])
			i++;
		else
			j++;
	}
	return common;
}

static void op_diff_overlap(struct op_diff *d, int64_t n_a, int64_t n_b, int64_t common, int64_t at)
{
	int64_t all = n_a + n_b - common;
	double jaccard = all == 0 ? 1 : (double)common / (double)all;

	d->n_set++;
	d->jaccard += jaccard;
	d->n_set_differ += common != n_a || common != n_b;
	op_diff_worst(d, 1 - jaccard, at);
}

static void op_diff_set_add(struct op_diff *d, const int32_t *a, const int32_t *b, int64_t n, int64_t at)
{
	int64_t n_a = n, n_b = n, common;

	if (op_diff_rising(a, n) && op_diff_rising(b, n)) {
		common = op_diff_common(a, n, b, n);
	} else {
		n_a = op_diff_members(a, b, n, &common);
		n_b = op_diff_members(b, a, n, &common);
	}
	d->n += (uint64_t)n;
	for (int64_t i = 0; i < n; i++)
		d->n_bits += a[i] != b[i];
	op_diff_overlap(d, n_a, n_b, common, at);
}

void op_diff_add_lists(struct op_diff *d, const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b, int64_t at)
{
	int64_t common = op_diff_common(a, n_a, b, n_b);

	d->n += (uint64_t)(n_a > n_b ? n_a : n_b);
	d->n_bits += (uint64_t)((n_a > n_b ? n_a : n_b) - common);
	op_diff_overlap(d, n_a, n_b, common, at);
}

void op_diff_add(struct op_diff *d, const struct op_out *a, const void *b, int64_t row0)
{
	for (int64_t r = 0; r < a->n_row; r++) {
		const char *va = (const char *)a->data + r * a->ld * 4, *vb = (const char *)b + r * a->ld * 4;
		int64_t n = a->valid ? a->valid[r] : a->width;

		n = n > a->width ? a->width : n;
		if (a->is_set)
			op_diff_set_add(d, (const int32_t *)(const void *)va, (const int32_t *)(const void *)vb, n,
				row0 + r);
		else
			op_diff_row_add(d, a, va, vb, n, row0 + r);
	}
}

void op_diff_merge(struct op_diff *d, const struct op_diff *other)
{
	d->n += other->n;
	d->err2 += other->err2;
	d->ref2 += other->ref2;
	d->dot += other->dot;
	d->b2 += other->b2;
	d->max_abs = fmax(d->max_abs, other->max_abs);
	d->n_bits += other->n_bits;
	d->n_nan += other->n_nan;
	d->n_nonfinite += other->n_nonfinite;
	d->n_set += other->n_set;
	d->jaccard += other->jaccard;
	d->n_set_differ += other->n_set_differ;
	op_diff_worst(d, other->worst_row, other->worst_at);
}

double op_diff_relative(const struct op_diff *d)
{
	return sqrt(op_diff_nmse(d));
}

double op_diff_nmse(const struct op_diff *d)
{
	return op_diff_ratio(d->err2, d->ref2);
}

double op_diff_cosine(const struct op_diff *d)
{
	/* The sums leave those out, and two vectors of which one is endless have no angle. */
	if (d->n_nonfinite)
		return 0;
	if (d->ref2 == 0 && d->b2 == 0)
		return 1;
	if (d->ref2 == 0 || d->b2 == 0)
		return 0;
	/* Rounding may leave a hair more than 1. */
	return fmax(-1, fmin(1, d->dot / (sqrt(d->ref2) * sqrt(d->b2))));
}

double op_diff_jaccard(const struct op_diff *d)
{
	return d->n_set ? d->jaccard / (double)d->n_set : 1;
}
