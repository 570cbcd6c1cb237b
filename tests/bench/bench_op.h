/* SPDX-License-Identifier: MIT
 * bench_op.h - one kernel and the calls it is measured on, between the files of `dsv4-bench op`.
 * Threads: main; a pool's. Locks: none. */
#ifndef TESTS_BENCH_OP_H
#define TESTS_BENCH_OP_H

#include "engine/kernels/pool.h"
#include "engine/kernels/provider.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_memory.h"

struct bench_kernel {
	enum dsv4_op op;
	dsv4_any_f *fn;
	const struct dsv4_host *host;
};

/* A call, and what it reads of weights. */
struct bench_unit {
	const void *args;
	struct bench_range *range; /* [n_range] */
	int n_range;
	double bytes, flops;
};

/* ---- bench_op_units.c: calls on matrices that lie all over a working set ---- */

struct bench_units {
	enum dsv4_op op;
	struct bench_unit *unit;   /* [n], in the order of their use: what follows one another shares no matrix */
	int n;
	struct bench_memory *memory;
	/* The rest is for bench_units_fini(). */
	void **owned, **numbers;   /* of the host, and of the memory's device */
	int n_owned, n_numbers;
};

/* One kind of linear call of the model. */
struct bench_linear {
	const char *name;
	enum dsv4_wfmt fmt;
	int64_t rows, cols;
	int n_group;
	enum dsv4_act act;
};

extern const struct bench_linear bench_linears[];
extern const int bench_n_linears;

/* At most `most` matrices (0: as many as there is room for); RC_INVALID when there is no room for one. */
int bench_units_linear(struct bench_units *u, struct bench_memory *m, struct pool *p, const struct bench_linear *l,
		       int n_tok, int most, struct buf *why);
struct bench_layer {
	enum dsv4_wfmt fmt;
	bool packed;                /* with repacked copies of FP4 */
	int inter, dim;
};
/* A layer's routed and shared experts, as many as V4-Flash has. */
int bench_units_experts(struct bench_units *u, struct bench_memory *m, struct pool *p, const struct bench_layer *l,
			int n_tok, struct buf *why);
void bench_units_fini(struct bench_units *u);

/* ---- bench_op.c ---- */

/* The plugin's function for this; false when it has none. */
bool bench_op_find(const struct provider *pr, enum dsv4_op op, enum dsv4_phase phase, enum dsv4_wfmt fmt,
		   struct bench_kernel *ret_k);
/* One call: its seconds, or 0 for one that is queued on g, if not NULL (bench_gpu_took()); negative: it failed. */
double bench_op_call(struct bench_gpu *g, struct pool *p, const struct bench_kernel *k, const void *args);
/* So many calls of such a length make one of bench_op.c's turns, at most `most`. */
int bench_op_turn_calls(double call, int most);

/* ---- bench_op_case.c: all other ops, on the check library's ordinary calls ---- */

int bench_op_cases(struct bench *b, const struct provider *pr, struct pool *p, struct buf *why);

#endif
