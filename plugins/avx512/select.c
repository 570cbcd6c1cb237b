/* SPDX-License-Identifier: MIT
 * select.c - the k best of n scores: a threshold found by halving, then one pass that picks.
 * Threads: any. Locks: none. */
#include "plugins/avx512/select.h"
#include "plugins/avx512/vec.h"

/* Orders floats as signed integers: NaN lowest, below -inf; -0 equals +0. */
static __m512i select_keys(const float *score, int64_t n)
{
	__m512 f = avx512_load(score, n);
	__m512i b = _mm512_castps_si512(_mm512_add_ps(f, _mm512_setzero_ps()));
	__m512i key = _mm512_xor_si512(b, _mm512_srli_epi32(_mm512_srai_epi32(b, 31), 1));

	return _mm512_mask_mov_epi32(key, _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q), _mm512_set1_epi32(INT32_MIN));
}

/* How many of n scores have a key of at least `limit`, and in *ret_above how many a greater one. */
static int64_t select_count(const float *score, int64_t n, int32_t limit, int64_t *ret_above)
{
	__m512i least = _mm512_set1_epi32(limit);
	int64_t above = 0, equal = 0;

	for (int64_t i = 0; i < n; i += AVX512_LANES) {
		__mmask16 lanes = avx512_mask(n - i);
		__m512i key = select_keys(score + i, n - i);

		above += __builtin_popcount(_mm512_mask_cmpgt_epi32_mask(lanes, key, least));
		equal += __builtin_popcount(_mm512_mask_cmpeq_epi32_mask(lanes, key, least));
	}
	*ret_above = above;
	return above + equal;
}

/* A key with at least k of the n > k scores at or above it and at most k above: halves the range of all keys
 * until that is so. *ret_equal says how many of those that equal it belong to the k. */
static int32_t select_threshold(const float *score, int64_t n, int64_t k, int64_t *ret_equal)
{
	int64_t low = INT32_MIN, high = INT32_MAX, above;

	for (;;) {
		int64_t mid = (low + high) >> 1;
		int64_t n_least = select_count(score, n, (int32_t)mid, &above);

		if (n_least >= k && above <= k) {
			*ret_equal = k - above;
			return (int32_t)mid;
		}
		if (above > k)
			low = mid + 1;
		else
			high = mid - 1;
	}
}

int32_t avx512_select(const float *score, int32_t n, int32_t k, int32_t *rows)
{
	int64_t equal = 0;
	int32_t count = 0;
	__m512i limit;

	if (n <= k || k == 0) {
		for (; count < avx512_min(n, k); count++)
			rows[count] = count;
		return count;
	}
	limit = _mm512_set1_epi32(select_threshold(score, n, k, &equal));
	for (int32_t i = 0; i < n && count < k; i += AVX512_LANES) {
		__mmask16 lanes = avx512_mask(n - i);
		__m512i key = select_keys(score + i, n - i);
		unsigned take = _mm512_mask_cmpgt_epi32_mask(lanes, key, limit);
		unsigned tie = _mm512_mask_cmpeq_epi32_mask(lanes, key, limit);

		for (; tie && equal > 0; equal--, tie &= tie - 1)
			take |= tie & -tie;
		for (; take; take &= take - 1)
			rows[count++] = i + __builtin_ctz(take);
	}
	return count;
}
