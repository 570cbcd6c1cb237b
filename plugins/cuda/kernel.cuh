/* SPDX-License-Identifier: MIT
 * kernel.cuh - what each of our .cu files begins with: how a kernel is written so that nvcc compiles it for GPUs and g++ for
 * the simulator (tests/cusim), from the same text.
 *
 * A kernel has one parameter, a struct that its plugin's C half fills (dsv4_launch.args), and a name that begins with
 * the plugin's, since all kernels meet in one simulator:
 *
 *     KERNEL(cuda_base_rms_norm, struct norm_rms_args, SUM_THREADS)
 *     {
 *             __shared__ float part[8];
 *             ... a.x ... threadIdx.x ... __syncthreads() ... __shfl_xor_sync(~0u, v, 16) ...
 *     }
 *
 * The number is the most threads of a block. `__shared__` variables stand in the body of a kernel, not in a template or
 * an inline function; memory whose size the launch says is DYNAMIC_SHARED(float, s). What the simulator does not know
 * (textures, cooperative groups, inline PTX outside mma.cuh, copy.cuh and tensor.cuh) is not used. */
#ifndef CUDA_KERNEL_CUH
#define CUDA_KERNEL_CUH

#include <stddef.h>
#include <stdint.h>

#ifdef CUSIM
#include "tests/cusim/cusim.h"
#define KERNEL(name, type, threads) \
	static void name##_body(const type &a); \
	static void name##_call(const void *args) { name##_body(*static_cast<const type *>(args)); } \
	extern "C" { extern const struct cusim_kernel name; } \
	const struct cusim_kernel name = { #name, name##_call, sizeof(type), threads }; \
	static void name##_body(const type &a)
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(cusim_dynamic_shared())
#define UNROLL
#else
#define KERNEL(name, type, threads) \
	extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ type a)
#define DYNAMIC_SHARED(type, name) \
	extern __shared__ __align__(128) unsigned char name##_bytes[]; \
	type *name = reinterpret_cast<type *>(name##_bytes)
#define UNROLL _Pragma("unroll") /* before a loop whose arrays must stay in registers */
#endif

#define WARP 32
#define ALL_LANES 0xffffffffu

#endif
