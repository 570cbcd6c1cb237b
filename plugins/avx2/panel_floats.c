/* SPDX-License-Identifier: MIT
 * panel_floats.c - panels whose products are fp32 multiply-adds: all but FP4 and NVFP4 against rounded activations.
 * Threads: pool runs slices. Locks: none.
 *
 * Few activation rows: a row of weights after the other, decoded in registers and used at once, since one rising stream
 * is what memory delivers fastest. More of them: eight rows of 128 columns are decoded into the first cache, and tiles
 * of two rows by six activation rows stay in registers. What is inlined once per format is kept short: with a sanitizer
 * compilers take minutes where it is not. */
#include "plugins/avx2/decode.h"
#include "plugins/avx2/panel.h"

#define PANEL_STREAM 4   /* activation rows that are multiplied straight from the stream */
#define PANEL_TOGETHER 4 /* blocks of one: a block is a chain of multiply-adds, each waits for the one before it */
#define PANEL_ROWS 8     /* rows decoded at a time for more */
#define PANEL_TILE 6     /* activation rows of a tile */
#define PANEL_AHEAD 2    /* a row's block is fetched that many before its turn */

#define PANEL_INLINE static inline __attribute__((always_inline))

/* What a panel's parts need to know of it, found once. */
struct panel_floats {
	const struct avx2_panel *p;
	enum avx2_decode how;
	int64_t block_size;       /* bytes of 128 columns */
	int64_t row_size, n_full; /* bytes of a row of weights; whole blocks of it */
	const float *x[AVX2_PANEL_TOKENS], *scale[AVX2_PANEL_TOKENS];
};

static struct panel_floats panel_floats(const struct avx2_panel *p)
{
	static const uint8_t bits[DSV4_N_WFMT] = { 32, 16, 8, 4, 4 };
	struct panel_floats f = { .p = p, .how = (enum avx2_decode)p->w->fmt,
				  .block_size = AVX2_ACT_COLS / 8 * bits[p->w->fmt],
				  .row_size = (p->w->cols * bits[p->w->fmt] + 7) / 8,
				  .n_full = p->w->cols / AVX2_ACT_COLS };

	for (int i = 0; i < p->n; i++) {
		f.x[i] = avx2_panel_x(p, i);
		f.scale[i] = avx2_panel_scale(p, i);
	}
	return f;
}

/* ---- few activation rows; formats whose scales are 128 columns wide ---- */

/* A row that is being multiplied. */
struct panel_row {
	const uint8_t *data, *scale; /* of its first block */
	__m256i top;
	__m256 sum[PANEL_STREAM];
};

PANEL_INLINE void panel_row(const int n, const struct panel_floats *f, int r, struct panel_row *ret_r)
{
	const struct dsv4_weight *w = f->p->w;
	int64_t row = f->p->r0 + r, n_scale = (w->cols + AVX2_ACT_COLS - 1) / AVX2_ACT_COLS;

	ret_r->data = x86_at(w->data, row * f->row_size);
	ret_r->scale = w->scale ? x86_at(w->scale, row / AVX2_ACT_COLS * n_scale * (w->sfmt == DSV4_S_F32 ? 4 : 1)) :
		NULL;
	ret_r->top = _mm256_setzero_si256();
#pragma GCC unroll 4
	for (int i = 0; i < n; i++)
		ret_r->sum[i] = _mm256_setzero_ps();
}

/* The m floats at p, never by way of memory: a load of more bytes than one store wrote waits for it. */
PANEL_INLINE __m128 panel_few(const int m, const void *p)
{
	double two;
	float one;

	if (m == 4)
		return _mm_loadu_ps(p);
	if (m == 2) {
		memcpy(&two, p, sizeof two);
		return _mm_castpd_ps(_mm_set_sd(two));
	}
	memcpy(&one, p, sizeof one);
	return _mm_set_ss(one);
}

/* FP8's scales of blocks [b, b + m), m 1, 2 or 4. */
PANEL_INLINE __m128 panel_stream_scales(const int m, const struct panel_floats *f, const struct panel_row *r, int64_t b)
{
	uint32_t bytes = 0x7f7f7f7f; /* 1: subnormal numbers are slow */

	if (f->p->w->sfmt == DSV4_S_F32)
		return panel_few(m, r->scale + 4 * b);
	memcpy(&bytes, r->scale + b, (size_t)m);
	return _mm256_castps256_ps128(avx2_decode_e8m0(_mm_cvtsi32_si128((int)bytes)));
}

