/* SPDX-License-Identifier: MIT
 * header.cc - the interfaces of the driver and of NCCL as we have written them down (engine/device/cuda_driver.def,
 * cuda_driver.h, nccl.def, nccl.h) against the toolkit's cuda.h and nccl.h: every symbol, what its parameters are, every
 * number and every struct. What differs does not compile.
 *
 * The stand-ins are made of the same lists as the daemon, so that no other test would tell of a slip in them. */
#define __CUDA_API_VERSION_INTERNAL /* declares older variants of functions, too, under the names that drivers export */
#include <cuda.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <stddef.h>
#include <stdio.h>
#include <type_traits>
#include <utility>

extern "C" {
#include "engine/device/cuda_driver.h"
#include "engine/device/nccl.h"
}

/* How a call passes its parameters: each a pointer, or a whole number of so many bytes. */
template <typename T> struct passed { static constexpr int as = sizeof(T); };
template <typename T> struct passed<T *> { static constexpr int as = -1; };
template <int... as> struct shape { };
template <typename R, typename... A> shape<passed<A>::as...> shape_of(R (*)(A...));

#define FN(field, symbol, params) \
	static_assert(std::is_same<decltype(shape_of(std::declval<struct cuda_driver>().field)), decltype(shape_of(&::symbol))>::value, \
		      #symbol " takes something else");
#include "engine/device/cuda_driver.def"
#undef FN

#ifdef NCCL_MAJOR
#define FN(type, field, symbol, params) \
	static_assert(std::is_same<decltype(shape_of(std::declval<struct nccl_library>().field)), \
				   decltype(shape_of(&::symbol))>::value, #symbol " takes something else");
#include "engine/device/nccl.def"
#undef FN
#endif

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs), #ours)
SAME(CUDA_OK, CUDA_SUCCESS);
SAME(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CUDA_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(CUDA_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(CUDA_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(CUDA_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(CUDA_UNSUPPORTED_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(CUDA_CONTAINED, CUDA_ERROR_CONTAINED);
SAME(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(CUDA_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CUDA_ASSERT, CUDA_ERROR_ASSERT);
SAME(CUDA_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(CUDA_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
SAME(CUDA_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(CUDA_GRAPH_UPDATE_FAILED, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
SAME(CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN);

SAME(CUDA_N_SM, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CUDA_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_MANAGED, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME(CUDA_CONCURRENT_MANAGED, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME(CUDA_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

SAME(CUDA_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(CUDA_ADVISE_PREFERRED, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CUDA_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CUDA_FUNCTION_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CUDA_JIT_INFO_LOG, CU_JIT_INFO_LOG_BUFFER);
SAME(CUDA_JIT_INFO_SIZE, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(CUDA_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(CUDA_JIT_ERROR_SIZE, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(CUDA_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);

#ifdef NCCL_MAJOR
SAME(NCCL_OK, ncclSuccess);
SAME(NCCL_IN_PROGRESS, ncclInProgress);
SAME(NCCL_BYTE, ncclInt8);
#endif

#define FIELD(ours, field, theirs, their_field) \
	static_assert(offsetof(ours, field) == offsetof(theirs, their_field) && \
		      sizeof(ours::field) == sizeof(theirs::their_field), #ours "." #field)
FIELD(cuda_graph_update, result, CUgraphExecUpdateResultInfo, result);
FIELD(cuda_graph_update, node, CUgraphExecUpdateResultInfo, errorNode);
FIELD(cuda_graph_update, from, CUgraphExecUpdateResultInfo, errorFromNode);
static_assert(sizeof(cuda_graph_update) == sizeof(CUgraphExecUpdateResultInfo), "cuda_graph_update");
FIELD(cuda_copy_rows, from_x, CUDA_MEMCPY2D, srcXInBytes);
FIELD(cuda_copy_rows, from_y, CUDA_MEMCPY2D, srcY);
FIELD(cuda_copy_rows, from_type, CUDA_MEMCPY2D, srcMemoryType);
FIELD(cuda_copy_rows, from_host, CUDA_MEMCPY2D, srcHost);
FIELD(cuda_copy_rows, from, CUDA_MEMCPY2D, srcDevice);
FIELD(cuda_copy_rows, from_array, CUDA_MEMCPY2D, srcArray);
FIELD(cuda_copy_rows, from_stride, CUDA_MEMCPY2D, srcPitch);
FIELD(cuda_copy_rows, to_x, CUDA_MEMCPY2D, dstXInBytes);
FIELD(cuda_copy_rows, to_y, CUDA_MEMCPY2D, dstY);
FIELD(cuda_copy_rows, to_type, CUDA_MEMCPY2D, dstMemoryType);
FIELD(cuda_copy_rows, to_host, CUDA_MEMCPY2D, dstHost);
FIELD(cuda_copy_rows, to, CUDA_MEMCPY2D, dstDevice);
FIELD(cuda_copy_rows, to_array, CUDA_MEMCPY2D, dstArray);
FIELD(cuda_copy_rows, to_stride, CUDA_MEMCPY2D, dstPitch);
FIELD(cuda_copy_rows, bytes, CUDA_MEMCPY2D, WidthInBytes);
FIELD(cuda_copy_rows, rows, CUDA_MEMCPY2D, Height);
static_assert(sizeof(cuda_copy_rows) == sizeof(CUDA_MEMCPY2D), "cuda_copy_rows");

int main()
{
	printf("as in cuda.h %d.%d", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
#ifdef NCCL_MAJOR
	printf(", nccl.h %d.%d", NCCL_MAJOR, NCCL_MINOR);
#endif
	printf("\n");
	return 0;
}
