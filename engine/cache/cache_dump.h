/* SPDX-License-Identifier: MIT
 * cache_dump.h - a cached prompt as the bytes of a .safetensors file, read piece by piece.
 * Threads: one at a time per dump. Locks: none.
 *
 * Tensors: tokens (I64, all from the start), then those of cache_part.h (F32, [rows][width]) for the whole path. Row r
 * of rows_* is of the positions [r * ratio, (r + 1) * ratio); the last row of window and overlap_* is of the last
 * position. Metadata, all strings: format, key, parent, model, numbers, kernels (if known), tokens, positions, blocks,
 * state, ratios (of each layer, by commas; 0: no compressed rows). */
#ifndef ENGINE_CACHE_DUMP_H
#define ENGINE_CACHE_DUMP_H

#include "engine/base/buf.h"
#include "engine/cache/cache.h"

#include <stddef.h>
#include <stdint.h>

#define CACHE_DUMP_FORMAT "dsv4d cache 1"

struct cache_dump;

/* Takes *copy over when it succeeds, and zeroes it. kernels: the name of a set with these
 * numbers, or NULL. RC_INVALID. */
int cache_dump_new(const struct sequence_layout *l, struct cache_copy *copy, const char *model_id, const char *kernels,
	struct cache_dump **ret_d, struct buf *why);
void cache_dump_free(struct cache_dump **d);
/* Of the whole file. */
uint64_t cache_dump_bytes(const struct cache_dump *d);
/* The next bytes, as many as there is room for; 0: that was all. */
size_t cache_dump_read(struct cache_dump *d, void *out, size_t room);

#endif
