/* SPDX-License-Identifier: MIT
 * bench_memory.h - a working set far larger than caches, matrices in it, and reading it as fast as can be.
 * Threads: one caller; the pool's fill and read. Locks: none. */
#ifndef TESTS_BENCH_MEMORY_H
#define TESTS_BENCH_MEMORY_H

#include "engine/base/buf.h"
#include "engine/device/device.h"
#include "engine/kernels/pool.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As a mapped checkpoint does it, tensors begin at a multiple of 8 and no more. */
#define BENCH_MEMORY_ALIGN 64
#define BENCH_MEMORY_OFFSET 8

struct bench_memory {
	uint8_t *mem;
	size_t size, used;
	struct device *device;  /* whose memory it is */
};

struct bench_range {
	const void *p;
	size_t n;
};

/* Anonymous memory, in huge pages where the kernel gives them, touched by all threads. -ENOMEM. */
int bench_memory_new(struct bench_memory *m, size_t size, struct pool *p, struct buf *why);
/* The same on a GPU. */
int bench_memory_new_on(struct bench_memory *m, size_t size, struct device *d, struct buf *why);
void bench_memory_free(struct bench_memory *m);
/* The share of it that lies in huge pages; -1: unknown, or a GPU's. */
double bench_memory_huge(const struct bench_memory *m);
/* n bytes of it, or NULL. */
void *bench_memory_take(struct bench_memory *m, size_t n);
/* The next matrix, its scales behind its data, with values such that an input of size 1 gives an output of about 1.
 * False when there is no room. */
bool bench_memory_weight(struct bench_memory *m, struct pool *p, enum dsv4_wfmt fmt, int64_t rows, int64_t cols,
			 struct dsv4_weight *w);

/* Reads all ranges once, in pieces given to all threads; the seconds that it took. */
double bench_read(struct pool *p, const struct bench_range *range, int n);
/* A random order of n numbers, the same in every run; the caller frees. */
int *bench_shuffle(int n);

#endif
