/* SPDX-License-Identifier: MIT
 * bench_peak.h - loops that do nothing but multiply and add, in each way that the CPU has.
 * Threads: a pool's. Locks: none. */
#ifndef TESTS_BENCH_PEAK_H
#define TESTS_BENCH_PEAK_H

#include "engine/kernels/pool.h"
#include "tests/bench/bench_host.h"

/* Runs that many rounds. */
typedef void bench_peak_f(int64_t rounds);

struct bench_peak {
	const char *name, *features; /* of /proc/cpuinfo */
	bench_peak_f *fn;
	double ops;                  /* of one round; a multiply-add is two */
};

extern const struct bench_peak bench_peaks[];
extern const int bench_n_peaks;

/* The fastest way to multiply floats, of which kernels are shown a share: bf16 dot products, else FMA. */
const struct bench_peak *bench_peak_of(const struct bench_host *h);
/* Operations per second of all threads together, for about so many seconds. */
double bench_peak_run(struct pool *p, const struct bench_peak *k, double seconds);

#endif
