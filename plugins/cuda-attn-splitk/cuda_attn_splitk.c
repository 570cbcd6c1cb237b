/* SPDX-License-Identifier: MIT
 * cuda_attn_splitk.c - cuda-attn-splitk: attention split over the row list, merged in a fixed order.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-attn-splitk/attn.h"
#include "plugins/cuda/attn_run.h"
#include "plugins/cuda/cuda_kernels.h"

#include <errno.h>

#define ATTN_PASS (128 << 20) /* bytes of scratch, about, that the tokens of a pass share */

enum attn_kernel { ATTN_SCORES, ATTN_CHUNKS, ATTN_MERGE, ATTN_N_KERNEL };

static int attn_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[ATTN_N_KERNEL] = { "scores", "chunk", "merge" };

	return cuda_kernels_open(host, "cuda_attn_splitk_", name, ATTN_N_KERNEL, ret_state);
}

/* The longest list that a token of the batch may have. */
static int64_t attn_longest(const struct dsv4_attn *a)
{
	int64_t most = 0;

	for (int32_t i = 0; i < a->n_seq; i++) {
		const struct dsv4_seq *s = &a->seq[i];
		int64_t n = s->ratio > 0 ? (s->pos0 + s->n_tok) / s->ratio : 0;

		n = n < s->kv.n ? n : s->kv.n;
		n = a->rows && a->ldr < n ? a->ldr : n;
		most = n > most ? n : most;
	}
	return a->window + most;
}

static int attn_passes(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a,
		       struct cuda_attn_splitk_args *args, int64_t n_pass)
{
	struct cuda_kernels_grid g = { .threads = ATTN_THREADS,
					.shared = (size_t)args->call.heads * (size_t)a->dim * sizeof(float) };
	int rc = 0;

	for (int64_t t = 0; t < a->n_tok && !rc; t += n_pass) {
		args->tok0 = t;
		g.kernel = ATTN_SCORES;
		g.x = a->n_tok - t < n_pass ? a->n_tok - t : n_pass;
		g.y = cuda_kernels_tiles(a->n_head, args->call.heads);
		g.z = args->n_block;
		rc = cuda_kernels_launch(x, host, &g, args, sizeof *args);
		g.kernel = ATTN_CHUNKS;
		g.z = args->n_chunk;
		if (!rc)
			rc = cuda_kernels_launch(x, host, &g, args, sizeof *args);
		if (!rc) {
			struct cuda_attn_splitk_args one = *args;

			one.call.heads = 1;
			rc = cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
				.kernel = ATTN_MERGE, .x = g.x, .y = a->n_head, .z = 1, .threads = ATTN_THREADS,
			}, &one, sizeof one);
		}
	}
	return rc;
}

/* Scratch for n tokens at a time. */
static int attn_scratch(struct dsv4_exec *x, const struct dsv4_host *host, struct cuda_attn_splitk_args *args,
			int64_t n)
{
	size_t heads = (size_t)n * (size_t)args->call.n_head, blocks = heads * (size_t)args->n_block;
	size_t chunks = heads * (size_t)args->n_chunk;

	args->score = host->scratch(x, blocks * ATTN_BLOCK * sizeof(float));
	args->top = host->scratch(x, blocks * sizeof(float));
	args->part = host->scratch(x, chunks * (size_t)args->call.dim * sizeof(float));
	args->part_top = host->scratch(x, chunks * sizeof(float));
	args->part_den = host->scratch(x, chunks * sizeof(float));
	return args->score && args->top && args->part && args->part_top && args->part_den ? 0 : -ENOMEM;
}

static int attn_splitk(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct cuda_attn_splitk_args args = { 0 };
	int64_t longest, of_token, n_pass;
	int rc = attn_run_args(a, 1, &args.call); /* q, then the sums */

	if (rc || a->n_tok == 0 || a->n_seq == 0)
		return rc;
	longest = attn_longest(a);
	args.n_block = cuda_kernels_tiles(longest, ATTN_BLOCK);
	args.n_chunk = cuda_kernels_tiles(longest, ATTN_CHUNK);
	of_token = a->n_head * (args.n_block * ATTN_BLOCK + args.n_chunk * a->dim) * (int64_t)sizeof(float);
	n_pass = ATTN_PASS / of_token < 1 ? 1 : ATTN_PASS / of_token;
	n_pass = n_pass < a->n_tok ? n_pass : a->n_tok;
	args.call.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.call.seq)
		return -ENOMEM;
	rc = attn_scratch(x, host, &args, n_pass);
	return rc ? rc : attn_passes(x, host, a, &args, n_pass);
}

#define ATTN_OPS(OP) OP(attn, BOTH, ANY, ORDER, "fp32-gpu-splitk", attn_splitk)
DSV4_PLUGIN("cuda-attn-splitk", "1.0", "", "sm_80", ATTN_OPS, attn_open, NULL, cuda_kernels_close)
