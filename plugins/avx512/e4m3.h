/* SPDX-License-Identifier: MIT
 * e4m3.h - e4m3 codes straight from memory to bf16 and floats in registers, for CPUs that avx512_has_bf16().
 * Threads: any. Locks: none.
 *
 * Seven bits of a code choose a byte in a table of two registers: one table has the upper bytes of all bf16 values,
 * one the lower. So subnormal codes and NaN are right without being looked at. */
#ifndef AVX512_E4M3_H
#define AVX512_E4M3_H

#include "plugins/avx512/vec.h"

#define E4M3_TARGET __attribute__((target("avx512bf16,avx512vbmi")))
#define E4M3_INLINE static inline E4M3_TARGET __attribute__((always_inline))

/* How far ahead of a stream of whole rows to prefetch. EPYC Zen 5, 1 thread, share of a pure read: none .83, +3K .89,
 * +4K .93, +6K .97, +8K .96. */
#define E4M3_AHEAD 6144

/* [twice the value][upper byte, lower byte][code without sign] */
extern const uint8_t avx512_e4m3_codes[2][2][128];

/* The bytes of each code times a scale. */
struct e4m3_table {
	__m512i high0, high1, low0, low1;
};

E4M3_INLINE struct e4m3_table e4m3_table(uint8_t e8m0)
{
	int shift = e8m0 - 127;
	const uint8_t (*t)[128] = avx512_e4m3_codes[shift & 1];
	__m512i add = _mm512_set1_epi8((char)(shift >> 1)); /* to the upper seven bits of the exponent */
	struct e4m3_table d = { _mm512_load_si512(t[0]), _mm512_load_si512(t[0] + 64), _mm512_load_si512(t[1]),
			       _mm512_load_si512(t[1] + 64) };

	d.high0 = _mm512_mask_add_epi8(d.high0, ~(__mmask64)1, d.high0, add);      /* not of zero */
	d.high1 = _mm512_mask_add_epi8(d.high1, ~(__mmask64)0 >> 1, d.high1, add); /* not of NaN */
	return d;
}

/* 64 codes to two registers of bf16. */
E4M3_INLINE void e4m3_bf16(const struct e4m3_table *d, __m512i codes, __m512i out[2])
{
	__m512i high = _mm512_permutex2var_epi8(d->high0, codes, d->high1);
	__m512i low = _mm512_permutex2var_epi8(d->low0, codes, d->low1);

	high = _mm512_ternarylogic_epi32(high, codes, _mm512_set1_epi8((char)0x80), 0xf8); /* high | codes & 80 */
	out[0] = _mm512_unpacklo_epi8(low, high);
	out[1] = _mm512_unpackhi_epi8(low, high);
}

/* 64 codes of which n are there, n may be less than none, and zeroes. */
E4M3_INLINE __m512i e4m3_codes(const uint8_t *p, int64_t n)
{
	__m512i v = n >= 64 ? _mm512_loadu_si512(p) :
			      _mm512_maskz_loadu_epi8(n <= 0 ? 0 : ((__mmask64)1 << n) - 1, p);

	/* Each line is to be loaded once. Without this the compiler loads it for each use, and the prefetchers lose the
	 * stream: half the speed. */
	__asm__("" : "+v"(v));
	return v;
}

/* n codes of a block of 128, zeroes after them; fetches the lines `ahead` bytes further on. */
E4M3_INLINE void e4m3_load(const uint8_t *p, int64_t n, int64_t ahead, __m512i out[2])
{
	out[0] = e4m3_codes(p, n);
	out[1] = e4m3_codes(p + 64, n - 64);
	_mm_prefetch((const char *)p + ahead, _MM_HINT_T0);
	_mm_prefetch((const char *)p + ahead + 64, _MM_HINT_T0);
}

/* A block of a row to four registers: of each 64 columns first the even eights, then the odd ones. */
E4M3_INLINE void e4m3_block(const struct e4m3_table *d, const uint8_t *p, int64_t n, __m512i out[4])
{
	__m512i codes[2];

	e4m3_load(p, n, E4M3_AHEAD, codes);
	e4m3_bf16(d, codes[0], out);
	e4m3_bf16(d, codes[1], out + 2);
}

/* 64 codes to floats, in the order of columns. */
E4M3_INLINE void e4m3_f32(const struct e4m3_table *d, __m512i codes, __m512 out[4])
{
	/* Bytes 2 and 3 of each lane: lower byte of a value, upper byte. */
	const __m512i from = _mm512_setr_epi32(0x40000000, 0x41010000, 0x42020000, 0x43030000, 0x44040000, 0x45050000,
					       0x46060000, 0x47070000, 0x48080000, 0x49090000, 0x4a0a0000, 0x4b0b0000,
					       0x4c0c0000, 0x4d0d0000, 0x4e0e0000, 0x4f0f0000);
	const __mmask64 upper = 0xcccccccccccccccc;
	__m512i high = _mm512_permutex2var_epi8(d->high0, codes, d->high1);
	__m512i low = _mm512_permutex2var_epi8(d->low0, codes, d->low1);

	high = _mm512_ternarylogic_epi32(high, codes, _mm512_set1_epi8((char)0x80), 0xf8);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		out[i] = _mm512_castsi512_ps(_mm512_maskz_permutex2var_epi8(
			upper, low, _mm512_add_epi8(from, _mm512_set1_epi32(i * 0x10100000)), high));
}

#endif
