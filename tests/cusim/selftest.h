/* SPDX-License-Identifier: MIT
 * selftest.h - what the simulator's own tests launch.
 * Threads: one. Locks: none. */
#ifndef CUSIM_SELFTEST_H
#define CUSIM_SELFTEST_H

#include <stdint.h>

struct selftest_args {
	const float *in, *fresh;    /* [n]; fresh was never written */
	float *out;                 /* [n] */
	int n;
};

/* Operands of a block-scaled product, as codes: a [16][32] e2m1, b [32][8] e4m3, scales of rows and columns e8m0. */
static inline unsigned selftest_a(unsigned r, unsigned k) { return (r * 5 + k * 3) % 16; }
static inline unsigned selftest_b(unsigned k, unsigned c) { return (k * 29 + c * 13) % 120 + k % 2 * 128; }
static inline unsigned selftest_scale(unsigned i) { return 120 + i * 3 % 17; } /* columns come after the 16 rows */

/* OP(kernel, blocks, threads, dynamic shared bytes, what its one line says, or "") */
#define SELFTESTS(OP) \
	OP(right_copy, 8, 64, 0, "") \
	OP(right_bytes, 1, 64, 0, "") \
	OP(right_shared, 3, 64, 256, "") \
	OP(right_warp, 1, 64, 0, "") \
	OP(right_atomic, 2, 64, 0, "") \
	OP(right_shuffle, 2, 64, 0, "") \
	OP(right_bound, 2, 64, 0, "") \
	OP(right_async, 2, 64, 0, "") \
	OP(right_mma, 1, 32, 0, "") \
	OP(right_mma_scaled, 1, 32, 0, "") \
	OP(right_codes, 1, 256, 0, "") \
	OP(global_read_beyond, 1, 64, 0, "thread 63: reads 4 bytes, 0 beyond the 2048 at 0x") \
	OP(global_write_beyond, 1, 64, 0, "block 0 thread 3: writes 4 bytes, 0 beyond the 2048 at 0x") \
	OP(global_write_before, 1, 64, 0, "block 0 thread 3: writes 1 bytes, 1 before the 2048 at 0x") \
	OP(global_uninitialised, 1, 64, 0, "block 0 thread 0: reads what nobody wrote, at 0 of the 2048 at 0x") \
	OP(misaligned, 1, 64, 0, "thread 1: 16 bytes at 0x") \
	OP(shared_beyond, 1, 64, 0, "thread 60: reads 4 bytes, 0 beyond the 240 of shared part") \
	OP(dynamic_beyond, 1, 64, 256, "thread 63: writes 4 bytes, 0 beyond the 256 of shared memory of the launch") \
	OP(shared_uninitialised, 1, 64, 0, "thread 7: reads what nobody wrote, at 28 of the 256 of shared part") \
	OP(race_read, 1, 64, 0, "race: reads at 0 of the 256 of shared part, which thread 0 wrote, with no barrier between") \
	OP(race_write, 1, 64, 0, "thread 1: race: writes at 4 of the 256 of shared part, which thread 0 read") \
	OP(race_warp, 1, 64, 0, "thread 1: race: reads at 0 of the 256 of shared part, which thread 0 wrote, with no __syncwarp between") \
	OP(race_blocks, 2, 64, 0, "a thread of another block wrote") \
	OP(race_blocks_read, 2, 64, 0, "block 1 thread 0: race: writes at 128 of the 2048 at 0x") \
	OP(divergent_barrier, 1, 64, 0, "divergent barrier: __syncthreads at line") \
	OP(two_barriers, 1, 64, 0, "divergent barrier: __syncthreads at line") \
	OP(shuffle_not_all, 1, 64, 0, "__shfl_xor_sync at line") \
	OP(async_no_wait, 1, 64, 0, "reads what nobody wrote, at 4 of the 256 of shared part") \
	OP(mma_scaled_nowhere, 1, 32, 0, ": no such byte or lane of scales") \
	OP(mma_scaled_disagrees, 1, 32, 0, ": lanes that do not agree where scales are") \
	OP(mma_scaled_beside, 1, 32, 0, ": bits beside an e2m1") \
	SELFTESTS_TENSOR(OP)

/* Of selftest_tensor.cu. */
#define SELFTESTS_TENSOR(OP) \
	OP(right_tensor, 1, 128, 0, "") \
	OP(right_tensor_met, 1, 128, 0, "") \
	OP(tensor_unfenced, 1, 128, 0, "lane 1, column 32, which its thread did not wait for") \
	OP(tensor_unpublished, 1, 128, 0, "thread 0: tensor cores read at ") \
	OP(tensor_unmet, 1, 128, 0, "thread 127: race: tensor cores read at ") \
	OP(tensor_unwaited, 1, 128, 0, "lane 0, column 32, which its thread did not wait for") \
	OP(tensor_columns, 1, 128, 0, "48 columns, no power of two from 32 to 512") \
	OP(tensor_unfreed, 1, 128, 0, "the block ends with 32 columns of tensor memory") \
	OP(tensor_unwritten, 1, 128, 0, "lane 0, column 48, which nobody wrote") \
	OP(tensor_early, 1, 128, 0, "shared memory was written while tensor cores read it") \
	OP(tensor_bits, 1, 128, 0, "instruction 0x88820280: bits that must be 0") \
	OP(tensor_matrix_bits, 1, 128, 0, ": bits 46-48 are not 1") \
	OP(tensor_lanes, 1, 128, 0, "lanes from 32 on in a warp that has those from 0 on") \
	OP(tensor_beyond, 1, 128, 0, "tensor memory at lane 0, column 64: the block has 32 columns from 32 on") \
	OP(tensor_unscaled, 1, 128, 0, "scales that nobody put into lane 0, column 40") \
	OP(tensor_added, 1, 128, 0, "adds to what nobody wrote, lane 0, column 32") \
	OP(tensor_uncommitted, 1, 128, 0, "for tensor cores, to which nobody committed") \
	OP(tensor_freed, 1, 128, 0, "tcgen05.dealloc at line") \
	OP(tensor_two, 1, 128, 0, "thread 32: gives tensor cores work beside thread 0") \
	OP(tensor_late, 1, 128, 0, ", which thread 0 wrote and did not publish") \
	OP(tensor_reused, 1, 128, 0, "scales to column 40, which a product under way uses")

/* Codes and scales of product i of theirs: e2m1, e4m3 below 16, e8m0 about 1. */
#define SELFTEST_A(i, row, k) ((uint8_t)(((row) * 5 + (k) * 3 + (i) * 7) % 16))
#define SELFTEST_B(i, row, k) ((uint8_t)((((k) + 2 * (row) + 5 * (i)) % 11 * 8 + (k) % 8) | ((row) + (k)) % 2 << 7))
#define SELFTEST_SCALE_A(i, row) ((uint8_t)(125 + ((row) / 5 + (i)) % 6))
#define SELFTEST_SCALE_B(i, row) ((uint8_t)(129 - ((row) + (i)) % 4))

#endif
