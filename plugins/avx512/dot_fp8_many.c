/* SPDX-License-Identifier: MIT
 * dot_fp8_many.c - dot_fp8.c for many activation rows: prefill.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * A panel of rows is decoded once, in the order in which tiles of six by four read it, and stays in the second cache.
 * Six activation rows at a time go through all of it, one chain after the other, so that the part of them which is
 * read again and again stays in the first. Share of the peak by panel's bytes, 512 rows of 4096 columns: 128 KB .70,
 * 256 KB .77, 512 KB .80 (EPYC Zen 5, one core); fetching the next six by hand cost more than it gained. */
#include "plugins/avx512/dot_fp8_parts.h"

#define DOT_TILE_TOKENS 6        /* with DOT_TILE_ROWS: 24 sums, 4 weights and 1 activation in registers */
#define DOT_TILE_ROWS 4
#define DOT_PANEL (1 << 18)      /* values of a panel: 16 rows of AVX512_DOT_COLS */
#define DOT_PANEL_ROWS 128       /* of a panel at most */

/* Some rows decoded: [AVX512_DOT_CHAINS][n_row / DOT_TILE_ROWS][n_block][DOT_TILE_ROWS][32];
 * sums of a tile's tokens. */
struct dot_panel {
	int64_t n_row, n_block;  /* n_row: a multiple of DOT_ROWS */
	uint16_t w[DOT_PANEL] __attribute__((aligned(64)));
	__m512 sum[DOT_TILE_TOKENS][DOT_PANEL_ROWS];
};

/* Values of chain c of tile row `tile`. */
static uint16_t *dot_panel_at(struct dot_panel *m, int64_t c, int64_t tile)
{
	return m->w + (c * (m->n_row / DOT_TILE_ROWS) + tile) * m->n_block * DOT_TILE_ROWS * DOT_LANES;
}

E4M3_TARGET static void dot_panel_row(struct dot_panel *m, const uint8_t *w, const uint8_t *scale, int64_t cols,
				     int64_t row)
{
	for (int64_t b = 0; b < m->n_block; b++) {
		int64_t at = (b * DOT_TILE_ROWS + row % DOT_TILE_ROWS) * DOT_LANES;
		struct e4m3_table d = e4m3_table(scale[b]);
		__m512i v[AVX512_DOT_CHAINS];

		e4m3_block(&d, w + b * AVX512_BLOCK, cols - b * AVX512_BLOCK, v);
		for (int c = 0; c < AVX512_DOT_CHAINS; c++)
			_mm512_store_si512(dot_panel_at(m, c, row / DOT_TILE_ROWS) + at, v[c]);
	}
}

/* Chain c of a tile: n_tok activation rows, a constant where this is inlined, times four rows from `row` on. */
E4M3_INLINE void dot_tile(struct dot_panel *m, int c, const uint16_t *const x[DOT_TILE_TOKENS], int n_tok, int64_t row)
{
	const uint16_t *w = dot_panel_at(m, c, row / DOT_TILE_ROWS);
	int64_t at = c * (m->n_block | 1);
	__m512 acc[DOT_TILE_TOKENS][DOT_TILE_ROWS];

#pragma GCC unroll 6
	for (int i = 0; i < n_tok; i++)
#pragma GCC unroll 4
		for (int j = 0; j < DOT_TILE_ROWS; j++)
			acc[i][j] = _mm512_setzero_ps();
#pragma GCC unroll 2
	for (int64_t b = 0; b < m->n_block; b++) {
		__m512i v[DOT_TILE_ROWS];

#pragma GCC unroll 4
		for (int j = 0; j < DOT_TILE_ROWS; j++)
			v[j] = _mm512_load_si512(w + (b * DOT_TILE_ROWS + j) * DOT_LANES);
#pragma GCC unroll 6
		for (int i = 0; i < n_tok; i++) {
			__m512i in = _mm512_loadu_si512(x[i] + (at + b) * DOT_LANES);

#pragma GCC unroll 4
			for (int j = 0; j < DOT_TILE_ROWS; j++)
				acc[i][j] = dot_add(acc[i][j], v[j], in);
		}
	}
#pragma GCC unroll 6
	for (int i = 0; i < n_tok; i++)
#pragma GCC unroll 4
		for (int j = 0; j < DOT_TILE_ROWS; j++)
			m->sum[i][row + j] = c ? _mm512_add_ps(m->sum[i][row + j], acc[i][j]) : acc[i][j];
}

/* All chains of all the panel's rows for n_tok activation rows. */
E4M3_TARGET static void dot_tiles(struct dot_panel *m, const uint16_t *const x[DOT_TILE_TOKENS], int64_t n_tok)
{
	for (int c = 0; c < AVX512_DOT_CHAINS; c++)
		for (int64_t row = 0; row < m->n_row; row += DOT_TILE_ROWS)
			switch (n_tok) {
#define CASE(n) case n: dot_tile(m, c, x, n, row); break;
			CASE(1) CASE(2) CASE(3) CASE(4) CASE(5)
#undef CASE
			default: dot_tile(m, c, x, DOT_TILE_TOKENS, row);
			}
}

/* As many as the next tile takes: six, and the rest in two that are alike. */
static int64_t dot_tile_tokens(int64_t left)
{
	return left <= DOT_TILE_TOKENS ? left : left < 2 * DOT_TILE_TOKENS ? (left + 1) / 2 : DOT_TILE_TOKENS;
}

static void dot_panel(struct dot_panel *m, const struct avx512_product *p, int64_t group, int64_t r, int64_t n_row,
		      int64_t i0, int64_t n)
{
	const struct dsv4_weight *w = p->w;
	const uint16_t *x[DOT_TILE_TOKENS];

	for (int64_t i = 0; i < m->n_row; i++) {
		int64_t row = r + avx512_min(i, n_row - 1);

		dot_panel_row(m, (const uint8_t *)w->data + row * w->cols, dot_scales(w, row), w->cols, i);
	}
	for (int64_t end = i0 + n; i0 < end; i0 += n) {
		n = dot_tile_tokens(end - i0);
		for (int64_t i = 0; i < n; i++)
			x[i] = dot_act(p, group, i0 + i);
		dot_tiles(m, x, n);
		for (int64_t i = 0; i < n; i++)
			for (int64_t j = 0; j < n_row && avx512_dot_act_fits(p, group, i0 + i); j += DOT_ROWS)
				dot_store(p, i0 + i, r + j, avx512_min(DOT_ROWS, n_row - j), vec_sums(m->sum[i] + j));
	}
}

void avx512_dot_fp8_many(const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1, int64_t i0,
			 int64_t n)
{
	struct dot_panel m; /* large: not cleared */
	int64_t most;

	m.n_block = dot_n_block(p->w->cols);
	most = avx512_min(DOT_PANEL_ROWS, DOT_PANEL / (m.n_block * AVX512_BLOCK) / DOT_ROWS * DOT_ROWS);
	for (int64_t r = r0; r < r1; r += most) {
		int64_t n_row = avx512_min(most, r1 - r);

		m.n_row = (n_row + DOT_ROWS - 1) / DOT_ROWS * DOT_ROWS;
		dot_panel(&m, p, group, r, n_row, i0, n);
	}
}
