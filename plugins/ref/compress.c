/* SPDX-License-Identifier: MIT
 * compress.c - pool a group of tokens into one compressed row. doc/format.md 3.5.
 * Threads: engine calls, pool runs slices over output rows. Locks: none.
 *
 * Each channel is pooled on its own: softmax of its scores over the rows, oldest first, times its values. */
#include "plugins/ref/ref.h"
#include "plugins/ref/round.h"
#include "plugins/ref/vec.h"

#include <errno.h>

#define COMPRESS_CHUNK 64 /* channels pooled at a time */

/* The rows one output row pools; with overlap the older half uses other channels than the newer. */
struct compress_rows {
	const struct dsv4_compress *a;
	int64_t width, first; /* first row of the inputs */
	int n;                /* rows */
	int skip;             /* leading rows that do not exist */
};

/* Offset in kv and score of pooled row i, channel d; *ret_ape is that in ape. */
static int64_t compress_at(const struct compress_rows *r, int i, int64_t d, int64_t *ret_ape)
{
	int64_t channel = d + (i / r->a->ratio) * r->a->dim; /* i < ratio without overlap */

	*ret_ape = i % r->a->ratio * r->width + channel;
	return (r->first + i) * r->width + channel;
}

/* Channels [d, d + n) of one output row. */
static void compress_pool(const struct compress_rows *r, int64_t d, int64_t n, float *out)
{
	float top[COMPRESS_CHUNK], den[COMPRESS_CHUNK] = { 0 }, num[COMPRESS_CHUNK] = { 0 };
	const struct dsv4_compress *a = r->a;
	int64_t at, ape;

	for (int64_t c = 0; c < n; c++)
		top[c] = -INFINITY;
	for (int i = r->skip; i < r->n; i++) {
		at = compress_at(r, i, d, &ape);
		for (int64_t c = 0; c < n; c++)
			top[c] = fmaxf(top[c], a->score[at + c] + a->ape[ape + c]);
	}
	for (int i = r->skip; i < r->n; i++) {
		at = compress_at(r, i, d, &ape);
		for (int64_t c = 0; c < n; c++) {
			float p = expf(a->score[at + c] + a->ape[ape + c] - top[c]);

			den[c] += p;
			num[c] += p * a->kv[at + c];
		}
	}
	for (int64_t c = 0; c < n; c++)
		out[c] = num[c] / den[c];
}

static void compress_slice(void *arg, int64_t begin, int64_t end)
{
	const struct dsv4_compress *a = arg;
	int halves = a->overlap ? 2 : 1;

	for (int64_t e = begin; e < end; e++) {
		struct compress_rows r = { .a = a, .width = halves * a->dim, .first = e * a->ratio,
					   .n = halves * a->ratio };
		float *out = a->out + e * a->dim;

		if (e == 0 && a->overlap && a->first_absent)
			r.skip = a->ratio;
		for (int64_t d = 0; d < a->dim; d += COMPRESS_CHUNK)
			compress_pool(&r, d, ref_min(COMPRESS_CHUNK, a->dim - d), out + d);
		ref_rms_row(out, a->norm, a->dim, a->norm_eps, out);
		ref_rope_row(out + a->dim - a->rot, a->rot, a->cs + e * a->rot, 0);
		ref_round_kv(out, a->dim - a->rot, a->kv_round);
		ref_round_index(out, a->dim, a->index_round);
	}
}

int ref_compress(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_compress *a)
{
	struct dsv4_compress c = *a;

	if (a->size < sizeof *a || a->n_out < 0 || a->ratio < 1 || a->rot < 0 || a->rot % 2 || a->dim < 1 ||
	    a->dim < a->rot || ref_round_check(a->dim - a->rot, a->kv_round, a->dim, a->index_round))
		return -EINVAL;
	host->parallel_for(x, a->n_out, 1, compress_slice, &c);
	return 0;
}
