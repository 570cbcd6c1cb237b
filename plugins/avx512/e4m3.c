/* SPDX-License-Identifier: MIT
 * e4m3.c - the values of e4m3 codes, as tables for e4m3.h.
 * Threads: any (constants only). Locks: none. */
#include "plugins/avx512/e4m3.h"

/* bf16 of the e4m3 code of exponent e and mantissa m, twice it when odd is 1; NaN is NaN both times. */
#define SUB(m) ((m) == 1 ? 118 << 7 : (m) < 4 ? 119 << 7 | ((m) & 1) << 6 : 120 << 7 | ((m) & 3) << 5)
#define BITS(e, m, odd) \
	((e) == 15 && (m) == 7 ? 0x7fc0 : (e) == 0 && (m) == 0 ? 0 : \
	 ((e) == 0 ? SUB(m) : (((e) + 120) << 7 | (m) << 4)) + ((odd) << 7))
#define ROW(e, odd, part) \
	part(BITS(e, 0, odd)), part(BITS(e, 1, odd)), part(BITS(e, 2, odd)), part(BITS(e, 3, odd)), \
	part(BITS(e, 4, odd)), part(BITS(e, 5, odd)), part(BITS(e, 6, odd)), part(BITS(e, 7, odd))
#define CODES(odd, part) \
	ROW(0, odd, part), ROW(1, odd, part), ROW(2, odd, part), ROW(3, odd, part), ROW(4, odd, part), \
	ROW(5, odd, part), ROW(6, odd, part), ROW(7, odd, part), ROW(8, odd, part), ROW(9, odd, part), \
	ROW(10, odd, part), ROW(11, odd, part), ROW(12, odd, part), ROW(13, odd, part), ROW(14, odd, part), \
	ROW(15, odd, part)
#define HIGH(bits) (uint8_t)((bits) >> 8)
#define LOW(bits) (uint8_t)((bits) & 0xff)
const uint8_t avx512_e4m3_codes[2][2][128] __attribute__((aligned(64))) = {
	{ { CODES(0, HIGH) }, { CODES(0, LOW) } },
	{ { CODES(1, HIGH) }, { CODES(1, LOW) } },
};
#undef LOW
#undef HIGH
#undef CODES
#undef ROW
#undef BITS
#undef SUB
