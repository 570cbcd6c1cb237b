/* SPDX-License-Identifier: MIT
 * attn_run.h - what every plugin that has kernels of attention does first.
 * Threads: as the plugin's. Locks: none. */
#ifndef CUDA_ATTN_RUN_H
#define CUDA_ATTN_RUN_H

#include "plugins/cuda/attn_args.h"

/* All but seq, which is uploaded. Threads of a block have as many heads as CUDA_KERNELS_SHARED holds `rows` rows of dim
 * floats for each. -EINVAL: no head fits, or a call that is wrong in itself. */
int attn_run_args(const struct dsv4_attn *a, int rows, struct attn_args *ret_args);

#endif
