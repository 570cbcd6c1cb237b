/* SPDX-License-Identifier: MIT
 * fp4_native.h - records (dsv4_rows16.h) of FP4 matrices as the checkpoint has them, made as they are needed.
 * Threads: any, each on structs of its own. Locks: none. */
#ifndef AVX512_FP4_NATIVE_H
#define AVX512_FP4_NATIVE_H

#include "plugins/avx512/vec.h"
#include "plugins/dsv4_rows16.h"

#define FP4_CHUNK 16 /* records whose scales are put in order at once */

/* A panel of a matrix as the checkpoint has it. */
struct fp4_native {
	const uint8_t *data, *scale;    /* of the panel's first row */
	int64_t n_row, row, scale_row;  /* rows; bytes of one row, of its scales */
	uint8_t scales[FP4_CHUNK][DSV4_ROWS16_SCALES] __attribute__((aligned(64)));
};

void avx512_fp4_native_init(struct fp4_native *s, const struct dsv4_weight *w, int64_t panel);
/* The scales of FP4_CHUNK records from number i on, to s->scales. */
void avx512_fp4_native_scales(struct fp4_native *s, int64_t i);
/* Makes n <= FP4_CHUNK records from number i0 on, a multiple of FP4_CHUNK. record is 64-byte aligned. */
void avx512_fp4_native_records(struct fp4_native *s, int64_t i0, int64_t n, uint8_t *record);

/* The first n bytes at p, no more than 64; n may be less than none. Whole vectors by a plain load: behind masked ones
 * the hardware prefetches nothing (19 and 7 GB/s; EPYC Zen 5, one core). */
static inline __attribute__((always_inline)) __m512i fp4_load(const uint8_t *p, int64_t n)
{
	if (n >= 64)
		return _mm512_loadu_si512(p);
	return _mm512_maskz_loadu_epi8(n <= 0 ? 0 : ((__mmask64)1 << n) - 1, p);
}

#endif
