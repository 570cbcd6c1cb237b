/* SPDX-License-Identifier: MIT
 * bench_gpu.h - the GPU that figures are of, and the best that it can do.
 * Threads: main. Locks: none. */
#ifndef TESTS_BENCH_GPU_H
#define TESTS_BENCH_GPU_H

#include "engine/base/buf.h"
#include "engine/device/device.h"
#include "engine/device/queue.h"
#include "engine/kernels/provider.h"

struct bench_gpu {
	struct device *device;
	struct queue *queue;
	struct provider roof;      /* the kernels of gpu_roof.cu */
	void *never;               /* device memory that they could write to */
	struct buf *why;           /* of whatever fails */
};

/* Ways to multiply and add. */
enum bench_gpu_peak { BENCH_GPU_FMA, BENCH_GPU_MMA, BENCH_GPU_N_PEAK };

/* Close it in any case. RC_INVALID: that is no GPU, or as device_open(). */
int bench_gpu_open(struct bench_gpu *g, const char *name, struct buf *why);
void bench_gpu_close(struct bench_gpu *g);

/* What is queued between these two: begin waits for what was queued before, and gives the time. took() waits, too;
 * seconds, negative: the GPU failed. Of g NULL nothing waits, and what the caller measured itself is `cpu`. */
double bench_gpu_begin(struct bench_gpu *g);
double bench_gpu_took(struct bench_gpu *g, double begin, double cpu);

/* Seconds of reading n bytes, or of copying n to where nothing overlaps; from a multiple of 16. Negative: failed. */
double bench_gpu_read(struct bench_gpu *g, const void *p, size_t n);
double bench_gpu_copy(struct bench_gpu *g, void *to, const void *from, size_t n);
const char *bench_gpu_peak_name(enum bench_gpu_peak k);
/* Operations per second, for about so many seconds; negative: failed. */
double bench_gpu_peak(struct bench_gpu *g, enum bench_gpu_peak k, double seconds);

#endif
