/* SPDX-License-Identifier: MIT
 * compress.c - pool a group of tokens into one compressed row.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/compress.h"
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

int cuda_base_compress(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_compress *a)
{
	const struct compress_args args = { *a };

	if (a->size < sizeof *a || a->n_out < 0 || a->ratio < 1 || a->rot < 0 || a->rot % 2 || a->dim < 1 ||
	    a->dim < a->rot || !cuda_base_round_ok(a->dim - a->rot, a->kv_round, a->dim, a->index_round))
		return -EINVAL;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_compress, .x = a->n_out, .y = 1, .z = 1,
				   .threads = 128, .shared = (size_t)a->dim * sizeof(float));
}
