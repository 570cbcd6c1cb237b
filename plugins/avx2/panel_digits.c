/* SPDX-License-Identifier: MIT
 * panel_digits.c - panels of FP4 and NVFP4 against rounded activations, in integers.
 * Threads: pool runs slices. Locks: none.
 *
 * A weight is 2 w + 12, from 0 to 24; the 12 is taken back by struct avx2_digits' start. An activation's three digits
 * are multiplied one by one and put together at the end of a block of 32 columns (NVFP4: 16): up to there everything is
 * an exact integer, 2^10 times the sum. Without AVX-VNNI products of two columns are added in 16 bits, where eight of
 * them fit: 8 * 2 * 24 * 64 < 2^15, which is a block.
 *
 * Sixteen rows side by side (dsv4_rows16.h) have a row per lane, and no sum across lanes. Rows as checkpoints have them
 * are read one after the other, or for several activation rows put side by side first. */
#include "plugins/avx2/decode.h"
#include "plugins/avx2/panel.h"
#include "plugins/dsv4_rows16.h"

#define PANEL_STREAM 2 /* activation rows for which rows stay as they are */

#define PANEL_INLINE static inline __attribute__((always_inline))

/* Products of 32 weights and digits, added to acc: in 8 lanes of 32 bits, or in 16 of 16 bits. The compilers' name for
 * the instruction wants a function of its own target, and there would be two of each. */
PANEL_INLINE __m256i panel_dot(const int vnni, __m256i acc, __m256i w, __m256i x)
{
	if (!vnni)
		return _mm256_add_epi16(acc, _mm256_maddubs_epi16(w, x));
	__asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
	return acc;
}

/* Three digits' sums, put together in 8 lanes of 32 bits. */
PANEL_INLINE __m256i panel_join(const int vnni, const __m256i acc[3])
{
	if (vnni)
		return _mm256_add_epi32(acc[0], _mm256_add_epi32(_mm256_slli_epi32(acc[1], 7),
								 _mm256_slli_epi32(acc[2], 14)));
	return _mm256_add_epi32(_mm256_madd_epi16(acc[0], _mm256_set1_epi16(1)),
				_mm256_add_epi32(_mm256_madd_epi16(acc[1], _mm256_set1_epi16(1 << 7)),
						 _mm256_madd_epi16(acc[2], _mm256_set1_epi16(1 << 14))));
}

/* The 32 even columns' weights and the odd ones' of 32 bytes. */
PANEL_INLINE void panel_weights(const uint8_t *src, __m256i w[2])
{
	const __m256i value = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
					       12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
	const __m256i code = _mm256_set1_epi8(15);
	__m256i v = _mm256_loadu_si256(x86_at(src, 0));

	__asm__("" : "+x"(v)); /* not to be loaded twice */
	w[0] = _mm256_shuffle_epi8(value, _mm256_and_si256(v, code));
	w[1] = _mm256_shuffle_epi8(value, _mm256_and_si256(_mm256_srli_epi16(v, 4), code));
}

/* A block's integers as floats. */
PANEL_INLINE __m256 panel_value(__m256i sum)
{
	return _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(0x1p-10f));
}

/* ---- rows side by side ---- */

/* Sums of an activation row: of blocks 0 to 3 mod 4, for each row. */
struct panel_sums {
	float sum[4][AVX2_PANEL];
};

/* A record's scales: of NVFP4's eight blocks of 16 columns they are floats. */
struct panel_scales {
	float nvfp4[8][AVX2_PANEL];
};

/* Those of block b, of rows 0 to 7 and 8 to 15. */
PANEL_INLINE void panel_block_scales(const int per, const uint8_t *record, const struct panel_scales *s, int b,
				     __m256 ws[2])
{
	__m128i bytes;

	if (per == 2) {
		ws[0] = _mm256_loadu_ps(s->nvfp4[b]);
		ws[1] = _mm256_loadu_ps(s->nvfp4[b] + 8);
		return;
	}
	bytes = _mm_loadu_si128(x86_at(record, 16 * b));
	ws[0] = avx2_decode_e8m0(bytes);
	ws[1] = avx2_decode_e8m0(_mm_srli_si128(bytes, 8));
}

