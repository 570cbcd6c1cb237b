/* SPDX-License-Identifier: MIT
 * rows.cuh - where a token's stored rows lie: its sequence, its pages, how many it sees. */
#ifndef CUDA_ROWS_CUH
#define CUDA_ROWS_CUH

#include "plugins/cuda/kernel.cuh"
#include "plugins/dsv4_plugin.h"

__device__ inline const float *rows_at(const dsv4_rows &r, int64_t i)
{
	return r.page[i / r.page_rows] + i % r.page_rows * r.dim;
}

/* The sequence of token t of the batch, or null. seq is in device memory. */
__device__ inline const dsv4_seq *rows_seq(const dsv4_seq *seq, int n_seq, int64_t t)
{
	for (int i = 0; i < n_seq; i++)
		if (t >= seq[i].tok0 && t < static_cast<int64_t>(seq[i].tok0) + seq[i].n_tok)
			return &seq[i];
	return nullptr;
}

/* How many of r's rows the token at position pos sees. */
__device__ inline int64_t rows_visible(const dsv4_rows &r, int ratio, int64_t pos)
{
	int64_t n = ratio > 0 ? (pos + 1) / ratio : 0;

	return n < r.n ? n : r.n;
}

#endif
