/* SPDX-License-Identifier: MIT
 * dot_f32_many.c - dot_f32.c for many activation rows: prefill.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * A chunk of columns at a time: the activations' are put side by side, since their rows may be a power of two apart,
 * which few ways of a cache share; the weights' are decoded for sixteen rows, which stay in the first cache while tiles
 * of three by four go through all activations. Sums wait in the second for the next chunk. */
#include "plugins/avx512/dot_f32_parts.h"
#include "plugins/avx512/decode.h"

#define F32_CHUNK 4        /* blocks of columns of a chunk: with F32_ROWS 32 KiB */
#define F32_COLS (F32_CHUNK * AVX512_BLOCK)
#define F32_PANEL_ROWS 128 /* rows that meet a chunk of activations once it is there */
#define F32_TILE_TOKENS 3  /* with F32_TILE_ROWS: 12 products, 12 sums, 4 weights, 1 activation in registers */
#define F32_TILE_ROWS 4

/* A chunk of the activations, decoded of some rows, and the sums of all rows. */
struct f32_panel {
	const struct avx512_f32_job *j;
	int64_t i0, n;
	int64_t r, n_row;                  /* rows of `w` */
	int64_t k, m;                      /* columns [k, k + m) */
	int plain;                         /* all scales are 1 */
	float scale[F32_CHUNK][F32_ROWS];
	float act_scale[AVX512_F32_TOKENS][F32_CHUNK];
	float w[F32_ROWS][F32_COLS] __attribute__((aligned(64)));
	float x[AVX512_F32_TOKENS][F32_COLS] __attribute__((aligned(64))); /* 0 up to a multiple of sixteen */
	__m512 sum[F32_PANEL_ROWS / F32_ROWS][AVX512_F32_TOKENS][F32_ROWS];
};

static void f32_gather(struct f32_panel *m)
{
	for (int64_t i = 0; i < m->n; i++) {
		const float *x = f32_x(m->j, m->i0 + i) + m->k, *scale = f32_act_scale(m->j, m->i0 + i);

		for (int64_t k = 0; k < m->m; k += AVX512_LANES)
			_mm512_store_ps(m->x[i] + k, avx512_load(x + k, m->m - k));
		for (int64_t b = 0; b < (m->m + AVX512_BLOCK - 1) / AVX512_BLOCK; b++)
			m->act_scale[i][b] = scale ? scale[m->k / AVX512_BLOCK + b] : 1.0f;
	}
}

/* A whole block of a row to memory; fetches the next chunk of the row. */
E4M3_TARGET static void f32_decode_fp8(const uint8_t *p, float *out)
{
	__m512 v[F32_VECS];

	f32_block_fp8(p, F32_COLS, v);
	for (int i = 0; i < F32_VECS; i++)
		_mm512_store_ps(out + i * AVX512_LANES, v[i]);
}

static void f32_decode_bf16(const uint8_t *p, float *out)
{
	__m512 v[F32_VECS];

	f32_block_bf16(p, 2 * F32_COLS, v);
	for (int i = 0; i < F32_VECS; i++)
		_mm512_store_ps(out + i * AVX512_LANES, v[i]);
}

static void f32_decode(struct f32_panel *m, int64_t row)
{
	const struct dsv4_weight *w = m->j->p->w;
	int64_t r = m->r + avx512_min(row, m->n_row - 1);
	const uint8_t *data = w->data;

	for (int64_t k = 0, b = 0; k < m->m; k += AVX512_BLOCK, b++) {
		int64_t n = avx512_min(AVX512_BLOCK, m->m - k), at = r * w->cols + m->k + k;

		m->scale[b][row] = avx512_decode_scale(w, r, m->k + k);
		if (n == AVX512_BLOCK && w->fmt == DSV4_W_FP8 && m->j->bf16)
			f32_decode_fp8(data + at, m->w[row] + k);
		else if (n == AVX512_BLOCK && w->fmt == DSV4_W_BF16)
			f32_decode_bf16(data + 2 * at, m->w[row] + k);
		else
			avx512_decode(w, r, m->k + k, n, m->w[row] + k);
	}
}

/* n columns, at most 128, of n_tok activations times four rows, a panel's x and w from there on; n_tok is
 * a constant where this is inlined, as n_tok and plain are below. */
F32_INLINE void f32_tile_block(const float *x, const float *w, int64_t n, int n_tok, __m512 acc[][F32_TILE_ROWS])
{
#pragma GCC unroll 3
	for (int i = 0; i < n_tok; i++)
#pragma GCC unroll 4
		for (int l = 0; l < F32_TILE_ROWS; l++)
			acc[i][l] = _mm512_setzero_ps();
#pragma GCC unroll 2 /* more, and gcc has more values at once than registers */
	for (const float *end = x + n; x < end; x += AVX512_LANES, w += AVX512_LANES) {
		__m512 v[F32_TILE_ROWS];

#pragma GCC unroll 4
		for (int l = 0; l < F32_TILE_ROWS; l++) {
			v[l] = _mm512_load_ps(w + l * F32_COLS);
			__asm__("" : "+v"(v[l])); /* loaded once, not with each product */
		}
#pragma GCC unroll 3
		for (int i = 0; i < n_tok; i++) {
			__m512 in = _mm512_load_ps(x + i * F32_COLS);

#pragma GCC unroll 4
			for (int l = 0; l < F32_TILE_ROWS; l++)
				acc[i][l] = _mm512_fmadd_ps(in, v[l], acc[i][l]);
		}
	}
}

