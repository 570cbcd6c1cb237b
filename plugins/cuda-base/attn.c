/* SPDX-License-Identifier: MIT
 * attn.c - attention of every head over window rows, then compressed rows, with a sink.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/attn.h"
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

/* Does the window of every token of s lie inside what s holds? */
static int attn_seq_ok(const struct dsv4_attn *a, const struct dsv4_seq *s)
{
	int64_t first = s->pos0 - a->window + 1;

	return s->pos0 >= 0 && s->window && s->window_pos0 <= (first > 0 ? first : 0) &&
	       (s->kv.n == 0 || (s->kv.dim == (uint32_t)a->dim && s->kv.page_rows > 0));
}

int cuda_base_attn(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_attn *a)
{
	struct attn_args args = { .n_head = a->n_head, .dim = a->dim, .n_seq = a->n_seq, .window = a->window,
				  .prec = a->prec, .scale = a->scale, .q = a->q, .sink = a->sink, .rows = a->rows,
				  .ldr = a->ldr, .count = a->count, .out = a->out };
	size_t head = 2 * (size_t)a->dim * sizeof(float);

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++)
		if (!attn_seq_ok(a, &a->seq[i]))
			return -EINVAL;
	args.heads = a->n_head < ATTN_HEADS ? a->n_head : ATTN_HEADS;
	if ((size_t)args.heads * head > CUDA_KERNELS_SHARED)
		args.heads = (int32_t)(CUDA_KERNELS_SHARED / head);
	if (args.heads < 1)
		return -EINVAL;
	if (a->n_tok == 0 || a->n_seq == 0)
		return 0;
	args.seq = host->gpu->upload(x, a->seq, (size_t)a->n_seq * sizeof *a->seq);
	if (!args.seq)
		return -ENOMEM;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_attn, .x = a->n_tok,
				   .y = cuda_kernels_tiles(a->n_head, args.heads), .z = 1, .threads = 128,
				   .shared = (size_t)args.heads * head);
}
