/* SPDX-License-Identifier: MIT
 * bench_peak.c - loops that do nothing but multiply and add, in each way that the CPU has.
 * Threads: a pool's. Locks: none. */
#include "tests/bench/bench_peak.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define BENCH_PEAK_CHAINS 12   /* fewer than the registers of any way */
#define BENCH_PEAK_CHAINS512 24 /* the same, more than latency * units: dpbf16's are 6 * 2 (EPYC Zen 5) */
#define BENCH_PEAK_SLICES 4    /* for each thread, so that one that comes late costs little */
#define BENCH_PEAK_TRY 20000   /* rounds that are timed first */

#ifdef __clang__
#define BENCH_PEAK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BENCH_PEAK_UNROLL _Pragma("GCC unroll 24")
#endif

/* n: chains; v: their vector type, in: of what is multiplied; reg: the asm constraint that
 * keeps either in registers. */
#define BENCH_PEAK_LOOP(name, attr, n, v, in, reg, zero, one, step) \
	attr static void bench_peak_##name(int64_t rounds) \
	{ \
		v s[n]; \
		in x = one, y = one; \
\
		BENCH_PEAK_UNROLL for (int i = 0; i < n; i++) { \
			s[i] = zero; \
			/* Chains that a compiler sees to be alike it makes one of. */ \
			__asm__ volatile("" : "+" reg(s[i])); \
		} \
		for (int64_t r = 0; r < rounds; r++) { \
			BENCH_PEAK_UNROLL for (int i = 0; i < n; i++) \
				s[i] = step(s[i], x, y); \
			__asm__ volatile("" : "+" reg(x), "+" reg(y)); \
		} \
		BENCH_PEAK_UNROLL for (int i = 0; i < n; i++) \
			__asm__ volatile("" : : reg(s[i])); \
	}

#define BENCH_PEAK_PLAIN(s, x, y) ((s) * (x) + (y))
#if defined(__x86_64__)
#define BENCH_PEAK_REG "x"
#else
#define BENCH_PEAK_REG "m"
#endif
BENCH_PEAK_LOOP(plain, , BENCH_PEAK_CHAINS, float, float, BENCH_PEAK_REG, 0.5f, 0.25f, BENCH_PEAK_PLAIN)
#if defined(__x86_64__)
#define BENCH_PEAK_FMA256(s, x, y) _mm256_fmadd_ps(s, x, y)
#define BENCH_PEAK_FMA512(s, x, y) _mm512_fmadd_ps(s, x, y)
#define BENCH_PEAK_BF16(s, x, y) _mm512_dpbf16_ps(s, (__m512bh)(x), (__m512bh)(y))
#define BENCH_PEAK_INT8(s, x, y) _mm512_dpbusd_epi32(s, x, y)
BENCH_PEAK_LOOP(fma256, __attribute__((target("avx2,fma"))), BENCH_PEAK_CHAINS, __m256, __m256, "x",
		_mm256_set1_ps(0.5f), _mm256_set1_ps(0.25f), BENCH_PEAK_FMA256)
BENCH_PEAK_LOOP(fma512, __attribute__((target("avx512f"))), BENCH_PEAK_CHAINS512, __m512, __m512, "v",
		_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f), BENCH_PEAK_FMA512)
BENCH_PEAK_LOOP(bf16, __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))), BENCH_PEAK_CHAINS512, __m512,
		__m512i, "v", _mm512_setzero_ps(), _mm512_set1_epi16(0x3f00), BENCH_PEAK_BF16)
BENCH_PEAK_LOOP(int8, __attribute__((target("avx512f,avx512vnni"))), BENCH_PEAK_CHAINS512, __m512i, __m512i, "v",
		_mm512_setzero_si512(), _mm512_set1_epi32(0x01010101), BENCH_PEAK_INT8)
#endif

#define BENCH_PEAK_OPS(n, lanes, terms) (2.0 * (n) * (lanes) * (terms))

const struct bench_peak bench_peaks[] = {
#if defined(__x86_64__)
	{ "fp32 FMA 512", "avx512f", bench_peak_fma512, BENCH_PEAK_OPS(BENCH_PEAK_CHAINS512, 16, 1) },
	{ "fp32 FMA 256", "avx2 fma", bench_peak_fma256, BENCH_PEAK_OPS(BENCH_PEAK_CHAINS, 8, 1) },
	{ "bf16 dot 512", "avx512_bf16", bench_peak_bf16, BENCH_PEAK_OPS(BENCH_PEAK_CHAINS512, 16, 2) },
	{ "int8 dot 512", "avx512_vnni", bench_peak_int8, BENCH_PEAK_OPS(BENCH_PEAK_CHAINS512, 16, 4) },
#endif
	{ "fp32 one by one", "", bench_peak_plain, BENCH_PEAK_OPS(BENCH_PEAK_CHAINS, 1, 1) },
};
const int bench_n_peaks = (int)mem_countof(bench_peaks);

const struct bench_peak *bench_peak_of(const struct bench_host *h)
{
	const struct bench_peak *best = &bench_peaks[bench_n_peaks - 1];

	for (int i = bench_n_peaks - 1; i >= 0; i--)
		if (bench_host_has(h, bench_peaks[i].features) && bench_peaks[i].name[0] != 'i' &&
		    bench_peaks[i].ops > best->ops)
			best = &bench_peaks[i];
	return best;
}

struct bench_peak_work {
	const struct bench_peak *k;
	int64_t rounds;
};

static void bench_peak_slice(void *arg, int64_t begin, int64_t end)
{
	const struct bench_peak_work *w = arg;

	for (int64_t i = begin; i < end; i++)
		w->k->fn(w->rounds);
}

double bench_peak_run(struct pool *p, const struct bench_peak *k, double seconds)
{
	int64_t n = (int64_t)BENCH_PEAK_SLICES * pool_threads(p);
	struct bench_peak_work w = { k, 0 };
	double begin = clock_s(), took;

	k->fn(BENCH_PEAK_TRY);
	took = clock_s() - begin;
	w.rounds = 1 + (int64_t)(seconds / BENCH_PEAK_SLICES / (took > 1e-7 ? took : 1e-7) * BENCH_PEAK_TRY);
	begin = clock_s();
	pool_parallel_for(pool_exec(p), n, 1, bench_peak_slice, &w);
	took = clock_s() - begin;
	return k->ops * (double)w.rounds * (double)n / took;
}
