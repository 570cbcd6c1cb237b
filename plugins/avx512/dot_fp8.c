/* SPDX-License-Identifier: MIT
 * dot_fp8.c - products of FP8 matrices with activations rounded to FP8, in bf16 dot products.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * Scales are powers of two, so a weight times its scale and an activation times its scale are exact in bf16, and a row
 * is one long chain of dpbf16. Four chains, to be precise: of each block of 128 columns, one register of 32 goes to
 * each. Their sums are added in order, then the sixteen lanes by vec_sums(). One row of weights against up to
 * four activations is read as it lies in memory. For a few more, and rows that are not too long, tiles of two rows by
 * eight or so use weights as they decode them, one chain after the other; for the rest see dot_fp8_many.c. Either way
 * each element sees the same numbers in the same order.
 *
 * dpbf16 takes subnormals for zero: scales are bounded so that no product and no sum comes near them, nor near
 * infinity. What is out of bounds is linear.c's. */
#include "plugins/avx512/dot_fp8_parts.h"
#include "plugins/avx512/avx512.h"

#include <errno.h>

#define DOT_LEAST 52             /* E8M0 byte of 2^-75, the least scale of a weight block that fits */
#define DOT_MOST 172             /* of 2^45, the largest */
#define DOT_MOST_ACT 0x1p45f     /* of an activation block; the least is 2^-22, see dsv4_fp8_scale() */
#define DOT_ROW 4                /* activation rows that one row of weights meets as it is read */
#define DOT_FEW 16               /* that tiles meet */
#define DOT_FEW_TILE 8           /* at once: 16 sums, which hide the latency of dpbf16 */
#define DOT_FEW_COLS 4096        /* of a matrix, times tiles, at most: each of the four chains reads sixteen rows again.
				  * Share of a pure read at 8 activations, and without tiles: 1024 columns .46 and .30,
					  2048 .41 and
				  * .31, 4096 .35 and .30, 8192 .24 and .30 (EPYC Zen 5, one core) */

/* ---- activations ---- */

int avx512_dot_act_take(struct dsv4_exec *x, const struct dsv4_host *host, const struct avx512_act *a,
			struct avx512_dot_act *ret_d)
{
	/* Odd numbers of lines, so that chains and rows do not contend for the same cache sets. */
	struct avx512_dot_act d = { .pitch = dot_n_block(a->cols) | 1 };

	d.ld = (a->n_group * AVX512_DOT_CHAINS * d.pitch + 1) * DOT_LANES;
	d.half = host->scratch(x, (size_t)(a->n * d.ld) * sizeof *d.half);
	d.fits = host->scratch(x, (size_t)(a->n * a->n_group));
	if (!d.half || !d.fits)
		return -ENOMEM;
	*ret_d = d;
	return 0;
}

/* Columns k to k + 32 times s, as bf16, which is exact. */
static __m512i dot_half(const float *q, int64_t n, __m512 s, __mmask16 *nan)
{
	__m512 lo = _mm512_mul_ps(avx512_load(q, avx512_max(n, 0)), s);
	__m512 hi = _mm512_mul_ps(avx512_load(q + AVX512_LANES, avx512_max(n - AVX512_LANES, 0)), s);
	__m256i a = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(lo), 16));
	__m256i b = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(hi), 16));

	*nan |= _mm512_cmp_ps_mask(lo, hi, _CMP_UNORD_Q);
	return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

