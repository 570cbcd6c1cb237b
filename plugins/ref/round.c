/* SPDX-License-Identifier: MIT
 * round.c - what happens to one row: rounding to a stored format, Hadamard, root-mean-square, rotation.
 * Threads: any. Locks: none. */
#include "plugins/ref/round.h"
#include "plugins/ref/vec.h"

#include <errno.h>

/* Largest |x|; NaN is passed over. */
static float round_amax(const float *x, int64_t n)
{
	float m = 0;

	for (int64_t i = 0; i < n; i++)
		if (fabsf(x[i]) > m)
			m = fabsf(x[i]);
	return m;
}

float ref_round_split(const float *x, int64_t n, float *q)
{
	float s = dsv4_fp8_scale(round_amax(x, n));

	for (int64_t i = 0; i < n; i++)
		q[i] = dsv4_e4m3_to_f32(dsv4_f32_to_e4m3(x[i] / s));
	return s;
}

static void round_fp8(float *x, int64_t n)
{
	float s = ref_round_split(x, n, x);

	for (int64_t i = 0; i < n; i++)
		x[i] *= s;
}

static void round_fp4(float *x, int64_t n)
{
	float s = dsv4_fp4_scale(round_amax(x, n));

	for (int64_t i = 0; i < n; i++)
		if (x[i] == x[i]) /* e2m1 has no NaN: leave it one */
			x[i] = dsv4_e2m1_to_f32(dsv4_f32_to_e2m1(x[i] / s)) * s;
}

static void round_bf16(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = dsv4_round_bf16(x[i]);
}

int ref_round_kv(float *x, int64_t n, uint32_t round)
{
	switch (round) {
	case DSV4_ROUND_NONE:
		return 0;
	case DSV4_ROUND_BF16:
		round_bf16(x, n);
		return 0;
	case DSV4_ROUND_FP8:
		for (int64_t k = 0; k < n; k += REF_KV_BLOCK)
			round_fp8(x + k, ref_min(REF_KV_BLOCK, n - k));
		return 0;
	default:
		return -EINVAL;
	}
}

int ref_round_index(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_NONE)
		return 0;
	if (round > DSV4_ROUND_FP4 || n <= 0 || (n & (n - 1)))
		return -EINVAL;
	ref_hadamard(x, n);
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	else if (round == DSV4_ROUND_FP8)
		round_fp8(x, n);
	else
		for (int64_t k = 0; k < n; k += REF_FP4_BLOCK)
			round_fp4(x + k, ref_min(REF_FP4_BLOCK, n - k));
	return 0;
}

int ref_round_check(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index)
{
	if (n_kv < 0 || kv >= DSV4_ROUND_FP4 || index > DSV4_ROUND_FP4)
		return -EINVAL;
	if (index != DSV4_ROUND_NONE && (kv != DSV4_ROUND_NONE || n_index <= 0 || (n_index & (n_index - 1))))
		return -EINVAL;
	return 0;
}

void ref_hadamard(float *x, int64_t n)
{
	float scale = 1.0f / sqrtf((float)n);

	for (int64_t h = 1; h < n; h *= 2)
		for (int64_t i = 0; i < n; i += 2 * h)
			for (int64_t j = i; j < i + h; j++) {
				float a = x[j], b = x[j + h];

				x[j] = a + b;
				x[j + h] = a - b;
			}
	for (int64_t i = 0; i < n; i++)
		x[i] *= scale;
}

float ref_rms_scale(const float *x, int64_t n, float eps)
{
	return 1.0f / sqrtf(ref_dot(x, x, n) / (float)n + eps);
}

void ref_rms_row(const float *x, const float *weight, int64_t n, float eps, float *y)
{
	float r = ref_rms_scale(x, n, eps);

	for (int64_t i = 0; i < n; i++)
		y[i] = weight ? x[i] * r * weight[i] : x[i] * r;
}

void ref_rope_row(float *x, int64_t rot, const float *cs, uint32_t inverse)
{
	for (int64_t i = 0; i < rot; i += 2) {
		float c = cs[i], s = inverse ? -cs[i + 1] : cs[i + 1];
		float re = x[i], im = x[i + 1];

		x[i] = re * c - im * s;
		x[i + 1] = re * s + im * c;
	}
}
