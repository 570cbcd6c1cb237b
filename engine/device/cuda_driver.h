/* SPDX-License-Identifier: MIT
 * cuda_driver.h - the driver's functions in a table, by dlopen only, and the few numbers of its interface that we use.
 * Threads: any, after the first cuda_driver(). Locks: none (pthread_once). */
#ifndef ENGINE_CUDA_DRIVER_H
#define ENGINE_CUDA_DRIVER_H

#include "engine/base/buf.h"

#include <stddef.h>
#include <stdint.h>

enum cuda_result {
	CUDA_OK = 0,
	CUDA_INVALID_VALUE = 1,
	CUDA_NO_MEMORY = 2,
	CUDA_DEVICE_UNAVAILABLE = 46,
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_IMAGE = 200,
	CUDA_NO_BINARY = 209,           /* nothing in the image runs on this GPU */
	CUDA_ECC_UNCORRECTABLE = 214,
	CUDA_NVLINK_UNCORRECTABLE = 220,
	CUDA_UNSUPPORTED_PTX = 222,
	CUDA_CONTAINED = 226,           /* an error of the hardware, which hit this process only */
	CUDA_NOT_FOUND = 500,
	CUDA_NOT_READY = 600,
	CUDA_ILLEGAL_ADDRESS = 700,
	CUDA_LAUNCH_TIMEOUT = 702,
	CUDA_CONTEXT_DESTROYED = 709,
	CUDA_ASSERT = 710,
	CUDA_HARDWARE_STACK = 714,      /* the first of the things that a kernel can do wrong;
					 * launch failed is the last */
	CUDA_LAUNCH_FAILED = 719,
	CUDA_TENSOR_MEMORY_LEAK = 721,
	CUDA_CAPTURE_INVALIDATED = 901,
	CUDA_GRAPH_UPDATE_FAILED = 910,
	CUDA_UNKNOWN = 999
};

enum cuda_attribute {
	CUDA_N_SM = 16,
	CUDA_MAJOR = 75,
	CUDA_MINOR = 76,
	CUDA_MANAGED = 83,
	CUDA_CONCURRENT_MANAGED = 89,   /* the host may read managed memory while kernels run */
	CUDA_SHARED_OPTIN = 97          /* bytes that one block may have */
};

#define CUDA_ATTACH_GLOBAL 1            /* mem_managed */
#define CUDA_ADVISE_PREFERRED 3         /* mem_advise: where it is to lie */
#define CUDA_HOST_PORTABLE 1            /* host_alloc */
#define CUDA_HOST_MAPPED 2
#define CUDA_STREAM_NON_BLOCKING 1
#define CUDA_CAPTURE_RELAXED 2
#define CUDA_FUNCTION_SHARED 8          /* function_set: most dynamic shared memory */
#define CUDA_JIT_INFO_LOG 3             /* module_load: a buffer, and its size */
#define CUDA_JIT_INFO_SIZE 4
#define CUDA_JIT_ERROR_LOG 5
#define CUDA_JIT_ERROR_SIZE 6

struct cuda_graph_update {
	int result;                     /* 0, or what differs */
	void *node, *from;
};

#define CUDA_MEMORY_UNIFIED 4           /* copy_rows: the address says which */

/* The driver's CUDA_MEMCPY2D. */
struct cuda_copy_rows {
	size_t from_x, from_y;          /* bytes and rows to begin at */
	unsigned from_type;
	const void *from_host;
	uint64_t from;
	void *from_array;
	size_t from_stride;
	size_t to_x, to_y;
	unsigned to_type;
	void *to_host;
	uint64_t to;
	void *to_array;
	size_t to_stride;
	size_t bytes, rows;             /* of a row; how many */
};

struct cuda_driver {
#define FN(field, symbol, params) int (*field) params;
#include "engine/device/cuda_driver.def"
#undef FN
};

/* libcuda.so.1, loaded and initialised once. RC_UNAVAILABLE: it is not there, is too old, or
 * finds no GPU; why says which. */
int cuda_driver(const struct cuda_driver **ret_cu, struct buf *why);
/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)". */
void cuda_error_put(const struct cuda_driver *cu, int rc, struct buf *out);

#endif