void avx512_dot_act_row(const struct avx512_dot_act *d, const struct avx512_act *a, int64_t t, int64_t g,
			const float *q, const float *scale)
{
	uint16_t *out = d->half + t * d->ld + g * AVX512_DOT_CHAINS * d->pitch * DOT_LANES;
	__mmask16 nan = 0;
	int fits = 1;

	for (int64_t b = 0; b < dot_n_block(a->cols); b++) {
		__m512 s = _mm512_set1_ps(scale[b]);

		fits &= scale[b] <= DOT_MOST_ACT;
		/* The order in which unpacking bytes to pairs of bytes leaves 64 columns. */
		for (int c = 0; c < AVX512_DOT_CHAINS; c += 2) {
			int64_t k = b * AVX512_BLOCK + c * DOT_LANES;
			__m512i lo = dot_half(q + k, a->cols - k, s, &nan);
			__m512i hi = dot_half(q + k + DOT_LANES, a->cols - k - DOT_LANES, s, &nan);

			_mm512_storeu_si512(out + (c * d->pitch + b) * DOT_LANES, _mm512_shuffle_i32x4(lo, hi, 0x88));
			_mm512_storeu_si512(out + ((c + 1) * d->pitch + b) * DOT_LANES,
					    _mm512_shuffle_i32x4(lo, hi, 0xdd));
		}
	}
	d->fits[t * a->n_group + g] = (uint8_t)(fits && !nan);
}

/* ---- weights ---- */

int avx512_dot_fp8_wanted(const struct dsv4_host *host, const struct dsv4_weight *w)
{
	return w->fmt == DSV4_W_FP8 && w->sfmt == DSV4_S_E8M0 && w->cols <= AVX512_DOT_COLS && avx512_has_bf16(host);
}

int avx512_dot_fp8_row_fits(const struct dsv4_weight *w, int64_t r)
{
	const uint8_t *scale = dot_scales(w, r);
	int64_t n = dot_n_block(w->cols);
	int fits = 1;

	for (int64_t i = 0; i < n; i++)
		fits &= scale[i] >= DOT_LEAST && scale[i] <= DOT_MOST;
	return fits;
}

/* ---- one row of weights at a time ---- */

/* Row w against n_tok rows of activations; n_tok is a constant where this is inlined. */
E4M3_INLINE void dot_row(const uint8_t *w, const uint8_t *scale, int64_t cols, const uint16_t *const x[DOT_ROW],
			int n_tok, __m512 ret_sum[][DOT_ROWS], int at)
{
	int64_t n_block = dot_n_block(cols), pitch = n_block | 1;
	__m512 acc[DOT_ROW][AVX512_DOT_CHAINS];

#pragma GCC unroll 4
	for (int t = 0; t < n_tok; t++)
#pragma GCC unroll 4
		for (int c = 0; c < AVX512_DOT_CHAINS; c++)
			acc[t][c] = _mm512_setzero_ps();
	for (int64_t b = 0; b < n_block; b++) {
		struct e4m3_table d = e4m3_table(scale[b]);
		__m512i v[AVX512_DOT_CHAINS];

		e4m3_block(&d, w + b * AVX512_BLOCK, cols - b * AVX512_BLOCK, v);
#pragma GCC unroll 4
		for (int t = 0; t < n_tok; t++)
#pragma GCC unroll 4
			for (int c = 0; c < AVX512_DOT_CHAINS; c++)
				acc[t][c] = dot_add(acc[t][c], v[c],
						    _mm512_loadu_si512(x[t] + (c * pitch + b) * DOT_LANES));
	}
#pragma GCC unroll 4
	for (int t = 0; t < n_tok; t++)
		ret_sum[t][at] = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(acc[t][0], acc[t][1]), acc[t][2]),
					       acc[t][3]);
}

E4M3_TARGET static void dot_rows(const struct dsv4_weight *w, int64_t r, int64_t n_row,
				 const uint16_t *const x[DOT_ROW], int n_tok, __m512 sum[][DOT_ROWS])
{
	for (int64_t i = 0; i < n_row; i++) {
		const uint8_t *row = (const uint8_t *)w->data + (r + i) * w->cols, *scale = dot_scales(w, r + i);

		switch (n_tok) {
		case 1:
			dot_row(row, scale, w->cols, x, 1, sum, (int)i);
			break;
		case 2:
			dot_row(row, scale, w->cols, x, 2, sum, (int)i);
			break;
		case 3:
			dot_row(row, scale, w->cols, x, 3, sum, (int)i);
			break;
		default:
			dot_row(row, scale, w->cols, x, 4, sum, (int)i);
		}
	}
}

