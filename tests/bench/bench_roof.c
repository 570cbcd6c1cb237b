/* SPDX-License-Identifier: MIT
 * bench_roof.c - what the machine can do at best: bytes read, and multiply-adds of each kind, by number of threads.
 * Threads: main; pools of the engine. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_memory.h"
#include "tests/bench/bench_peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_ROOF_CHUNK ((size_t)1 << 20)
#define BENCH_ROOF_SAMPLE 128  /* chunks */
#define BENCH_ROOF_PEAK 0.005  /* seconds of one sample of arithmetic */

static const struct bench_column bench_roof_columns[] = {
	{ "what", "WHAT", -18, 0 }, { "threads", "THREADS", 7, 0 }, { "median", "MEDIAN", 9, 1 },
	{ "p10", "P10", 9, 1 },
	{ "p90", "P90", 9, 1 }, { "unit", "UNIT", -8, 0 },
};

struct bench_roof {
	struct bench *b;
	double done, total;    /* seconds, for the bar */
};

static void bench_roof_row(struct bench_roof *r, const char *what, int threads, const char *unit,
			   struct bench_samples *s)
{
	bench_print_row(&r->b->out, json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:i}", "what", what, "threads",
					      threads ? json_integer(threads) : json_null(),
					      "median", bench_real(bench_samples_at(s, 0.5)), "p10",
					      bench_real(bench_samples_at(s, 0.1)), "p90",
					      bench_real(bench_samples_at(s, 0.9)), "unit", unit, "samples", s->n));
	bench_samples_fini(s);
}

static void bench_roof_bar(struct bench_roof *r, const char *what, double spent)
{
	bench_progress_show(&r->b->bar, what, r->done + spent, r->total);
}

/* Chunks in random order, round after round. */
static void bench_roof_read(struct bench_roof *r, const struct bench_memory *m, struct pool *p)
{
	int n = (int)(m->size / BENCH_ROOF_CHUNK), sample = n < BENCH_ROOF_SAMPLE ? n : BENCH_ROOF_SAMPLE, at = 0;
	int *order = bench_shuffle(n);
	struct bench_range range[BENCH_ROOF_SAMPLE];
	struct bench_samples s = { 0 };
	double begin = clock_s();

	do {
		for (int i = 0; i < sample; i++, at++)
			range[i] = (struct bench_range){ m->mem + (size_t)order[at % n] * BENCH_ROOF_CHUNK,
							 BENCH_ROOF_CHUNK };
		bench_samples_add(&s, (double)sample * BENCH_ROOF_CHUNK / bench_read(p, range, sample) / 1e9);
		bench_roof_bar(r, "read", clock_s() - begin);
	} while (clock_s() - begin < r->b->args.seconds);
	r->done += r->b->args.seconds;
	bench_roof_row(r, "read", pool_threads(p), "GB/s", &s);
	free(order);
}

static void bench_roof_peak(struct bench_roof *r, const struct bench_peak *k, struct pool *p)
{
	struct bench_samples s = { 0 };
	double begin = clock_s();

	do {
		bench_samples_add(&s, bench_peak_run(p, k, BENCH_ROOF_PEAK) / 1e9);
		bench_roof_bar(r, k->name, clock_s() - begin);
	} while (clock_s() - begin < r->b->args.seconds);
	r->done += r->b->args.seconds;
	bench_roof_row(r, k->name, pool_threads(p), k->name[0] == 'i' ? "GOP/s" : "GFLOP/s", &s);
}

/* 1, 2, 4 and so on, and all. */
static int bench_roof_threads(int all, int out[BENCH_MAX_LIST])
{
	int n = 0;

	for (int t = 1; t < all && n < BENCH_MAX_LIST - 1; t *= 2)
		out[n++] = t;
	out[n++] = all;
	return n;
}

static int bench_roof_pools(struct bench_roof *r, const int *threads, struct pool **pool, int n, struct buf *why)
{
	struct bench *b = r->b;
	int rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		rc = pool_new(threads[i], &pool[i]);
	return rc ? buf_why(why, rc, "threads: %s", rc_text(rc)) :
		    (r->total = n * b->args.seconds * (1 + bench_n_peaks), 0);
}