/* n_tok activation rows from t on, times four rows from `row` on. */
F32_INLINE void f32_tile(const struct f32_panel *m, int64_t t, int n_tok, int64_t row, int plain,
			 __m512 (*all)[F32_ROWS])
{
	__m512 sum[F32_TILE_TOKENS][F32_TILE_ROWS], acc[F32_TILE_TOKENS][F32_TILE_ROWS];

#pragma GCC unroll 3
	for (int i = 0; i < n_tok; i++)
#pragma GCC unroll 4
		for (int l = 0; l < F32_TILE_ROWS; l++)
			sum[i][l] = all[t + i][row + l];
	for (int64_t k = 0, b = 0; k < m->m; k += AVX512_BLOCK, b++) {
		float scale[F32_TILE_TOKENS][F32_TILE_ROWS];

#pragma GCC unroll 3
		for (int i = 0; i < n_tok && !plain; i++)
			_mm_storeu_ps(scale[i],
				      _mm_mul_ps(_mm_loadu_ps(m->scale[b] + row), _mm_set1_ps(m->act_scale[t + i][b])));
		f32_tile_block(m->x[t] + k, m->w[row] + k, avx512_min(AVX512_BLOCK, m->m - k), n_tok, acc);
#pragma GCC unroll 3
		for (int i = 0; i < n_tok; i++)
#pragma GCC unroll 4
			for (int l = 0; l < F32_TILE_ROWS; l++) /* the same where all are 1 */
				sum[i][l] = plain ? _mm512_add_ps(acc[i][l], sum[i][l]) :
					_mm512_fmadd_ps(acc[i][l], _mm512_set1_ps(scale[i][l]), sum[i][l]);
	}
#pragma GCC unroll 3
	for (int i = 0; i < n_tok; i++)
#pragma GCC unroll 4
		for (int l = 0; l < F32_TILE_ROWS; l++)
			all[t + i][row + l] = sum[i][l];
}

static void f32_tiles(const struct f32_panel *m, __m512 (*sum)[F32_ROWS])
{
	for (int64_t t = 0, n; t < m->n; t += n) {
		n = m->n - t < F32_TILE_TOKENS ? 1 : F32_TILE_TOKENS;
		for (int64_t row = 0; row < F32_ROWS; row += F32_TILE_ROWS)
			if (n == 1)
				f32_tile(m, t, 1, row, 0, sum);
			else if (m->plain)
				f32_tile(m, t, F32_TILE_TOKENS, row, 1, sum);
			else
				f32_tile(m, t, F32_TILE_TOKENS, row, 0, sum);
	}
}

/* At most F32_PANEL_ROWS rows. */
static void f32_panel(struct f32_panel *m, int64_t r0, int64_t r1)
{
	int64_t cols = m->j->p->w->cols;

	memset(m->sum, 0, (size_t)((r1 - r0 + F32_ROWS - 1) / F32_ROWS) * sizeof *m->sum);
	for (m->k = 0; m->k < cols; m->k += m->m) {
		m->m = avx512_min(F32_COLS, cols - m->k);
		f32_gather(m);
		for (m->r = r0; m->r < r1; m->r += F32_ROWS) {
			m->n_row = avx512_min(F32_ROWS, r1 - m->r);
			for (int64_t row = 0; row < F32_ROWS; row++)
				f32_decode(m, row);
			f32_tiles(m, m->sum[(m->r - r0) / F32_ROWS]);
		}
	}
	for (int64_t i = 0; i < m->n; i++)
		for (int64_t r = r0; r < r1; r += F32_ROWS)
			f32_store(m->j, m->i0 + i, r, avx512_min(F32_ROWS, r1 - r),
				  vec_sums(m->sum[(r - r0) / F32_ROWS][i]));
}

void avx512_dot_f32_many(const struct avx512_f32_job *j, int64_t r0, int64_t r1, int64_t i0, int64_t n)
{
	struct f32_panel m; /* large: not cleared */

	m.j = j;
	m.i0 = i0;
	m.n = n;
	m.plain = !j->p->a->scale && j->p->w->fmt != DSV4_W_FP8;
	for (int64_t r = r0; r < r1; r += F32_PANEL_ROWS)
		f32_panel(&m, r, avx512_min(r + F32_PANEL_ROWS, r1));
}