/* A record's weights: of the even and odd ones of columns 8 v to 8 v + 7, those of rows 0 to 7 and 8 to 15. */
struct panel_record {
	__m256i w[16][2][2];
};

/* Four columns of eight rows each in w[odd][half]. */
PANEL_INLINE void panel_words(const uint8_t *record, int v, __m256i w[2][2])
{
	__m256i half[2];

#pragma GCC unroll 2
	for (int h = 0; h < 2; h++) {
		panel_weights(record + DSV4_ROWS16_SCALES + 64 * v + 32 * h, half);
		w[0][h] = half[0];
		w[1][h] = half[1];
	}
}

/* Adds one record, of blocks of 8 * per columns, for n activation rows: 6 n sums and what they are made of have to fit
 * into sixteen registers, which compilers see to where no loop over columns is unrolled. Its weights stand in `made`,
 * or are made if that is NULL. */
PANEL_INLINE void panel_record(const int vnni, const int per, const int n, const uint8_t *record,
			       const struct panel_scales *s, const struct panel_record *made,
			       const struct avx2_digits *const *x, const float *scale, struct panel_sums *sums)
{
	for (int b = 0; b < 16 / per; b++) {
		__m256i acc[2][2][3], w[2][2];
		__m256 ws[2];

		panel_block_scales(per, record, s, b, ws);
#pragma GCC unroll 2
		for (int i = 0; i < n; i++)
#pragma GCC unroll 3
			for (int d = 0; d < 3; d++)
				acc[i][0][d] = acc[i][1][d] = _mm256_setzero_si256();
#pragma GCC unroll 1
		for (int v = per * b; v < per * (b + 1); v++) {
			if (!made) {
				avx2_prefetch(record + 64 * v);
				panel_words(record, v, w);
			}
#pragma GCC unroll 2
			for (int odd = 0; odd < 2; odd++) {
				__m256i w0 = made ? made->w[v][odd][0] : w[odd][0],
					w1 = made ? made->w[v][odd][1] : w[odd][1];

#pragma GCC unroll 2
				for (int i = 0; i < n; i++)
#pragma GCC unroll 3
					for (int d = 0; d < 3; d++) {
						__m256i q;
						int quad;

						memcpy(&quad, x[i]->digit[d][odd] + 4 * v, sizeof quad);
						q = _mm256_set1_epi32(quad);
						acc[i][0][d] = panel_dot(vnni, acc[i][0][d], w0, q);
						acc[i][1][d] = panel_dot(vnni, acc[i][1][d], w1, q);
					}
			}
		}
#pragma GCC unroll 2
		for (int i = 0; i < n; i++)
#pragma GCC unroll 2
			for (int half = 0; half < 2; half++) {
				__m256i all = _mm256_add_epi32(panel_join(vnni, acc[i][half]),
							       _mm256_set1_epi32(per == 4 ? x[i]->start[b] :
										 x[i]->start16[b]));
				__m256 by = _mm256_mul_ps(_mm256_set1_ps(scale[i]), ws[half]);
				float *sum = sums[i].sum[b % 4] + 8 * half;

				_mm256_storeu_ps(sum, _mm256_fmadd_ps(panel_value(all), by, _mm256_loadu_ps(sum)));
			}
	}
}

/* Transposes 8 x 8 words: word v of row[r] goes to out + 64 v + 4 r. */
static void panel_turn(const uint8_t *const row[8], uint8_t *out)
{
	__m256i a[8], b[8];

	for (int r = 0; r < 8; r++)
		a[r] = _mm256_loadu_si256(x86_at(row[r], 0));
	for (int r = 0; r < 8; r += 2) {
		b[r] = _mm256_unpacklo_epi32(a[r], a[r + 1]);
		b[r + 1] = _mm256_unpackhi_epi32(a[r], a[r + 1]);
	}
	for (int r = 0; r < 8; r += 4)
		for (int i = 0; i < 2; i++) {
			a[r + 2 * i] = _mm256_unpacklo_epi64(b[r + i], b[r + i + 2]);
			a[r + 2 * i + 1] = _mm256_unpackhi_epi64(b[r + i], b[r + i + 2]);
		}
	for (int v = 0; v < 4; v++) {
		_mm256_storeu_si256((__m256i *)(void *)(out + 64 * v), _mm256_permute2x128_si256(a[v], a[v + 4], 0x20));
		_mm256_storeu_si256((__m256i *)(void *)(out + 64 * v + 256),
				    _mm256_permute2x128_si256(a[v], a[v + 4], 0x31));
	}
}

