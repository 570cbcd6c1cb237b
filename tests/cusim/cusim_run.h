/* SPDX-License-Identifier: MIT
 * cusim_run.h - the simulator as the stand-in driver uses it: memory that kernels may touch, and launches.
 * Threads: one at a time (the stand-in has a lock). Locks: none.
 *
 * The .cu files are compiled by g++ with -fsanitize=thread, whose calls at every load and store (__tsan_read4 and its like)
 * the simulator answers itself; nothing is linked with the sanitizer's runtime. A block's threads are fibres of one OS
 * thread that run until they meet a barrier, a shuffle or a vote; blocks run one after another. What it finds:
 * accesses outside of all memory, or of memory that was freed; misaligned ones; reads of shared and of fresh global memory
 * that nobody wrote; two threads of a block that touch the same bytes between two barriers, or two blocks in one launch,
 * one of them writing (atomics apart); barriers and warp operations that not all of their threads reach. */
#ifndef CUSIM_RUN_H
#define CUSIM_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel's own symbol, made by KERNEL() in plugins/cuda/kernel.cuh. */
struct cusim_kernel {
	const char *name;
	void (*call)(const void *args);
	uint32_t args_bytes, threads;  /* threads: the most of a block */
};

struct cusim_launch {
	const struct cusim_kernel *kernel;
	uint32_t grid[3], block[3];
	uint32_t shared;           /* bytes of dynamic shared memory */
	uint32_t device;           /* below CUSIM_MAX_DEVICES */
	const void *args;
};

#define CUSIM_MAX_DEVICES 8
#define CUSIM_MAX_THREADS 1024
#define CUSIM_MAX_SHARED (227 * 1024) /* static and dynamic, of a block */

/* Memory that kernels may touch; written: does it hold values already, or is reading it before a write a fault? */
void cusim_memory_add(void *p, size_t bytes, int written);
void cusim_memory_written(const void *p, size_t bytes);  /* by a copy or a memset */
void cusim_memory_drop(void *p);
/* Pages that only this device's kernels may touch. */
void cusim_memory_own(const void *p, size_t bytes, int device);
/* As a kernel's access to all of it, for what is no kernel: 0, or -1 and a line that begins with `who`. */
int cusim_memory_check(const char *who, const void *p, size_t bytes, int write);

/* Runs the grid. 0, or the number of faults found, each of which is one line on stderr:
 * "cusim: KERNEL block 3 thread 17: reads 4 bytes, 8 beyond the 256 at 0x...". At most 20 lines a launch, one for a place
 * in the code. */
int cusim_launch(const struct cusim_launch *l);
long cusim_faults(void);           /* since the start */

#ifdef __cplusplus
}
#endif
#endif
