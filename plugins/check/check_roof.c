/* SPDX-License-Identifier: MIT
 * check_roof.c - what this machine can do at best: bytes read from memory, multiply-adds, per second.
 * Threads: one caller; starts and joins its own. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "plugins/check/check.h"
#include "plugins/check/check_host.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CHECK_ROOF_BYTES ((size_t)256 << 20) /* together; more than caches hold */
#define CHECK_ROOF_FMAS ((int64_t)1 << 22)   /* rounds of CHECK_ROOF_CHAINS per slice */
#define CHECK_ROOF_CHAINS 16                 /* more than latency * units of any core */
#define CHECK_ROOF_TIMES 3

/* Keeps the chains in registers. */
#ifdef __clang__
#define CHECK_ROOF_UNROLL
#else
#define CHECK_ROOF_UNROLL _Pragma("GCC unroll 16")
#endif

/* Sums n floats (a multiple of 128); the sum is only there to be used. */
typedef float check_roof_read_f(const float *x, int64_t n);
/* `rounds` times CHECK_ROOF_CHAINS multiply-adds of *ret_lanes lanes. */
typedef float check_roof_fma_f(int64_t rounds, int *ret_lanes);

/* The loops of one instruction set; v: vector type, and its zero, broadcast, load, add, multiply-add and first lane. */
#define CHECK_ROOF_LOOPS(name, attr, v, lanes, zero, set1, load, add, fma, first) \
	attr static float check_roof_read_##name(const float *x, int64_t n) \
	{ \
		v s[8]; \
		CHECK_ROOF_UNROLL for (int i = 0; i < 8; i++) \
			s[i] = zero; \
		for (int64_t k = 0; k < n; k += 8 * lanes) \
			CHECK_ROOF_UNROLL for (int i = 0; i < 8; i++) \
				s[i] = add(s[i], load(x + k + i * lanes)); \
		for (int i = 1; i < 8; i++) \
			s[0] = add(s[0], s[i]); \
		return first(s[0]); \
	} \
	attr static float check_roof_fma_##name(int64_t rounds, int *ret_lanes) \
	{ \
		v s[CHECK_ROOF_CHAINS], a = set1(0.999f), b = set1(0.001f); \
		CHECK_ROOF_UNROLL for (int i = 0; i < CHECK_ROOF_CHAINS; i++) \
			s[i] = set1((float)i); \
		for (int64_t r = 0; r < rounds; r++) \
			CHECK_ROOF_UNROLL for (int i = 0; i < CHECK_ROOF_CHAINS; i++) \
				s[i] = fma(s[i], a, b); \
		CHECK_ROOF_UNROLL for (int i = 1; i < CHECK_ROOF_CHAINS; i++) \
			s[0] = add(s[0], s[i]); \
		*ret_lanes = lanes; \
		return first(s[0]); \
	}

#define CHECK_ROOF_SET(x) (x)
#define CHECK_ROOF_LOAD(p) (*(p))
#define CHECK_ROOF_ADD(a, b) ((a) + (b))
#define CHECK_ROOF_FMA(a, b, c) ((a) * (b) + (c))
CHECK_ROOF_LOOPS(plain, , float, 1, 0, CHECK_ROOF_SET, CHECK_ROOF_LOAD, CHECK_ROOF_ADD, CHECK_ROOF_FMA,
		 CHECK_ROOF_SET)
#if defined(__x86_64__)
CHECK_ROOF_LOOPS(avx2, __attribute__((target("avx2,fma"))), __m256, 8, _mm256_setzero_ps(), _mm256_set1_ps,
		 _mm256_loadu_ps, _mm256_add_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
CHECK_ROOF_LOOPS(avx512, __attribute__((target("avx512f"))), __m512, 16, _mm512_setzero_ps(), _mm512_set1_ps,
		 _mm512_loadu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
#endif

struct check_roof_work {
	check_roof_read_f *read;
	check_roof_fma_f *fma;
	const float *x;
	int64_t n;       /* floats per slice */
	_Atomic int lanes;
	_Atomic float sum;
};

static void check_roof_pick(struct check_roof_work *w)
{
	w->read = check_roof_read_plain;
	w->fma = check_roof_fma_plain;
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		w->read = check_roof_read_avx2;
		w->fma = check_roof_fma_avx2;
	}
	if (__builtin_cpu_supports("avx512f")) {
		w->read = check_roof_read_avx512;
		w->fma = check_roof_fma_avx512;
	}
#endif
}

static void check_roof_read_slice(void *arg, int64_t begin, int64_t end)
{
	struct check_roof_work *w = arg;

	for (int64_t i = begin; i < end; i++)
		w->sum = w->read(w->x + i * w->n, w->n);
}

static void check_roof_fma_slice(void *arg, int64_t begin, int64_t end)
{
	struct check_roof_work *w = arg;
	int lanes = 1;

	for (int64_t i = begin; i < end; i++)
		w->sum = w->fma(CHECK_ROOF_FMAS, &lanes);
	w->lanes = lanes;
}

/* The shortest of several runs of fn on all threads, in seconds. */
static double check_roof_time(struct check_team *team, int n_threads, dsv4_slice_f *fn, struct check_roof_work *w)
{
	struct dsv4_exec x = { .split = CHECK_SPLIT_THREADS, .threads = n_threads, .team = team };
	const struct dsv4_host none = { 0 };
	struct check_host host;
	double best = 0;

	check_host_init(&host, &none);
	for (int i = 0; i < CHECK_ROOF_TIMES; i++) {
		double begin = clock_s(), took;

		host.table.parallel_for(&x, n_threads, 1, fn, w);
		took = clock_s() - begin;
		best = i == 0 || took < best ? took : best;
	}
	return best > 0 ? best : 1e-9;
}

int check_threads(int n_threads)
{
	cpu_set_t set;

	if (n_threads > 0)
		return n_threads;
	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

int check_roof_measure(int n_threads, struct check_roof *ret_r)
{
	struct check_roof_work w = { 0 };
	int n = check_threads(n_threads), rc;
	struct check_team *team = NULL;
	float *x;

	w.n = (int64_t)(CHECK_ROOF_BYTES / sizeof *x) / n / 128 * 128;
	x = mem_try((size_t)(w.n * n), sizeof *x);
	rc = x ? check_team_new(n, &team) : -ENOMEM;
	if (!rc) {
		w.x = x;
		for (int64_t i = 0; i < w.n * n; i++) /* touches every page */
			x[i] = 1;
		check_roof_pick(&w);
		*ret_r = (struct check_roof){ .n_threads = n };
		ret_r->bytes_s = (double)(w.n * n) * sizeof *x / check_roof_time(team, n, check_roof_read_slice, &w);
		ret_r->flops_s = 1 / check_roof_time(team, n, check_roof_fma_slice, &w);
		ret_r->flops_s *= 2.0 * CHECK_ROOF_CHAINS * CHECK_ROOF_FMAS * w.lanes * n;
	}
	check_team_free(&team);
	free(x);
	return rc;
}
