/* SPDX-License-Identifier: MIT
 * cuda_kernels.c - what the C half of every plugin for GPUs begins with.
 * Threads: as the plugin's. Locks: none. */
#include "plugins/cuda/cuda_kernels.h"

#include <errno.h>
#include <stdio.h>
#include <syslog.h>

#define KERNELS_NAME 64
#define KERNELS_MAX_YZ 65535 /* blocks in the second and third direction of a grid */

/* The fatbin that nvcc made of the .cu files, or the word CUDA_IMAGE_NONE where there was no nvcc. */
__asm__(".pushsection .rodata\n"
	".balign 16\n"
	".hidden cuda_image\n"
	".globl cuda_image\n"
	"cuda_image:\n"
	".incbin \"" CUDA_IMAGE "\"\n"
	".byte 0\n"
	".popsection\n");
extern const char cuda_image[] __attribute__((visibility("hidden")));

#define CUDA_IMAGE_NONE "cusim"

struct cuda_kernels {
	struct dsv4_module *module;
	struct dsv4_kernel *kernel[];
};

static int kernels_load(const struct dsv4_host *host, struct dsv4_module **ret_m)
{
	int rc = host->gpu->module(host, cuda_image, ret_m);

	/* Of the simulator's driver the image may be anything. */
	if (rc && !strcmp(cuda_image, CUDA_IMAGE_NONE))
		host->log(host, LOG_ERR, "this plugin was built without nvcc: it has no code for a GPU");
	return rc;
}

static int kernels_find(const struct dsv4_host *host, const char *name, struct dsv4_module *m,
			struct dsv4_kernel **ret_k)
{
	char text[KERNELS_NAME + 64];
	int rc = host->gpu->kernel(host, m, name, CUDA_KERNELS_SHARED, ret_k);

	if (rc) {
		snprintf(text, sizeof text, "kernel %s cannot be had", name);
		host->log(host, LOG_ERR, text);
	}
	return rc;
}

int cuda_kernels_open(const struct dsv4_host *host, const char *prefix, const char *const *name, int n,
		      void **ret_state)
{
	struct cuda_kernels *k;
	char full[KERNELS_NAME];
	int rc = 0;

	if (!host->gpu)
		return -ENODEV;
	k = host->alloc(host, sizeof *k + (size_t)n * sizeof k->kernel[0]);
	if (!k)
		return -ENOMEM;
	rc = kernels_load(host, &k->module);
	for (int i = 0; i < n && !rc; i++) {
		snprintf(full, sizeof full, "%s%s", prefix, name[i]);
		rc = kernels_find(host, full, k->module, &k->kernel[i]);
	}
	if (rc)
		host->release(host, k);
	else
		*ret_state = k;
	return rc;
}

void cuda_kernels_close(const struct dsv4_host *host)
{
	host->release(host, host->state);
}

int cuda_kernels_launch(struct dsv4_exec *x, const struct dsv4_host *host, const struct cuda_kernels_grid *g,
			const void *args, size_t bytes)
{
	const struct cuda_kernels *k = host->state;
	struct dsv4_launch l = {
		.grid = { (uint32_t)g->x, (uint32_t)g->y, (uint32_t)g->z }, .block = { (uint32_t)g->threads, 1, 1 },
		.shared = (uint32_t)g->shared, .args = args, .args_bytes = bytes,
	};

	if (g->x > INT32_MAX || g->y > KERNELS_MAX_YZ || g->z > KERNELS_MAX_YZ || g->shared > CUDA_KERNELS_SHARED)
		return -EINVAL;
	if (g->x < 1 || g->y < 1 || g->z < 1)
		return 0;
	return host->gpu->launch(x, k->kernel[g->kernel], &l);
}
