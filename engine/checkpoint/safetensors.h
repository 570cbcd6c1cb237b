/* SPDX-License-Identifier: MIT
 * safetensors.h - the header of one .safetensors file, checked in every number before anyone uses it.
 * Threads: any. Locks: none. */
#ifndef ENGINE_SAFETENSORS_H
#define ENGINE_SAFETENSORS_H

#include "engine/base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_MAX_HEADER (100u << 20) /* the format's own limit */
#define SAFETENSORS_MAX_NAME 256
#define SAFETENSORS_MAX_DIMS 8
#define SAFETENSORS_MAX_TENSORS 1000000

/* Name in the file, bits per element. */
#define SAFETENSORS_DTYPES(X) \
	X(BOOL, 8) X(F4, 4) X(U8, 8) X(I8, 8) X(F8_E5M2, 8) X(F8_E4M3, 8) X(F8_E8M0, 8) \
	X(I16, 16) X(U16, 16) X(F16, 16) X(BF16, 16) X(I32, 32) X(U32, 32) X(F32, 32) \
	X(C64, 64) X(F64, 64) X(I64, 64) X(U64, 64)

enum safetensors_dtype {
#define X(name, bits) ST_##name,
	SAFETENSORS_DTYPES(X)
#undef X
	ST_N_DTYPE
};

struct safetensors_tensor {
	const char *name;                   /* printable ASCII */
	uint8_t dtype, n_dim;               /* enum safetensors_dtype */
	int64_t dim[SAFETENSORS_MAX_DIMS];
	uint64_t offset, bytes;             /* in the file; bytes agree with dtype and shape */
};

struct safetensors {
	struct safetensors_tensor *tensor;  /* in order of offset, without gap or overlap */
	int n;
	uint64_t size;                      /* of the whole file, as the header has it */
	char *text;                         /* owns the names */
};

/* Takes over *header (malloc'd, len bytes of JSON) whatever happens. `file` is for messages. RC_MODEL,
 * -ENOMEM. */
int safetensors_parse(const char *file, char **header, size_t len, struct safetensors *ret_st,
		      struct buf *why);
/* Reads and parses the header of a file, and nothing else of it. A file shorter or longer than its header
 * says is RC_MODEL; with ret_missing a shorter one is accepted, and the bytes it lacks are told. `name` is
 * for messages. */
int safetensors_open(const char *path, const char *name, struct safetensors *ret_st, uint64_t *ret_missing,
		     struct buf *why);
void safetensors_fini(struct safetensors *st);
/* By a linear search, for files of few tensors; NULL when absent. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *st, const char *name);

const char *safetensors_dtype_name(int dtype);
/* -1 when unknown. */
int safetensors_dtype_find(const char *name);
int safetensors_dtype_bits(int dtype);
/* Bytes of a tensor; UINT64_MAX when they do not fit 60 bits or are not whole. */
uint64_t safetensors_bytes(int dtype, const int64_t *dim, int n_dim);
/* Appends "[a, b]". */
void safetensors_shape(struct buf *out, const int64_t *dim, int n_dim);

#endif
