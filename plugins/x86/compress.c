/* SPDX-License-Identifier: MIT
 * compress.c - pool a group of tokens into one compressed row. doc/format.md 3.5.
 * Threads: engine calls, pool runs slices over output rows. Locks: none.
 *
 * Each channel is pooled on its own: softmax of its scores over the rows, oldest first, times its values. */
#include "plugins/x86/round.h"
#include "plugins/x86/vec.h"
#include "plugins/x86/x86.h"

#include <errno.h>

/* The rows one output row pools; with overlap the older half uses other channels than the newer. */
struct compress_rows {
	const struct dsv4_compress *a;
	int64_t width, first; /* first row of the inputs */
	int n;                /* rows */
	int skip;             /* leading rows that do not exist */
};

/* Where pooled row i, channel d stands: its value, and its score with ape. */
static const float *compress_at(const struct compress_rows *r, int i, int64_t d, int64_t n, vec *ret_score)
{
	int64_t channel = d + (i / r->a->ratio) * r->a->dim; /* i < ratio without overlap */
	int64_t at = (r->first + i) * r->width + channel;

	*ret_score = vec_load(r->a->score + at, n) +
		     vec_load(r->a->ape + i % r->a->ratio * r->width + channel, n);
	return r->a->kv + at;
}

/* Channels [d, d + n) of one output row, at most a vector of them. NaN takes no part in the maximum. */
static void compress_pool(const struct compress_rows *r, int64_t d, int64_t n, float *out)
{
	vec top = vec_set(-INFINITY), den = vec_set(0), num = den, score;

	for (int i = r->skip; i < r->n; i++) {
		compress_at(r, i, d, n, &score);
		top = vec_max(score, top);
	}
	for (int i = r->skip; i < r->n; i++) {
		const float *kv = compress_at(r, i, d, n, &score);
		vec p = vec_exp(score - top);

		den += p;
		num = vec_fma(p, vec_load(kv, n), num);
	}
	vec_store(out, n, num / den);
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
		for (int64_t d = 0; d < a->dim; d += VEC_LANES)
			compress_pool(&r, d, a->dim - d, out + d);
		x86_rms_row(out, a->norm, a->dim, a->norm_eps, out);
		x86_rope_row(out + a->dim - a->rot, a->rot, a->cs + e * a->rot, 0);
		x86_round_kv(out, a->dim - a->rot, a->kv_round);
		x86_round_index(out, a->dim, a->index_round);
	}
}

int x86_compress(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_compress *a)
{
	struct dsv4_compress c = *a;

	if (a->size < sizeof *a || a->n_out < 0 || a->ratio < 1 || a->rot < 0 || a->rot % 2 || a->dim < 1 ||
	    a->dim < a->rot || x86_round_check(a->dim - a->rot, a->kv_round, a->dim, a->index_round))
		return -EINVAL;
	host->parallel_for(x, a->n_out, 1, compress_slice, &c);
	return 0;
}
