/* SPDX-License-Identifier: MIT
 * selftest_kernels.cu - kernels that are each wrong in one way, and next to them what is right. */
#include "plugins/cuda/copy.cuh"
#include "plugins/cuda/kernel.cuh"
#include "plugins/cuda/mma.cuh"
#include "plugins/cuda/numbers.cuh"
#include "tests/cusim/selftest.h"

/* ---- memory ---- */

KERNEL(right_copy, struct selftest_args, 64)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < (unsigned)a.n)
		a.out[i] = a.in[i];
}

KERNEL(global_read_beyond, struct selftest_args, 64)
{
	a.out[threadIdx.x] = a.in[threadIdx.x + a.n - 63];
}

KERNEL(global_write_beyond, struct selftest_args, 64)
{
	if (threadIdx.x == 3)
		a.out[a.n] = 1;
}

KERNEL(global_write_before, struct selftest_args, 64)
{
	if (threadIdx.x == 3)
		reinterpret_cast<uint8_t *>(a.out)[-1] = 1;
}

KERNEL(global_uninitialised, struct selftest_args, 64)
{
	if ((int)threadIdx.x < a.n)
		a.out[threadIdx.x] = a.fresh[threadIdx.x];
}

KERNEL(misaligned, struct selftest_args, 64)
{
	if (threadIdx.x == 1)
		reinterpret_cast<float4 *>(a.out)[0] = *reinterpret_cast<const float4 *>(a.in + 1);
}

KERNEL(right_bytes, struct selftest_args, 64)
{
	uint8_t *b = reinterpret_cast<uint8_t *>(a.out);
	float f;

	/* neighbours in one word */
	b[threadIdx.x] = (uint8_t)threadIdx.x;
	__syncthreads();
	memcpy(&f, reinterpret_cast<const uint8_t *>(a.in) + 1 + threadIdx.x % 3, sizeof f);
	a.out[64 + threadIdx.x] = f + b[63 - threadIdx.x];
}

/* ---- shared memory ---- */

KERNEL(right_shared, struct selftest_args, 64)
{
	__shared__ float part[64];
	__shared__ float4 four[2];
	DYNAMIC_SHARED(float, more);
	float sum;

	part[threadIdx.x] = a.in[threadIdx.x];
	more[threadIdx.x] = a.in[threadIdx.x];
	if (threadIdx.x < 2)
		four[threadIdx.x] = make_float4(1, 2, 3, 4);
	__syncthreads();
	sum = part[63 - threadIdx.x] + more[threadIdx.x ^ 1] + four[1].z;
	__syncthreads();
	part[threadIdx.x] = sum;
	a.out[64 * blockIdx.x + threadIdx.x] = part[threadIdx.x];
}

KERNEL(shared_beyond, struct selftest_args, 64)
{
	__shared__ float part[60];
	__shared__ float other[60];

	if (threadIdx.x < 60)
		other[threadIdx.x] = part[threadIdx.x] = a.in[threadIdx.x];
	__syncthreads();
	a.out[threadIdx.x] = part[threadIdx.x] + other[threadIdx.x % 60];
}

KERNEL(dynamic_beyond, struct selftest_args, 64)
{
	DYNAMIC_SHARED(float, part);

	part[threadIdx.x + 1] = 1;
}

KERNEL(shared_uninitialised, struct selftest_args, 64)
{
	__shared__ float part[64];

	if (threadIdx.x != 7)
		part[threadIdx.x] = 1;
	__syncthreads();
	a.out[threadIdx.x] = part[threadIdx.x];
}

KERNEL(race_read, struct selftest_args, 64)
{
	__shared__ float part[64];

	part[threadIdx.x] = a.in[threadIdx.x];
	a.out[threadIdx.x] = part[threadIdx.x % 32];
}

KERNEL(race_write, struct selftest_args, 64)
{
	__shared__ float part[64];
	float sum;

	part[threadIdx.x] = a.in[threadIdx.x];
	__syncthreads();
	sum = part[min(threadIdx.x + 1, 63u)];
	part[threadIdx.x] = sum;
	a.out[threadIdx.x] = sum;
}

KERNEL(race_warp, struct selftest_args, 64)
{
	__shared__ float part[64];

	part[threadIdx.x] = a.in[threadIdx.x];
	a.out[threadIdx.x] = part[threadIdx.x & 62];
}

KERNEL(right_warp, struct selftest_args, 64)
{
	__shared__ float part[64];
	float sum;

	part[threadIdx.x] = a.in[threadIdx.x];
	__syncwarp();
	sum = part[threadIdx.x ^ 1];
	__syncwarp();
	part[threadIdx.x] = sum;
	a.out[threadIdx.x] = sum;
}

