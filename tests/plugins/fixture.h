/* SPDX-License-Identifier: MIT
 * fixture.h - a small plugin that is right: rms_norm and hc_post as ref does them, bit for bit. Each fixture is this
 * one with one fault, put in by what it defines before or after this header:
 *   FIXTURE_RMS_ROW   how rms_norm does one row (i, a, first row of the slice); fixture_rms_row(i, a) is right
 *   FIXTURE_OPEN, FIXTURE_WARM, FIXTURE_CLOSE   else there are none
 * and by what it defines anew of dsv4_plugin.h's macros before FIXTURE(). Facts and descriptor agree unless that is the
 * fault.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "plugins/dsv4_plugin.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define FIXTURE_MAX_STREAMS 16

/* y = x / rms(x) * weight: the sum in ref's order. */
static inline void fixture_rms_row(int64_t i, const struct dsv4_rms_norm *a)
{
	const float *x = a->x + i * a->ldx;
	float *y = a->y + i * a->ldy;
	float r = 1.0f / sqrtf(ref_dot(x, x, a->dim) / (float)a->dim + a->eps);

	for (int k = 0; k < a->dim; k++)
		y[k] = a->weight ? x[k] * r * a->weight[k] : x[k] * r;
}

#ifdef FIXTURE_RMS_ROW
static void FIXTURE_RMS_ROW(int64_t i, const struct dsv4_rms_norm *a, int64_t first);
#else
#define FIXTURE_RMS_ROW(i, a, first) fixture_rms_row(i, a)
#endif

static void fixture_rms_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_rms_norm *a = arg;

	for (int64_t i = begin; i < end; i++)
		FIXTURE_RMS_ROW(i, a, begin);
}

static int fixture_rms_norm(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	struct dsv4_rms_norm c = *a;

	if (a->size < sizeof *a || a->dim < 1 || a->n_row < 0)
		return -EINVAL;
	host->parallel_for(x, a->n_row, 8, fixture_rms_slice, &c);
	return 0;
}

static float fixture_round(uint32_t prec, float x)
{
	return prec == DSV4_PREC_BF16 ? dsv4_round_bf16(x) : x;
}

static void fixture_post_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_hc_post *a = arg;
	int hc = a->hc;

	for (int64_t td = begin * a->dim; td < end * a->dim; td++) {
		int64_t t = td / a->dim, d = td % a->dim;
		float *x = a->streams + t * hc * a->dim + d, y = fixture_round(a->prec, a->y[td]);
		float old[FIXTURE_MAX_STREAMS];

		for (int j = 0; j < hc; j++)
			old[j] = fixture_round(a->prec, x[j * (int64_t)a->dim]);
		for (int k = 0; k < hc; k++) {
			float sum = a->post[t * hc + k] * y;

			for (int j = 0; j < hc; j++)
				sum += a->comb[(t * hc + j) * hc + k] * old[j];
			x[k * (int64_t)a->dim] = fixture_round(a->prec, sum);
		}
	}
}

static int fixture_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	struct dsv4_hc_post c = *a;

	if (a->size < sizeof *a || a->n_tok < 0 || a->hc < 1 || a->hc > FIXTURE_MAX_STREAMS || a->dim < 1)
		return -EINVAL;
	host->parallel_for(x, a->n_tok, 1, fixture_post_slice, &c);
	return 0;
}

#ifndef FIXTURE_OPEN
#define FIXTURE_OPEN NULL
#endif
#ifndef FIXTURE_WARM
#define FIXTURE_WARM NULL
#endif
#ifndef FIXTURE_CLOSE
#define FIXTURE_CLOSE NULL
#endif
#ifndef FIXTURE_GPU
#define FIXTURE_GPU ""
#endif
#ifndef FIXTURE_CPU
#define FIXTURE_CPU ""
#endif
/* What rms_norm does to the numbers; a fault in the last bit is none of an op that may sum in another order. */
#ifndef FIXTURE_NUMERICS
#define FIXTURE_NUMERICS EXACT
#endif

#define FIXTURE_OPS(OP) FIXTURE_OPS_(OP, FIXTURE_NUMERICS)
#define FIXTURE_OPS_(OP, numerics) \
	OP(rms_norm, BOTH, ANY, numerics, "fp32", fixture_rms_norm) \
	OP(hc_post, BOTH, ANY, EXACT, "fp32", fixture_hc_post)
#define FIXTURE(name) \
	DSV4_PLUGIN(name, "1.0", FIXTURE_CPU, FIXTURE_GPU, FIXTURE_OPS, FIXTURE_OPEN, FIXTURE_WARM, FIXTURE_CLOSE)

#endif
