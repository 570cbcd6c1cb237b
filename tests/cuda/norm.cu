/* SPDX-License-Identifier: MIT
 * norm.cu - rms_norm for GPUs that is right, and three that are wrong in one way each: a daemon refuses them. */
#include "plugins/cuda-base/norm.h"
#include "plugins/cuda/reduce.cuh"

/* Sums the squares of `terms` columns, of which those after the last count nothing, and writes `columns`. */
#define NORM(fault, terms, columns) \
	KERNEL(cuda_norm_##fault, struct norm_rms_args, SUM_THREADS) \
	{ \
		__shared__ float part[SUM_PART]; \
		const float *x = a.x + blockIdx.x * a.ldx; \
		float *y = a.y + blockIdx.x * a.ldy; \
		int dim = a.dim; \
		float sum = block_sum(terms, part, [=](int64_t i) { return (i < dim ? x[i] : 0.0f * x[i]) * x[i]; }); \
		float r = 1.0f / sqrtf(sum / static_cast<float>(a.dim) + a.eps); \
\
		for (int i = threadIdx.x; i < columns; i += blockDim.x) \
			y[i] = a.weight && i < a.dim ? x[i] * r * a.weight[i] : x[i < a.dim ? i : 0] * r; \
	}

NORM(right, a.dim, a.dim)
NORM(short, a.dim - 1, a.dim)   /* the last column is left out of the sum */
NORM(reads, a.dim + 1, a.dim)   /* one after the last column is read */
NORM(writes, a.dim, a.dim + 1)  /* and written */
