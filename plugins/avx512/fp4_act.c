/* SPDX-License-Identifier: MIT
 * fp4_act.c - activations for fp4.c: rounded to e4m3, in bf16, columns in the order in which nibbles come.
 * Threads: any, each on blocks of its own. Locks: none. */
#include "plugins/avx512/fp4.h"
#include "plugins/avx512/vec.h"
#include "plugins/x86/round.h"

#include <errno.h>

#define FP4_LARGE_ACT 0x1p61f /* the scale from which on it stays apart */

int avx512_fp4_act_take(struct dsv4_exec *x, const struct dsv4_host *host, int64_t n, int64_t cols,
			struct avx512_fp4_act *ret_a)
{
	struct avx512_fp4_act a = { .n = n, .cols = cols, .n_record = (cols + AVX512_BLOCK - 1) / AVX512_BLOCK };

	/* one line more than a power of two, so that rows do not contend for the same cache sets */
	a.ld = a.n_record * (AVX512_BLOCK / 2) + 16;
	a.pair = host->scratch(x, (size_t)(n * a.ld) * sizeof *a.pair);
	a.scale = host->scratch(x, (size_t)(n * a.n_record) * sizeof *a.scale);
	a.wild = host->scratch(x, (size_t)n);
	if (!a.pair || !a.scale || !a.wild)
		return -ENOMEM;
	memset(a.wild, 0, (size_t)n);
	*ret_a = a;
	return 0;
}

void avx512_fp4_act_block(const struct avx512_fp4_act *a, int64_t row, int64_t block, const float *x, int64_t n)
{
	const __m512i high = _mm512_set1_epi32((int)0xffff0000), words =
		_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	uint32_t *pair = a->pair + row * a->ld + block * (AVX512_BLOCK / 2);
	float q[AVX512_BLOCK] = { 0 }, scale = x86_round_split(x, n, q);
	int fits = scale < FP4_LARGE_ACT;
	__m512 s = _mm512_set1_ps(fits ? scale : 1.0f);

	a->scale[row * a->n_record + block] = fits ? 1.0f : scale;
	if (!fits) /* others may say so of other blocks at the same time */
		__atomic_store_n(&a->wild[row], 1, __ATOMIC_RELAXED);
	for (int k = 0; k < AVX512_BLOCK; k += 32) {
		__m512i lo = _mm512_castps_si512(_mm512_mul_ps(_mm512_loadu_ps(q + k), s));
		__m512i hi = _mm512_castps_si512(_mm512_mul_ps(_mm512_loadu_ps(q + k + 16), s));
		__m512i first = _mm512_shuffle_i32x4(lo, hi, 0x88), second = _mm512_shuffle_i32x4(lo, hi, 0xdd);
		/* at 4 v + s; then at 4 s + v, v within these 32 columns */
		__m512i v = _mm512_permutexvar_epi32(words, _mm512_or_si512(_mm512_srli_epi32(first, 16),
									    _mm512_and_si512(second, high)));

		_mm_storeu_si128((__m128i *)(pair + k / 8), _mm512_castsi512_si128(v));
		_mm_storeu_si128((__m128i *)(pair + k / 8 + 16), _mm512_extracti32x4_epi32(v, 1));
		_mm_storeu_si128((__m128i *)(pair + k / 8 + 32), _mm512_extracti32x4_epi32(v, 2));
		_mm_storeu_si128((__m128i *)(pair + k / 8 + 48), _mm512_extracti32x4_epi32(v, 3));
	}
}

void avx512_fp4_act_row(const struct avx512_fp4_act *a, int64_t row, const float *x)
{
	for (int64_t k = 0; k < a->cols; k += AVX512_BLOCK)
		avx512_fp4_act_block(a, row, k / AVX512_BLOCK, x + k, avx512_min(AVX512_BLOCK, a->cols - k));
}

void avx512_fp4_act_values(const struct avx512_fp4_act *a, int64_t row, int64_t block, float *out)
{
	const uint32_t *pair = a->pair + row * a->ld + block * (AVX512_BLOCK / 2);

	for (int v = 0; v < AVX512_BLOCK / 8; v++)
		for (int s = 0; s < 4; s++) {
			out[8 * v + s] = dsv4_f32_from_bits(pair[16 * s + v] << 16);
			out[8 * v + 4 + s] = dsv4_f32_from_bits(pair[16 * s + v] & 0xffff0000);
		}
}
