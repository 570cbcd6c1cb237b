/* SPDX-License-Identifier: MIT
 * norm.c - rms_norm; rope with the rounding of what is stored; sum. All work row by row.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/x86/round.h"
#include "plugins/x86/vec.h"
#include "plugins/x86/x86.h"

#include <errno.h>

/* Values of a slice: some microseconds, which waking a thread must be worth. Hadamard and FP4 take longer. */
#define NORM_VALUES (1 << 15)
#define NORM_INDEX_VALUES (1 << 13)

/* Rows per slice. */
static int64_t norm_grain(int64_t values, int64_t dim)
{
	return dim > 0 && dim < values ? values / dim : 1;
}

static void norm_rms_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_rms_norm *a = arg;

	for (int64_t i = begin; i < end; i++)
		x86_rms_row(a->x + i * a->ldx, a->weight, a->dim, a->eps, a->y + i * a->ldy);
}

int x86_rms_norm(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	struct dsv4_rms_norm c = *a;

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0)
		return -EINVAL;
	host->parallel_for(x, a->n_row, norm_grain(NORM_VALUES, a->dim), norm_rms_slice, &c);
	return 0;
}

/* Slices count rows: n_head of them per token. */
static void norm_rope_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_rope *a = arg;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / a->n_head;
		float *row = a->x + t * a->ldx + i % a->n_head * a->dim;

		x86_rope_row(row + a->dim - a->rot, a->rot, a->cs + t * a->rot, a->inverse);
		x86_round_kv(row, a->dim - a->rot, a->kv);
		x86_round_index(row, a->dim, a->index);
	}
}

int x86_rope(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rope *a)
{
	struct dsv4_rope c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->rot < 0 || a->rot % 2 ||
	    a->dim < a->rot)
		return -EINVAL;
	if (x86_round_check(a->dim - a->rot, a->kv, a->dim, a->index))
		return -EINVAL;
	host->parallel_for(x, (int64_t)a->n_tok * a->n_head,
			   norm_grain(a->index == DSV4_ROUND_NONE ? NORM_VALUES : NORM_INDEX_VALUES, a->dim),
			   norm_rope_slice, &c);
	return 0;
}

static void norm_sum_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_sum *a = arg;

	for (int64_t t = begin; t < end; t++) {
		const float *base = a->base ? a->base + t / a->every * a->ldb : NULL, *x = a->x + t * a->ldx;

		for (int64_t i = 0, left = a->dim; left > 0; i += VEC_LANES, left -= VEC_LANES) {
			vec v = vec_load(x + i, left);

			if (base)
				v = vec_load(base + i, left) + v;
			for (int64_t p = 1; p < a->n_part; p++)
				v += vec_load(x + p * a->ldp + i, left);
			vec_store(a->y + t * a->ldy + i, left, v);
		}
	}
}

int x86_sum(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_sum *a)
{
	struct dsv4_sum c = *a;

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0 || a->n_part < 1 || a->every < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_row, norm_grain(NORM_VALUES, (int64_t)a->dim * a->n_part), norm_sum_slice, &c);
	return 0;
}
