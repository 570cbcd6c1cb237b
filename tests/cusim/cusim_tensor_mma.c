/* SPDX-License-Identifier: MIT
 * cusim_tensor_mma.c - what tensor cores of sm_100 do with descriptors, as plugins/cuda/tensor.cuh says they lie.
 * Threads: one at a time. Locks: none.
 *
 * Every bit of a descriptor is looked at: what must be 0 and is not, and what hardware has but this does not emulate,
 * ends the block. How a product is added up is in cusim_sum.c. */
#include "tests/cusim/cusim_tensor.h"
#include "tests/cusim/cusim_ops.h"
#include "plugins/dsv4_numfmt.h"

#include <string.h>

enum { CUSIM_E4M3 = 0, CUSIM_E2M1 = 5 }; /* types of a and b */

static uint32_t cusim_tensor_bits(uint64_t word, int from, int n)
{
	return (uint32_t)(word >> from & ((1ull << n) - 1));
}

/* ---- matrices in shared memory ---- */

static void cusim_tensor_matrix_check(uint64_t m, const void *pc)
{
	if (cusim_tensor_bits(m, 46, 3) != 1)
		cusim_tensor_wrong(pc, 50, "matrix %#llx: bits 46-48 are not 1", (unsigned long long)m);
	if (cusim_tensor_bits(m, 61, 3))
		cusim_tensor_wrong(pc, 50, "matrix %#llx: swizzling is not emulated", (unsigned long long)m);
	if (cusim_tensor_bits(m, 14, 2) || cusim_tensor_bits(m, 30, 2) || cusim_tensor_bits(m, 49, 12))
		cusim_tensor_wrong(pc, 50, "matrix %#llx: bits that must be 0", (unsigned long long)m);
}

/* Row r, 16 bytes from the c-th on. */
static uint32_t cusim_tensor_matrix_at(uint64_t m, uint32_t r, uint32_t c)
{
	return 16 * (cusim_tensor_bits(m, 0, 14) + r / 8 * cusim_tensor_bits(m, 32, 14) +
		     c * cusim_tensor_bits(m, 16, 14) + r % 8);
}

/* Codes, one in a byte. */
static void cusim_tensor_row(uint64_t m, uint32_t r, uint32_t type, uint8_t to[CUSIM_TENSOR_K], const void *pc,
			     bool check)
{
	for (uint32_t c = 0; c < CUSIM_TENSOR_K / 16; c++) {
		uint8_t raw[16];

		cusim_tensor_read(cusim_tensor_matrix_at(m, r, c), raw, type == CUSIM_E2M1 ? 8 : 16, pc, check);
		for (uint32_t i = 0; i < 16; i++)
			to[16 * c + i] = type == CUSIM_E2M1 ? (uint8_t)(raw[i / 2] >> i % 2 * 4 & 15) : raw[i];
	}
}

static uint32_t cusim_tensor_n(const struct cusim_tensor_op *op)
{
	return 8 * cusim_tensor_bits(op->how, 17, 6);
}

/* All that an operation reads there. */
static void cusim_tensor_shared(const struct cusim_tensor_op *op, uint8_t (*a)[CUSIM_TENSOR_K],
				uint8_t (*b)[CUSIM_TENSOR_K], bool check)
{
	if (!op->b) {
		for (uint32_t r = 0; r < 32; r++)
			cusim_tensor_read(cusim_tensor_matrix_at(op->a, r, 0), a[r], 16, op->pc, check);
		return;
	}
	for (uint32_t r = 0; r < CUSIM_TENSOR_ROWS; r++)
		cusim_tensor_row(op->a, r, cusim_tensor_bits(op->how, 7, 3), a[r], op->pc, check);
	for (uint32_t r = 0; r < cusim_tensor_n(op); r++)
		cusim_tensor_row(op->b, r, cusim_tensor_bits(op->how, 10, 3), b[r], op->pc, check);
}

/* ---- tensor memory ---- */

