/* SPDX-License-Identifier: MIT
 * refkit.h - what tests of kernels share: a fake host, random weights with their values in double,
 * comparisons. Threads: the test's own, plus those of parallel_for. Locks: none. */
#ifndef TESTS_REFKIT_H
#define TESTS_REFKIT_H

#include "plugins/dsv4_plugin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* How parallel_for splits its range. */
enum refkit_mode { REFKIT_WHOLE, REFKIT_ONES_BACKWARDS, REFKIT_THREADS, REFKIT_N_MODE };

struct dsv4_exec {
	enum refkit_mode mode;
	int n_scratch;      /* scratch() calls that still succeed; negative: all */
	void *mem[64];
	int n_mem;
};

extern const struct dsv4_host refkit_host;

/* Frees what an op took by scratch(). */
void refkit_release(struct dsv4_exec *x);

/* Runs the op under test for tokens [t0, t0 + n) into out, the whole batch's
 * [n_tok][width]. Returns its rc. */
typedef int refkit_run_f(void *arg, struct dsv4_exec *x, int32_t t0, int32_t n, float *out);
/* Asserts that every way of splitting slices and batches gives the same bits; out gets them. */
void refkit_same_bits(refkit_run_f *run, void *arg, int32_t n_tok, size_t width, float *out);

/* Repeatable: uniform in (-1, 1), or in [0, n). */
void refkit_seed(uint32_t seed);
double refkit_rand(void);
uint32_t refkit_below(uint32_t n);
/* A new array of n random floats in (-scale, scale). */
float *refkit_floats(size_t n, double scale);

/* A random matrix at odd addresses and what it means. */
struct refkit_weight {
	struct dsv4_weight w;
	double *value; /* [rows][cols] */
	uint8_t *data, *scale;
};
void refkit_weight_init(struct refkit_weight *k, enum dsv4_wfmt fmt, enum dsv4_sfmt sfmt, int64_t rows,
			int64_t cols);
void refkit_weight_fini(struct refkit_weight *k);

/* The value of an e4m3 or e2m1 code by its definition, and the code nearest to x by
 * trying all (ties: even). */
double refkit_e4m3(unsigned code);
double refkit_e2m1(unsigned code);
unsigned refkit_nearest(double x, double (*value)(unsigned), unsigned n_code);
/* Rounds n values as one block that shares a power-of-two scale, all in double. */
void refkit_round_fp8(double *x, int64_t n);
void refkit_round_fp4(double *x, int64_t n);
double refkit_bf16(double x);

/* rms(got - want) / rms(want) */
double refkit_error(const float *got, const double *want, size_t n);

#endif
