/* SPDX-License-Identifier: MIT
 * select.c - the k best of n scores: a threshold found eight bits of the keys' range at a time, then one pass that
 * picks. Threads: any. Locks: none. */
#include "plugins/x86/select.h"
#include "plugins/x86/vec.h"

#include <string.h>

#define SELECT_BITS 8
#define SELECT_BINS (1 << SELECT_BITS)
#define SELECT_SETS 4 /* neighbours count in different memory: many fall into the same bin */

/* Orders floats as signed integers: NaN lowest, below -inf; -0 equals +0. */
static veci select_keys(const float *score, int64_t n)
{
	vec f = vec_load(score, n);
	veci b = (veci)(f + vec_set(0)), key = b ^ (veci)((vecu)(b >> 31) >> 1);

	return (veci)vec_pick(vec_nan(f), (vec)((veci){ 0 } + INT32_MIN), (vec)key);
}

/* The keys' lowest, and in *ret_span their highest minus that. */
static uint32_t select_range(const float *score, int64_t n, uint32_t *ret_span)
{
	veci low = (veci){ 0 } + INT32_MAX, high = (veci){ 0 } + INT32_MIN;
	int32_t least = INT32_MAX, most = INT32_MIN;

	for (int64_t i = 0; i < n; i += VEC_LANES) {
		vec key = (vec)select_keys(score + i, n - i);

		low = vec_int_min(low, (veci)vec_pick(vec_first(n - i), key, (vec)low));
		high = vec_int_max(high, (veci)vec_pick(vec_first(n - i), key, (vec)high));
	}
	for (int l = 0; l < VEC_LANES; l++) {
		least = low[l] < least ? low[l] : least;
		most = high[l] > most ? high[l] : most;
	}
	*ret_span = (uint32_t)most - (uint32_t)least;
	return (uint32_t)least;
}

/* Of the keys in [low, low + 2^width), which are 2^(width - shift) bins of 2^shift each: how many are in each. */
static void select_count(const float *score, int64_t n, uint32_t low, int width, int shift, int32_t bin[SELECT_BINS])
{
	int32_t count[SELECT_SETS][SELECT_BINS] = { 0 };
	uint32_t at[VEC_LANES];

	for (int64_t i = 0; i < n; i += VEC_LANES) {
		vecu off = (vecu)select_keys(score + i, n - i) - low;
		unsigned in = vec_zeroes(vec_shift(off, width)) & vec_lanes(n - i);

		if (!in)
			continue;
		off = vec_shift(off, shift);
		memcpy(at, &off, sizeof at);
		for (; in; in &= in - 1) {
			int l = __builtin_ctz(in);

			count[l % SELECT_SETS][at[l]]++;
		}
	}
	for (int b = 0; b < SELECT_BINS; b++)
		bin[b] = count[0][b] + count[1][b] + count[2][b] + count[3][b];
}

/* The k-th highest key of n > k scores; *ret_equal says how many of those that equal it belong to the k. */
static int32_t select_threshold(const float *score, int32_t n, int32_t k, int32_t *ret_equal)
{
	int32_t bin[SELECT_BINS];
	uint32_t span, low = select_range(score, n, &span);
	int width = span ? 32 - __builtin_clz(span) : 0;

	while (width > 0) {
		int shift = width > SELECT_BITS ? width - SELECT_BITS : 0, b = SELECT_BINS - 1;

		select_count(score, n, low, width, shift, bin);
		while (bin[b] < k)
			k -= bin[b--];
		low += (uint32_t)b << shift;
		width = shift;
	}
	*ret_equal = k;
	return (int32_t)low;
}

int32_t x86_select(const float *score, int32_t n, int32_t k, int32_t *rows)
{
	int32_t equal = 0, count = 0, limit;

	if (n <= k || k == 0) {
		for (; count < x86_min(n, k); count++)
			rows[count] = count;
		return count;
	}
	limit = select_threshold(score, n, k, &equal);
	for (int32_t i = 0; i < n && count < k; i += VEC_LANES) {
		veci key = select_keys(score + i, n - i);
		unsigned take = vec_above(key, limit) & vec_lanes(n - i);
		unsigned tie = vec_zeroes((vecu)(key ^ limit)) & vec_lanes(n - i);

		for (; tie && equal > 0; equal--, tie &= tie - 1)
			take |= tie & -tie;
		for (; take; take &= take - 1)
			rows[count++] = i + __builtin_ctz(take);
	}
	return count;
}
