/* SPDX-License-Identifier: MIT
 * mhc.c - hyper-connections: read (pre), write (post) and the read before the head.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-base/mhc.h"
#include "plugins/cuda-base/cuda_base.h"

#include <errno.h>

static int mhc_ok(int32_t n_tok, int32_t hc, int32_t dim)
{
	return n_tok >= 0 && hc >= 1 && hc <= MHC_MAX && dim >= 1;
}

/* The dot products of all mixes, then what is made of them. */
static int mhc_read(struct dsv4_exec *x, const struct dsv4_host *host, int32_t n_tok, const float *fn,
		    struct mhc_read_args *r)
{
	int32_t n_mix = r->comb ? (2 + r->hc) * r->hc : r->hc;
	struct mhc_mix_args m = { .fn = fn, .streams = r->streams, .n = (int64_t)r->hc * r->dim, .n_mix = n_mix,
				  .prec = r->prec };
	int rc;

	m.mix = host->scratch(x, (size_t)n_tok * (size_t)(n_mix + 1) * sizeof *m.mix);
	if (!m.mix)
		return -ENOMEM;
	r->mix = m.mix;
	rc = CUDA_KERNELS_LAUNCH(x, host, &m, .kernel = CUDA_BASE_mhc_mix, .x = n_tok, .y = n_mix + 1, .z = 1,
				 .threads = 256);
	if (rc)
		return rc;
	return CUDA_KERNELS_LAUNCH(x, host, r, .kernel = CUDA_BASE_mhc_read, .x = n_tok, .y = 1, .z = 1,
				   .threads = 256);
}

int cuda_base_hc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	struct mhc_read_args r = {
		.hc = a->hc, .dim = a->dim, .iters = a->sinkhorn_iters, .prec = a->prec, .norm_eps = a->norm_eps,
		.hc_eps = a->hc_eps, .base = a->w.base, .scale = a->w.scale, .streams = a->streams, .y = a->y,
		.post = a->post, .comb = a->comb,
	};

	if (a->size < sizeof *a || !mhc_ok(a->n_tok, a->hc, a->dim))
		return -EINVAL;
	return a->n_tok ? mhc_read(x, host, a->n_tok, a->w.fn, &r) : 0;
}

int cuda_base_hc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	struct mhc_read_args r = {
		.hc = a->hc, .dim = a->dim, .prec = a->prec, .norm_eps = a->norm_eps, .hc_eps = a->hc_eps,
		.base = a->w.base, .scale = a->w.scale, .streams = a->streams, .y = a->y,
	};

	if (a->size < sizeof *a || !mhc_ok(a->n_tok, a->hc, a->dim))
		return -EINVAL;
	return a->n_tok ? mhc_read(x, host, a->n_tok, a->w.fn, &r) : 0;
}

int cuda_base_hc_post(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_post *a)
{
	const struct mhc_post_args args = { .hc = a->hc, .dim = a->dim, .prec = a->prec, .y = a->y, .post = a->post,
					    .comb = a->comb, .streams = a->streams };

	if (a->size < sizeof *a || !mhc_ok(a->n_tok, a->hc, a->dim))
		return -EINVAL;
	return CUDA_KERNELS_LAUNCH(x, host, &args, .kernel = CUDA_BASE_mhc_post, .x = a->n_tok,
				   .y = cuda_kernels_tiles(a->dim, 256), .z = 1, .threads = 256);
}
