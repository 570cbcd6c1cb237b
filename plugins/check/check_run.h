/* SPDX-License-Identifier: MIT
 * check_run.h - one case run in one way: which bits come out, and was everything else left alone?
 * Threads: one caller, plus those of the split. Locks: none. */
#ifndef CHECK_RUN_H
#define CHECK_RUN_H

#include "plugins/check/case.h"
#include "plugins/check/check_host.h"

/* The worst thing found so far, and the first of its kind in words. */
struct check_finding {
	enum check_verdict verdict;
	char detail[256];
};
/* Notes a finding unless one as grave is there: FAILED over OUT_OF_BOUNDS over NOT_IDENTICAL over WRONG. */
void check_find(struct check_finding *f, enum check_verdict v, const struct check_case *c, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

enum check_without {
	CHECK_NOTHING,
	CHECK_SCRATCH,      /* scratch() fails; the op may then return an error, and its outputs are free */
	CHECK_PACKED        /* no repacked copies of weights */
};

/* How a case is run. */
struct check_way {
	const char *name;
	enum check_split split;
	int threads;
	int64_t chunk;      /* tokens per call; 0: all */
	uint32_t poison;
	enum check_without without;
};

/* An op under test. */
struct check_kernel {
	enum dsv4_op op;
	dsv4_any_f *fn;
	struct check_host host;
	const struct check_device *device; /* NULL: the CPU */
};

/* What a run wrote. */
struct check_result {
	int n_out, rc;      /* rc: the op's, of the first call that did not return 0 */
	struct op_out out[OP_IO_MAX_OUT];
	struct guard mem[OP_IO_MAX_OUT];
	int32_t *visible;   /* what out[].valid may point at */
};

/* Runs case c, whose buffers case_keep() has seen. Findings go to f. 0, -ENOMEM, or -EIO: the GPU failed; *ret_r is to
 * be freed either way. */
int check_run(const struct check_kernel *k, const struct check_case *c, const struct check_way *w,
	      struct check_team *team, struct check_finding *f, struct check_result *ret_r);
void check_result_fini(struct check_result *r);
/* Values of row `row` of output o that are defined, whatever an op has put into valid[]. */
int64_t check_valid(const struct op_out *o, int64_t row);

#endif
