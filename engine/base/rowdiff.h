/* SPDX-License-Identifier: MIT
 * rowdiff.h - how far two arrays of rows of floats are apart, and where they first differ, bit for bit.
 * Threads: any. Locks: none. */
#ifndef BASE_ROWDIFF_H
#define BASE_ROWDIFF_H

#include <stddef.h>
#include <stdint.h>

/* Accumulates over calls; start from zeroes. Two values differ when their bits do, so 0 and -0
 * do, and a NaN is equal to itself. */
struct rowdiff {
	int64_t values, differ;
	int64_t row, element; /* of the first that differs, if one does */
	float a, b;           /* and what it is */
	double max_abs;       /* largest |b - a|; infinite where one is NaN or infinite, and the
			       * other is not the same */
	double err2, ref2;    /* sum (b - a)^2, sum a^2 */
};

/* Adds rows [row0, row0 + n_row) of both. */
void rowdiff_add(struct rowdiff *d, const float *a, const float *b, int64_t row0, int64_t n_row, int64_t width);
double rowdiff_relative(const struct rowdiff *d); /* sqrt(err2 / ref2); 0 when equal, infinite where a is all zero */

#endif
