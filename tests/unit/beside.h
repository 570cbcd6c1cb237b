/* SPDX-License-Identifier: MIT
 * beside.h - a kernel set run beside ref on every call of a forward pass: ref's results are used, the other's
 * are compared and thrown away. Threads: the test's. Locks: none. */
#ifndef TESTS_BESIDE_H
#define TESTS_BESIDE_H

#include "plugins/op/op_diff.h"
#include "tests/unit/plugkit.h"

/* One op, over the calls so far. */
struct beside_op {
	long n_call;
	struct op_diff all;
	double worst, cosine; /* largest relative error and lowest cosine of one call */
};

struct beside {
	struct provider provider;    /* offers every op, in both phases */
	const struct kset *ref, *other;
	enum dsv4_phase phase;       /* whose slots of `other` run */
	struct beside_op op[DSV4_N_OP];
};

/* `other` must outlive it. */
void beside_init(struct beside *b, const struct kset *ref, const struct kset *other, enum dsv4_phase phase);
void beside_fini(struct beside *b);
/* The set to run the pass with: all families by this provider. */
struct kset *beside_set(struct beside *b);
/* One line per op that `other` takes from elsewhere than ref. */
void beside_print(const struct beside *b);

#endif
