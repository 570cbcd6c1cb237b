/* SPDX-License-Identifier: MIT
 * cuda_mhc.c - cuda-mhc: hc_pre and hc_head for GPUs, the dot products spread over many multiprocessors.
 * Threads: the engine's calls. Locks: none. */
#include "plugins/cuda-mhc/mhc.h"
#include "plugins/cuda/cuda_kernels.h"

#include <errno.h>

enum mhc_kernel { MHC_KERNEL_MIX, MHC_KERNEL_READ_4, MHC_KERNEL_READ_16, MHC_N_KERNEL };

static int mhc_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[MHC_N_KERNEL] = { "mix", "read_4", "read_16" };

	return cuda_kernels_open(host, "cuda_mhc_", name, MHC_N_KERNEL, ret_state);
}

static int mhc_ok(int32_t n_tok, int32_t hc, int32_t dim)
{
	return n_tok >= 0 && hc >= 1 && hc <= MHC_MAX && dim >= 1;
}

/* Parts of all mixes, then what is made of their sums. */
static int mhc_read(struct dsv4_exec *x, const struct dsv4_host *host, const float *fn, struct cuda_mhc_read_args *r)
{
	int32_t n_mix = r->comb ? (2 + r->hc) * r->hc : r->hc;
	struct cuda_mhc_mix_args m = { .fn = fn, .streams = r->streams, .n = (int64_t)r->hc * r->dim, .n_tok = r->n_tok,
				       .n_mix = n_mix, .prec = r->prec };
	int rc;

	if (r->n_tok == 0)
		return 0;
	r->n_slice = (int32_t)cuda_kernels_tiles(m.n, MHC_SLICE);
	m.part = host->scratch(x, (size_t)r->n_slice * (size_t)r->n_tok * (size_t)(n_mix + 1) * sizeof *m.part);
	if (!m.part)
		return -ENOMEM;
	r->part = m.part;
	rc = cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = MHC_KERNEL_MIX, .x = r->n_slice, .y = cuda_kernels_tiles(r->n_tok, MHC_TOKENS),
		.z = cuda_kernels_tiles(n_mix + 1, MHC_WARPS), .threads = MHC_WARPS * 32 }, &m, sizeof m);
	if (rc)
		return rc;
	return cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = r->hc <= 4 ? MHC_KERNEL_READ_4 : MHC_KERNEL_READ_16, .x = r->n_tok,
		.y = cuda_kernels_tiles(r->dim, MHC_COLUMNS), .z = 1, .threads = 256 }, r, sizeof *r);
}

static int mhc_pre(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_pre *a)
{
	struct cuda_mhc_read_args r = {
		.n_tok = a->n_tok, .hc = a->hc, .dim = a->dim, .iters = a->sinkhorn_iters, .prec = a->prec,
		.norm_eps = a->norm_eps, .hc_eps = a->hc_eps, .base = a->w.base, .scale = a->w.scale,
		.streams = a->streams, .y = a->y, .post = a->post, .comb = a->comb,
	};

	if (a->size < sizeof *a || !mhc_ok(a->n_tok, a->hc, a->dim))
		return -EINVAL;
	return mhc_read(x, host, a->w.fn, &r);
}

static int mhc_head(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_hc_head *a)
{
	struct cuda_mhc_read_args r = {
		.n_tok = a->n_tok, .hc = a->hc, .dim = a->dim, .prec = a->prec, .norm_eps = a->norm_eps,
		.hc_eps = a->hc_eps, .base = a->w.base, .scale = a->w.scale, .streams = a->streams, .y = a->y,
	};

	if (a->size < sizeof *a || !mhc_ok(a->n_tok, a->hc, a->dim))
		return -EINVAL;
	return mhc_read(x, host, a->w.fn, &r);
}

#define MHC_OPS(OP) \
	OP(hc_pre, BOTH, ANY, ORDER, "fp32-gpu-mhc", mhc_pre) \
	OP(hc_head, BOTH, ANY, ORDER, "fp32-gpu-mhc", mhc_head)
DSV4_PLUGIN("cuda-mhc", "1.0", "", "sm_80", MHC_OPS, mhc_open, NULL, cuda_kernels_close)
