/* SPDX-License-Identifier: MIT
 * dsv4_numfmt.h - the number formats of checkpoints and caches, as portable C (doc/format.md 2.8, 3.2, 3.6), which GPUs
 * compute with, too. Part of the plugin ABI's headers. Threads: any. Locks: none. */
#ifndef DSV4_NUMFMT_H
#define DSV4_NUMFMT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define DSV4_NUMFMT static inline __host__ __device__
#else
#define DSV4_NUMFMT static inline
#endif

DSV4_NUMFMT float dsv4_f32_from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

DSV4_NUMFMT uint32_t dsv4_f32_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}

DSV4_NUMFMT float dsv4_bf16_to_f32(uint16_t h)
{
	return dsv4_f32_from_bits((uint32_t)h << 16);
}

/* Round to nearest even; NaN stays NaN. */
DSV4_NUMFMT uint16_t dsv4_f32_to_bf16(float f)
{
	uint32_t b = dsv4_f32_bits(f);

	if ((b & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(b >> 16 | 0x40);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

DSV4_NUMFMT float dsv4_round_bf16(float f)
{
	return dsv4_bf16_to_f32(dsv4_f32_to_bf16(f));
}

/* E8M0: 2^(e-127); byte 0 is the subnormal 2^-127, byte 255 is NaN. */
DSV4_NUMFMT float dsv4_e8m0_to_f32(uint8_t e)
{
	return dsv4_f32_from_bits(e == 0 ? 0x00400000u : e == 255 ? 0x7fc00000u : (uint32_t)e << 23);
}

/* e4m3fn: 4 exponent bits (bias 7), no infinities, largest 448, 0x7f and 0xff are NaN. */
DSV4_NUMFMT float dsv4_e4m3_to_f32(uint8_t v)
{
	uint32_t sign = (uint32_t)(v & 0x80) << 24, mag = v & 0x7fu;

	if (mag == 0x7f)
		return dsv4_f32_from_bits(sign | 0x7fc00000u);
	if (mag < 8) { /* subnormal: mag * 2^-9 */
		float f = (float)mag * 0x1p-9f;
		return sign ? -f : f;
	}
	return dsv4_f32_from_bits(sign | ((mag << 20) + (120u << 23)));
}

/* Nearest e4m3 value, ties to even, after clamping to +-448. NaN gives 0x7f. */
DSV4_NUMFMT uint8_t dsv4_f32_to_e4m3(float f)
{
	uint8_t sign = (uint8_t)(dsv4_f32_bits(f) >> 24 & 0x80);
	float a = fabsf(f);
	uint32_t b;

	if (a != a)
		return 0x7f;
	if (a >= 448.0f)
		return (uint8_t)(sign | 0x7e);
	if (a < 0x1p-6f) /* subnormal grid 2^-9; 8 rolls over into the first normal code */
		return (uint8_t)(sign | (uint8_t)rintf(a * 0x1p9f));
	b = dsv4_f32_bits(a);
	b += 0x7ffff + (b >> 20 & 1);
	return (uint8_t)(sign | (uint8_t)((b >> 20) - (120u << 3)));
}

/* e2m1: 0 .5 1 1.5 2 3 4 6, bit 3 is the sign. */
DSV4_NUMFMT float dsv4_e2m1_to_f32(uint8_t code)
{
	static const float v[8] = { 0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f };

	return code & 8 ? -v[code & 7] : v[code & 7];
}

/* Nearest e2m1 code of |f| <= 6, ties to the even code. */
DSV4_NUMFMT uint8_t dsv4_f32_to_e2m1(float f)
{
	uint8_t sign = (uint8_t)(dsv4_f32_bits(f) >> 28 & 8);
	float a = fabsf(f);
	uint8_t c = a <= 0.25f ? 0 : a < 0.75f ? 1 : a <= 1.25f ? 2 : a < 1.75f ? 3
		  : a <= 2.5f ? 4 : a < 3.5f ? 5 : a <= 5.0f ? 6 : 7;

	return (uint8_t)(sign | c);
}

/* 2^ceil(log2(x)) for normal positive x, taken from the bits: exponent + (mantissa != 0). */
DSV4_NUMFMT float dsv4_pow2_ceil(float x)
{
	uint32_t b = dsv4_f32_bits(x);

	return dsv4_f32_from_bits((b + 0x7fffffu) & 0x7f800000u);
}

/* The power-of-two scale of one FP8 block (amax floor 1e-4) and of one FP4 block (floor 6 * 2^-126). */
DSV4_NUMFMT float dsv4_fp8_scale(float amax)
{
	return dsv4_pow2_ceil(fmaxf(amax, 1e-4f) / 448.0f);
}

DSV4_NUMFMT float dsv4_fp4_scale(float amax)
{
	return dsv4_pow2_ceil(fmaxf(amax, 6.0f * 0x1p-126f) / 6.0f);
}

#endif
