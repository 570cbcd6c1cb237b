/* SPDX-License-Identifier: MIT
 * dot_f32.c - products of matrices of any format with activations of any kind, in floats.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * Each output element has sixteen lanes: the products of a block of 128 columns are added to zeroes by fused
 * multiply-add, that times (activation scale * weight scale) to the sums so far, and the lanes to each other by
 * vec_sums() when all blocks are done. Rows that meet one or two activations are read as they lie in memory. A
 * few meet a piece of each of sixteen rows after the other, so that their own piece stays in the first cache. For more
 * see dot_f32_many.c. */
#include "plugins/avx512/dot_f32_parts.h"
#include "plugins/avx512/avx512.h"
#include "plugins/avx512/decode.h"

#define F32_WHOLE 2       /* activation rows that meet whole rows */
#define F32_FEW 16        /* that meet pieces */
#define F32_TILE 8        /* at once; with 8 registers of weights there is room for their sums */
#define F32_PIECE 32      /* blocks of a piece, times activation rows at once: 16 KiB of those */

/* The sums of a block's products, x * w[0] + x * w[1]... in their lanes, of n activation rows from column k on. */
F32_INLINE void f32_products(const float *const x[], int64_t k, const __m512 w[F32_VECS], int n, __m512 ret_s[])
{
#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		ret_s[t] = _mm512_setzero_ps();
#pragma GCC unroll 8
	for (int i = 0; i < F32_VECS; i++)
#pragma GCC unroll 8
		for (int t = 0; t < n; t++)
			ret_s[t] = _mm512_fmadd_ps(_mm512_loadu_ps(x[t] + k + i * AVX512_LANES), w[i], ret_s[t]);
}

/* The factor of block b of an FP8 matrix, whose row's scales begin at `scale`; of other formats 1, see decode.h. */
F32_INLINE float f32_scale(const struct dsv4_weight *w, const uint8_t *scale, int64_t b)
{
	float f;

	if (w->fmt != DSV4_W_FP8)
		return 1.0f;
	if (w->sfmt == DSV4_S_E8M0)
		return dsv4_e8m0_to_f32(scale[b]);
	memcpy(&f, scale + 4 * b, sizeof f);
	return f;
}

static const uint8_t *f32_scales(const struct dsv4_weight *w, int64_t r)
{
	int64_t at = r / AVX512_BLOCK * ((w->cols + AVX512_BLOCK - 1) / AVX512_BLOCK);

	return w->fmt == DSV4_W_FP8 ? (const uint8_t *)w->scale + (w->sfmt == DSV4_S_E8M0 ? at : 4 * at) : NULL;
}

/* ---- few activation rows ---- */

struct f32_few {
	const struct avx512_f32_job *j;
	int64_t i0, r;
	__m512 sum[F32_FEW][F32_ROWS];
};

/* Blocks [b, end) of a row against activation rows [t, t + n). */
struct f32_piece {
	int64_t b, end, t, n;
};

F32_INLINE __m512 f32_scaled(__m512 products, const float *act_scale, int64_t b, float scale, __m512 sum)
{
	return _mm512_fmadd_ps(products, _mm512_set1_ps((act_scale ? act_scale[b] : 1.0f) * scale), sum);
}

/* The last block of row `at`, of m columns, fewer than 128, against n activation rows. */
static void f32_row_rest(struct f32_few *f, int at, int64_t m, int64_t n)
{
	int64_t b = f->j->p->w->cols / AVX512_BLOCK;
	float w[AVX512_BLOCK], scale = avx512_decode_scale(f->j->p->w, f->r + at, b * AVX512_BLOCK);

	avx512_decode(f->j->p->w, f->r + at, b * AVX512_BLOCK, m, w);
	for (int64_t t = 0; t < n; t++) {
		const float *x = f32_x(f->j, f->i0 + t) + b * AVX512_BLOCK;
		__m512 s = _mm512_setzero_ps();

		for (int64_t k = 0; k < m; k += AVX512_LANES)
			s = _mm512_fmadd_ps(avx512_load(x + k, m - k), _mm512_loadu_ps(w + k), s);
		f->sum[t][at] = f32_scaled(s, f32_act_scale(f->j, f->i0 + t), b, scale, f->sum[t][at]);
	}
}

/* From a piece of row `at` to what is fetched meanwhile: of whole rows soon the same row, else all pieces of the next
 * sixteen rows as they follow each other in memory. */
F32_INLINE int64_t f32_ahead(const struct f32_few *f, int at, const struct f32_piece *c, int bytes)
{
	int64_t cols = f->j->p->w->cols;

	if (c->n <= F32_WHOLE)
		return E4M3_AHEAD;
	return ((F32_ROWS - at) * cols + (F32_ROWS * c->b + at * (c->end - c->b) - c->b) * AVX512_BLOCK) * bytes;
}

