/* SPDX-License-Identifier: MIT
 * cusim_tensor.h - tensor memory of the running block, and what its tensor cores have been told to do.
 * Threads: one at a time. Locks: none.
 *
 * What is started is done when somebody waits for it, in the order of the starts: until then the memory it is to write
 * cannot be read, and what it reads must stay as it is. */
#ifndef CUSIM_TENSOR_H
#define CUSIM_TENSOR_H

#include "tests/cusim/cusim_priv.h"

#define CUSIM_TENSOR_LANES 128
#define CUSIM_TENSOR_COLUMNS 512
#define CUSIM_TENSOR_ROWS 128       /* of a */
#define CUSIM_TENSOR_N 256          /* most rows of b */
#define CUSIM_TENSOR_K 32           /* columns of both */

struct cusim_tensor_cell {
	uint32_t bits;
	uint32_t by;                /* the operation that writes it; 0: none did */
};

/* A copy of scales, or a product. */
struct cusim_tensor_op {
	const void *pc;             /* who started it */
	uint32_t thread, to, scale_a, scale_b, how;
	uint64_t a, b;              /* where they lie in shared memory; b 0: a copy, of a */
	bool add;
	/* what lay there at the start: scales [32][16], or rows of codes [128][32] and [n][32] */
	uint8_t was_a[CUSIM_TENSOR_ROWS][CUSIM_TENSOR_K], was_b[CUSIM_TENSOR_N][CUSIM_TENSOR_K];
};

extern struct cusim_tensor_cell cusim_tensor_memory[CUSIM_TENSOR_LANES][CUSIM_TENSOR_COLUMNS];

/* ---- cusim_tensor.c ---- */

/* The cell, if this block may have it; else it is reported, and the block abandoned. */
struct cusim_tensor_cell *cusim_tensor_cell(uint32_t lane, uint32_t column, const void *pc);
/* One line, and the end of the block. */
void cusim_tensor_wrong(const void *pc, int kind, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
/* The i-th of what was started and is not over, or NULL. */
const struct cusim_tensor_op *cusim_tensor_under_way(uint32_t i);
/* n bytes of shared memory as tensor cores read them; check: they are there, written, published, and nobody's else. */
void cusim_tensor_read(uint32_t address, void *to, size_t n, const void *pc, bool check);

/* ---- cusim_tensor_mma.c ---- */

/* At the start: looks at all of it, and at the shared memory it reads. `number` counts operations from 1 on. */
void cusim_tensor_begin_op(struct cusim_tensor_op *op, uint32_t number);
/* At the end: writes tensor memory. */
void cusim_tensor_end_op(const struct cusim_tensor_op *op);

#endif
