/* SPDX-License-Identifier: MIT
 * vec.h - the sums every op of ref is made of, each in one documented order, and the addresses of stored
 * rows. Threads: any. Locks: none. */
#ifndef REF_VEC_H
#define REF_VEC_H

#include "plugins/dsv4_plugin.h"

/* Sums of products run over blocks of this many terms, so that long rows lose no more precision than short
 * ones. */
#define REF_BLOCK 128
#define REF_LANES 8

static inline int64_t ref_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The order of one block of n terms: lane l sums the terms l, l + 8, l + 16... in rising order, then the
 * eight lanes are added as a tree. Fixed lanes let a compiler use vectors without being free to reorder
 * anything. */
static inline float ref_dot_block(const float *a, const float *b, int64_t n)
{
	float s[REF_LANES] = { 0 };
	int64_t k = 0;

	for (; k + REF_LANES <= n; k += REF_LANES)
		for (int l = 0; l < REF_LANES; l++)
			s[l] += a[k + l] * b[k + l];
	for (int l = 0; k + l < n; l++)
		s[l] += a[k + l] * b[k + l];
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Blocks of REF_BLOCK terms, added in rising order. */
static inline float ref_dot(const float *a, const float *b, int64_t n)
{
	float sum = 0;

	for (int64_t k = 0; k < n; k += REF_BLOCK)
		sum += ref_dot_block(a + k, b + k, ref_min(REF_BLOCK, n - k));
	return sum;
}

/* y += p * x */
static inline void ref_axpy(float *restrict y, float p, const float *restrict x, int64_t n)
{
	int64_t k = 0;

	for (; k + REF_LANES <= n; k += REF_LANES)
		for (int l = 0; l < REF_LANES; l++)
			y[k + l] += p * x[k + l];
	for (; k < n; k++)
		y[k] += p * x[k];
}

static inline float ref_sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

static inline const float *ref_row(const struct dsv4_rows *r, int64_t i)
{
	return r->page[i / r->page_rows] + i % r->page_rows * r->dim;
}

/* The sequence that token t of the batch belongs to; NULL when none does. */
static inline const struct dsv4_seq *ref_seq(const struct dsv4_seq *seq, int32_t n_seq, int64_t t)
{
	for (int32_t i = 0; i < n_seq; i++)
		if (t >= seq[i].tok0 && t < (int64_t)seq[i].tok0 + seq[i].n_tok)
			return &seq[i];
	return NULL;
}

/* How many of r's rows the token at position pos sees: those whose whole group of tokens is
 * at or before it. */
static inline int64_t ref_visible(const struct dsv4_rows *r, int32_t ratio, int64_t pos)
{
	return ratio > 0 ? ref_min((pos + 1) / ratio, r->n) : 0;
}

#endif
