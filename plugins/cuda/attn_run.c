/* SPDX-License-Identifier: MIT
 * attn_run.c - what every plugin that has kernels of attention does first.
 * Threads: as the plugin's. Locks: none. */
#include "plugins/cuda/attn_run.h"
#include "plugins/cuda/cuda_kernels.h"

#include <errno.h>

/* Does the window of every token of s lie inside what s holds? */
static int attn_run_seq_ok(const struct dsv4_attn *a, const struct dsv4_seq *s)
{
	int64_t first = s->pos0 - a->window + 1;

	return s->pos0 >= 0 && s->window && s->window_pos0 <= (first > 0 ? first : 0) &&
	       (s->kv.n == 0 || (s->kv.dim == (uint32_t)a->dim && s->kv.page_rows > 0));
}

int attn_run_args(const struct dsv4_attn *a, int rows, struct attn_args *ret_args)
{
	size_t head, heads;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->dim < 1 || a->window < 1)
		return -EINVAL;
	for (int32_t i = 0; i < a->n_seq; i++)
		if (!attn_run_seq_ok(a, &a->seq[i]))
			return -EINVAL;
	head = (size_t)rows * (size_t)a->dim * sizeof(float);
	heads = a->n_head < ATTN_HEADS ? (size_t)a->n_head : ATTN_HEADS;
	if (heads * head > CUDA_KERNELS_SHARED)
		heads = CUDA_KERNELS_SHARED / head;
	if (heads < 1)
		return -EINVAL;
	*ret_args = (struct attn_args){ .n_head = a->n_head, .dim = a->dim, .n_seq = a->n_seq, .window = a->window,
					.heads = (int32_t)heads, .prec = a->prec, .scale = a->scale, .q = a->q,
					.sink = a->sink, .rows = a->rows, .ldr = a->ldr, .count = a->count,
					.out = a->out };
	return 0;
}
