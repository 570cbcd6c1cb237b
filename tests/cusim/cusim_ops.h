/* SPDX-License-Identifier: MIT
 * cusim_ops.h - what cusim.h's functions call in the simulator, for a thread of a kernel.
 * Threads: one at a time. Locks: none. */
#ifndef CUSIM_OPS_H
#define CUSIM_OPS_H

#include "tests/cusim/cusim_run.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(hidden) /* kernels call them directly: they are in one object with the simulator */

/* OP(name, what it is called in CUDA) */
#define CUSIM_OPS(OP) \
	OP(NONE, "") \
	OP(BARRIER, "__syncthreads") \
	OP(BARRIER_OR, "__syncthreads_or") \
	OP(BARRIER_AND, "__syncthreads_and") \
	OP(BARRIER_COUNT, "__syncthreads_count") \
	OP(TENSOR_SYNC, "tensor_sync") \
	OP(SYNC, "__syncwarp") \
	OP(SHFL, "__shfl_sync") \
	OP(SHFL_UP, "__shfl_up_sync") \
	OP(SHFL_DOWN, "__shfl_down_sync") \
	OP(SHFL_XOR, "__shfl_xor_sync") \
	OP(BALLOT, "__ballot_sync") \
	OP(ANY, "__any_sync") \
	OP(ALL, "__all_sync") \
	OP(ADD, "__reduce_add_sync") \
	OP(MIN, "__reduce_min_sync") \
	OP(MAX, "__reduce_max_sync") \
	OP(LDMATRIX, "ldmatrix") \
	OP(MMA_BF16, "mma.m16n8k16.bf16") \
	OP(MMA_E4M3, "mma.m16n8k32.e4m3") \
	OP(MMA_E2M1_E4M3, "mma.m16n8k32.block_scale.e2m1.e4m3") \
	OP(MMA_E4M3_SCALED, "mma.m16n8k32.block_scale.e4m3.e4m3") \
	OP(TENSOR_ALLOC, "tcgen05.alloc") \
	OP(TENSOR_FREE, "tcgen05.dealloc") \
	OP(TENSOR_LOAD, "tcgen05.ld") \
	OP(TENSOR_WAIT, "mbarrier.try_wait")

enum cusim_op {
#define OP(name, text) CUSIM_##name,
	CUSIM_OPS(OP)
#undef OP
	CUSIM_N_OP
};

/* line: where in the source; threads that wait for each other stand at one line. */
int cusim_barrier(int op, int pred, int line);
uint64_t cusim_warp(int op, uint32_t mask, uint64_t value, int arg, int width, int line);
void cusim_matrix(int op, float *d, const uint32_t *a, const uint32_t *b, int line);
/* Block-scaled: a lane's register of scales, and which of its bytes, of which lanes, count. */
struct cusim_scale { uint32_t data, byte, pair; };
void cusim_matrix_scaled(int op, float *d, const uint32_t *a, const uint32_t *b, const struct cusim_scale scale[2],
			 int line);
void cusim_ldmatrix(uint32_t *r, const void *row, int n, int transposed, int line);
void *cusim_dynamic_shared(void);
/* memcpy, memset. */
void *cusim_copy(void *to, const void *from, size_t n);
void *cusim_set(void *to, int c, size_t n);

/* Atomic read-modify-writes: they return the value before. */
enum cusim_change { CUSIM_EXCH, CUSIM_ADD_TO, CUSIM_MIN_OF, CUSIM_MAX_OF, CUSIM_AND_WITH, CUSIM_OR_WITH };
int32_t cusim_atomic_i32(int32_t *p, enum cusim_change c, int32_t v);
uint32_t cusim_atomic_u32(uint32_t *p, enum cusim_change c, uint32_t v);
unsigned long long cusim_atomic_u64(unsigned long long *p, enum cusim_change c, unsigned long long v);
float cusim_atomic_f32(float *p, enum cusim_change c, float v);
uint32_t cusim_atomic_cas32(uint32_t *p, uint32_t old, uint32_t v);
unsigned long long cusim_atomic_cas64(unsigned long long *p, unsigned long long old, unsigned long long v);

/* cp.async of `bytes` (4, 8, 16), the rest of `size` is zero; it arrives when its group has been waited for. */
void cusim_async(void *shared, const void *from, int size, int bytes);
void cusim_async_commit(void);
void cusim_async_wait(int groups_left);

/* Tensor cores of sm_100: what plugins/cuda/tensor.cuh says. */
void cusim_tensor_alloc(uint32_t *shared, uint32_t columns, int line);
void cusim_tensor_free(uint32_t at, uint32_t columns, int line);
void cusim_tensor_load(float *v, int n, uint32_t at, int line);
uint32_t cusim_tensor_address(const void *shared);
void cusim_tensor_publish(void);
void cusim_tensor_scales(uint32_t to, uint64_t from);
void cusim_tensor_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t how, uint32_t scale_a, uint32_t scale_b, int add);
void cusim_tensor_barrier(uint64_t *at);
void cusim_tensor_commit(uint64_t *at);
void cusim_tensor_wait(uint64_t *at, uint32_t phase, int line);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
