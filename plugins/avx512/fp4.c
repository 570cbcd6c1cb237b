/* SPDX-License-Identifier: MIT
 * fp4.c - products of FP4 matrices with activations rounded to FP8, sixteen rows at a time, in bf16 dot products.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * A lane is a row. Of 64 bytes, four from each of sixteen rows, four shifts bring each nibble to where vpermw, which
 * looks at five bits of a 16-bit lane, finds its value in a table of the sixteen codes written twice. The order of one
 * element: the four pairs of each 8 columns of a block of 32 are added to zero one after the other, the four sums as
 * (c0 + c1) + (c2 + c3), that times the weight's scale to the element. Values and scales are such that nothing
 * overflows or gets subnormal on the way (dpbf16 flushes those); what could, a scale from FP4_LARGE on or NaN, makes
 * the panel or the activation row take the way of fp4_plain(), in floats. Which way an element goes depends on its own
 * panel and row alone. */
#include "plugins/avx512/fp4.h"
#include "plugins/avx512/decode.h"
#include "plugins/avx512/fp4_native.h"
#include "plugins/avx512/vec.h"

#define FP4_LARGE 188       /* E8M0 byte of 2^61 */
#define FP4_AHEAD 8         /* records to be read soon: 0.84 to 0.94 of a pure read (EPYC Zen 5, one core) */

/* ---- products ---- */

/* bf16 of the codes 0 .5 1 1.5 2 3 4 6 and their negatives, twice */
static const uint16_t fp4_codes[32] __attribute__((aligned(64))) = {
	0, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
	0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0,
	0, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
	0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0,
};

/* Sixteen E8M0 bytes; 0 is a subnormal float. */
static inline __m512 fp4_scale(const uint8_t *p)
{
	__m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));

	return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_slli_epi32(e, 23), _mm512_set1_epi32(0x00400000)));
}

/* acc + pairs of v times pairs of x. Of an intrinsic compilers make a load and the product; embedded it is the fourth
 * operation a clock that the decoding leaves room for (packed, one row: 61 to 69 GB/s; eight rows: 462 to 481
 * GFLOP/s; EPYC Zen 5, one core, in its cache). */
#define FP4_DOT_ALL(acc, v, x) __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(v), "m"(*(x)))
#define FP4_DOT(acc, v, x) __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(v), "m"(*(x)))

/* Values of a vector of codes: v[s] has nibble s of each half word. */
static inline __attribute__((always_inline)) void fp4_values(__m512i w, __m512i v[4])
{
	const __m512i codes = _mm512_load_si512(fp4_codes);

	__asm__("" : "+v"(w)); /* not to be loaded again for each shift */
	v[0] = _mm512_permutexvar_epi16(w, codes);
	v[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(w, 4), codes);
	v[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(w, 8), codes);
	v[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(w, 12), codes);
}

static inline __attribute__((always_inline)) __m512i fp4_value(__m512i w, int s)
{
	return _mm512_permutexvar_epi16(s ? _mm512_srli_epi16(w, 4 * (unsigned)s) : w, _mm512_load_si512(fp4_codes));
}

static inline __mmask64 fp4_wild(const uint8_t *scales)
{
	return _mm512_cmpge_epu8_mask(_mm512_loadu_si512(scales), _mm512_set1_epi8((char)FP4_LARGE));
}

/* One record. Returns which of its scales are too large; n_tok is a constant where this is inlined. */
static inline __attribute__((always_inline)) __mmask64 fp4_record(const uint8_t *record, const uint32_t *const x[],
								  int64_t at, int n_tok, __m512 sum[])
{
#pragma GCC unroll 4
	for (int b = 0; b < 4; b++) {
		__m512 acc[AVX512_FP4_TILE], part[2][AVX512_FP4_TILE], scale = fp4_scale(record + 16 * b);

#pragma GCC unroll 2
		for (int i = 4 * b; i < 4 * b + 4; i += 2) {
			const uint8_t *w = record + DSV4_ROWS16_SCALES + 64 * i;
			__m512i first = _mm512_loadu_si512(w), second = _mm512_loadu_si512(w + 64);

			__asm__("" : "+v"(first), "+v"(second)); /* not to be loaded again for each shift */
#pragma GCC unroll 8
			for (int t = 0; t < n_tok; t++)
				part[0][t] = part[1][t] = _mm512_setzero_ps();
#pragma GCC unroll 4
			for (int s = 0; s < 4; s++) {
				__m512i v = fp4_value(first, s), v2 = fp4_value(second, s);
#pragma GCC unroll 8
				for (int t = 0; t < n_tok; t++)
					FP4_DOT_ALL(part[0][t], v, x[t] + at + 16 * s + i);
#pragma GCC unroll 8
				for (int t = 0; t < n_tok; t++)
					FP4_DOT_ALL(part[1][t], v2, x[t] + at + 16 * s + i + 1);
			}
#pragma GCC unroll 8
			for (int t = 0; t < n_tok; t++) {
				part[0][t] = _mm512_add_ps(part[0][t], part[1][t]);
				acc[t] = i == 4 * b ? part[0][t] : _mm512_add_ps(acc[t], part[0][t]);
			}
		}
#pragma GCC unroll 8
		for (int t = 0; t < n_tok; t++)
			sum[t] = _mm512_fmadd_ps(acc[t], scale, sum[t]);
	}
	return fp4_wild(record);
}

