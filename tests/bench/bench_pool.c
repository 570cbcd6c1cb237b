/* SPDX-License-Identifier: MIT
 * bench_pool.c - times the worker pool: jobs without work, and passes over memory, alone and beside a busy process.
 * Threads: main and the pool's. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/kernels/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BENCH_BYTES ((size_t)1 << 30)
#define BENCH_PIECE ((size_t)2 << 20)   /* one job: as much as a matrix of one token reads */
#define BENCH_SLICE ((size_t)64 << 10)
#define BENCH_SECONDS 0.5
#define BENCH_PAIRS 12

static void bench_nothing(void *arg, int64_t begin, int64_t end)
{
	(void)arg;
	(void)begin;
	(void)end;
}

static void bench_sum(void *arg, int64_t begin, int64_t end)
{
	typedef uint64_t v8 __attribute__((vector_size(16), may_alias));
	const char *data = arg, *p = data + (size_t)begin * BENCH_SLICE, *stop = data + (size_t)end * BENCH_SLICE;
	v8 s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };

	/* SSE2, which every build has, keeps up with memory */
	for (; p < stop; p += 64) {
		s0 += *(const v8 *)(const void *)p;
		s1 += *(const v8 *)(const void *)(p + 16);
		s2 += *(const v8 *)(const void *)(p + 32);
		s3 += *(const v8 *)(const void *)(p + 48);
	}
	s0 += s1 + s2 + s3;
	__asm__ volatile("" : : "x"(s0));
}

/* Microseconds a job. pause_us: how long the caller is busy alone between jobs. */
static double bench_empty(struct pool *p, int n_slice, double pause_us)
{
	struct dsv4_exec *x = pool_exec(p);
	long long start = clock_ns(), now, busy = 0;
	int n = 0;

	do {
		pool_parallel_for(x, n_slice, 1, bench_nothing, NULL);
		n++;
		now = clock_ns();
		if (pause_us > 0) {
			long long until = now + (long long)(pause_us * 1e3);

			while (clock_ns() < until)
				;
			busy += clock_ns() - now;
		}
	} while (now - start < 300000000);
	return (double)(now - start - busy) / n / 1e3;
}

/* GB/s over all the memory, job by job with a little time alone between. */
static double bench_memory(struct pool *p, char *data, double seconds)
{
	long long start = clock_ns(), now;
	size_t done = 0, at = 0;

	do {
		pool_parallel_for(pool_exec(p), BENCH_PIECE / BENCH_SLICE, 1, bench_sum, data + at);
		at = (at + BENCH_PIECE) % BENCH_BYTES;
		done += BENCH_PIECE;
		now = clock_ns();
		while (clock_ns() - now < 2000)
			;
	} while (now - start < (long long)(seconds * 1e9));
	return (double)done / (double)(now - start);
}

static int bench_order(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static pid_t bench_neighbour(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (volatile unsigned i = 0;; i++)
			;
	return pid;
}

/* Alone and beside a busy process, in turn: the machine's own pace changes from second to second. */
static void bench_beside(struct pool *p, char *data)
{
	double alone = 0, beside = 0, ratio[BENCH_PAIRS];

	for (int i = 0; i < BENCH_PAIRS; i++) {
		double a = bench_memory(p, data, BENCH_SECONDS), b;
		pid_t pid = bench_neighbour();

		usleep(100000); /* until the kernel has found it a place */
		b = bench_memory(p, data, BENCH_SECONDS);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		alone += a / BENCH_PAIRS;
		beside += b / BENCH_PAIRS;
		ratio[i] = a / b;
	}
	qsort(ratio, BENCH_PAIRS, sizeof *ratio, bench_order);
	printf("memory: %.1f GB/s alone, %.1f beside one busy process; slower by %.2f (p25 %.2f, p75 %.2f)\n", alone,
	       beside, ratio[BENCH_PAIRS / 2], ratio[BENCH_PAIRS / 4], ratio[3 * BENCH_PAIRS / 4]);
}

static enum pool_pin bench_pin(const char *s)
{
	return !strcmp(s, "cpu") ? POOL_PIN_CPU : !strcmp(s, "node") ? POOL_PIN_NODE : POOL_PIN_NO;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	char *data = mmap(NULL, BENCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pool *p;

	if (data == MAP_FAILED || pool_new(threads, &p))
		return 1;
	(void)madvise(data, BENCH_BYTES, MADV_HUGEPAGE);
	memset(data, 1, BENCH_BYTES);
	if (argc <= 2 || strcmp(argv[2], "cold") != 0)
		pool_hot(p, bench_pin(argc > 2 ? argv[2] : "node"));
	printf("%d threads; a job of a slice per thread: %.2f us; of 64 slices: %.2f us, 20 us later %.2f us, 1 ms "
	       "later %.2f us\n",
	       pool_threads(p), bench_empty(p, pool_threads(p), 0), bench_empty(p, 64, 0), bench_empty(p, 64, 20),
	       bench_empty(p, 64, 1000));
	bench_beside(p, data);
	pool_free(&p);
	return 0;
}