KERNEL(race_blocks, struct selftest_args, 64)
{
	a.out[threadIdx.x] = (float)blockIdx.x;
}

KERNEL(race_blocks_read, struct selftest_args, 64)
{
	unsigned i = blockIdx.x * 32 + threadIdx.x;

	if (threadIdx.x < 32)
		a.out[i] = blockIdx.x ? 1 : a.out[i + 32];
}

KERNEL(right_atomic, struct selftest_args, 64)
{
	__shared__ int n;

	if (threadIdx.x == 0)
		n = 0;
	__syncthreads();
	atomicAdd(&n, 2);
	atomicMax(reinterpret_cast<unsigned *>(a.out), threadIdx.x);
	__syncthreads();
	a.out[1 + threadIdx.x + 64 * blockIdx.x] = (float)n;
}

/* ---- barriers and warps ---- */

KERNEL(divergent_barrier, struct selftest_args, 64)
{
	if (threadIdx.x < 40)
		__syncthreads();
	a.out[threadIdx.x] = 0;
}

KERNEL(two_barriers, struct selftest_args, 64)
{
	if (threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
}

KERNEL(shuffle_not_all, struct selftest_args, 64)
{
	float v = a.in[threadIdx.x];

	if (threadIdx.x < 48)
		v += __shfl_xor_sync(ALL_LANES, v, 1);
	a.out[threadIdx.x] = v;
}

KERNEL(right_shuffle, struct selftest_args, 64)
{
	float v = (float)threadIdx.x;
	unsigned odd;

	for (int i = 16; i; i /= 2)
		v += __shfl_xor_sync(ALL_LANES, v, i);
	odd = __ballot_sync(ALL_LANES, threadIdx.x & 1);
	if (threadIdx.x % WARP < 16)
		v += __shfl_down_sync(0xffffu, v, 8, 16);
	v += (float)__syncthreads_count(threadIdx.x < 5);
	a.out[64 * blockIdx.x + threadIdx.x] = v + (float)(odd == 0xaaaaaaaau) + (float)__shfl_up_sync(ALL_LANES, (int)threadIdx.x, 1);
}

KERNEL(right_bound, struct selftest_args, 64) {}

/* ---- copies and matrices ---- */

KERNEL(right_async, struct selftest_args, 64)
{
	__shared__ float4 part[2][16];

	if (threadIdx.x < 16)
		copy_16(&part[0][threadIdx.x], a.in + 4 * threadIdx.x, 16);
	copy_commit();
	if (threadIdx.x < 16)
		copy_16(&part[1][threadIdx.x], a.in, 0);
	copy_commit();
	copy_wait<1>();
	__syncthreads();
	a.out[64 * blockIdx.x + threadIdx.x] = part[0][threadIdx.x / 4].y;
	copy_wait<0>();
	__syncthreads();
	a.out[64 * blockIdx.x + threadIdx.x] += part[1][threadIdx.x / 4].y;
}

KERNEL(async_no_wait, struct selftest_args, 64)
{
	__shared__ float4 part[16];

	if (threadIdx.x < 16)
		copy_16(&part[threadIdx.x], a.in + 4 * threadIdx.x, 16);
	copy_commit();
	copy_wait<1>();
	__syncthreads();
	a.out[threadIdx.x] = part[threadIdx.x / 4].y;
}

/* out [16][8] = in [16][16] * in2 [16][8], whose values are small integers. */
KERNEL(right_mma, struct selftest_args, 32)
{
	__shared__ __align__(16) uint16_t x[16][16], y[16][8];
	unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
	uint32_t fa[4], fb[2];
	float d[4] = { 0, 0, 0, 0 };

	for (unsigned i = threadIdx.x; i < 256; i += 32)
		x[i / 16][i % 16] = (uint16_t)(__float_as_uint(a.in[i]) >> 16);
	for (unsigned i = threadIdx.x; i < 128; i += 32)
		y[i / 8][i % 8] = (uint16_t)(__float_as_uint(a.in[256 + i]) >> 16);
	__syncwarp();
	mma_load_4(fa, &x[threadIdx.x % 16][threadIdx.x / 16 * 8]);
	mma_load_2_transposed(fb, &y[threadIdx.x % 16][0]);
	mma_bf16(d, fa, fb);
	for (int r = 0; r < 4; r++)
		a.out[(g + r / 2 * 8) * 8 + 2 * t + r % 2] = d[r];
}

/* This lane's fragments of selftest.h's operands. */
static void scaled_operands(uint32_t (&a)[4], uint32_t (&b)[2])
{
	unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;

	for (unsigned r = 0; r < 4; r++)
		for (unsigned i = 0; i < 4; i++) {
			unsigned k = 4 * t + i + r / 2 * 16;

			a[r] = (i ? a[r] : 0) | selftest_a(g + r % 2 * 8, k) << (8 * i + 2);
			if (r < 2)
				b[r] = (i ? b[r] : 0) | selftest_b(4 * t + i + r * 16, g) << 8 * i;
		}
}

/* This lane's register of scales: NaN but for the byte that is read, in the lanes where it is. */
static mma_scale scaled_by(int which, unsigned byte, unsigned pair)
{
	unsigned g = threadIdx.x / 4, t = threadIdx.x % 4, i = which ? 16 + g : g + t % 2 * 8;
	bool read = which ? t == pair : t / 2 == pair;

	return { read ? ~(0xffu << 8 * byte) | selftest_scale(i) << 8 * byte : ~0u, (uint16_t)byte, (uint16_t)pair };
}

/* out [16][8] += a * b, wherever the scales are; out[128 + lane]: how often that was another. */
KERNEL(right_mma_scaled, struct selftest_args, 32)
{
	unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
	uint32_t fa[4], fb[2];
	float d[4], wrong = 0;

	scaled_operands(fa, fb);
	for (unsigned i = 0; i < 32; i++) {
		for (int r = 0; r < 4; r++)
			d[r] = 0.5f;
		mma_e2m1_e4m3(d, fa, fb, scaled_by(0, i % 4, i / 4 % 2), scaled_by(1, (i + 1) % 4, i / 8));
		for (unsigned r = 0; r < 4; r++) {
			float &to = a.out[(g + r / 2 * 8) * 8 + 2 * t + r % 2];

			wrong += (float)(i > 0 && to != d[r]);
			to = d[r];
		}
	}
	a.out[128 + threadIdx.x] = wrong;
}

KERNEL(mma_scaled_nowhere, struct selftest_args, 32)
{
	uint32_t fa[4], fb[2];
	float d[4] = { 0 };

	scaled_operands(fa, fb);
	mma_e2m1_e4m3(d, fa, fb, { ~0u, 0, 2 }, { ~0u, 0, 0 });
}

KERNEL(mma_scaled_disagrees, struct selftest_args, 32)
{
	uint32_t fa[4], fb[2];
	float d[4] = { 0 };

	scaled_operands(fa, fb);
	mma_e2m1_e4m3(d, fa, fb, { ~0u, (uint16_t)(threadIdx.x / 31), 0 }, { ~0u, 0, 0 });
}

KERNEL(mma_scaled_beside, struct selftest_args, 32)
{
	uint32_t fa[4], fb[2];
	float d[4] = { 0 };

	scaled_operands(fa, fb);
	fa[3] |= threadIdx.x == 9 ? 1u << 30 : 0;
	mma_e2m1_e4m3(d, fa, fb, { 0, 0, 0 }, { 0, 0, 0 });
}

/* out[c]: how many of the ways that kernels decode e4m3 code c are not dsv4_numfmt.h's; out[256 + c]: the same of e2m1 code
 * c % 16 at each place, times 2^(c / 16 - 8). */
KERNEL(right_codes, struct selftest_args, 256)
{
	uint32_t c = threadIdx.x, scale = dsv4_f32_bits(dsv4_e8m0_to_f32(static_cast<uint8_t>(119 + c / 16))) >> 16, pair[2];
	float e4m3 = dsv4_e4m3_to_f32(static_cast<uint8_t>(c)), e2m1 = dsv4_e2m1_to_f32(static_cast<uint8_t>(c % 16));
	float scaled = e2m1 * dsv4_bf16_to_f32(static_cast<uint16_t>(scale)), n4 = 0, n2 = 0, v;

	v = e4m3_value(c);
	n4 += !(dsv4_f32_bits(v) == dsv4_f32_bits(e4m3) || (v != v && e4m3 != e4m3));
	n2 += dsv4_f32_bits(e2m1_value(c % 16)) != dsv4_f32_bits(e2m1);
	for (int i = 0; i < 4; i++) {
		mma_bf16_of_e4m3(c << 8 * i, pair);
		v = dsv4_bf16_to_f32(static_cast<uint16_t>(pair[i / 2] >> i % 2 * 16));
		n4 += !(dsv4_f32_bits(v) == dsv4_f32_bits(e4m3) || (v != v && e4m3 != e4m3));
		mma_bf16_of_e2m1(c % 16 << 4 * i, scale | scale << 16, pair);
		v = dsv4_bf16_to_f32(static_cast<uint16_t>(pair[i / 2] >> i % 2 * 16));
		n2 += dsv4_f32_bits(v) != dsv4_f32_bits(scaled);
	}
	a.out[c] = n4;
	a.out[256 + c] = n2;
}
