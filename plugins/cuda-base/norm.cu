/* SPDX-License-Identifier: MIT
 * norm.cu - rms_norm; rope with the rounding of what is stored; sum. A block has one row, or a part of it. The same bits as
 * ref. */
#include "plugins/cuda-base/norm.h"
#include "plugins/cuda/row.cuh"

KERNEL(cuda_base_rms_norm, struct norm_rms_args, SUM_THREADS)
{
	__shared__ float part[SUM_PART];
	const float *x = a.x + blockIdx.x * a.ldx;
	float *y = a.y + blockIdx.x * a.ldy;
	float sum = block_sum(a.dim, part, [=](int64_t i) { return x[i] * x[i]; });
	float r = 1.0f / sqrtf(sum / static_cast<float>(a.dim) + a.eps);

	for (int i = threadIdx.x; i < a.dim; i += blockDim.x)
		y[i] = a.weight ? x[i] * r * a.weight[i] : x[i] * r;
}

KERNEL(cuda_base_rope, struct norm_rope_args, 256)
{
	DYNAMIC_SHARED(float, row);
	float *x = a.x + blockIdx.x * a.ldx + static_cast<int64_t>(blockIdx.y) * a.dim;

	for (int i = threadIdx.x; i < a.dim; i += blockDim.x)
		row[i] = x[i];
	__syncthreads();
	row_rope(row + a.dim - a.rot, a.rot, a.cs + static_cast<int64_t>(blockIdx.x) * a.rot, a.inverse != 0);
	row_round(row, a.dim, a.rot, a.kv, a.index);
	for (int i = threadIdx.x; i < a.dim; i += blockDim.x)
		x[i] = row[i];
}

KERNEL(cuda_base_sum, struct norm_sum_args, 256)
{
	int64_t t = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
	const float *x = a.x + t * a.ldx + i;
	float y;

	if (i >= a.dim)
		return;
	y = a.base ? a.base[t / a.every * a.ldb + i] + x[0] : x[0];
	for (int p = 1; p < a.n_part; p++)
		y += x[p * a.ldp];
	a.y[t * a.ldy + i] = y;
}
