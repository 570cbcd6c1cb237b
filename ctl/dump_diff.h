/* SPDX-License-Identifier: MIT
 * dump_diff.h - two files of cache dump, gzipped or not, held against each other without a daemon.
 * Threads: one. Locks: none. */
#ifndef CTL_DUMP_DIFF_H
#define CTL_DUMP_DIFF_H

#include "engine/base/buf.h"

#include <jansson.h>

/* Compares two, tensor by tensor; the reply is that of Cache.Diff. RC_MODEL for what is no sound safetensors file,
 * RC_UNSUPPORTED for one with other tensors than rows of F32 and tokens, -errno. */
int dump_diff(const char *path_a, const char *path_b, json_t **ret_reply, struct buf *why);

#endif
