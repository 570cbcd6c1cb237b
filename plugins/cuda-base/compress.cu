/* SPDX-License-Identifier: MIT
 * compress.cu - pool a group of tokens into one compressed row. A block has one output row; each channel is pooled by one
 * thread, oldest row first; as plugins/ref/compress.c but for exp(). */
#include "plugins/cuda-base/compress.h"
#include "plugins/cuda/row.cuh"

/* Channel d of the output row: softmax of its scores over the rows from `skip` on, times its values. With overlap the
 * older half of the n rows uses other channels than the newer. */
__device__ static float compress_pool(const struct dsv4_compress &a, int64_t first, int skip, int n, int d)
{
	int64_t width = a.overlap ? 2 * a.dim : a.dim;
	float top = -INFINITY, den = 0, num = 0;

	for (int i = skip; i < n; i++) {
		int64_t channel = d + i / a.ratio * a.dim;

		top = fmaxf(top, a.score[(first + i) * width + channel] + a.ape[i % a.ratio * width + channel]);
	}
	for (int i = skip; i < n; i++) {
		int64_t channel = d + i / a.ratio * a.dim, at = (first + i) * width + channel;
		float p = expf(a.score[at] + a.ape[i % a.ratio * width + channel] - top);

		den += p;
		num += p * a.kv[at];
	}
	return num / den;
}

KERNEL(cuda_base_compress, struct compress_args, SUM_THREADS)
{
	__shared__ float part[SUM_PART];
	DYNAMIC_SHARED(float, row);
	const struct dsv4_compress &c = a.a;
	int64_t e = blockIdx.x;
	int n = c.overlap ? 2 * c.ratio : c.ratio, skip = e == 0 && c.overlap && c.first_absent ? c.ratio : 0;
	float r;

	for (int d = threadIdx.x; d < c.dim; d += blockDim.x)
		row[d] = compress_pool(c, e * c.ratio, skip, n, d);
	__syncthreads();
	r = 1.0f / sqrtf(block_sum(c.dim, part, [=](int64_t i) { return row[i] * row[i]; }) /
			 static_cast<float>(c.dim) + c.norm_eps);
	for (int d = threadIdx.x; d < c.dim; d += blockDim.x)
		row[d] = row[d] * r * c.norm[d];
	__syncthreads();
	row_rope(row + c.dim - c.rot, c.rot, c.cs + e * c.rot, false);
	row_round(row, c.dim, c.rot, c.kv_round, c.index_round);
	for (int d = threadIdx.x; d < c.dim; d += blockDim.x)
		c.out[e * c.dim + d] = row[d];
}
