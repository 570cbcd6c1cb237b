/* SPDX-License-Identifier: MIT
 * op_diff.h - how far two results of one op are apart.
 * Threads: any. Locks: none. */
#ifndef OP_DIFF_H
#define OP_DIFF_H

#include "plugins/op/op_io.h"

/* Accumulates over calls; start from zeroes. Sums are in double. A value that is NaN or infinite in a or b, and not
 * the same in both, makes err2 and max_abs infinite and adds to no other sum: one of them cannot be missed. */
struct op_diff {
	uint64_t n;                /* values compared, those of sets too */
	double err2, ref2;         /* sum (b - a)^2, sum a^2 */
	double dot, b2;            /* sum a b, sum b^2 */
	double max_abs;            /* largest |b - a| */
	uint64_t n_bits;           /* values whose bits differ */
	uint64_t n_nan;            /* NaN in b where a has none */
	uint64_t n_nonfinite;      /* pairs that differ, of which one is NaN or infinite, those of n_nan too */
	/* Sets: rows of ints (index_topk's rows, moe_route's ids). A set's order shows in n_bits alone. */
	uint64_t n_set;            /* rows compared */
	double jaccard;            /* sum over rows of |a and b| / |a or b| */
	uint64_t n_set_differ;
	double worst_row;          /* the largest relative error of one row so far; of a set, 1 - jaccard */
	int64_t worst_at;          /* and that row's number, as counted by the caller: row0 + row */
};

/* Adds output `a` (the reference) against `b`, same layout. Ints that are no set (index_topk's count) are compared
 * as numbers. */
void op_diff_add(struct op_diff *d, const struct op_out *a, const void *b, int64_t row0);
/* Adds two sets given as rising lists, which may differ in length. */
void op_diff_add_lists(struct op_diff *d, const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b, int64_t at);
void op_diff_merge(struct op_diff *d, const struct op_diff *other);
double op_diff_relative(const struct op_diff *d); /* sqrt(err2 / ref2) */
double op_diff_nmse(const struct op_diff *d);     /* err2 / ref2; 0 when equal, else INFINITY where a is all zero */
double op_diff_cosine(const struct op_diff *d);   /* within [-1, 1]; 1 when both are all zero, 0 when one
						   * is, or any n_nonfinite */
double op_diff_jaccard(const struct op_diff *d);  /* 1 when no set was compared */

#endif
