/* SPDX-License-Identifier: MIT
 * codes.h - rows of floats that are small integers times a power of two, and their products in integers.
 * Threads: any. Locks: none.
 *
 * Index keys and queries rounded to FP4 are such rows: e2m1 values are halves, and the scales of a row's blocks lie
 * close together. A product of two such rows has at most 24 bits wherever one stops adding, so every order of floats
 * and the integers give the same bits; rows that are anything else are multiplied as floats. */
#ifndef X86_CODES_H
#define X86_CODES_H

#include "plugins/x86/vec.h"

#include <stdbool.h>

#define CODES_DIM 256               /* values of a row at most */
#define CODES_ROWS (4 * VEC_LANES)  /* rows of a block */
#define CODES_ZERO 64               /* added to a query's codes, which makes them unsigned */

/* Some rows of keys, four values of each lane's row side by side. */
struct codes_block {
	int8_t code[CODES_DIM / 4][CODES_ROWS][4];
	int32_t bias[CODES_ROWS]; /* -CODES_ZERO times the sum of a row's codes */
	float unit[CODES_ROWS];
};

/* Bytes of n codes. */
static inline int64_t codes_size(int64_t n)
{
	return (n + VEC_LANES - 1) / VEC_LANES * VEC_LANES;
}

/* Codes of one query: 1 to 127, none needs more than six bits and a sign. False if x is no such row. */
bool x86_codes_query(const float *x, int64_t n, int8_t *code, float *ret_unit);
/* Codes of n_row rows; the others count as zeroes. False if one is no such row. */
bool x86_codes_keys(const float *const row[CODES_ROWS], int n_row, int64_t n, struct codes_block *b);

#endif
