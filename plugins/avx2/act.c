/* SPDX-License-Identifier: MIT
 * act.c - activations as the products read them.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/avx2/act.h"
#include "plugins/x86/round.h"
#include "plugins/x86/vec.h"

#include <errno.h>

#define ACT_GRAIN 64 /* blocks per slice */

enum avx2_form avx2_act_form(uint32_t act, const struct dsv4_weight *w)
{
	int rounded = act == DSV4_ACT_FP8;

	switch (w->fmt) {
	case DSV4_W_FP8:
		return rounded ? AVX2_FORM_FP8_E4M3 : AVX2_FORM_FP8;
	case DSV4_W_FP4:
	case DSV4_W_NVFP4:
		return rounded ? AVX2_FORM_DIGITS : AVX2_FORM_PLAIN;
	default:
		return AVX2_FORM_PLAIN;
	}
}

/* ---- one block ---- */

/* out[8 c + i] = x[4 i + c] of 32 values, times `by`. */
static void act_deal32(const float *x, __m256 by, float *out)
{
	__m256 q[4], lo[2], hi[2];

	for (int i = 0; i < 4; i++)
		q[i] = _mm256_mul_ps(by, _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + 4 * i)),
							      _mm_loadu_ps(x + 16 + 4 * i), 1));
	for (int i = 0; i < 2; i++) {
		lo[i] = _mm256_unpacklo_ps(q[2 * i], q[2 * i + 1]);
		hi[i] = _mm256_unpackhi_ps(q[2 * i], q[2 * i + 1]);
	}
	_mm256_storeu_ps(out, _mm256_shuffle_ps(lo[0], lo[1], 0x44));
	_mm256_storeu_ps(out + 8, _mm256_shuffle_ps(lo[0], lo[1], 0xee));
	_mm256_storeu_ps(out + 16, _mm256_shuffle_ps(hi[0], hi[1], 0x44));
	_mm256_storeu_ps(out + 24, _mm256_shuffle_ps(hi[0], hi[1], 0xee));
}

/* The low bytes of eight numbers to even[0..4) and odd[0..4), by column. */
static void act_store_digits(__m256i v, int8_t *even, int8_t *odd)
{
	const __m256i pick = _mm256_setr_epi8(0, 8, 4, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
					      0, 8, 4, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
	__m128i pairs;
	int quad;

	v = _mm256_shuffle_epi8(v, pick);
	pairs = _mm_unpacklo_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	quad = _mm_cvtsi128_si32(pairs);
	memcpy(even, &quad, sizeof quad);
	quad = _mm_extract_epi32(pairs, 1);
	memcpy(odd, &quad, sizeof quad);
}

/* The lowest digit of each number, which becomes what is left of it. */
static __m256i act_digit(__m256i *v)
{
	const __m256i half = _mm256_set1_epi32(64);
	__m256i up = _mm256_add_epi32(*v, half);

	*v = _mm256_srai_epi32(up, 7);
	return _mm256_sub_epi32(_mm256_and_si256(up, _mm256_set1_epi32(127)), half);
}

static int32_t act_sum(__m256i v)
{
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* 128 e4m3 values. 0 if one of them is NaN, which has no digits and counts as 0. */
static int act_digits(const float *q, struct avx2_digits *out)
{
	__m256 nan = _mm256_setzero_ps();

	for (int b = 0; b < 8; b++) {
		__m256i sum = _mm256_setzero_si256();

		for (int v = 2 * b; v < 2 * b + 2; v++) {
			__m256 f = _mm256_loadu_ps(q + 8 * v), bad = _mm256_cmp_ps(f, f, _CMP_UNORD_Q);
			__m256i left = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_andnot_ps(bad, f),
									_mm256_set1_ps(0x1p9f)));

			nan = _mm256_or_ps(nan, bad);
			sum = _mm256_add_epi32(sum, left);
			for (int d = 0; d < 3; d++)
				act_store_digits(act_digit(&left), out->digit[d][0] + 4 * v, out->digit[d][1] + 4 * v);
		}
		out->start16[b] = -12 * act_sum(sum);
	}
	for (int b = 0; b < 4; b++)
		out->start[b] = out->start16[2 * b] + out->start16[2 * b + 1];
	return !_mm256_movemask_ps(nan);
}

