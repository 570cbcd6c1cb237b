/* SPDX-License-Identifier: MIT
 * codes.c - rows of floats that are small integers times a power of two: are they, and which?
 * Threads: any. Locks: none. */
#include "plugins/x86/codes.h"

#include <string.h>

/* The power of two that makes the largest of n values an integer of `bits` bits; 0 if none of ordinary size does. */
static float codes_unit(const float *x, int64_t n, int bits)
{
	vec top = vec_set(0);
	float most;

	for (int64_t i = 0; i < n; i += VEC_LANES)
		top = vec_max(vec_abs(vec_load(x + i, n - i)), top);
	most = vec_top(top);
	if (most == 0)
		return 1;
	if (most < 0x1p-50f || most > 0x1p50f)
		return 0;
	return dsv4_f32_from_bits((dsv4_f32_bits(most) & 0x7f800000) - (uint32_t)((bits - 1) << 23));
}

/* code[i] = x[i] / unit + zero; every bit that is lost by that is or'ed to *lost. NaN loses some. */
static inline void codes_write(const float *x, int64_t n, float unit, float zero, int8_t *code, vecu *lost)
{
	/* The sum's last bits are an integer; a unit of 0 makes it NaN. */
	vec magic = vec_set(0x1.8p23f + zero), down = vec_set(1 / unit), up = vec_set(unit);

	for (int64_t i = 0; i < n; i += VEC_LANES) {
		vec v = vec_load(x + i, n - i), sum = v * down + magic;

		*lost |= (vecu)((sum - magic) * up - v); /* 0 - -0 is 0, -0 - 0 is not */
		vec_bytes(code + i, (vecu)sum);
	}
}

static bool codes_none(vecu lost)
{
	return vec_zeroes(lost) == vec_lanes(VEC_LANES);
}

bool x86_codes_query(const float *x, int64_t n, int8_t *code, float *ret_unit)
{
	vecu lost = { 0 };

	*ret_unit = codes_unit(x, n, 6);
	codes_write(x, n, *ret_unit, CODES_ZERO, code, &lost);
	return codes_none(lost);
}

/* Four rows of codes become columns r to r + 3 of a block. */
static void codes_turn(int8_t code[4][CODES_DIM], int64_t n, int r, struct codes_block *b)
{
	for (int64_t k = 0; k < n; k += 16) {
		__m128 v[4];

		memcpy(&v[0], code[0] + k, 16);
		memcpy(&v[1], code[1] + k, 16);
		memcpy(&v[2], code[2] + k, 16);
		memcpy(&v[3], code[3] + k, 16);
		_MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
		for (int64_t i = 0; i < 4 && k + 4 * i < n; i++)
			memcpy(b->code[k / 4 + i][r], &v[i], 16);
	}
}

bool x86_codes_keys(const float *const row[CODES_ROWS], int n_row, int64_t n, struct codes_block *b)
{
	int64_t size = codes_size(n), n_four = size / 4;
	int8_t code[4][CODES_DIM];
	vecu lost = { 0 };

	/* One row's unit takes long to know, many at once do not. */
	for (int r = 0; r < CODES_ROWS; r++)
		b->unit[r] = r < n_row ? codes_unit(row[r], n, 7) : 1;
	for (int r = 0; r < CODES_ROWS; r += 4) {
		for (int i = 0; i < 4; i++)
			if (r + i < n_row)
				codes_write(row[r + i], n, b->unit[r + i], 0, code[i], &lost);
			else
				memset(code[i], 0, sizeof code[i]);
		codes_turn(code, size, r, b);
	}
	if (!codes_none(lost))
		return false;
	for (int r = 0; r < CODES_ROWS; r += VEC_LANES) {
		veci sum = { 0 };

		for (int64_t j = 0; j < n_four; j++)
			sum = vec_dot4(sum, vec_int_set(CODES_ZERO * 0x01010101), vec_int_load(b->code[j][r]));
		sum = -sum;
		memcpy(b->bias + r, &sum, sizeof sum);
	}
	return true;
}