/* Adds blocks [b, b + m), which begin at src, to n sums. */
PANEL_INLINE void panel_stream_blocks(enum avx2_decode how, const int n, const int m, const struct panel_floats *f,
				      int64_t b, const uint8_t *src, struct panel_row *r)
{
	const int size = how == AVX2_DECODE_F32 ? 512 : how == AVX2_DECODE_BF16 ? 256 : 128;
	__m256 w[4], acc[PANEL_TOGETHER][PANEL_STREAM];
	float scale[PANEL_STREAM][4];
	__m128 ws = _mm_setzero_ps();

	if (how == AVX2_DECODE_FP8)
		ws = panel_stream_scales(m, f, r, b);
#pragma GCC unroll 4
	for (int i = 0; i < n; i++) {
#pragma GCC unroll 4
		for (int k = 0; k < m; k++)
			acc[k][i] = _mm256_setzero_ps();
		if (how == AVX2_DECODE_FP8)
			_mm_storeu_ps(scale[i], _mm_mul_ps(ws, panel_few(m, f->scale[i] + b)));
	}
	for (int g = 0; g < 4; g++) /* 32 columns of each block, then the next 32 */
#pragma GCC unroll 4
		for (int k = 0; k < m; k++) {
			avx2_decode32(how, src + k * size, g, w, &r->top);
			avx2_prefetch(src + k * size + g * size / 4);
#pragma GCC unroll 4
			for (int v = 0; v < 4; v++)
#pragma GCC unroll 4
				for (int i = 0; i < n; i++)
					acc[k][i] = _mm256_fmadd_ps(w[v],
								    _mm256_loadu_ps(f->x[i] + (b + k) * AVX2_ACT_COLS +
										    32 * g + 8 * v), acc[k][i]);
		}
#pragma GCC unroll 4
	for (int k = 0; k < m; k++)
#pragma GCC unroll 4
		for (int i = 0; i < n; i++)
			if (how == AVX2_DECODE_FP8)
				r->sum[i] = _mm256_fmadd_ps(acc[k][i], _mm256_broadcast_ss(&scale[i][k]), r->sum[i]);
			else
				r->sum[i] = _mm256_add_ps(acc[k][i], r->sum[i]);
}

PANEL_INLINE void panel_stream(enum avx2_decode how, const int n, const struct panel_floats *f,
			       float (*out)[AVX2_PANEL])
{
	const int m = n == 1 ? PANEL_TOGETHER : n < 4 ? 2 : 1;
	const struct avx2_panel *p = f->p;
	uint8_t pad[AVX2_ACT_COLS * sizeof(float)] = { 0 };

	for (int r = 0; r < p->n_row; r++) {
		struct panel_row row;
		int64_t b = 0;

		panel_row(n, f, r, &row);
		for (; b + m <= f->n_full; b += m)
			panel_stream_blocks(how, n, m, f, b, row.data + b * f->block_size, &row);
		for (; b * AVX2_ACT_COLS < p->w->cols; b++) {
			const uint8_t *src = row.data + b * f->block_size;

			if (b == f->n_full)
				src = memcpy(pad, src, (size_t)(f->row_size - b * f->block_size));
			panel_stream_blocks(how, n, 1, f, b, src, &row);
		}
#pragma GCC unroll 4
		for (int i = 0; i < n; i++)
			out[i][r] = avx2_decode_end(how, row.sum[i], row.top);
	}
}

#define PANEL_STREAM_OF(name, how) \
	static __attribute__((noinline)) \
	void panel_stream_##name(const struct panel_floats *f, float (*out)[AVX2_PANEL]) \
	{ \
		switch (f->p->n) { \
		case 1: panel_stream(how, 1, f, out); break; \
		case 2: panel_stream(how, 2, f, out); break; \
		case 3: panel_stream(how, 3, f, out); break; \
		default: panel_stream(how, 4, f, out); \
		} \
	}
PANEL_STREAM_OF(f32, AVX2_DECODE_F32)
PANEL_STREAM_OF(bf16, AVX2_DECODE_BF16)
PANEL_STREAM_OF(fp8, AVX2_DECODE_FP8)

/* ---- many ---- */

typedef float panel_scale[AVX2_DECODE_SCALES][AVX2_PANEL_TOKENS];