/* The same for one row of the last record, which has fewer columns. */
static void panel_pack_tail(const struct avx2_panel *p, int64_t b, int r, uint8_t *record)
{
	int64_t row_size = (p->w->cols + 1) / 2;
	const uint8_t *src = (const uint8_t *)p->w->data + (p->r0 + r) * row_size + b * (AVX2_ACT_COLS / 2);
	uint8_t bytes[AVX2_ACT_COLS / 2] = { 0 };

	memcpy(bytes, src, (size_t)(row_size - b * (AVX2_ACT_COLS / 2)));
	for (int v = 0; v < 16; v++)
		memcpy(record + DSV4_ROWS16_SCALES + 64 * v + 4 * r, bytes + 4 * v, 4);
}

/* The scales of that record. */
static void panel_pack_scales(const int per, const struct avx2_panel *p, int64_t b, uint8_t *record,
			      struct panel_scales *s)
{
	int64_t n_scale = (p->w->cols + 8 * per - 1) / (8 * per), n = x86_min(16 / per, n_scale - 16 / per * b);
	uint8_t nvfp4[8][AVX2_PANEL] = { 0 }, (*bytes)[AVX2_PANEL] = per == 2 ? nvfp4 : (uint8_t (*)[AVX2_PANEL])record;

	for (int r = 0; r < AVX2_PANEL; r++) {
		const uint8_t *scale = x86_at(p->w->scale, (p->r0 + x86_min(r, p->n_row - 1)) * n_scale + 16 / per * b);

		for (int64_t j = 0; j < n; j++)
			bytes[j][r] = scale[j];
	}
	if (per == 2)
		for (int j = 0; j < 8 * AVX2_PANEL; j += 8)
			_mm256_storeu_ps(s->nvfp4[0] + j, _mm256_mul_ps(avx2_decode_e4m3_scales(
				_mm_loadl_epi64(x86_at(nvfp4, j))), _mm256_set1_ps(p->w->scale2)));
}

/* The record of columns [128 b, 128 b + 128) of the panel's rows, without scales. Rows past its last are that one once
 * more. */
static void panel_pack(const struct avx2_panel *p, int64_t b, uint8_t *record)
{
	int64_t row_size = (p->w->cols + 1) / 2;
	const uint8_t *data = p->w->data, *row[AVX2_PANEL];

	if ((b + 1) * AVX2_ACT_COLS > p->w->cols) {
		memset(record, 0, DSV4_ROWS16_RECORD);
		for (int r = 0; r < p->n_row; r++)
			panel_pack_tail(p, b, r, record);
		return;
	}
	for (int r = 0; r < AVX2_PANEL; r++)
		row[r] = data + (p->r0 + x86_min(r, p->n_row - 1)) * row_size + b * (AVX2_ACT_COLS / 2);
	for (int r = 0; r < AVX2_PANEL; r += 8)
		for (int v = 0; v < 16; v += 8) {
			panel_turn(row + r, record + DSV4_ROWS16_SCALES + 64 * v + 4 * r);
			for (int i = r; i < r + 8; i++)
				row[i] += 32;
		}
}

