/* SPDX-License-Identifier: MIT
 * select.c - the k best of n scores: a threshold found by halving, then one pass that picks.
 * Threads: any. Locks: none. */
#include "plugins/avx2/select.h"
#include "plugins/avx2/vec.h"

/* Orders floats as signed integers: NaN lowest, below -inf; -0 equals +0. */
static __m256i select_keys(__m256 f)
{
	__m256i b = _mm256_castps_si256(_mm256_add_ps(f, _mm256_setzero_ps()));
	__m256i flip = _mm256_srli_epi32(_mm256_srai_epi32(b, 31), 1);

	return _mm256_blendv_epi8(_mm256_xor_si256(b, flip), _mm256_set1_epi32(INT32_MIN),
				  _mm256_castps_si256(_mm256_cmp_ps(f, f, _CMP_UNORD_Q)));
}

/* The keys of n scores; lanes past the end are false in the mask. */
static __m256i select_load(const float *score, int64_t n, __m256i *ret_mask)
{
	*ret_mask = avx2_lanes(n);
	return select_keys(avx2_load(score, n));
}

/* How many of n scores have a key of at least `limit`, and in *ret_above how many a greater one. */
static int64_t select_count(const float *score, int64_t n, int32_t limit, int64_t *ret_above)
{
	__m256i least = _mm256_set1_epi32(limit), above = _mm256_setzero_si256(), equal = above, mask;
	int32_t a[8], e[8];
	int64_t n_above = 0, n_equal = 0;

	for (int64_t i = 0; i < n; i += AVX2_LANES) {
		__m256i key = select_load(score + i, n - i, &mask);

		above = _mm256_sub_epi32(above, _mm256_and_si256(mask, _mm256_cmpgt_epi32(key, least)));
		equal = _mm256_sub_epi32(equal, _mm256_and_si256(mask, _mm256_cmpeq_epi32(key, least)));
	}
	_mm256_storeu_si256((__m256i *)(void *)a, above);
	_mm256_storeu_si256((__m256i *)(void *)e, equal);
	for (int i = 0; i < 8; i++) {
		n_above += a[i];
		n_equal += e[i];
	}
	*ret_above = n_above;
	return n_above + n_equal;
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

int32_t avx2_select(const float *score, int32_t n, int32_t k, int32_t *rows)
{
	int64_t equal = 0;
	int32_t count = 0, threshold;
	__m256i limit, mask;

	if (n <= k || k == 0) {
		for (; count < avx2_min(n, k); count++)
			rows[count] = count;
		return count;
	}
	threshold = select_threshold(score, n, k, &equal);
	limit = _mm256_set1_epi32(threshold);
	for (int32_t i = 0; i < n && count < k; i += AVX2_LANES) {
		__m256i key = select_load(score + i, n - i, &mask);
		__m256i over = _mm256_and_si256(mask, _mm256_cmpgt_epi32(key, limit));
		__m256i same = _mm256_and_si256(mask, _mm256_cmpeq_epi32(key, limit));
		unsigned take = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(over));
		unsigned tie = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(same));

		for (; tie && equal > 0; equal--, tie &= tie - 1)
			take |= tie & -tie;
		for (; take; take &= take - 1)
			rows[count++] = i + __builtin_ctz(take);
	}
	return count;
}
