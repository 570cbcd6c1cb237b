/* SPDX-License-Identifier: MIT
 * gpu_roof.h - what the kernels of gpu_roof.cu are told; C fills it, device code reads it. */
#ifndef TESTS_BENCH_GPU_ROOF_H
#define TESTS_BENCH_GPU_ROOF_H

#include <stdint.h>

#define GPU_ROOF_THREADS 256
#define GPU_ROOF_CHAINS 16      /* of multiply-adds of a thread, more than their latency */
#define GPU_ROOF_FRAGMENTS 8    /* the same of a warp's matrix products */
#define GPU_ROOF_LOADS 4        /* of 16 bytes, that a thread has on their way at once */

struct gpu_roof_move_args {
	const void *from;
	void *to;               /* of a copy; of a read something that is never written */
	int64_t n;              /* pieces of 16 bytes */
};

struct gpu_roof_peak_args {
	int64_t rounds;
	float x, y, never;      /* never: a result that does not come, for which it would be stored: NaN */
	float *to;
};

#endif
