/* SPDX-License-Identifier: MIT
 * copy.cuh - copies from global to shared memory that run beside the arithmetic (cp.async, sm_80), for nvcc and the simulator.
 *
 * A thread starts copies, closes a group with copy_commit(), and copy_wait<N>() returns when all but its N newest groups
 * have arrived; a barrier then shows them to the others. Both addresses are aligned to the size. */
#ifndef CUDA_COPY_CUH
#define CUDA_COPY_CUH

#include "plugins/cuda/kernel.cuh"

#ifdef CUSIM

static inline void copy_4(void *shared, const void *from, int bytes) { cusim_async(shared, from, 4, bytes); }
static inline void copy_8(void *shared, const void *from, int bytes) { cusim_async(shared, from, 8, bytes); }
static inline void copy_16(void *shared, const void *from, int bytes) { cusim_async(shared, from, 16, bytes); }
static inline void copy_commit() { cusim_async_commit(); }
template<int N> static inline void copy_wait() { cusim_async_wait(N); }

#else

static __device__ __forceinline__ unsigned copy_address(const void *shared)
{
	return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/* `bytes` of the 4 (8, 16) are copied, the others are zero; with 0 nothing is read. */
static __device__ __forceinline__ void copy_4(void *shared, const void *from, int bytes)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(copy_address(shared)), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void copy_8(void *shared, const void *from, int bytes)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(copy_address(shared)), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void copy_16(void *shared, const void *from, int bytes)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(copy_address(shared)), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void copy_commit()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

template<int N> static __device__ __forceinline__ void copy_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
#endif
