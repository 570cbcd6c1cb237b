/* SPDX-License-Identifier: MIT
 * bench_memory.c - a working set far larger than caches, matrices in it, and reading it as fast as can be.
 * Threads: one caller; the pool's fill and read. Locks: none. */
#include "tests/bench/bench_memory.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/serve/rng.h"
#include "plugins/op/op_cost.h"
#include "tests/bench/mkmodel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define BENCH_MEMORY_HUGE ((size_t)2 << 20)
#define BENCH_MEMORY_FILL ((size_t)1 << 20)  /* bytes that a thread fills at a time, a multiple of 8 */
#define BENCH_READ_PIECE ((size_t)256 << 10) /* bytes that a thread reads at a time */

/* ---- memory ---- */

static void bench_memory_touch(void *arg, int64_t begin, int64_t end)
{
	struct bench_memory *m = arg;

	memset(m->mem + (size_t)begin * BENCH_MEMORY_HUGE, 1, (size_t)(end - begin) * BENCH_MEMORY_HUGE);
}

int bench_memory_new(struct bench_memory *m, size_t size, struct pool *p, struct buf *why)
{
	void *mem;

	*m = (struct bench_memory){ .device = device_cpu(),
				    .size = (size + BENCH_MEMORY_HUGE - 1) / BENCH_MEMORY_HUGE * BENCH_MEMORY_HUGE };
	mem = mmap(NULL, m->size + BENCH_MEMORY_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return buf_why(why, -errno, "no memory for a working set of %zu MiB: %s", size >> 20, strerror(errno));
	/* The mapping is one page longer, so that it can begin at a multiple of a huge page;
	 * that rest is never touched. */
	m->mem = (uint8_t *)(((uintptr_t)mem + BENCH_MEMORY_HUGE - 1) / BENCH_MEMORY_HUGE * BENCH_MEMORY_HUGE);
	if ((size_t)(m->mem - (uint8_t *)mem) > 0)
		munmap(mem, (size_t)(m->mem - (uint8_t *)mem));
	madvise(m->mem, m->size, MADV_HUGEPAGE);
	pool_parallel_for(pool_exec(p), (int64_t)(m->size / BENCH_MEMORY_HUGE), 1, bench_memory_touch, m);
	return 0;
}

int bench_memory_new_on(struct bench_memory *m, size_t size, struct device *d, struct buf *why)
{
	*m = (struct bench_memory){ .device = d, .size = size / BENCH_MEMORY_ALIGN * BENCH_MEMORY_ALIGN };
	m->mem = device_alloc(d, m->size, 1);
	if (!m->mem)
		return buf_why(why, RC_UNAVAILABLE, "%s has no memory for a working set of %zu MiB", device_name(d),
			       size >> 20);
	memset(m->mem, 1, m->size);
	return 0;
}

void bench_memory_free(struct bench_memory *m)
{
	if (m->mem && device_is_gpu(m->device))
		device_free(m->device, m->mem);
	else if (m->mem)
		munmap(m->mem, m->size);
	*m = (struct bench_memory){ 0 };
}

double bench_memory_huge(const struct bench_memory *m)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kib, huge = -1;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "AnonHugePages: %ld", &kib) == 1)
			huge = kib;
	if (f)
		fclose(f);
	return huge < 0 ? -1 : fmin(1, (double)huge * 1024 / (double)m->size);
}

void *bench_memory_take(struct bench_memory *m, size_t n)
{
	size_t at = (m->used + BENCH_MEMORY_ALIGN - 1) / BENCH_MEMORY_ALIGN * BENCH_MEMORY_ALIGN + BENCH_MEMORY_OFFSET;

	if (at > m->size || n > m->size - at)
		return NULL;
	m->used = at + n;
	return m->mem + at;
}

/* ---- matrices ---- */

struct bench_fill {
	struct mkmodel_values v;
	uint8_t *out;
	size_t n;
};

static void bench_fill_slice(void *arg, int64_t begin, int64_t end)
{
	const struct bench_fill *f = arg;

	for (int64_t i = begin; i < end; i++) {
		size_t at = (size_t)i * BENCH_MEMORY_FILL;

		mkmodel_fill(&f->v, at, f->out + at, f->n - at < BENCH_MEMORY_FILL ? f->n - at : BENCH_MEMORY_FILL);
	}
}

static void bench_fill(struct pool *p, struct mkmodel_values v, const void *out, size_t n)
{
	struct bench_fill f = { v, (uint8_t *)(uintptr_t)out, n };

	f.v.key = (uintptr_t)out;
	pool_parallel_for(pool_exec(p), (int64_t)((n + BENCH_MEMORY_FILL - 1) / BENCH_MEMORY_FILL), 1, bench_fill_slice,
			  &f);
}

static void bench_fill_weight(struct pool *p, const struct dsv4_weight *w, size_t data, size_t scale)
{
	double sigma = 1 / sqrt((double)w->cols);

	if (w->fmt == DSV4_W_F32 || w->fmt == DSV4_W_BF16)
		bench_fill(p, mkmodel_even(w->fmt == DSV4_W_BF16, sigma), w->data, data);
	else
		bench_fill(p, (struct mkmodel_values){ .fill = w->fmt == DSV4_W_FP8 ? MKMODEL_FILL_E4M3 :
						       MKMODEL_FILL_BYTES }, w->data, data);
	if (scale)
		bench_fill(p, w->fmt == DSV4_W_NVFP4 ? mkmodel_scale_e4m3() :
			   mkmodel_scale_e8m0(w->fmt == DSV4_W_FP4, sigma), w->scale, scale);
}

