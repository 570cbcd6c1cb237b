/* SPDX-License-Identifier: MIT
 * selftest.h - what the simulator's own tests launch.
 * Threads: one. Locks: none. */
#ifndef CUSIM_SELFTEST_H
#define CUSIM_SELFTEST_H

struct selftest_args {
	const float *in, *fresh;    /* [n]; fresh was never written */
	float *out;                 /* [n] */
	int n;
};

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
	OP(async_no_wait, 1, 64, 0, "reads what nobody wrote, at 4 of the 256 of shared part")

#endif
