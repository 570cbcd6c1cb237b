/* SPDX-License-Identifier: MIT
 * attn.c - attention of every head over window rows, then compressed rows, with a sink.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/cuda_base.h"
#include "plugins/cuda/attn_run.h"

#include <errno.h>

int cuda_base_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct attn_args args;
	int rc = attn_run_args(a, 2, &args); /* q and the sums */

	if (rc || a->n_tok == 0 || a->n_seq == 0)
		return rc;
	args.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.seq)
		return -ENOMEM;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_attn, .x = a->n_tok,
				   .y = cuda_kernels_tiles(a->n_head, args.heads), .z = 1, .threads = ATTN_THREADS,
				   .shared = 2 * (size_t)args.heads * (size_t)a->dim * sizeof(float));
}
