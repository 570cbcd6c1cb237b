/* SPDX-License-Identifier: MIT
 * indexer_run.h - what every plugin that has kernels of the indexer does first.
 * Threads: as the plugin's. Locks: none. */
#ifndef CUDA_INDEXER_RUN_H
#define CUDA_INDEXER_RUN_H

#include "plugins/cuda/indexer_args.h"

/* All but seq, which is uploaded. ret_most: the most rows that a token of the batch sees; 0: there is nothing to score.
 * -EINVAL for a call that is wrong in itself. */
int indexer_run_score_args(const struct dsv4_index_score *a, struct indexer_score_args *ret_args, int64_t *ret_most);
/* -EINVAL as above. */
int indexer_run_topk_args(const struct dsv4_index_topk *a, struct indexer_topk_args *ret_args);

#endif
