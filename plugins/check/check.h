/* SPDX-License-Identifier: MIT
 * check.h - the check library: is every op of a plugin right against ref, inside its bounds, bit-identical?
 * Threads: one caller; it starts and joins its own threads. Locks: none. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include "plugins/check/guard.h"
#include "plugins/dsv4_plugin.h"
#include "plugins/op/op_diff.h"
#include "plugins/op/op_name.h"

#include <stdatomic.h>
#include <stdint.h>

/* How an op's results are held against ref's. */
enum check_class {
	CHECK_EXACT,  /* same bits; what entries marked EXACT promise */
	CHECK_SET,    /* same set of ids, but for ties within rounding */
	CHECK_ULP,    /* within so many units in the last place of the largest term */
	CHECK_NMSE    /* err^2 / ref^2 below a limit */
};

/* Rises with gravity; a row has the gravest of its cases. */
enum check_verdict {
	CHECK_PASS,
	CHECK_WRONG,         /* not what ref computes */
	CHECK_NOT_IDENTICAL, /* other bits when batch, split, threads or contents of scratch differ */
	CHECK_OUT_OF_BOUNDS, /* wrote what is not its output */
	CHECK_FAILED         /* returned an error, or broke a rule of the host table */
};

/* The dimensions that cases are made from; 0 in a field: the cases that need it are left out. */
struct check_shape {
	const char *name;          /* "tiny", "flash", "model" */
	int hidden, hc, heads, head_dim, rope, q_rank, o_rank, o_groups;
	int index_heads, index_dim, index_topk, window;
	int experts, experts_per_tok, inter, shared, vocab;
};
extern const struct check_shape check_shape_tiny, check_shape_flash;

/* One line of the report: an op in one phase and weight format, all its cases. */
struct check_row {
	enum dsv4_op op;
	enum dsv4_phase phase;
	enum dsv4_wfmt wfmt;       /* 0 for ops without a weight */
	const struct dsv4_op_entry *entry;
	enum check_class class;
	enum check_verdict verdict;
	int n_case;
	double figure, limit;      /* the worst figure of the class, and what it may be in that case: values (EXACT) or
				    * rows (SET) that differ, ulp, nmse */
	struct op_diff diff;       /* over all cases */
	char detail[256];          /* the first failure: case, element, got, expected; or "" */
};
typedef void check_report_f(void *arg, const struct check_row *row);

/* The GPU that a plugin for GPUs is checked on. */
struct check_device {
	struct guard_memory memory; /* that kernels and the host read and write */
	const struct dsv4_gpu *gpu;
	struct dsv4_exec *exec;     /* for gpu->launch() and upload() */
	/* Waits for what an op has queued, whose uploads are then over. 0, or -errno: the device is of no more use, and
	 * why says why. */
	int (*wait)(void *arg, char *why, size_t size);
	void *arg;
};

#define CHECK_DOING 256
struct check_options {
	const struct check_shape *shape; /* [n_shape]; NULL: tiny and flash */
	int n_shape;
	uint64_t seed;             /* 0: 1; every seed makes other values */
	bool quick;                /* seconds, not minutes: fewer cases, small extents; for the warm step */
	bool first;                /* of each row one case, where all were checked before: what do
				    * calls leave behind? */
	int op;                    /* only this one (enum dsv4_op), -1: all */
	const struct check_device *device; /* NULL: the CPU. Else no fences, and no ways that differ in threads */
	bool fence;                /* buffers end, or begin, at unmapped pages: an op that reads past them dies by
				    * SIGSEGV. For a process that may */
	char *doing;               /* NULL, or [CHECK_DOING] that always names the running case, for a handler of it */
	atomic_bool *cancel;       /* NULL: never */
	check_report_f *report; void *arg;
};

/* Checks each entry of p, run with `base`'s state but the library's own parallel_for and scratch. An entry whose op
 * has no case that fits is reported with n_case 0 and passes. Returns the number of rows that failed, -ENOMEM,
 * -EAGAIN (no threads), -ECANCELED, or -EIO: the GPU failed, and the last row says in which case. */
int check_plugin(const struct dsv4_plugin *p, const struct dsv4_host *base, const struct check_options *o);

/* ---- speed ---- */

struct check_roof { double bytes_s, flops_s; int n_threads; }; /* measured on this machine: read, multiply-add */
struct check_speed {
	enum dsv4_op op;
	enum dsv4_phase phase;
	enum dsv4_wfmt wfmt;
	const char *shape;
	int n_tok;
	double ns, ref_ns;         /* per call; the best of several */
	double bytes, flops;       /* that a call must read at least, and compute */
};
typedef void check_speed_f(void *arg, const struct check_speed *s);
struct check_bench_options {
	const struct check_shape *shape; int n_shape; /* as above */
	int op;                    /* -1: all */
	int n_threads;             /* 0: one per CPU */
	atomic_bool *cancel;
	check_speed_f *report; void *arg;
};
/* 0: as many as CPUs this process may use. */
int check_threads(int n_threads);
int check_roof_measure(int n_threads, struct check_roof *ret_r);
/* Returns the number of slots whose op failed, -ENOMEM, -EAGAIN, or -ECANCELED. */
int check_bench(const struct dsv4_plugin *p, const struct dsv4_host *base, const struct check_bench_options *o);

const char *check_wfmt_name(enum dsv4_op op, enum dsv4_wfmt wfmt); /* "-" for an op without a weight */
const char *check_class_name(enum check_class c);
const char *check_verdict_name(enum check_verdict v);

#endif