/* What plain values are to be divided by so that 2^118 times them is finite: 1, or a power of two for large ones. */
static float act_large(const float *x)
{
	__m256 top = _mm256_setzero_ps();
	uint32_t exponent;

	for (int i = 0; i < AVX2_ACT_COLS; i += VEC_LANES)
		top = vec_max(vec_abs(_mm256_loadu_ps(x + i)), top);
	exponent = dsv4_f32_bits(vec_top(top)) >> 23;
	return exponent < 127 + 9 ? 1 : dsv4_f32_from_bits((uint32_t)(x86_min(exponent, 254) - 8) << 23);
}

/* Returns the block's scale. */
static float act_block(enum avx2_form form, const float *x, int64_t m, void *out)
{
	int deal = form == AVX2_FORM_FP8 || form == AVX2_FORM_FP8_E4M3;
	float v[AVX2_ACT_COLS], scale = 1, by = 0x1p118f, *to = deal || form == AVX2_FORM_DIGITS ? v : out;

	if (m < AVX2_ACT_COLS)
		memset(to, 0, sizeof v);
	if (form == AVX2_FORM_PLAIN || form == AVX2_FORM_FP8)
		memcpy(to, x, (size_t)m * sizeof *x);
	else
		scale = x86_round_split(x, m, to);
	if (form == AVX2_FORM_FP8) {
		scale = act_large(v);
		by = by / scale;
	}
	if (deal)
		for (int k = 0; k < AVX2_ACT_COLS; k += 32)
			act_deal32(v + k, _mm256_set1_ps(by), (float *)out + k);
	if (form == AVX2_FORM_DIGITS && !act_digits(v, out))
		return NAN;
	return scale;
}

/* ---- rows ---- */

int avx2_act_take(struct dsv4_exec *x, const struct dsv4_host *host, enum avx2_form form, int64_t n, int32_t n_group,
		  int64_t cols, struct avx2_act *ret_a)
{
	struct avx2_act a = { .form = form, .n_group = n_group, .n = n, .cols = cols };
	size_t n_scale;

	a.n_block = (cols + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS;
	a.block_size = AVX2_ACT_COLS * sizeof(float);
	if (form == AVX2_FORM_DIGITS) {
		a.n_block += a.n_block % 2;
		a.block_size = sizeof(struct avx2_digits);
	}
	/* one line more than a power of two, so that rows do not contend for the same cache sets */
	a.stride = n_group * a.n_block * (int64_t)a.block_size + 64;
	n_scale = (size_t)(n * n_group * a.n_block);
	a.x = host->scratch(x, (size_t)(n * a.stride));
	a.scale = host->scratch(x, n_scale * sizeof *a.scale);
	if (!a.x || !a.scale)
		return -ENOMEM;
	*ret_a = a;
	return 0;
}

void avx2_act_put(const struct avx2_act *a, int64_t row, int64_t block, const float *src, int64_t m)
{
	int64_t width = a->n_group * a->n_block, real = (a->cols + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS;
	char *to = a->x + row * a->stride + block * (int64_t)a->block_size;

	a->scale[row * width + block] = act_block(a->form, src, m, to);
	if (block % a->n_block + 1 == real && real < a->n_block)
		a->scale[row * width + block + 1] = act_block(a->form, src, 0, to + a->block_size);
}

struct act_make {
	const struct avx2_act *a;
	const float *src;
	int64_t ldx, n_block; /* of a group, those that have columns */
};

/* Blocks [begin, end) of all rows. */
static void act_make_slice(void *arg, int64_t begin, int64_t end)
{
	const struct act_make *c = arg;
	const struct avx2_act *a = c->a;

	for (int64_t i = begin; i < end; i++) {
		int64_t block = i % c->n_block, group = i / c->n_block % a->n_group, row = i / c->n_block / a->n_group;
		int64_t k = block * AVX2_ACT_COLS;

		avx2_act_put(a, row, group * a->n_block + block, c->src + row * c->ldx + group * a->cols + k,
			     x86_min(AVX2_ACT_COLS, a->cols - k));
	}
}

int avx2_act_make(struct dsv4_exec *x, const struct dsv4_host *host, enum avx2_form form, const float *src, int64_t ldx,
		  int64_t n, int32_t n_group, int64_t cols, struct avx2_act *ret_a)
{
	struct act_make c = { ret_a, src, ldx, (cols + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS };
	int rc = avx2_act_take(x, host, form, n, n_group, cols, ret_a);

	if (rc == 0)
		host->parallel_for(x, n * n_group * c.n_block, ACT_GRAIN, act_make_slice, &c);
	return rc;
}
