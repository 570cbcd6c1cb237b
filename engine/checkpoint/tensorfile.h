/* SPDX-License-Identifier: MIT
 * tensorfile.h - named arrays of f32 and i32 in a .safetensors file: read whole, or built and written.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_TENSORFILE_H
#define ENGINE_TENSORFILE_H

#include "engine/base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define TENSORFILE_MAX_DIMS 4

enum tensorfile_type { TENSORFILE_F32, TENSORFILE_I32 };

struct tensorfile_tensor {
	char *name;
	enum tensorfile_type type;
	int n_dim;
	int64_t dim[TENSORFILE_MAX_DIMS];
	int64_t n;                     /* elements */
	union {
		float *f32;            /* owned; 64-byte aligned */
		int32_t *i32;
	};
};

/* Start from {0}. Tensors are in the order added, or of the file. */
struct tensorfile {
	struct tensorfile_tensor *tensor;
	int n, cap;
};

/* Reads every F32 and I32 tensor (I64 that fit are taken as I32); others are passed over. RC_MODEL when the
 * file is not sound, -errno, -ENOMEM; why names the file. */
int tensorfile_read(const char *path, struct tensorfile *ret_t, struct buf *why);
/* Adds a zeroed tensor; its data, or NULL when memory is short. Pointers to tensors move, data does not. */
void *tensorfile_add(struct tensorfile *t, const char *name, enum tensorfile_type type, int n_dim,
	const int64_t *dim);
const struct tensorfile_tensor *tensorfile_find(const struct tensorfile *t, const char *name);
/* Writes to a temporary file beside path and renames it. meta: alternating keys and values, then NULL. */
int tensorfile_write(const struct tensorfile *t, const char *path, const char *const *meta, struct buf *why);
void tensorfile_fini(struct tensorfile *t);

#endif