PANEL_INLINE void panel_records(const int vnni, const int per, const struct avx2_panel *p, float (*out)[AVX2_PANEL])
{
	int64_t n_record = (p->w->cols + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS;
	uint8_t packed[DSV4_ROWS16_RECORD];
	struct panel_sums sums[AVX2_PANEL_TOKENS];
	const struct avx2_digits *x[AVX2_PANEL_TOKENS];
	float scale[AVX2_PANEL_TOKENS];

	memset(sums, 0, (size_t)p->n * sizeof *sums);
	for (int64_t b = 0; b < n_record; b++) {
		const uint8_t *record = packed;
		struct panel_record made;
		struct panel_scales s;
		int i = 0;

		if (p->packed)
			record = (const uint8_t *)p->packed +
				 (p->r0 / AVX2_PANEL * n_record + b) * DSV4_ROWS16_RECORD;
		else {
			panel_pack(p, b, packed);
			panel_pack_scales(per, p, b, packed, &s);
		}
		for (int k = 0; k < p->n; k++) {
			x[k] = (const struct avx2_digits *)avx2_panel_x(p, k) + b;
			scale[k] = avx2_panel_scale(p, k)[b];
		}
		if (p->n == 1) {
			panel_record(vnni, per, 1, record, &s, NULL, x, scale, sums);
			continue;
		}
		for (int v = 0; v < 16; v++) {
			avx2_prefetch(record + 64 * v);
			panel_words(record, v, made.w[v]);
		}
		for (; i + 2 <= p->n; i += 2)
			panel_record(vnni, per, 2, record, &s, &made, x + i, scale + i, sums + i);
		if (i < p->n)
			panel_record(vnni, per, 1, record, &s, &made, x + i, scale + i, sums + i);
	}
	for (int i = 0; i < p->n; i++)
		for (int r = 0; r < AVX2_PANEL; r++)
			out[i][r] = (sums[i].sum[0][r] + sums[i].sum[2][r]) + (sums[i].sum[1][r] + sums[i].sum[3][r]);
}

/* ---- rows as they are, two at a time: that halves the loads of digits, and each fills the other's waits ---- */

struct panel_two {
	const uint8_t *data[2], *scale[2];
	__m128 sum[2]; /* of blocks 0 to 3 mod 4 */
};

/* 64 columns, a block in each half; digits from `at` on. */
PANEL_INLINE void panel_two_blocks(const int vnni, const uint8_t *const data[2], const struct avx2_digits *x, int at,
				   __m256i ret_block[2])
{
	__m256i w[2][2], acc[2][3];

#pragma GCC unroll 2
	for (int r = 0; r < 2; r++)
		panel_weights(data[r] + at, w[r]);
#pragma GCC unroll 3
	for (int d = 2; d >= 0; d--) {
#pragma GCC unroll 2
		for (int r = 0; r < 2; r++) /* 32 bits hold 128 times all that came before */
			acc[r][d] = vnni && d < 2 ? _mm256_slli_epi32(acc[r][d + 1], 7) : _mm256_setzero_si256();
#pragma GCC unroll 2
		for (int odd = 0; odd < 2; odd++) {
			__m256i digits = _mm256_loadu_si256(x86_at(x->digit[d][odd], at % 64));

#pragma GCC unroll 2
			for (int r = 0; r < 2; r++)
				acc[r][d] = panel_dot(vnni, acc[r][d], w[r][odd], digits);
		}
	}
#pragma GCC unroll 2
	for (int r = 0; r < 2; r++)
		ret_block[r] = vnni ? acc[r][0] : panel_join(vnni, acc[r]);
}

/* Lanes of 64 columns each, and two of those, become sums of blocks: lane 4 i + j is block 2 i + j of the first. */
PANEL_INLINE __m256i panel_two_fold(__m256i a, __m256i b)
{
	return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

/* Adds 256 columns, eight blocks, to the four sums of each row. */
PANEL_INLINE void panel_two_part(const int vnni, struct panel_two *t, int64_t k, const struct avx2_digits *x,
				 const float *as)
{
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	const uint8_t *data[2] = { t->data[0] + 128 * k, t->data[1] + 128 * k };
	__m256i start = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(x86_at(x[0].start, 0))),
						_mm_loadu_si128(x86_at(x[1].start, 0)), 1);
	__m256 scale = _mm256_set_m128(_mm_set1_ps(as[1]), _mm_set1_ps(as[0]));
	__m256i two[2][2], block[2][2];

#pragma GCC unroll 2
	for (int i = 0; i < 2; i++) {
#pragma GCC unroll 2
		for (int q = 0; q < 2; q++) {
			panel_two_blocks(vnni, data, &x[i], 64 * i + 32 * q, block[q]);
			avx2_prefetch(data[q] + 64 * i);
		}
#pragma GCC unroll 2
		for (int r = 0; r < 2; r++)
			two[r][i] = panel_two_fold(block[0][r], block[1][r]);
	}
#pragma GCC unroll 2
	for (int r = 0; r < 2; r++) {
		__m256i all = _mm256_add_epi32(_mm256_unpacklo_epi64(two[r][0], two[r][1]),
					       _mm256_unpackhi_epi64(two[r][0], two[r][1]));
		__m256 value = panel_value(_mm256_add_epi32(_mm256_permutevar8x32_epi32(all, order), start));
		__m256 by = _mm256_mul_ps(scale, avx2_decode_e8m0(_mm_loadl_epi64(x86_at(t->scale[r], 8 * k))));

		t->sum[r] = _mm_fmadd_ps(_mm256_castps256_ps128(value), _mm256_castps256_ps128(by), t->sum[r]);
		t->sum[r] = _mm_fmadd_ps(_mm256_extractf128_ps(value, 1), _mm256_extractf128_ps(by, 1), t->sum[r]);
	}
}

