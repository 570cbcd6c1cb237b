/* SPDX-License-Identifier: MIT
 * nccl.h - NCCL's functions in a table, by dlopen only, and the few numbers of its interface that we use.
 * Threads: any, after the first nccl_library(). Locks: none (pthread_once). */
#ifndef ENGINE_NCCL_H
#define ENGINE_NCCL_H

#include "engine/base/buf.h"

#include <stddef.h>

enum nccl_result { NCCL_OK = 0, NCCL_IN_PROGRESS = 7 };

#define NCCL_BYTE 0                     /* all_gather: ncclInt8 */

struct nccl_library {
#define FN(type, field, symbol, params) type (*field) params;
#include "engine/device/nccl.def"
#undef FN
};

/* libnccl.so.2, loaded once. RC_UNAVAILABLE: it is not there or too old; why says which. */
int nccl_library(const struct nccl_library **ret_nccl, struct buf *why);

#endif
