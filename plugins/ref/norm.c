/* SPDX-License-Identifier: MIT
 * norm.c - rms_norm; rope with the rounding of what is stored; sum. All work row by row.
 * Threads: engine calls, pool runs slices. Locks: none. */
#include "plugins/ref/ref.h"
#include "plugins/ref/round.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define NORM_GRAIN 8 /* rows per slice */

static void norm_rms_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_rms_norm *a = arg;

	for (int64_t i = begin; i < end; i++)
		ref_rms_row(a->x + i * a->ldx, a->weight, a->dim, a->eps, a->y + i * a->ldy);
}

int ref_rms_norm(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	struct dsv4_rms_norm c = *a;

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0)
		return -EINVAL;
	host->parallel_for(x, a->n_row, NORM_GRAIN, norm_rms_slice, &c);
	return 0;
}

/* Slices count rows: n_head of them per token. */
static void norm_rope_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_rope *a = arg;

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / a->n_head;
		float *row = a->x + t * a->ldx + i % a->n_head * a->dim;

		ref_rope_row(row + a->dim - a->rot, a->rot, a->cs + t * a->rot, a->inverse);
		ref_round_kv(row, a->dim - a->rot, a->kv);
		ref_round_index(row, a->dim, a->index);
	}
}

int ref_rope(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rope *a)
{
	struct dsv4_rope c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->n_head < 1 || a->rot < 0 || a->rot % 2 ||
	    a->dim < a->rot)
		return -EINVAL;
	if (ref_round_check(a->dim - a->rot, a->kv, a->dim, a->index))
		return -EINVAL;
	host->parallel_for(x, (int64_t)a->n_tok * a->n_head, NORM_GRAIN, norm_rope_slice, &c);
	return 0;
}

static void norm_sum_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_sum *a = arg;

	for (int64_t t = begin; t < end; t++) {
		const float *base = a->base ? a->base + t / a->every * a->ldb : NULL, *x = a->x + t * a->ldx;
		float *y = a->y + t * a->ldy;

		for (int32_t i = 0; i < a->dim; i++)
			y[i] = base ? base[i] + x[i] : x[i];
		for (int32_t p = 1; p < a->n_part; p++)
			for (int32_t i = 0; i < a->dim; i++)
				y[i] += x[p * a->ldp + i];
	}
}

int ref_sum(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_sum *a)
{
	struct dsv4_sum c = *a;

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0 || a->n_part < 1 || a->every < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_row, NORM_GRAIN, norm_sum_slice, &c);
	return 0;
}
