/* SPDX-License-Identifier: MIT
 * check_compare.h - are two results of one case the same bits, or as near as the op's class asks?
 * Threads: one caller. Locks: none. */
#ifndef CHECK_COMPARE_H
#define CHECK_COMPARE_H

#include "plugins/check/check_run.h"

/* check_limits.def, for an entry: what its results are held to. */
struct check_limit {
	enum check_class class;
	double limit;
	double few;         /* NMSE of a row or column that has few values */
	double tie;         /* of a SET */
};
/* From check_limits.def, by the entry's op and numerics. */
struct check_limit check_limit_of(const struct dsv4_op_entry *e);

/* Same bits in all that is defined (NaN is NaN, whatever its payload)? Else NOT_IDENTICAL, found under name. */
void check_compare_same(const struct check_case *c, const char *name, const struct check_result *a,
			const struct check_result *b, struct check_finding *f);
/* Holds `got` against ref's `want`: WRONG in f when it is too far off; row's figure, limit and diff take part.
 * -ENOMEM. */
int check_compare_ref(const struct check_case *c, const struct check_limit *l, const struct check_result *want,
		      const struct check_result *got, struct check_finding *f, struct check_row *row);

#endif