/* ---- of a GPU ---- */

/* GB/s of all the working set: read, or half of it copied to the other. */
static double bench_roof_gpu_move(struct bench *b, const struct bench_memory *m, bool copy)
{
	size_t n = copy ? m->size / 32 * 16 : m->size;
	double took = copy ? bench_gpu_copy(b->gpu, m->mem + n, m->mem, n) : bench_gpu_read(b->gpu, m->mem, n);

	return took < 0 ? took : (copy ? 2.0 : 1.0) * (double)n / took / 1e9;
}

/* kind: 0 read, 1 copy, then the peaks. */
static int bench_roof_gpu_kind(struct bench_roof *r, const struct bench_memory *m, int kind)
{
	enum bench_gpu_peak peak = (enum bench_gpu_peak)(kind - 2);
	const char *name = kind == 0 ? "read" : kind == 1 ? "copy" : bench_gpu_peak_name(peak);
	struct bench_samples s = { 0 };
	double begin, x = 0;

	/* The first brings what the host wrote. */
	x = kind < 2 ? bench_roof_gpu_move(r->b, m, kind) : 0;
	begin = clock_s();
	while (x >= 0 && (s.n == 0 || clock_s() - begin < r->b->args.seconds)) {
		x = kind < 2 ? bench_roof_gpu_move(r->b, m, kind) :
			bench_gpu_peak(r->b->gpu, peak, BENCH_ROOF_PEAK) / 1e9;
		bench_samples_add(&s, x);
		bench_roof_bar(r, name, clock_s() - begin);
	}
	r->done += r->b->args.seconds;
	if (x >= 0)
		bench_roof_row(r, name, 0, kind < 2 ? "GB/s" : "GFLOP/s", &s);
	bench_samples_fini(&s);
	return x < 0 ? RC_DEVICE : 0;
}

static int bench_roof_gpu(struct bench *b, struct buf *why)
{
	struct bench_roof r = { .b = b, .total = (2 + BENCH_GPU_N_PEAK) * b->args.seconds };
	struct bench_memory m;
	int rc = bench_memory_new_on(&m, b->args.memory, b->gpu->device, why);

	if (rc == 0) {
		bench_print_note(&b->out, "read",
				 "all of %.2f GB in order; a copy: half of it to the other, bytes both ways",
				 (double)m.size / 1e9);
		bench_print_table(&b->out, "roof", bench_roof_columns, (int)mem_countof(bench_roof_columns));
	}
	for (int kind = 0; kind < 2 + BENCH_GPU_N_PEAK && rc == 0; kind++)
		rc = bench_roof_gpu_kind(&r, &m, kind);
	bench_memory_free(&m);
	return rc;
}

/* ---- of the CPU ---- */

static int bench_roof_cpu(struct bench *b, struct buf *why)
{
	struct bench_roof r = { .b = b };
	struct bench_memory m = { 0 };
	struct pool *pool[BENCH_MAX_LIST] = { 0 };
	int threads[BENCH_MAX_LIST], n = bench_roof_threads(b->args.threads, threads);
	int rc = bench_roof_pools(&r, threads, pool, n, why);

	rc = rc ? rc : bench_memory_new(&m, b->args.memory, pool[n - 1], why);
	if (rc == 0) {
		bench_print_note(&b->out, "read", "random order of 1 MiB chunks over %.2f GB, %.0f %% in huge pages",
				 (double)m.size / 1e9, 100 * bench_memory_huge(&m));
		bench_print_table(&b->out, "roof", bench_roof_columns, (int)mem_countof(bench_roof_columns));
		for (int i = 0; i < n; i++)
			bench_roof_read(&r, &m, pool[i]);
		for (int k = 0; k < bench_n_peaks; k++)
			for (int i = 0; i < n && bench_host_has(&b->host, bench_peaks[k].features); i++)
				bench_roof_peak(&r, &bench_peaks[k], pool[i]);
	}
	bench_memory_free(&m);
	for (int i = 0; i < n; i++)
		pool_free(&pool[i]);
	return rc;
}

int bench_roof(struct bench *b, struct buf *why)
{
	return b->gpu ? bench_roof_gpu(b, why) : bench_roof_cpu(b, why);
}