struct panel_tiles {
	float w[PANEL_ROWS][AVX2_ACT_COLS];  /* one block of each row, decoded */
	panel_scale scale[PANEL_ROWS];       /* scales of that block, times the activations' */
	const panel_scale *scales[PANEL_ROWS]; /* where each row's are */
	__m256i top[PANEL_ROWS];
	__m256 sum[PANEL_ROWS][AVX2_PANEL_TOKENS];
};

/* Rows r and r + 1 by n activation rows from the i0-th on. A scale covers `chain` vectors of eight columns. */
PANEL_INLINE void panel_tile(const int n, const int chain, const struct panel_floats *f, struct panel_tiles *t, int r,
			     int i0, int64_t b)
{
	const float *x[PANEL_TILE], *w0 = t->w[r], *w1 = t->w[r + 1];
	__m256 acc[2][PANEL_TILE];

	for (int i = 0; i < n; i++)
		x[i] = f->x[i0 + i] + b * AVX2_ACT_COLS;
	for (int j = 0; j < 16 / chain; j++) {
#pragma GCC unroll 6
		for (int i = 0; i < n; i++)
			acc[0][i] = acc[1][i] = _mm256_setzero_ps();
		for (int v = 8 * j * chain; v < 8 * (j + 1) * chain; v += 8) {
			__m256 w[2] = { _mm256_load_ps(w0 + v), _mm256_load_ps(w1 + v) };

#pragma GCC unroll 6
			for (int i = 0; i < n; i++) {
				__m256 g = _mm256_loadu_ps(x[i] + v);

				__asm__("" : "+x"(g)); /* gcc loads it for each row, and loads are as scarce as sums */
				acc[0][i] = _mm256_fmadd_ps(w[0], g, acc[0][i]);
				acc[1][i] = _mm256_fmadd_ps(w[1], g, acc[1][i]);
			}
		}
#pragma GCC unroll 2
		for (int k = 0; k < 2; k++) {
			const float *scale = (*t->scales[r + k])[j] + i0;
			__m256 *sum = t->sum[r + k] + i0;

#pragma GCC unroll 6
			for (int i = 0; i < n; i++)
				sum[i] = _mm256_fmadd_ps(acc[k][i], _mm256_broadcast_ss(scale + i), sum[i]);
		}
	}
}

#define PANEL_TILE_OF(n) \
	static __attribute__((noinline)) \
	void panel_tile_##n(int chain, const struct panel_floats *f, struct panel_tiles *t, \
							     int i0, int64_t b) \
	{ \
		for (int r = 0; r < PANEL_ROWS; r += 2) \
			if (chain == 16) \
				panel_tile(n, 16, f, t, r, i0, b); \
			else \
				panel_tile(n, chain, f, t, r, i0, b); \
	}
PANEL_TILE_OF(1)
PANEL_TILE_OF(2)
PANEL_TILE_OF(3)
PANEL_TILE_OF(4)
PANEL_TILE_OF(5)
PANEL_TILE_OF(6)

/* All rows by n activation rows. */
static void panel_tile_n(int n, int chain, const struct panel_floats *f, struct panel_tiles *t, int i0, int64_t b)
{
	switch (n) {
	case 1: panel_tile_1(chain, f, t, i0, b); break;
	case 2: panel_tile_2(chain, f, t, i0, b); break;
	case 3: panel_tile_3(chain, f, t, i0, b); break;
	case 4: panel_tile_4(chain, f, t, i0, b); break;
	case 5: panel_tile_5(chain, f, t, i0, b); break;
	default: panel_tile_6(chain, f, t, i0, b);
	}
}

/* Multiplies the scales of block b of rows row[0..PANEL_ROWS) by those of the activations. */
static void panel_scales(const struct panel_floats *f, struct panel_tiles *t, const int64_t *row, int chain, int64_t b)
{
	float as[AVX2_PANEL_TOKENS] = { 0 }, ws[AVX2_DECODE_SCALES];

	for (int i = 0; i < f->p->n; i++)
		as[i] = f->scale[i][b];
	for (int r = 0; r < PANEL_ROWS; r++) {
		if (chain == 16 && r > 0 && row[r] / AVX2_ACT_COLS == row[r - 1] / AVX2_ACT_COLS) {
			t->scales[r] = t->scales[r - 1];
			continue;
		}
		t->scales[r] = (const panel_scale *)&t->scale[r];
		avx2_decode_scales(f->p->w, row[r], b, ws);
		for (int j = 0; j < 16 / chain; j++)
			for (int i = 0; i < f->p->n; i += VEC_LANES)
				_mm256_storeu_ps(t->scale[r][j] + i, _mm256_mul_ps(_mm256_loadu_ps(as + i),
										   _mm256_set1_ps(ws[j])));
	}
}