bool bench_memory_weight(struct bench_memory *m, struct pool *p, enum dsv4_wfmt fmt, int64_t rows, int64_t cols,
			 struct dsv4_weight *w)
{
	static const uint8_t sfmt[DSV4_N_WFMT] = { DSV4_S_NONE, DSV4_S_NONE, DSV4_S_E8M0, DSV4_S_E8M0, DSV4_S_E4M3 };
	size_t data = op_cost_data(fmt, rows, cols), scale = op_cost_scale((enum dsv4_sfmt)sfmt[fmt], fmt, rows, cols);
	uint8_t *at = bench_memory_take(m, data + scale);

	if (!at)
		return false;
	*w = (struct dsv4_weight){ .size = sizeof *w, .fmt = (uint8_t)fmt, .sfmt = sfmt[fmt], .rows = rows,
				   .cols = cols, .data = at, .scale = scale ? at + data : NULL, .scale2 = 1 };
	if (fmt == DSV4_W_NVFP4)
		w->scale2 = mkmodel_scale2(1 / sqrt((double)cols));
	bench_fill_weight(p, w, data, scale);
	return true;
}

/* ---- reading ---- */

/* Combines n bytes, a multiple of 256, in the widest registers there are. */
typedef uint64_t bench_read_f(const uint8_t *p, size_t n);

static uint64_t bench_read_plain(const uint8_t *p, size_t n)
{
	uint64_t s[4] = { 0 }, v[4];

	for (size_t i = 0; i < n; i += sizeof v) {
		memcpy(v, p + i, sizeof v);
		for (int k = 0; k < 4; k++)
			s[k] ^= v[k];
	}
	return s[0] ^ s[1] ^ s[2] ^ s[3];
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t bench_read_avx2(const uint8_t *p, size_t n)
{
	__m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;

	for (size_t i = 0; i < n; i += 128) {
		a = _mm256_xor_si256(a, _mm256_loadu_si256((const __m256i *)(const void *)(p + i)));
		b = _mm256_xor_si256(b, _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 32)));
		c = _mm256_xor_si256(c, _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 64)));
		d = _mm256_xor_si256(d, _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 96)));
	}
	a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
	return (uint64_t)_mm256_extract_epi64(a, 0) ^ (uint64_t)_mm256_extract_epi64(a, 2);
}

__attribute__((target("avx512f"))) static uint64_t bench_read_avx512(const uint8_t *p, size_t n)
{
	__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
	uint64_t lane[8];

	for (size_t i = 0; i < n; i += 256) {
		a = _mm512_xor_si512(a, _mm512_loadu_si512(p + i));
		b = _mm512_xor_si512(b, _mm512_loadu_si512(p + i + 64));
		c = _mm512_xor_si512(c, _mm512_loadu_si512(p + i + 128));
		d = _mm512_xor_si512(d, _mm512_loadu_si512(p + i + 192));
	}
	a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
	/* Not _mm512_reduce_add_epi64(), which adds signed numbers: they overflow. */
	_mm512_storeu_si512(lane, a);
	for (int i = 1; i < 8; i++)
		lane[0] ^= lane[i];
	return lane[0];
}
#endif

static bench_read_f *bench_read_pick(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return bench_read_avx512;
	if (__builtin_cpu_supports("avx2"))
		return bench_read_avx2;
#endif
	return bench_read_plain;
}

struct bench_read {
	bench_read_f *fn;
	struct bench_range *piece;
	_Atomic uint64_t sum;   /* only there to be used */
};

static void bench_read_slice(void *arg, int64_t begin, int64_t end)
{
	struct bench_read *r = arg;
	uint64_t sum = 0;

	for (int64_t i = begin; i < end; i++)
		sum += r->fn(r->piece[i].p, r->piece[i].n);
	r->sum ^= sum;
}

double bench_read(struct pool *p, const struct bench_range *range, int n)
{
	struct bench_read r = { .fn = bench_read_pick() };
	int64_t n_piece = 0, k = 0;
	double begin;

	for (int i = 0; i < n; i++)
		n_piece += (int64_t)(range[i].n / BENCH_READ_PIECE) + 1;
	r.piece = mem_grow(NULL, (size_t)n_piece, sizeof *r.piece);
	for (int i = 0; i < n; i++)
		for (size_t at = 0; at + 256 <= range[i].n; at += BENCH_READ_PIECE) {
			size_t left = (range[i].n - at) / 256 * 256;

			r.piece[k++] = (struct bench_range){ (const uint8_t *)range[i].p + at,
							     left < BENCH_READ_PIECE ? left : BENCH_READ_PIECE };
		}
	begin = clock_s();
	pool_parallel_for(pool_exec(p), k, 1, bench_read_slice, &r);
	begin = clock_s() - begin;
	free(r.piece);
	return begin;
}

int *bench_shuffle(int n)
{
	int *order = mem_grow(NULL, (size_t)(n > 0 ? n : 1), sizeof *order);

	for (int i = 0; i < n; i++) {
		int k = (int)(rng_uniform(1, (uint64_t)i) * (i + 1));

		order[i] = order[k];
		order[k] = i;
	}
	return order;
}
