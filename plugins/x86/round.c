/* SPDX-License-Identifier: MIT
 * round.c - what happens to one row: rounding to a stored format, Hadamard, root-mean-square, rotation.
 * Threads: any. Locks: none. */
#include "plugins/x86/round.h"
#include "plugins/x86/vec.h"

#include <errno.h>

static vec round_sign(vec x)
{
	return (vec)((veci)x & INT32_MIN);
}

static vec round_or(vec x, vec sign)
{
	return (vec)((veci)x | (veci)sign);
}

/* Largest |x|; NaN is passed over. */
static float round_amax(const float *x, int64_t n)
{
	vec top = vec_set(0);

	for (int64_t i = 0; i < n; i += VEC_LANES)
		top = vec_max(vec_abs(vec_load(x + i, n - i)), top);
	return vec_top(top);
}

/* The nearest e4m3 value, ties to even, after clamping to +-448; NaN becomes the positive quiet one. */
static vec round_e4m3(vec x)
{
	vec a = vec_min(vec_abs(x), vec_set(448.0f));
	veci b = (veci)a, up = b + ((b >> 20 & 1) + 0x7ffff);
	vec normal = (vec)(up & (int32_t)0xfff00000);
	vec tiny = vec_rint(a * vec_set(0x1p9f)) * vec_set(0x1p-9f); /* subnormals: multiples of 2^-9 */
	vec r = vec_pick(vec_less(a, vec_set(0x1p-6f)), tiny, normal);

	return vec_pick(vec_nan(x), vec_set(NAN), round_or(r, round_sign(x)));
}

float x86_round_split(const float *x, int64_t n, float *q)
{
	float s = dsv4_fp8_scale(round_amax(x, n));

	for (int64_t i = 0; i < n; i += VEC_LANES)
		vec_store(q + i, n - i, round_e4m3(vec_load(x + i, n - i) / vec_set(s)));
	return s;
}

static void round_fp8(float *x, int64_t n)
{
	vec s = vec_set(x86_round_split(x, n, x));

	for (int64_t i = 0; i < n; i += VEC_LANES)
		vec_store(x + i, n - i, vec_load(x + i, n - i) * s);
}

/* The nearest e2m1 value of |x| <= 6, ties to the even code: the code is the number of limits passed. */
static vec round_e2m1(vec x)
{
	static const float value[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
	vec a = vec_abs(x);
	veci code = { 0 };

	code = vec_count(code, vec_over(a, vec_set(0.25f)));
	code = vec_count(code, vec_least(a, vec_set(0.75f)));
	code = vec_count(code, vec_over(a, vec_set(1.25f)));
	code = vec_count(code, vec_least(a, vec_set(1.75f)));
	code = vec_count(code, vec_over(a, vec_set(2.5f)));
	code = vec_count(code, vec_least(a, vec_set(3.5f)));
	code = vec_count(code, vec_over(a, vec_set(5.0f)));
	return round_or(vec_look_up(value, code), round_sign(x));
}

static void round_fp4(float *x, int64_t n)
{
	vec s = vec_set(dsv4_fp4_scale(round_amax(x, n)));

	for (int64_t i = 0; i < n; i += VEC_LANES) {
		vec v = vec_load(x + i, n - i);

		vec_store(x + i, n - i, vec_pick(vec_nan(v), v, round_e2m1(v / s) * s));
	}
}

static void round_bf16(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i += VEC_LANES)
		vec_store(x + i, n - i, vec_bf16(vec_load(x + i, n - i)));
}

/* x := H x * n^-0.5 in place, H in natural (Sylvester) order; n a power of two. */
static void round_hadamard(float *x, int64_t n)
{
	vec scale = vec_set(1.0f / sqrtf((float)n));

	for (int64_t i = 0; i < n; i += VEC_LANES)
		vec_store(x + i, n - i, vec_butterfly(vec_load(x + i, n - i), n));
	for (int64_t h = VEC_LANES; h < n; h *= 2)
		for (int64_t i = 0; i < n; i += 2 * h)
			for (int64_t j = i; j < i + h; j += VEC_LANES) {
				vec a = vec_load(x + j, VEC_LANES), b = vec_load(x + j + h, VEC_LANES);

				vec_store(x + j, VEC_LANES, a + b);
				vec_store(x + j + h, VEC_LANES, a - b);
			}
	for (int64_t i = 0; i < n; i += VEC_LANES)
		vec_store(x + i, n - i, vec_load(x + i, n - i) * scale);
}

void x86_round_kv(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	if (round == DSV4_ROUND_FP8)
		for (int64_t k = 0; k < n; k += X86_KV_BLOCK)
			round_fp8(x + k, x86_min(X86_KV_BLOCK, n - k));
}

void x86_round_index(float *x, int64_t n, uint32_t round)
{
	if (round == DSV4_ROUND_NONE)
		return;
	round_hadamard(x, n);
	if (round == DSV4_ROUND_BF16)
		round_bf16(x, n);
	else if (round == DSV4_ROUND_FP8)
		round_fp8(x, n);
	else
		for (int64_t k = 0; k < n; k += X86_FP4_BLOCK)
			round_fp4(x + k, x86_min(X86_FP4_BLOCK, n - k));
}

int x86_round_check(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index)
{
	if (n_kv < 0 || kv >= DSV4_ROUND_FP4 || index > DSV4_ROUND_FP4)
		return -EINVAL;
	if (index != DSV4_ROUND_NONE && (kv != DSV4_ROUND_NONE || n_index <= 0 || (n_index & (n_index - 1))))
		return -EINVAL;
	return 0;
}

void x86_rms_row(const float *x, const float *weight, int64_t n, float eps, float *y)
{
	vec r = vec_set(1.0f / sqrtf(vec_dot(x, x, n) / (float)n + eps));

	for (int64_t i = 0; i < n; i += VEC_LANES) {
		vec v = vec_load(x + i, n - i) * r;

		if (weight)
			v *= vec_load(weight + i, n - i);
		vec_store(y + i, n - i, v);
	}
}

/* re * c - im * s and im * c + re * s, as two products and a sum: rope keeps ref's bits everywhere. */
void x86_rope_row(float *x, int64_t rot, const float *cs, uint32_t inverse)
{
	vec flip = vec_set(inverse ? -0.0f : 0.0f);

	for (int64_t i = 0; i < rot; i += VEC_LANES) {
		vec v = vec_load(x + i, rot - i), k = vec_load(cs + i, rot - i);
		vec turned = vec_swap(v) * vec_xor(vec_odd(k), flip);

		vec_store(x + i, rot - i, v * vec_even(k) + vec_negate_even(turned));
	}
}
