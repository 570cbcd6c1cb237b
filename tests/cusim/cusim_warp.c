/* SPDX-License-Identifier: MIT
 * cusim_warp.c - what a warp does together: shuffles, votes, sums, matrices.
 * Threads: one at a time. Locks: none.
 *
 * A matrix product is the exact sum of exact products, added to the accumulator and rounded once, but for block-scaled
 * ones (cusim_sum.c); tensor cores cut off bits on the way, differently in every generation. */
#include "tests/cusim/cusim_priv.h"
#include "tests/cusim/cusim_ops.h"
#include "plugins/dsv4_numfmt.h"

#include <string.h>

const char *cusim_warp_name(int op)
{
	static const char *const names[] = {
#define OP(name, text) text,
		CUSIM_OPS(OP)
#undef OP
	};

	return names[op];
}

/* ---- shuffles ---- */

/* Which lane does lane i read from? Beyond its segment: itself. */
static inline int cusim_warp_source(int op, const struct cusim_lane *lane, int i)
{
	int width = lane->width, begin = i & -width, from;

	switch (op) {
	case CUSIM_SHFL:
		return begin + (lane->arg & (width - 1));
	case CUSIM_SHFL_UP:
		from = i - lane->arg;
		return from < begin ? i : from;
	case CUSIM_SHFL_DOWN:
		from = i + lane->arg;
		return from >= begin + width ? i : from;
	default:
		from = i ^ lane->arg;
		return from >= begin + width ? i : from;
	}
}

static void cusim_warp_shuffle(struct cusim_lane *warp, uint64_t *value, uint32_t mask, int op)
{
	uint64_t was[CUSIM_WARP];

	memcpy(was, value, sizeof was);
	for (uint32_t m = mask; m; m &= m - 1) {
		int i = __builtin_ctz(m), from = cusim_warp_source(op, &warp[i], i);

		if (!(mask >> from & 1)) {
			cusim_report(NULL, 1000 + warp[i].line, "%s at line %d: lane %d reads lane %d, which takes no part",
				     cusim_warp_name(op), warp[i].line, i, from);
			cusim_block_abandon();
		}
		value[i] = was[from];
	}
}

/* ---- votes and sums ---- */

static uint64_t cusim_warp_vote(const uint64_t *value, uint32_t mask, int op)
{
	uint32_t yes = 0;

	for (uint32_t m = mask; m; m &= m - 1)
		yes |= (uint32_t)(value[__builtin_ctz(m)] != 0) << __builtin_ctz(m);
	return op == CUSIM_BALLOT ? yes : op == CUSIM_ANY ? yes != 0 : yes == mask;
}

static uint64_t cusim_warp_reduce(const uint64_t *value, uint32_t mask, int op, bool is_signed)
{
	uint32_t sum = (uint32_t)value[__builtin_ctz(mask)];

	for (uint32_t m = mask & (mask - 1); m; m &= m - 1) {
		uint32_t v = (uint32_t)value[__builtin_ctz(m)];
		int less = is_signed ? (int32_t)v < (int32_t)sum : v < sum;

		sum = op == CUSIM_ADD ? sum + v : (op == CUSIM_MIN) == (less != 0) ? v : sum;
	}
	return sum;
}

static void cusim_warp_same(uint64_t *value, uint32_t mask, uint64_t result)
{
	for (uint32_t m = mask; m; m &= m - 1)
		value[__builtin_ctz(m)] = result;
}

/* ---- matrices; fragments as the PTX manual lays them out ---- */

/* arg: how many 8 x 8 matrices, +8 if transposed. Lane i's address is row i % 8 of matrix i / 8. */
static void cusim_warp_ldmatrix(struct cusim_lane *warp)
{
	int n = warp[0].arg & 7, trans = warp[0].arg & 8;
	uint16_t m[4][8][8];

	for (int i = 0; i < 8 * n; i++)
		memcpy(m[i / 8][i % 8], warp[i].p[1], 16);
	for (int i = 0; i < CUSIM_WARP; i++)
		for (int k = 0; k < n; k++) {
			int g = i / 4, t = i % 4 * 2;
			uint16_t two[2] = { trans ? m[k][t][g] : m[k][g][t], trans ? m[k][t + 1][g] : m[k][g][t + 1] };

			memcpy((uint32_t *)warp[i].p[0] + k, two, 4);
		}
}

static struct cusim_term cusim_warp_bf16(const void *p, int i)
{
	uint16_t h;

	memcpy(&h, (const char *)p + 2 * i, 2);
	return (struct cusim_term){ dsv4_bf16_to_f32(h), 0 };
}

static struct cusim_term cusim_warp_e4m3(const void *p, int i)
{
	return cusim_term_e4m3(((const uint8_t *)p)[i]);
}

/* In bits 2 to 5 of a byte. */
static struct cusim_term cusim_warp_e2m1(const void *p, int i)
{
	return cusim_term_e2m1(((const uint8_t *)p)[i] >> 2 & 15);
}

/* An operation as its table has it. */
struct cusim_mma {
	int k, per; /* values in a register */
	struct cusim_term (*a)(const void *p, int i), (*b)(const void *p, int i);
};

static float cusim_warp_sum(const struct cusim_term *a, const struct cusim_term *b, int n, float before)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double)a[i].v * (double)b[i].v;
	return (float)(sum + (double)before);
}

