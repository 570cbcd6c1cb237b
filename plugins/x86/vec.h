/* SPDX-License-Identifier: MIT
 * vec.h - vectors of floats as the compiler's flags allow, sums in one order, and the addresses of stored rows.
 * Threads: any. Locks: none.
 *
 * vec, veci, vecm   floats, 32-bit integers, lanes that are chosen; operators + - * / & | ^ << >> work lane by lane
 * VEC_LANES         lanes of each
 * VEC_BLOCK         terms of one partial sum of products
 * vec_load(p, n)    the first n values at p, zeroes in the other lanes; vec_store(p, n, v) writes as many
 * vec_fma(a, b, c)  a * b + c, fused or as ref has it
 * vec_min, vec_max  give their second operand where one is NaN
 * vec_sum(v)        the lanes added as a tree; lane i of vec_sums(s) is vec_sum(s[i])
 * vec_sigmoid(v)    of each lane
 * vec_total         start + p[0] + p[1]...
 * vec_bytes(p, v)   the low byte of each lane
 * vec_dot4          per lane, the sum of four bytes of u times four of s; bytes of u up to 127, no sign
 * vec_dot4_vnni     the same where VEC_VNNI is at hand (x86_has_vnni)
 *
 * In AVX-512 a sum of products is fused and a sum of weights runs in lanes; in AVX2 all are ref's to the bit. Either
 * way a sum's order depends on its number of terms alone. */
#ifndef X86_VEC_H
#define X86_VEC_H

#include "plugins/dsv4_plugin.h"

#ifdef __AVX512F__
#include "plugins/x86/vec_avx512.h"
#else
#include "plugins/x86/vec_avx2.h"
#endif

#define VEC_ROWS 4                     /* rows of a tile of products */
#define VEC_COLS (VEC_LANES / VEC_ROWS) /* and what each is multiplied with; a lane for each product */

static inline int64_t x86_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Bytes at any address: checkpoints align nothing. */
static inline const void *x86_at(const void *base, int64_t offset)
{
	return (const uint8_t *)base + offset;
}

static inline vec vec_sigmoid(vec x)
{
	return vec_set(1) / (vec_set(1) + vec_exp(vec_xor(x, vec_set(-0.0f))));
}

/* ---- sums of products ---- */

/* One row against one other: blocks in rising order. */
static inline float vec_dot(const float *a, const float *b, int64_t n)
{
	float sum = 0;

	for (int64_t k = 0; k < n; k += VEC_BLOCK) {
		int64_t end = k + x86_min(VEC_BLOCK, n - k);
		vec s = vec_set(0);

		for (int64_t i = k; i < end; i += VEC_LANES)
			s = vec_fma(vec_load(a + i, end - i), vec_load(b + i, end - i), s);
		sum += vec_sum(s);
	}
	return sum;
}

/* Adds n <= VEC_LANES terms to every product of a tile. */
static inline __attribute__((always_inline)) void vec_tile_step(const float *const x[VEC_COLS],
								 const float *const row[VEC_ROWS], int64_t k,
								 int64_t n, vec s[VEC_LANES])
{
	vec v[VEC_ROWS];

#pragma GCC unroll 4
	for (int r = 0; r < VEC_ROWS; r++)
		v[r] = vec_load(row[r] + k, n);
#pragma GCC unroll 4
	for (int c = 0; c < VEC_COLS; c++) {
		vec a = vec_load(x[c] + k, n);

#pragma GCC unroll 4
		for (int r = 0; r < VEC_ROWS; r++)
			s[c * VEC_ROWS + r] = vec_fma(a, v[r], s[c * VEC_ROWS + r]);
	}
}

/* Lane c * VEC_ROWS + r is vec_dot(x[c], row[r], n). */
static inline vec vec_dots(const float *const x[VEC_COLS], const float *const row[VEC_ROWS], int64_t n)
{
	vec sum = vec_set(0), s[VEC_LANES];

	for (int64_t at = 0; at < n; at += VEC_BLOCK) {
		int64_t end = at + x86_min(VEC_BLOCK, n - at), k = at;

#pragma GCC unroll 16
		for (int i = 0; i < VEC_LANES; i++)
			s[i] = vec_set(0);
		for (; k + VEC_LANES <= end; k += VEC_LANES)
			vec_tile_step(x, row, k, VEC_LANES, s);
		if (k < end)
			vec_tile_step(x, row, k, end - k, s);
		sum += vec_sums(s);
	}
	return sum;
}

/* ---- stored rows ---- */

static inline const float *x86_row(const struct dsv4_rows *r, int64_t i)
{
	return r->page[i / r->page_rows] + i % r->page_rows * r->dim;
}

/* The sequence that token t of the batch belongs to; NULL when none does. */
static inline const struct dsv4_seq *x86_seq(const struct dsv4_seq *seq, int32_t n_seq, int64_t t)
{
	for (int32_t i = 0; i < n_seq; i++)
		if (t >= seq[i].tok0 && t < (int64_t)seq[i].tok0 + seq[i].n_tok)
			return &seq[i];
	return NULL;
}

/* How many of r's rows the token at position pos sees. */
static inline int64_t x86_visible(const struct dsv4_rows *r, int32_t ratio, int64_t pos)
{
	return ratio > 0 ? x86_min((pos + 1) / ratio, r->n) : 0;
}

#endif