/* Row r's word of scales: in each quarter of the lanes, and the same in all. */
static uint32_t cusim_tensor_scale_word(const struct cusim_tensor_op *op, uint32_t at, uint32_t r)
{
	uint32_t first = 0;

	for (uint32_t lane = r % 32; lane < CUSIM_TENSOR_LANES; lane += 32) {
		const struct cusim_tensor_cell *c = cusim_tensor_cell(lane, at + r / 32, op->pc);

		if (!c->by)
			cusim_tensor_wrong(op->pc, 51, "scales that nobody put into lane %u, column %u", lane,
					   at + r / 32);
		if (lane >= 32 && c->bits != first)
			cusim_tensor_wrong(op->pc, 51, "scales that differ between lanes %u and %u", r % 32, lane);
		first = c->bits;
	}
	return first;
}

static uint8_t cusim_tensor_scale(const struct cusim_tensor_op *op, uint32_t at, uint32_t r, int from)
{
	uint32_t byte = cusim_tensor_bits(op->how, from, 2);

	return (uint8_t)(cusim_tensor_scale_word(op, at, r) >> 8 * byte);
}

/* ---- the start ---- */

static void cusim_tensor_how_check(const struct cusim_tensor_op *op)
{
	uint32_t how = op->how, a = cusim_tensor_bits(how, 7, 3), b = cusim_tensor_bits(how, 10, 3);
	uint32_t n = cusim_tensor_n(op);

	if (cusim_tensor_bits(how, 0, 4) || cusim_tensor_bits(how, 6, 1) || cusim_tensor_bits(how, 13, 4) ||
	    cusim_tensor_bits(how, 24, 3) || cusim_tensor_bits(how, 31, 1))
		cusim_tensor_wrong(op->pc, 52, "instruction %#x: bits that must be 0", how);
	if (!cusim_tensor_bits(how, 23, 1) || cusim_tensor_bits(how, 27, 2) != 1 || n == 0 || n > CUSIM_TENSOR_N)
		cusim_tensor_wrong(op->pc, 52, "instruction %#x: not 128 x (8 to 256) with e8m0 scales", how);
	if ((a != CUSIM_E4M3 && a != CUSIM_E2M1) || (b != CUSIM_E4M3 && b != CUSIM_E2M1))
		cusim_tensor_wrong(op->pc, 52, "instruction %#x: types that are not emulated", how);
	if (op->scale_a % 4 || op->scale_b % 4)
		cusim_tensor_wrong(op->pc, 52, "scales at columns %u and %u, no multiples of 4", op->scale_a,
				   op->scale_b);
}

static bool cusim_tensor_meet(uint32_t at, uint32_t n, uint32_t other, uint32_t n_other)
{
	return at < other + n_other && other < at + n;
}

/* A product waits for the copies and products before it; a copy waits for nothing. */
static void cusim_tensor_copy_check(const struct cusim_tensor_op *op)
{
	const struct cusim_tensor_op *p;

	for (uint32_t i = 0; (p = cusim_tensor_under_way(i)); i++)
		if (p->b && (cusim_tensor_meet(op->to, 4, p->scale_a, CUSIM_TENSOR_ROWS / 32) ||
			     cusim_tensor_meet(op->to, 4, p->scale_b, (cusim_tensor_n(p) + 31) / 32) ||
			     cusim_tensor_meet(op->to, 4, p->to & 0xffff, cusim_tensor_n(p))))
			cusim_tensor_wrong(op->pc, 53, "scales to column %u, which a product under way uses", op->to);
}

static void cusim_tensor_begin_copy(const struct cusim_tensor_op *op, uint32_t number)
{
	cusim_tensor_matrix_check(op->a, op->pc);
	if (op->to % 4 || op->to >> 16)
		cusim_tensor_wrong(op->pc, 53, "scales to %#x, no multiple of 4 columns in lane 0", op->to);
	cusim_tensor_copy_check(op);
	for (uint32_t lane = 0; lane < CUSIM_TENSOR_LANES; lane++)
		for (uint32_t c = 0; c < 4; c++)
			cusim_tensor_cell(lane, op->to + c, op->pc)->by = number;
}