/* d [16][8] += scale_a [16] * a [16][k] * b [k][8] * scale_b [8]; scales are e8m0, or null. */
static void cusim_warp_mma(struct cusim_lane *warp, const struct cusim_mma *m, const uint8_t *scale_a,
			   const uint8_t *scale_b)
{
	struct cusim_term a[16][32], b[8][32];
	int per = m->per;

	for (int i = 0; i < CUSIM_WARP; i++)
		for (int r = 0; r < 4; r++)
			for (int e = 0; e < per; e++) {
				int g = i / 4, at = i % 4 * per + e;

				a[g + r % 2 * 8][at + r / 2 * 4 * per] = m->a(warp[i].p[1], r * per + e);
				if (r < 2)
					b[g][at + r * 4 * per] = m->b(warp[i].p[2], r * per + e);
			}
	for (int i = 0; i < CUSIM_WARP; i++)
		for (int r = 0; r < 4; r++) {
			int row = i / 4 + r / 2 * 8, col = i % 4 * 2 + r % 2;
			float *d = (float *)warp[i].p[0] + r;

			*d = scale_a ? cusim_sum_scaled(a[row], b[col], m->k, scale_a[row], scale_b[col], *d)
				     : cusim_warp_sum(a[row], b[col], m->k, *d);
		}
}

/* What block-scaled operations do not take: it is no matter of one lane. */
static const char *cusim_warp_scale_wrong(const struct cusim_lane *warp)
{
	const struct cusim_scale *first = warp[0].scale;

	if (first[0].byte > 3 || first[1].byte > 3 || first[0].pair > 1 || first[1].pair > 3)
		return "no such byte or lane of scales";
	for (int i = 0; i < CUSIM_WARP; i++) {
		const struct cusim_scale *s = warp[i].scale;

		for (int m = 0; m < 2; m++)
			if (s[m].byte != first[m].byte || s[m].pair != first[m].pair)
				return "lanes that do not agree where scales are";
		for (int b = 0; b < 16; b++)
			if (warp[0].op == CUSIM_MMA_E2M1_E4M3 && ((const uint8_t *)warp[i].p[1])[b] & 0xc3)
				return "bits beside an e2m1";
	}
	return NULL;
}

static uint8_t cusim_warp_scale(const struct cusim_lane *lane, int side)
{
	return (uint8_t)(lane->scale[side].data >> 8 * lane->scale[side].byte);
}

static void cusim_warp_mma_scaled(struct cusim_lane *warp, const struct cusim_mma *m)
{
	const char *wrong = cusim_warp_scale_wrong(warp);
	uint8_t a[16], b[8];

	if (wrong) {
		cusim_report(NULL, 1000 + warp[0].line, "%s at line %d: %s", cusim_warp_name(warp[0].op), warp[0].line,
			     wrong);
		cusim_block_abandon();
	}
	for (int i = 0; i < 16; i++)
		a[i] = cusim_warp_scale(&warp[i % 8 * 4 + 2 * warp[0].scale[0].pair + i / 8], 0);
	for (int i = 0; i < 8; i++)
		b[i] = cusim_warp_scale(&warp[i * 4 + warp[0].scale[1].pair], 1);
	cusim_warp_mma(warp, m, a, b);
}

void cusim_warp_do(struct cusim_lane *warp, uint64_t *value, uint32_t mask)
{
	int op = warp[__builtin_ctz(mask)].op;

	if (op >= CUSIM_LDMATRIX && mask != ~0u) {
		cusim_report(NULL, 21, "%s in a warp of %d threads", cusim_warp_name(op), __builtin_popcount(mask));
		cusim_block_abandon();
	}
	switch (op) {
	case CUSIM_SYNC:
		return;
	case CUSIM_SHFL:
	case CUSIM_SHFL_UP:
	case CUSIM_SHFL_DOWN:
	case CUSIM_SHFL_XOR:
		cusim_warp_shuffle(warp, value, mask, op);
		return;
	case CUSIM_BALLOT:
	case CUSIM_ANY:
	case CUSIM_ALL:
		cusim_warp_same(value, mask, cusim_warp_vote(value, mask, op));
		return;
	case CUSIM_ADD:
	case CUSIM_MIN:
	case CUSIM_MAX:
		cusim_warp_same(value, mask, cusim_warp_reduce(value, mask, op, warp[__builtin_ctz(mask)].arg != 0));
		return;
	case CUSIM_LDMATRIX:
		cusim_warp_ldmatrix(warp);
		return;
	case CUSIM_MMA_BF16:
		cusim_warp_mma(warp, &(struct cusim_mma){ 16, 2, cusim_warp_bf16, cusim_warp_bf16 }, NULL, NULL);
		return;
	case CUSIM_MMA_E4M3:
		cusim_warp_mma(warp, &(struct cusim_mma){ 32, 4, cusim_warp_e4m3, cusim_warp_e4m3 }, NULL, NULL);
		return;
	case CUSIM_MMA_E2M1_E4M3:
		cusim_warp_mma_scaled(warp, &(struct cusim_mma){ 32, 4, cusim_warp_e2m1, cusim_warp_e4m3 });
		return;
	case CUSIM_MMA_E4M3_SCALED:
		cusim_warp_mma_scaled(warp, &(struct cusim_mma){ 32, 4, cusim_warp_e4m3, cusim_warp_e4m3 });
		return;
	case CUSIM_TENSOR_ALLOC:
	case CUSIM_TENSOR_FREE:
	case CUSIM_TENSOR_LOAD:
		cusim_tensor_warp(warp);
		return;
	}
}