/* ---- one activation row, the checkpoint's layout ----
 *
 * Rows one after the other as memory has them: sixteen streams side by side get half of its bandwidth. Lanes are
 * columns here, lane v the four pairs of columns 8 v to 8 v + 7, so that lanes have to be turned to rows before blocks
 * are summed. */

#define FP4_LONG 32 /* records of a row that are done before the next rows */

/* Four rows' sums of blocks of 32 columns: lane 4 b + r. */
static inline __m512 fp4_long_blocks(__m512 a, __m512 b, __m512 c, __m512 d)
{
	__m512 ab = _mm512_unpacklo_ps(a, b), cd = _mm512_unpacklo_ps(c, d);
	__m512 ab2 = _mm512_unpackhi_ps(a, b), cd2 = _mm512_unpackhi_ps(c, d);
	__m512 v0 = _mm512_shuffle_ps(ab, cd, 0x44), v1 = _mm512_shuffle_ps(ab, cd, 0xee);
	__m512 v2 = _mm512_shuffle_ps(ab2, cd2, 0x44), v3 = _mm512_shuffle_ps(ab2, cd2, 0xee);

	return _mm512_add_ps(_mm512_add_ps(v0, v1), _mm512_add_ps(v2, v3));
}

/* Blocks of n records of rows r0 to r0 + 3, from byte `at` of each row on. */
static inline __attribute__((always_inline)) void fp4_long_four(const struct fp4_native *s, int64_t r0, int64_t at,
								int64_t n, const uint32_t *x, __m512 (*out)[4])
{
	const uint8_t *rows = s->data + r0 * s->row + at;

	for (int64_t i = 0; i < n; i++) {
		__m512 acc[4];

#pragma GCC unroll 4
		for (int r = 0; r < 4; r++) {
			__m512i v[4];

			_mm_prefetch(rows + FP4_AHEAD * 1024 + i * 256 + r * 64, _MM_HINT_T0);
			fp4_values(fp4_load(rows + r * s->row + 64 * i, r0 + r < s->n_row ? s->row - at - 64 * i : 0),
				   v);
			acc[r] = _mm512_setzero_ps();
#pragma GCC unroll 4
			for (int j = 0; j < 4; j++)
				FP4_DOT(acc[r], v[j], (const __m512i_u *)(x + 64 * i + 16 * j));
		}
		out[i][r0 / 4] = fp4_long_blocks(acc[0], acc[1], acc[2], acc[3]);
	}
}

/* Adds a record's blocks, of four rows each in q[], to the rows' sums. */
static inline __m512 fp4_long_add(const __m512 q[4], const uint8_t *scales, __m512 sum)
{
	__m512 even = _mm512_shuffle_f32x4(q[0], q[1], 0x88), even2 = _mm512_shuffle_f32x4(q[2], q[3], 0x88);
	__m512 odd = _mm512_shuffle_f32x4(q[0], q[1], 0xdd), odd2 = _mm512_shuffle_f32x4(q[2], q[3], 0xdd);

	sum = _mm512_fmadd_ps(_mm512_shuffle_f32x4(even, even2, 0x88), fp4_scale(scales), sum);
	sum = _mm512_fmadd_ps(_mm512_shuffle_f32x4(odd, odd2, 0x88), fp4_scale(scales + 16), sum);
	sum = _mm512_fmadd_ps(_mm512_shuffle_f32x4(even, even2, 0xdd), fp4_scale(scales + 32), sum);
	return _mm512_fmadd_ps(_mm512_shuffle_f32x4(odd, odd2, 0xdd), fp4_scale(scales + 48), sum);
}

