/* SPDX-License-Identifier: MIT
 * attn_list.cuh - what one token attends to: its window rows by rising position, then its compressed rows by rising number. */
#ifndef CUDA_ATTN_LIST_CUH
#define CUDA_ATTN_LIST_CUH

#include "plugins/cuda/attn_args.h"
#include "plugins/cuda/rows.cuh"

struct attn_list {
	const float *window;  /* its first window row */
	int64_t n_window, n;  /* window rows, all rows */
	const dsv4_rows *kv;
	const int32_t *rows;  /* compressed rows, or null: 0, 1, 2... */
};

/* Of token t of a sequence. */
__device__ inline struct attn_list attn_list_of(const struct attn_args &a, const dsv4_seq &s, int64_t t)
{
	int64_t pos = s.pos0 + t - s.tok0, first = pos - a.window + 1;
	struct attn_list l = {};

	first = first < 0 ? 0 : first;
	l.window = s.window + (first - s.window_pos0) * a.dim;
	l.n_window = pos + 1 - first;
	l.kv = &s.kv;
	l.rows = a.rows ? a.rows + t * a.ldr : nullptr;
	l.n = l.n_window + (a.rows ? a.count[t] : rows_visible(s.kv, s.ratio, pos));
	return l;
}

__device__ inline const float *attn_row(const struct attn_list &l, int64_t i, int dim)
{
	if (i < l.n_window)
		return l.window + i * dim;
	i -= l.n_window;
	return rows_at(*l.kv, l.rows ? l.rows[i] : i);
}

__device__ inline float attn_round(uint32_t prec, float x)
{
	return prec == DSV4_PREC_BF16 ? dsv4_round_bf16(x) : x;
}

#endif