static void dot_each(const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1, int64_t i0, int n)
{
	__m512 sum[DOT_ROW][DOT_ROWS];
	const uint16_t *x[DOT_ROW];

	for (int t = 0; t < n; t++)
		x[t] = dot_act(p, group, i0 + t);
	for (int64_t r = r0; r < r1; r += DOT_ROWS) {
		int64_t n_row = avx512_min(DOT_ROWS, r1 - r);

		if (n_row < DOT_ROWS)
			memset(sum, 0, sizeof sum);
		dot_rows(p->w, r, n_row, x, n, sum);
		for (int t = 0; t < n; t++)
			if (avx512_dot_act_fits(p, group, i0 + t))
				dot_store(p, i0 + t, r, n_row, vec_sums(sum[t]));
	}
}

/* ---- few activation rows ---- */

static int64_t dot_few_n_tile(int64_t n)
{
	return (n + DOT_FEW_TILE - 1) / DOT_FEW_TILE;
}

/* Sixteen rows of weights against all activation rows of a call. */
struct dot_few {
	const uint8_t *w; /* of the first row */
	int64_t cols, n_row, n_block;
	/* A tile's activation rows side by side, as eight pointers would not stay in registers:
	 * [AVX512_DOT_CHAINS][n_block][its rows][32] from the place of its first row on. */
	uint16_t x[DOT_FEW_TILE * DOT_FEW_COLS] __attribute__((aligned(64)));
	struct e4m3_table table[DOT_FEW_COLS / AVX512_BLOCK]; /* of each block's scale */
	__m512 sum[DOT_FEW][DOT_ROWS];
};

/* Chain c of n_row rows from `row` on, against n_tok activation rows from t on; n_row, n_tok and odd, which is c % 2,
 * are constants where this is inlined. Fetches half as many lines from `ahead` on. */
E4M3_INLINE void dot_few_tile(struct dot_few *f, int c, int odd, int64_t row, int n_row, int64_t t, int n_tok,
			      const uint8_t *ahead)
{
	int64_t from = c / 2 * (AVX512_BLOCK / 2), left = f->cols - from;
	const uint16_t *x = f->x + (t * AVX512_DOT_CHAINS + c * n_tok) * f->n_block * DOT_LANES;
	__m512 acc[4][DOT_FEW_TILE];
	const uint8_t *w[4];

#pragma GCC unroll 4
	for (int j = 0; j < n_row; j++) {
		w[j] = f->w + avx512_min(row + j, f->n_row - 1) * f->cols + from;
#pragma GCC unroll 8
		for (int i = 0; i < n_tok; i++)
			acc[j][i] = _mm512_setzero_ps();
	}
	for (int64_t b = 0; b < f->n_block; b++, left -= AVX512_BLOCK, x += n_tok * DOT_LANES) {
		__m512i v[4];

#pragma GCC unroll 4
		for (int j = 0; j < n_row; j++) {
			__m512i both[2];

			e4m3_bf16(&f->table[b], e4m3_codes(w[j] + b * AVX512_BLOCK, left), both);
			v[j] = both[odd];
		}
#pragma GCC unroll 2
		for (int j = 0; j < n_row / 2; j++, ahead += 64)
			_mm_prefetch(ahead, _MM_HINT_T0);
#pragma GCC unroll 8
		for (int i = 0; i < n_tok; i++) {
			__m512i in = _mm512_load_si512(x + i * DOT_LANES);

#pragma GCC unroll 4
			for (int j = 0; j < n_row; j++)
				acc[j][i] = dot_add(acc[j][i], v[j], in);
		}
	}
#pragma GCC unroll 4
	for (int j = 0; j < n_row; j++)
#pragma GCC unroll 8
		for (int i = 0; i < n_tok; i++) {
			__m512 *sum = &f->sum[t + i][row + j];

			*sum = c ? _mm512_add_ps(*sum, acc[j][i]) : acc[j][i];
		}
}