/* fp4_tile() for one activation row, without a record. */
static int fp4_long(struct fp4_native *s, int64_t n_record, const uint32_t *x, float *out)
{
	__m512 block[FP4_LONG][4], sum = _mm512_setzero_ps();
	__mmask64 wild = 0;

	for (int64_t i0 = 0; i0 < n_record; i0 += FP4_LONG) {
		int64_t n = avx512_min(FP4_LONG, n_record - i0);

		for (int64_t r = 0; r < DSV4_ROWS16; r += 4)
			fp4_long_four(s, r, 64 * i0, n, x + 64 * i0, block);
		for (int64_t i = 0; i < n; i++) {
			if (i % FP4_CHUNK == 0)
				avx512_fp4_native_scales(s, i0 + i);
			wild |= fp4_wild(s->scales[i % FP4_CHUNK]);
			sum = fp4_long_add(block[i], s->scales[i % FP4_CHUNK], sum);
		}
	}
	_mm512_storeu_ps(out, sum);
	return wild != 0;
}

/* ---- any number of activation rows ---- */

/* What is fetched meanwhile: some lines for each record, to the first level if they come next, else to the second. */
struct fp4_ahead {
	const uint8_t *at;
	int64_t lines; /* of each record */
	int near;
};

/* _mm_prefetch has no effect that gcc knows of: it drops a loop of it. */
static inline __attribute__((always_inline)) void fp4_fetch(const struct fp4_ahead *a, int64_t i)
{
	const uint8_t *p = a->at + i * a->lines * 64, *end = p + a->lines * 64;

	if (a->near)
		for (; p < end; p += 64)
			__asm__ volatile("prefetcht0 %0" : : "m"(*p));
	else
		for (; p < end; p += 64)
			__asm__ volatile("prefetcht1 %0" : : "m"(*p));
}

/* Adds n records to the sums of n_tok activation rows. Returns whether any scale was too large. */
static inline __attribute__((always_inline)) int fp4_tile(const uint8_t *record, int64_t n, const uint32_t *const x[],
							  int n_tok, const struct fp4_ahead *ahead,
							  float (*out)[DSV4_ROWS16])
{
	__m512 sum[AVX512_FP4_TILE];
	__mmask64 wild = 0;

#pragma GCC unroll 8
	for (int t = 0; t < n_tok; t++)
		sum[t] = _mm512_loadu_ps(out[t]);
	for (int64_t i = 0; i < n; i++, record += DSV4_ROWS16_RECORD) {
		fp4_fetch(ahead, i);
		wild |= fp4_record(record, x, i * (AVX512_BLOCK / 2), n_tok, sum);
	}
#pragma GCC unroll 8
	for (int t = 0; t < n_tok; t++)
		_mm512_storeu_ps(out[t], sum[t]);
	return wild != 0;
}

/* The activation rows of one call, in tiles as even as can be. */
struct fp4_rows {
	const struct avx512_fp4_act *a;
	const int32_t *from;
	int64_t n, n_tile;
};

static int64_t fp4_from(const struct fp4_rows *rows, int64_t i)
{
	return rows->from ? rows->from[i] : i;
}

/* fp4_tile() for tile number `tile`; the records are those from number i0 on. */
static int fp4_tile_any(const uint8_t *record, int64_t i0, int64_t n, const struct fp4_rows *rows, int64_t tile,
			const struct fp4_ahead *ahead, float (*all)[DSV4_ROWS16])
{
	int64_t first = tile * rows->n / rows->n_tile, n_tok = (tile + 1) * rows->n / rows->n_tile - first;
	const uint32_t *x[AVX512_FP4_TILE];
	float (*out)[DSV4_ROWS16] = all + first;

	for (int64_t t = 0; t < n_tok; t++)
		x[t] = rows->a->pair + fp4_from(rows, first + t) * rows->a->ld + i0 * (AVX512_BLOCK / 2);
	switch (n_tok) {
#define CASE(k) case k: return fp4_tile(record, n, x, k, ahead, out);
	CASE(1) CASE(2) CASE(3) CASE(4) CASE(5)
#undef CASE
	default: return fp4_tile(record, n, x, AVX512_FP4_TILE, ahead, out);
	}
}

/* Repacked. One tile waits for memory: lines are fetched a little before they are needed, the next panel's at the end.
 * More than one find a panel that the calls before fetched, each its part of it. */
