/* SPDX-License-Identifier: MIT
 * select.h - the k best of n scores, for index_topk and moe_route.
 * Threads: any. Locks: none. */
#ifndef X86_SELECT_H
#define X86_SELECT_H

#include <stdint.h>

/* Writes the k best of n scores, or all where n <= k, to rows in rising order and returns how many. Equal
 * scores (-0 equals 0): the lower row wins; NaN ranks below everything. score is not read where n <= k. */
int32_t x86_select(const float *score, int32_t n, int32_t k, int32_t *rows);

#endif
