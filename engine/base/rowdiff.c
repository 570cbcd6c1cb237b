/* SPDX-License-Identifier: MIT
 * rowdiff.c - how far two arrays of rows of floats are apart, and where they first differ, bit for bit.
 * Threads: any. Locks: none. */
#include "engine/base/rowdiff.h"

#include <math.h>
#include <string.h>

static void rowdiff_value(struct rowdiff *d, float a, float b, int64_t row, int64_t element)
{
	double by;

	if (isfinite(a))
		d->ref2 += (double)a * a;
	if (memcmp(&a, &b, sizeof a) == 0)
		return;
	if (d->differ++ == 0) {
		d->row = row;
		d->element = element;
		d->a = a;
		d->b = b;
	}
	by = fabs((double)b - a);
	if (!isfinite(by))
		by = INFINITY;
	d->max_abs = by > d->max_abs ? by : d->max_abs;
	d->err2 += by * by;
}

void rowdiff_add(struct rowdiff *d, const float *a, const float *b, int64_t row0, int64_t n_row, int64_t width)
{
	d->values += n_row * width;
	for (int64_t i = 0; i < n_row; i++)
		for (int64_t k = 0; k < width; k++)
			rowdiff_value(d, a[i * width + k], b[i * width + k], row0 + i, k);
}

double rowdiff_relative(const struct rowdiff *d)
{
	if (d->err2 <= 0)
		return 0;
	return d->ref2 > 0 ? sqrt(d->err2 / d->ref2) : INFINITY;
}