static int fp4_packed(const uint8_t *record, const struct fp4_rows *rows, const void *next, float (*out)[DSV4_ROWS16])
{
	int64_t n = rows->a->n_record, split = n > FP4_AHEAD ? n - FP4_AHEAD : 0, lines = DSV4_ROWS16_RECORD / 64;
	int wild = 0;

	if (rows->n_tile == 1) {
		struct fp4_ahead same = { record + FP4_AHEAD * DSV4_ROWS16_RECORD, lines, 1 },
			other = { next, lines, 1 };

		wild = fp4_tile_any(record, 0, split, rows, 0, &same, out);
		return wild | fp4_tile_any(record + split * DSV4_ROWS16_RECORD, split, n - split, rows, 0, &other, out);
	}
	for (int64_t i = 0; i < rows->n_tile; i++) {
		int64_t part = (lines + rows->n_tile - 1) / rows->n_tile;
		struct fp4_ahead ahead = { avx512_at(next, i * part * n * 64), part, 0 };

		wild |= fp4_tile_any(record, 0, n, rows, i, &ahead, out);
	}
	return wild;
}

/* The checkpoint's layout: a few records at a time are made for all rows. */
static int fp4_native(const struct dsv4_weight *w, int64_t panel, const struct fp4_rows *rows, const void *next,
		      float (*out)[DSV4_ROWS16])
{
	uint8_t record[FP4_CHUNK * DSV4_ROWS16_RECORD] __attribute__((aligned(64)));
	int64_t n_record = rows->a->n_record, part = (16 + rows->n_tile - 1) / rows->n_tile;
	struct fp4_native s;
	int wild = 0;

	avx512_fp4_native_init(&s, w, panel);
	if (rows->n == 1)
		return fp4_long(&s, n_record, rows->a->pair + fp4_from(rows, 0) * rows->a->ld, out[0]);
	for (int64_t i = 0; i < n_record; i += FP4_CHUNK) {
		int64_t n = avx512_min(FP4_CHUNK, n_record - i);

		avx512_fp4_native_records(&s, i, n, record);
		for (int64_t j = 0; j < rows->n_tile; j++) {
			struct fp4_ahead ahead = { avx512_at(next, (i * 16 + j * part * n) * 64), part, 0 };

			wild |= fp4_tile_any(record, i, n, rows, j, &ahead, out);
		}
	}
	return wild;
}

/* In floats: lanes are columns, as in linear.c. */
static void fp4_plain(const struct dsv4_weight *w, int64_t panel, const struct avx512_fp4_act *a, int64_t row,
		      float *out)
{
	int64_t row0 = panel * DSV4_ROWS16, n_row = avx512_min(DSV4_ROWS16, w->rows - row0);
	float x[AVX512_BLOCK], v[AVX512_BLOCK];
	__m512 sum[DSV4_ROWS16];

	memset(sum, 0, sizeof sum);
	for (int64_t k = 0; k < w->cols; k += AVX512_BLOCK) {
		int64_t n = avx512_min(AVX512_BLOCK, w->cols - k);
		__m512 scale = _mm512_set1_ps(a->scale[row * a->n_record + k / AVX512_BLOCK]);

		avx512_fp4_act_values(a, row, k / AVX512_BLOCK, x);
		for (int64_t r = 0; r < n_row; r++) {
			__m512 acc = _mm512_setzero_ps();

			avx512_decode(w, row0 + r, k, n, v);
			for (int64_t i = 0; i < n; i += AVX512_LANES)
				acc = _mm512_fmadd_ps(avx512_load(x + i, n - i), avx512_load(v + i, n - i), acc);
			sum[r] = _mm512_fmadd_ps(acc, scale, sum[r]);
		}
	}
	for (int64_t r = 0; r < n_row; r++)
		out[r] = vec_sum(sum[r]);
}

const void *avx512_fp4_at(const struct avx512_fp4_matrix *m, int64_t panel)
{
	if (m->packed)
		return avx512_at(m->packed, panel * (int64_t)dsv4_rows16_panel_size(m->w->cols));
	return avx512_at(m->w->data, panel * DSV4_ROWS16 * ((m->w->cols + 1) / 2));
}

void avx512_fp4_panel(const struct avx512_fp4_matrix *m, int64_t panel, const struct avx512_fp4_act *a,
		      const int32_t *from, int64_t n, const void *next, float (*out)[DSV4_ROWS16])
{
	const struct fp4_rows rows = { a, from, n, (n + AVX512_FP4_TILE - 1) / AVX512_FP4_TILE };
	int wild;

	memset(out, 0, (size_t)n * sizeof *out);
	if (m->packed)
		wild = fp4_packed(avx512_fp4_at(m, panel), &rows, next, out);
	else
		wild = fp4_native(m->w, panel, &rows, next, out);
	for (int64_t i = 0; i < n; i++)
		if (wild || a->wild[fp4_from(&rows, i)])
			fp4_plain(m->w, panel, a, fp4_from(&rows, i), out[i]);
}
