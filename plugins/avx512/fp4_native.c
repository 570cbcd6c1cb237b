/* SPDX-License-Identifier: MIT
 * fp4_native.c - records of FP4 matrices as the checkpoint has them, made as they are needed.
 * Threads: any, each on structs of its own. Locks: none. */
#include "plugins/avx512/fp4_native.h"

/* Sixteen rows of sixteen words become sixteen vectors of one word of each row. */
static inline __attribute__((always_inline)) void fp4_turn(__m512i r[16])
{
	__m512i t[16];

#pragma GCC unroll 8
	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
	}
	/* r[4 i + j]: word j of each 128 bits, of rows 4 i to 4 i + 3 */
#pragma GCC unroll 4
	for (int i = 0; i < 16; i += 4) {
		r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
		r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
		r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
		r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		t[j] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0x88);
		t[j + 4] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0xdd);
		t[j + 8] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0x88);
		t[j + 12] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0xdd);
	}
#pragma GCC unroll 4
	for (int j = 0; j < 4; j++) {
		r[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
		r[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
		r[j + 4] = _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0x88);
		r[j + 12] = _mm512_shuffle_i32x4(t[j + 4], t[j + 12], 0xdd);
	}
}

void avx512_fp4_native_init(struct fp4_native *s, const struct dsv4_weight *w, int64_t panel)
{
	s->row = (w->cols + 1) / 2;
	s->scale_row = (w->cols + 31) / 32;
	s->n_row = avx512_min(DSV4_ROWS16, w->rows - panel * DSV4_ROWS16);
	s->data = (const uint8_t *)w->data + panel * DSV4_ROWS16 * s->row;
	s->scale = (const uint8_t *)w->scale + panel * DSV4_ROWS16 * s->scale_row;
}

/* Bytes [at, at + 64) of sixteen rows of `row` bytes each, of which n_row are there, turned. */
static inline
	__attribute__((always_inline)) void fp4_gather(const uint8_t *rows, int64_t row, int64_t n_row, int64_t at,
						       __m512i out[16])
{
#pragma GCC unroll 16
	for (int r = 0; r < 16; r++)
		out[r] = fp4_load(rows + r * row + at, r < n_row ? row - at : 0);
	fp4_turn(out);
}

/* Four bytes of each row to four blocks of each row's byte. */
void avx512_fp4_native_scales(struct fp4_native *s, int64_t i)
{
	const __m512i bytes =
		_mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m512i v[16];

	fp4_gather(s->scale, s->scale_row, s->n_row, 4 * i, v);
#pragma GCC unroll 16
	for (int j = 0; j < FP4_CHUNK; j++)
		_mm512_store_si512(s->scales[j], _mm512_permutexvar_epi32(words, _mm512_shuffle_epi8(v[j], bytes)));
}

void avx512_fp4_native_records(struct fp4_native *s, int64_t i0, int64_t n, uint8_t *record)
{
	avx512_fp4_native_scales(s, i0);
	for (int64_t i = 0; i < n; i++, record += DSV4_ROWS16_RECORD) {
		__m512i v[16];

		fp4_gather(s->data, s->row, s->n_row, (i0 + i) * 64, v);
		_mm512_store_si512(record, _mm512_load_si512(s->scales[i]));
#pragma GCC unroll 16
		for (int j = 0; j < 16; j++)
			_mm512_store_si512(record + 64 + j * 64, v[j]);
	}
}
