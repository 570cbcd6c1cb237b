/* SPDX-License-Identifier: MIT
 * cusim_sum.c - how tensor cores of sm_100 and sm_120 add up a block-scaled product.
 * Threads: any. Locks: none.
 *
 * As MMA-Sim has it (arXiv 2511.10909), which its authors compared bit by bit with GPUs, for FP8 on both sides: the
 * largest exponent of all products and of the sum before is found; each is cut off, towards zero, at 2^-25 of that; what
 * is left is added exactly, and cut off to fp32. A product's exponent is the sum of its factors', as their formats have
 * them: values below the normal ones have the least normal one's. */
#include "tests/cusim/cusim_priv.h"
#include "plugins/dsv4_numfmt.h"

#include <math.h>

#define CUSIM_SUM_BITS 25

struct cusim_term cusim_term_e2m1(uint8_t code)
{
	int e = code >> 1 & 3;

	return (struct cusim_term){ dsv4_e2m1_to_f32(code & 15), e > 0 ? e - 1 : 0 };
}

struct cusim_term cusim_term_e4m3(uint8_t code)
{
	int e = code >> 3 & 15;

	return (struct cusim_term){ dsv4_e4m3_to_f32(code), e > 0 ? e - 7 : -6 };
}

/* Towards zero. */
static float cusim_sum_cut(double sum)
{
	float f = (float)sum;

	if (fabs(sum) >= 0x1p128)
		return f;
	return fabs((double)f) > fabs(sum) ? nextafterf(f, 0) : f;
}

float cusim_sum_scaled(const struct cusim_term *a, const struct cusim_term *b, int n, uint8_t scale_a, uint8_t scale_b,
		       float before)
{
	int scale = scale_a + scale_b - 2 * 127, most = -126;
	double unit, each, sum;

	if (scale_a == 255 || scale_b == 255 || !isfinite(before))
		return scale_a == 255 || scale_b == 255 ? NAN : before;
	if (before != 0 && ilogbf(before) > most)
		most = ilogbf(before);
	for (int i = 0; i < n; i++) {
		if (isnan(a[i].v) || isnan(b[i].v))
			return NAN;
		if (a[i].v != 0 && b[i].v != 0 && a[i].e + b[i].e + scale > most)
			most = a[i].e + b[i].e + scale;
	}
	unit = ldexp(1, most - CUSIM_SUM_BITS);
	each = ldexp(1, scale - most + CUSIM_SUM_BITS);
	sum = trunc((double)before / unit);
	for (int i = 0; i < n; i++)
		sum += trunc((double)a[i].v * (double)b[i].v * each);
	return cusim_sum_cut(sum * unit);
}