PANEL_INLINE void panel_decode_how(enum avx2_decode how, const uint8_t *src, float *out, __m256i *top)
{
	__m256 w[4];

	for (int g = 0; g < 4; g++) {
		avx2_decode32(how, src, g, w, top);
#pragma GCC unroll 4
		for (int v = 0; v < 4; v++)
			_mm256_store_ps(out + 32 * g + 8 * v, w[v]);
	}
}

/* 128 columns at src to floats. */
static void panel_decode(enum avx2_decode how, const uint8_t *src, float *out, __m256i *top)
{
	switch (how) {
	case AVX2_DECODE_F32: panel_decode_how(AVX2_DECODE_F32, src, out, top); break;
	case AVX2_DECODE_BF16: panel_decode_how(AVX2_DECODE_BF16, src, out, top); break;
	case AVX2_DECODE_FP8: panel_decode_how(AVX2_DECODE_FP8, src, out, top); break;
	default: panel_decode_how(AVX2_DECODE_FP4, src, out, top);
	}
}

/* Decodes block b of rows row[0..PANEL_ROWS). */
static void panel_decode_rows(const struct panel_floats *f, struct panel_tiles *t, const int64_t *row, int64_t b)
{
	uint8_t pad[AVX2_ACT_COLS * sizeof(float)];

	for (int r = 0; r < PANEL_ROWS; r++) {
		const uint8_t *src = (const uint8_t *)f->p->w->data + row[r] * f->row_size + b * f->block_size;

		if (b == f->n_full)
			src = memcpy(memset(pad, 0, sizeof pad), src, (size_t)(f->row_size - b * f->block_size));
		for (int64_t at = 0; at < f->block_size; at += 64)
			_mm_prefetch((const char *)((uintptr_t)src + (uintptr_t)(PANEL_AHEAD * f->block_size + at)),
				     _MM_HINT_T0);
		panel_decode(f->how, src, t->w[r], &t->top[r]);
	}
}

/* Rows [r0, r0 + PANEL_ROWS) of the panel. Rows past its last are that one once more. */
static void panel_tiles(const struct panel_floats *f, int r0, float (*out)[AVX2_PANEL])
{
	const struct avx2_panel *p = f->p;
	int n_tile = (p->n + PANEL_TILE - 1) / PANEL_TILE;
	int chain = f->how == AVX2_DECODE_FP4 ? 4 : f->how == AVX2_DECODE_NVFP4 ? 2 : 16;
	int64_t row[PANEL_ROWS];
	struct panel_tiles t;

	for (int r = 0; r < PANEL_ROWS; r++) {
		row[r] = p->r0 + x86_min(r0 + r, p->n_row - 1);
		t.top[r] = _mm256_setzero_si256();
		for (int i = 0; i < p->n; i++)
			t.sum[r][i] = _mm256_setzero_ps();
	}
	for (int64_t b = 0; b * AVX2_ACT_COLS < p->w->cols; b++) {
		panel_scales(f, &t, row, chain, b);
		panel_decode_rows(f, &t, row, b);
		for (int k = 0; k < n_tile; k++) {
			int i0 = p->n * k / n_tile;

			panel_tile_n(p->n * (k + 1) / n_tile - i0, chain, f, &t, i0, b);
		}
	}
	for (int i = 0; i < p->n; i++)
		for (int r = 0; r < PANEL_ROWS; r++)
			out[i][r0 + r] = avx2_decode_end(f->how, t.sum[r][i], t.top[r]);
}

/* ---- either ---- */

void avx2_panel_floats(const struct avx2_panel *p, float (*out)[AVX2_PANEL])
{
	struct panel_floats f = panel_floats(p);

	if (p->n <= PANEL_STREAM && f.how == AVX2_DECODE_F32)
		panel_stream_f32(&f, out);
	else if (p->n <= PANEL_STREAM && f.how == AVX2_DECODE_BF16)
		panel_stream_bf16(&f, out);
	else if (p->n <= PANEL_STREAM && f.how == AVX2_DECODE_FP8)
		panel_stream_fp8(&f, out);
	else
		for (int r = 0; r < p->n_row; r += PANEL_ROWS)
			panel_tiles(&f, r, out);
}
