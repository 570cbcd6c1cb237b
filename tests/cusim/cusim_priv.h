/* SPDX-License-Identifier: MIT
 * cusim_priv.h - what the files of the simulator share.
 * Threads: one at a time. Locks: none. */
#ifndef CUSIM_PRIV_H
#define CUSIM_PRIV_H

#include "tests/cusim/cusim_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUSIM_WARP 32
#define CUSIM_FRESH 0xff      /* what unwritten memory is full of: NaN, and -1 */

enum cusim_access { CUSIM_READ, CUSIM_WRITE, CUSIM_ATOMIC };

/* Who touched a word, and when. An epoch is the time between two barriers of a block: no two of the process have one number.
 * A lap is the time between two operations of a warp within an epoch. Who: thread, bytes of the word, and flags. */
struct cusim_stamp {
	uint32_t epoch;
	uint16_t lap, who;
};

/* The running thread. */
struct cusim_now {
	uintptr_t stack;            /* [CUSIM_STACK], its own */
	uintptr_t args;             /* [args_bytes] */
	size_t args_bytes;
	struct cusim_stamp stamp;   /* that it sets; who: not yet */
	/* Whoever was there before these epochs is no party of a race: in memory of all blocks, the launch's first; in a
	 * block's own, the running one. */
	uint32_t since[2];
	uint32_t block_epoch;       /* the first of this block */
	uint32_t thread;            /* its number in the block */
	uint16_t late;              /* CUSIM_BY_LATE, once it has published in this epoch; else 0 */
	uint8_t strangers;          /* as cusim_page.owner: all devices but the running one */
};
extern struct cusim_now cusim_now;

/* ---- cusim_memory.c ---- */

/* As cusim_memory_add(), of memory that each block has for itself. */
void cusim_memory_add_shared(void *p, size_t bytes, const char *name);
void cusim_memory_unwritten(const void *p, size_t bytes);
/* The kernel's object: its constants may be read. */
void cusim_memory_image(const void *code);
/* Words for a report: "4 beyond the 256 at 0x..". */
void cusim_memory_where(uintptr_t p, char *text, size_t size);

/* ---- cusim_access.c ---- */

/* Is this access all right? Else it is reported, and the block abandoned if it cannot be done. */
void cusim_access_check(const void *p, size_t bytes, enum cusim_access how, const void *pc);

/* ---- cusim_shared.c: variables that the compiler placed ---- */

/* Makes the shared variables of this kernel, and no other's, memory; how many bytes they have. */
size_t cusim_shared_of(const struct cusim_kernel *k);
/* At the begin of a block. */
void cusim_shared_fresh(void);
bool cusim_shared_has(uintptr_t p);   /* any kernel's */
/* Where those of the running kernel begin, or a little before: a multiple of 1024. */
uintptr_t cusim_shared_base(void);

/* ---- cusim_block.c ---- */

struct cusim_lane {                 /* a thread */
	int op, line;               /* what it waits at */
	uint32_t mask;              /* warp operations: who takes part */
	int width, arg;
	uint32_t idx[3];
	void *p[3];                 /* operands of matrix operations */
	const struct cusim_scale *scale; /* [2], of block-scaled ones */
} __attribute__((aligned(64)));
extern struct cusim_lane cusim_lanes[CUSIM_MAX_THREADS];
extern uint64_t cusim_values[CUSIM_MAX_THREADS]; /* of each: what it brings to an operation, then what it gets */

/* Runs one block; the launch was looked at before. */
void cusim_block_run(const struct cusim_launch *l);
/* The running thread's part in an operation of all 32 lanes: cusim_warp_do() finds p, arg and width in each. */
void cusim_collective(int op, void *p, int arg, int width, int line);
/* The running thread goes on when cusim_tensor_goes_on(barrier, phase). */
void cusim_block_sleep(void *barrier, int phase, int line);
/* Ends the running block from inside one of its threads. */
void cusim_block_abandon(void) __attribute__((noreturn));

/* ---- cusim_warp.c ---- */

const char *cusim_warp_name(int op);
/* All lanes of mask have arrived with the same operation: computes their results; value: [32] of cusim_values. */
void cusim_warp_do(struct cusim_lane *warp, uint64_t *value, uint32_t mask);

/* ---- cusim_sum.c ---- */

struct cusim_term { float v; int e; };    /* a value, and its exponent as its format has it */
struct cusim_term cusim_term_e2m1(uint8_t code);
struct cusim_term cusim_term_e4m3(uint8_t code);
/* before + the sum of n products times their scales, e8m0, as tensor cores compute it. */
float cusim_sum_scaled(const struct cusim_term *a, const struct cusim_term *b, int n, uint8_t scale_a, uint8_t scale_b,
		       float before);

/* ---- cusim_copy.c ---- */

void cusim_copy_begin(uint32_t n_thread); /* a block */

/* ---- cusim_tensor.c ---- */

void cusim_tensor_begin(void);            /* a block */
void cusim_tensor_end(void);              /* all of its threads have ended */
void cusim_tensor_met(uint32_t n_thread); /* in tensor_sync() */
void cusim_tensor_warp(struct cusim_lane *warp); /* all lanes have arrived with a TENSOR operation */
/* The last epoch in which each thread published what it wrote. */
extern uint32_t cusim_tensor_published[CUSIM_MAX_THREADS];
/* Has the phase ended, or need it only be waited for? */
bool cusim_tensor_goes_on(const void *barrier, int phase);

/* ---- cusim_report.c ---- */

void cusim_report_launch(const struct cusim_launch *l);
void cusim_report_block(const uint32_t block[3]);
/* One line about the running thread; pc NULL: no place. A second one of the same place and kind is left out. */
void cusim_report(const void *pc, int kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int cusim_report_count(void);       /* of this launch */

#endif