static void cusim_tensor_begin_product(const struct cusim_tensor_op *op, uint32_t number)
{
	cusim_tensor_matrix_check(op->a, op->pc);
	cusim_tensor_matrix_check(op->b, op->pc);
	cusim_tensor_how_check(op);
	for (uint32_t lane = 0; lane < CUSIM_TENSOR_LANES; lane++)
		for (uint32_t c = 0; c < cusim_tensor_n(op); c++) {
			uint32_t column = (op->to & 0xffff) + c;
			struct cusim_tensor_cell *cell = cusim_tensor_cell((op->to >> 16) + lane, column, op->pc);

			if (op->add && !cell->by)
				cusim_tensor_wrong(op->pc, 54, "adds to what nobody wrote, lane %u, column %u", lane,
						   column);
			cell->by = number;
		}
	for (uint32_t r = 0; r < CUSIM_TENSOR_ROWS; r++)
		(void)cusim_tensor_scale_word(op, op->scale_a, r);
	for (uint32_t r = 0; r < cusim_tensor_n(op); r++)
		(void)cusim_tensor_scale_word(op, op->scale_b, r);
}

void cusim_tensor_begin_op(struct cusim_tensor_op *op, uint32_t number)
{
	if (op->b)
		cusim_tensor_begin_product(op, number);
	else
		cusim_tensor_begin_copy(op, number);
	cusim_tensor_shared(op, op->was_a, op->was_b, true);
}

/* ---- the end ---- */

static void cusim_tensor_terms(const uint8_t code[CUSIM_TENSOR_K], uint32_t type, struct cusim_term t[CUSIM_TENSOR_K])
{
	for (uint32_t k = 0; k < CUSIM_TENSOR_K; k++)
		t[k] = type == CUSIM_E2M1 ? cusim_term_e2m1(code[k]) : cusim_term_e4m3(code[k]);
}

static void cusim_tensor_product(const struct cusim_tensor_op *op)
{
	static struct cusim_term b[CUSIM_TENSOR_N][CUSIM_TENSOR_K];
	struct cusim_term a[CUSIM_TENSOR_K];
	uint8_t scale_b[CUSIM_TENSOR_N];
	uint32_t n = cusim_tensor_n(op);

	for (uint32_t j = 0; j < n; j++) {
		scale_b[j] = cusim_tensor_scale(op, op->scale_b, j, 4);
		cusim_tensor_terms(op->was_b[j], cusim_tensor_bits(op->how, 10, 3), b[j]);
	}
	for (uint32_t i = 0; i < CUSIM_TENSOR_ROWS; i++) {
		uint8_t scale_a = cusim_tensor_scale(op, op->scale_a, i, 29);

		cusim_tensor_terms(op->was_a[i], cusim_tensor_bits(op->how, 7, 3), a);
		for (uint32_t j = 0; j < n; j++) {
			struct cusim_tensor_cell *d = &cusim_tensor_memory[i][(op->to & 0xffff) + j];
			float before = op->add ? dsv4_f32_from_bits(d->bits) : 0;

			d->bits = dsv4_f32_bits(cusim_sum_scaled(a, b[j], CUSIM_TENSOR_K, scale_a, scale_b[j], before));
		}
	}
}

static void cusim_tensor_copy(const struct cusim_tensor_op *op)
{
	for (uint32_t lane = 0; lane < CUSIM_TENSOR_LANES; lane++)
		for (uint32_t c = 0; c < 4; c++)
			memcpy(&cusim_tensor_memory[lane][op->to + c].bits, &op->was_a[lane % 32][4 * c], 4);
}

void cusim_tensor_end_op(const struct cusim_tensor_op *op)
{
	static uint8_t a[CUSIM_TENSOR_ROWS][CUSIM_TENSOR_K], b[CUSIM_TENSOR_N][CUSIM_TENSOR_K];

	memcpy(a, op->was_a, sizeof a);
	memcpy(b, op->was_b, sizeof b);
	cusim_tensor_shared(op, a, b, false);
	if (memcmp(a, op->was_a, sizeof a) || memcmp(b, op->was_b, sizeof b))
		cusim_tensor_wrong(op->pc, 55, "shared memory was written while tensor cores read it");
	if (op->b)
		cusim_tensor_product(op);
	else
		cusim_tensor_copy(op);
}