/* Chain c of all rows, against activation rows [t, t1). Meanwhile a quarter of the next sixteen rows is fetched. */
E4M3_TARGET static void dot_few_tiles(struct dot_few *f, int c, int64_t t, int64_t t1)
{
	const uint8_t *ahead = f->w + (DOT_ROWS + c * (DOT_ROWS / AVX512_DOT_CHAINS)) * f->cols;
	int step = t1 - t > 4 ? 2 : 4;

	for (int64_t row = 0; row < DOT_ROWS; row += step, ahead += step * f->n_block * (AVX512_BLOCK / 4))
		switch ((t1 - t) * 2 + c % 2) {
#define CASE(n_tok, n_row) \
	case 2 * (n_tok): dot_few_tile(f, c, 0, row, n_row, t, n_tok, ahead); break; \
	case 2 * (n_tok) + 1: dot_few_tile(f, c, 1, row, n_row, t, n_tok, ahead); break;
		CASE(4, 4) CASE(5, 2) CASE(6, 2) CASE(7, 2) CASE(8, 2)
#undef CASE
		}
}

/* Puts activation rows [t, t1), of the product's from i0 on, side by side. */
static void dot_few_take(struct dot_few *f, const struct avx512_product *p, int64_t group, int64_t i0, int64_t t,
			 int64_t t1)
{
	uint16_t *to = f->x + t * AVX512_DOT_CHAINS * f->n_block * DOT_LANES;

	for (int64_t i = t; i < t1; i++) {
		const uint16_t *x = dot_act(p, group, i0 + i);

		for (int c = 0; c < AVX512_DOT_CHAINS; c++, x += (f->n_block | 1) * DOT_LANES)
			for (int64_t b = 0; b < f->n_block; b++)
				_mm512_store_si512(to + ((c * f->n_block + b) * (t1 - t) + i - t) * DOT_LANES,
						   _mm512_loadu_si512(x + b * DOT_LANES));
	}
}

E4M3_TARGET static void dot_few(const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1, int64_t i0,
				int64_t n)
{
	int64_t n_tile = dot_few_n_tile(n);
	struct dot_few f; /* large: not cleared */

	f.cols = p->w->cols;
	f.n_block = dot_n_block(f.cols);
	for (int64_t i = 0; i < n_tile; i++)
		dot_few_take(&f, p, group, i0, i * n / n_tile, (i + 1) * n / n_tile);
	for (int64_t b = 0; b < f.n_block; b++)
		f.table[b] = e4m3_table(dot_scales(p->w, r0)[b]);
	for (int64_t r = r0; r < r1; r += DOT_ROWS) {
		f.w = (const uint8_t *)p->w->data + r * f.cols;
		f.n_row = avx512_min(DOT_ROWS, r1 - r);
		for (int c = 0; c < AVX512_DOT_CHAINS; c++)
			for (int64_t i = 0; i < n_tile; i++)
				dot_few_tiles(&f, c, i * n / n_tile, (i + 1) * n / n_tile);
		for (int64_t i = 0; i < n; i++)
			if (avx512_dot_act_fits(p, group, i0 + i))
				dot_store(p, i0 + i, r, f.n_row, vec_sums(f.sum[i]));
	}
}

void avx512_dot_fp8(const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1, int64_t i0, int64_t n)
{
	if (n <= DOT_ROW)
		dot_each(p, group, r0, r1, i0, (int)n);
	else if (n <= DOT_FEW && p->w->cols * dot_few_n_tile(n) <= DOT_FEW_COLS)
		dot_few(p, group, r0, r1, i0, n);
	else
		avx512_dot_fp8_many(p, group, r0, r1, i0, n);
}