/* A piece of row `at`, whose values have `bytes` bytes each; block, bytes and n are constants where this is inlined. */
F32_INLINE void f32_row(struct f32_few *f, int at, const struct f32_piece *c, f32_block_f *block, int bytes, int n)
{
	const struct dsv4_weight *w = f->j->p->w;
	const uint8_t *row = (const uint8_t *)w->data + (f->r + at) * w->cols * bytes;
	const uint8_t *scales = f32_scales(w, f->r + at);
	const float *x[F32_TILE], *act_scale[F32_TILE];
	int64_t ahead = f32_ahead(f, at, c, bytes);
	__m512 sum[F32_TILE];

#pragma GCC unroll 8
	for (int t = 0; t < n; t++) {
		x[t] = f32_x(f->j, f->i0 + c->t + t);
		act_scale[t] = f32_act_scale(f->j, f->i0 + c->t + t);
		sum[t] = f->sum[c->t + t][at];
	}
	for (int64_t b = c->b; b < c->end; b++) {
		float scale = bytes == 1 ? f32_scale(w, scales, b) : 1.0f;
		__m512 v[F32_VECS], products[F32_TILE];

		block(row + b * AVX512_BLOCK * bytes, ahead, v);
		f32_products(x, b * AVX512_BLOCK, v, n, products);
#pragma GCC unroll 8
		for (int t = 0; t < n; t++)
			sum[t] = bytes == 1 ? f32_scaled(products[t], act_scale[t], b, scale, sum[t]) :
					      _mm512_add_ps(products[t], sum[t]); /* no scales */
	}
#pragma GCC unroll 8
	for (int t = 0; t < n; t++)
		f->sum[c->t + t][at] = sum[t];
}

/* A piece of n_row rows, of each format. */
#define F32_ROWS_OF(name, block, bytes) \
	static void name(struct f32_few *f, const struct f32_piece *c, int n_row) \
	{ \
		for (int at = 0; at < n_row; at++) \
			switch (c->n) { \
				F32_CASE(1, block, bytes) F32_CASE(2, block, bytes) F32_CASE(3, block, bytes) \
				F32_CASE(4, block, bytes) F32_CASE(5, block, bytes) F32_CASE(6, block, bytes) \
				F32_CASE(7, block, bytes) F32_CASE(8, block, bytes) \
			} \
	}
#define F32_CASE(n, block, bytes) case n: f32_row(f, at, c, block, bytes, n); break;
E4M3_TARGET F32_ROWS_OF(f32_rows_fp8, f32_block_fp8, 1)
F32_ROWS_OF(f32_rows_bf16, f32_block_bf16, 2)
F32_ROWS_OF(f32_rows_f32, f32_block_f32, 4)
#undef F32_CASE
#undef F32_ROWS_OF

/* ---- the call ---- */

static void f32_rows(struct f32_few *f, const struct f32_piece *c, int n_row)
{
	switch (f->j->p->w->fmt) {
	case DSV4_W_FP8:
		f32_rows_fp8(f, c, n_row);
		break;
	case DSV4_W_BF16:
		f32_rows_bf16(f, c, n_row);
		break;
	default:
		f32_rows_f32(f, c, n_row);
	}
}

static void f32_few(const struct avx512_f32_job *j, int64_t r0, int64_t r1, int64_t i0, int64_t n)
{
	int64_t n_block = j->p->w->cols / AVX512_BLOCK, rest = j->p->w->cols % AVX512_BLOCK, piece;
	int64_t n_tile = (n + F32_TILE - 1) / F32_TILE;
	struct f32_few f; /* large: not cleared */

	piece = n <= F32_WHOLE ? n_block : F32_PIECE / avx512_min(n, F32_TILE);
	f.j = j;
	f.i0 = i0;
	for (f.r = r0; f.r < r1; f.r += F32_ROWS) {
		int64_t n_row = avx512_min(F32_ROWS, r1 - f.r);

		memset(f.sum, 0, (size_t)n * sizeof *f.sum);
		for (int64_t b = 0; b < n_block; b += piece)
			for (int64_t i = 0; i < n_tile; i++) {
				int64_t t = i * n / n_tile;
				struct f32_piece c = { b, avx512_min(b + piece, n_block), t, (i + 1) * n / n_tile - t };

				f32_rows(&f, &c, (int)n_row);
			}
		for (int at = 0; rest > 0 && at < n_row; at++)
			f32_row_rest(&f, at, rest, n);
		for (int64_t t = 0; t < n; t++)
			f32_store(j, i0 + t, f.r, n_row, vec_sums(f.sum[t]));
	}
}

/* Formats of which blocks can be decoded in registers. */
static int f32_few_can(const struct avx512_f32_job *j)
{
	const uint8_t fmt = j->p->w->fmt;

	return fmt == DSV4_W_F32 || fmt == DSV4_W_BF16 || (fmt == DSV4_W_FP8 && j->bf16);
}

void avx512_dot_f32(const struct dsv4_host *host, const struct avx512_product *p, int64_t group, int64_t r0, int64_t r1,
		    int64_t i0, int64_t n, int left_over)
{
	const struct avx512_f32_job j = { .p = p, .group = group, .n_scale = avx512_act_scales(p->a) / p->a->n_group,
				   .bf16 = avx512_has_bf16(host), .left_over = left_over };

	if (n <= F32_FEW && f32_few_can(&j))
		f32_few(&j, r0, r1, i0, n);
	else
		avx512_dot_f32_many(&j, r0, r1, i0, n);
}
