/* SPDX-License-Identifier: MIT
 * safetensors_write.h - writes a .safetensors file, or its header alone.
 * Threads: any. Locks: none. */
#ifndef ENGINE_SAFETENSORS_WRITE_H
#define ENGINE_SAFETENSORS_WRITE_H

#include "engine/base/buf.h"
#include "engine/checkpoint/safetensors.h"

struct safetensors_entry {
	const char *name;               /* printable ASCII, unique */
	enum safetensors_dtype dtype;
	int n_dim;
	int64_t dim[SAFETENSORS_MAX_DIMS];
	const void *data;               /* little endian, row-major; borrowed */
};

/* Appends a JSON string, and the header's "__metadata__" member; meta as below, for NULL an empty one. */
void safetensors_string(struct buf *out, const char *s);
void safetensors_meta(struct buf *out, const char *const *meta);
/* Appends what stands before the data: the length of the header and the header. meta: alternating keys and values, then
 * NULL; NULL: none. RC_INVALID as below. */
int safetensors_header(const struct safetensors_entry *entry, int n, const char *const *meta, struct buf *out,
		       struct buf *why);
/* Writes the tensors in the order given, beside `path` first and then renamed over it, so that a reader never
 * sees half a file. -errno, RC_INVALID for a name or shape that the format cannot hold. */
int safetensors_write(const char *path, const struct safetensors_entry *entry, int n, struct buf *why);

#endif
