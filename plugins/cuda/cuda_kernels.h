/* SPDX-License-Identifier: MIT
 * cuda_kernels.h - what the C half of every plugin for GPUs begins with: its image is loaded, its kernels are found by
 * name, and launched. Threads: as the plugin's. Locks: none. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "plugins/dsv4_plugin.h"

/* Dynamic shared memory that a kernel may ask for: with the static there are 48 KB on every GPU. */
#define CUDA_KERNELS_SHARED (40 << 10)

/* For open(): loads the plugin's image and finds the n kernels that are called prefix + name; they become the state. */
int cuda_kernels_open(const struct dsv4_host *host, const char *prefix, const char *const *name, int n,
		      void **ret_state);
/* For close(). */
void cuda_kernels_close(const struct dsv4_host *host);

struct cuda_kernels_grid {
	int kernel;           /* number in the list of names */
	int64_t x, y, z;      /* blocks; -EINVAL when more than CUDA has */
	int threads;
	size_t shared;        /* bytes; -EINVAL above CUDA_KERNELS_SHARED */
};
int cuda_kernels_launch(struct dsv4_exec *x, const struct dsv4_host *host, const struct cuda_kernels_grid *g,
			const void *args, size_t bytes);

/* The same with the grid's fields in place: CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = K, .x = n, ...). */
#define CUDA_KERNELS_LAUNCH(x, host, args, ...) \
	cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){ __VA_ARGS__ }, args, sizeof *(args))

static inline int64_t cuda_kernels_tiles(int64_t n, int64_t tile)
{
	return (n + tile - 1) / tile;
}

#endif