/* What a row has behind its last 256 columns, and zeroes. */
struct panel_tail {
	uint8_t data[128], scale[8];
};

PANEL_INLINE void panel_rows(const int vnni, const struct avx2_panel *p, float (*out)[AVX2_PANEL])
{
	const struct dsv4_weight *w = p->w;
	int64_t row_size = (w->cols + 1) / 2, n_scale = (w->cols + 31) / 32, n_part = w->cols / 256;
	struct panel_tail tail[2] = { 0 };

	for (int r = 0; r < p->n_row; r += 2) {
		struct panel_two t,
			end = { { tail[0].data, tail[1].data }, { tail[0].scale, tail[1].scale }, { { 0 } } };

		for (int j = 0; j < 2; j++) { /* an odd last row twice */
			int64_t row = p->r0 + x86_min(r + j, p->n_row - 1);

			t.data[j] = x86_at(w->data, row * row_size);
			t.scale[j] = x86_at(w->scale, row * n_scale);
			memcpy(tail[j].data, t.data[j] + 128 * n_part, (size_t)(row_size - 128 * n_part));
			memcpy(tail[j].scale, t.scale[j] + 8 * n_part, (size_t)(n_scale - 8 * n_part));
		}
		for (int i = 0; i < p->n; i++) {
			const struct avx2_digits *x = avx2_panel_x(p, i);
			const float *as = avx2_panel_scale(p, i);

			t.sum[0] = t.sum[1] = _mm_setzero_ps();
			for (int64_t k = 0; k < n_part; k++)
				panel_two_part(vnni, &t, k, x + 2 * k, as + 2 * k);
			if (row_size > 128 * n_part) {
				end.sum[0] = t.sum[0];
				end.sum[1] = t.sum[1];
				panel_two_part(vnni, &end, 0, x + 2 * n_part, as + 2 * n_part);
				t.sum[0] = end.sum[0];
				t.sum[1] = end.sum[1];
			}
			for (int j = 0; j < 2; j++) {
				__m128 sum = _mm_add_ps(t.sum[j], _mm_movehl_ps(t.sum[j], t.sum[j]));

				out[i][r + j] = _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
			}
		}
	}
}

/* ---- either ---- */

#define PANEL_KIND(name, vnni) \
	static __attribute__((noinline)) void panel_##name(const struct avx2_panel *p, float (*out)[AVX2_PANEL]) \
	{ \
		if (p->packed || p->n > PANEL_STREAM) \
			panel_records(vnni, 4, p, out); \
		else \
			panel_rows(vnni, p, out); \
	} \
	static __attribute__((noinline)) \
	void panel_##name##_nvfp4(const struct avx2_panel *p, float (*out)[AVX2_PANEL]) \
	{ \
		panel_records(vnni, 2, p, out); \
	}
PANEL_KIND(vnni, 1)
PANEL_KIND(plain, 0)

void avx2_panel_digits(const struct avx2_panel *p, float (*out)[AVX2_PANEL])
{
	if (p->w->fmt == DSV4_W_NVFP4 && p->vnni)
		panel_vnni_nvfp4(p, out);
	else if (p->w->fmt == DSV4_W_NVFP4)
		panel_plain_nvfp4(p, out);
	else if (p->vnni)
		panel_vnni(p, out);
	else
		panel_plain(p, out);
}
