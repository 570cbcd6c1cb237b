/* SPDX-License-Identifier: MIT
 * gpu_roof.cu - what a GPU can do at best: reading and copying its memory, multiply-adds, matrix products of a warp.
 *
 * What is read or computed is used, in a branch that is never taken and of which no compiler knows that. */
#include "tests/bench/gpu_roof.h"
#include "plugins/cuda/kernel.cuh"
#include "plugins/cuda/mma.cuh"

struct alignas(16) gpu_roof_piece {
	uint32_t v[4];
};

KERNEL(gpu_roof_read, struct gpu_roof_move_args, GPU_ROOF_THREADS)
{
	const gpu_roof_piece *from = static_cast<const gpu_roof_piece *>(a.from);
	int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
	int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
	uint32_t all = 0;

	for (; i + (GPU_ROOF_LOADS - 1) * step < a.n; i += GPU_ROOF_LOADS * step) {
		gpu_roof_piece p[GPU_ROOF_LOADS];

		UNROLL
		for (int k = 0; k < GPU_ROOF_LOADS; k++)
			p[k] = from[i + k * step];
		UNROLL
		for (int k = 0; k < GPU_ROOF_LOADS; k++)
			all |= p[k].v[0] | p[k].v[1] | p[k].v[2] | p[k].v[3];
	}
	for (; i < a.n; i += step)
		all |= from[i].v[0] | from[i].v[1] | from[i].v[2] | from[i].v[3];
	if (all == 0x80000001u) /* the host's bytes are all alike, or random */
		*static_cast<uint32_t *>(a.to) = all;
}

KERNEL(gpu_roof_copy, struct gpu_roof_move_args, GPU_ROOF_THREADS)
{
	const gpu_roof_piece *from = static_cast<const gpu_roof_piece *>(a.from);
	gpu_roof_piece *to = static_cast<gpu_roof_piece *>(a.to);
	int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
	int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;

	for (; i + (GPU_ROOF_LOADS - 1) * step < a.n; i += GPU_ROOF_LOADS * step) {
		gpu_roof_piece p[GPU_ROOF_LOADS];

		UNROLL
		for (int k = 0; k < GPU_ROOF_LOADS; k++)
			p[k] = from[i + k * step];
		UNROLL
		for (int k = 0; k < GPU_ROOF_LOADS; k++)
			to[i + k * step] = p[k];
	}
	for (; i < a.n; i += step)
		to[i] = from[i];
}

KERNEL(gpu_roof_fma, struct gpu_roof_peak_args, GPU_ROOF_THREADS)
{
	float s[GPU_ROOF_CHAINS], sum = 0;

	UNROLL
	for (int i = 0; i < GPU_ROOF_CHAINS; i++)
		s[i] = static_cast<float>(i + threadIdx.x);
	for (int64_t r = 0; r < a.rounds; r++) {
		UNROLL
		for (int i = 0; i < GPU_ROOF_CHAINS; i++)
			s[i] = fmaf(s[i], a.x, a.y);
	}
	UNROLL
	for (int i = 0; i < GPU_ROOF_CHAINS; i++)
		sum += s[i];
	if (sum == a.never)
		*a.to = sum;
}

/* m16n8k16: 16 rows, 8 columns, 16 terms. */
KERNEL(gpu_roof_mma, struct gpu_roof_peak_args, GPU_ROOF_THREADS)
{
	float d[GPU_ROOF_FRAGMENTS][4], sum = 0;
	uint32_t x = dsv4_f32_bits(a.x) >> 16, y = dsv4_f32_bits(a.y) >> 16;
	const uint32_t left[4] = { x | x << 16, x | y << 16, y | x << 16, y | y << 16 };
	const uint32_t right[2] = { y | x << 16, x | y << 16 };

	UNROLL
	for (int i = 0; i < GPU_ROOF_FRAGMENTS; i++)
		for (int k = 0; k < 4; k++)
			d[i][k] = static_cast<float>(i + k);
	for (int64_t r = 0; r < a.rounds; r++) {
		UNROLL
		for (int i = 0; i < GPU_ROOF_FRAGMENTS; i++)
			mma_bf16(d[i], left, right);
	}
	UNROLL
	for (int i = 0; i < GPU_ROOF_FRAGMENTS; i++)
		for (int k = 0; k < 4; k++)
			sum += d[i][k];
	if (sum == a.never)
		*a.to = sum;
}
