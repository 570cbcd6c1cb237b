/* SPDX-License-Identifier: MIT
 * cuda_gemm_fp8.c - cuda-gemm-fp8: linear with FP8 weights, by tensor cores where activations are rounded.
 * Threads: the engine's calls. Locks: none.
 *
 * Whether FP8 goes into them as it is goes by the GPU's `sm`, exactly, as in cuda_moe_fp4.c. */
#include "plugins/cuda-gemm-fp8/gemm.h"
#include "plugins/cuda/cuda_kernels.h"
#include "plugins/cuda/linear_args.h"

#include <errno.h>
#include <syslog.h>

#define GEMM_FEW_MOST 32 /* tokens that the kernel for few takes: four reads of the weights */
#define GEMM_PLAIN_TOKENS 8
#define GEMM_PLAIN_ROWS 8  /* of a block for one token; twice as many for many */

enum gemm_kernel {
	GEMM_ACT, GEMM_FEW, GEMM_MANY, GEMM_SM120 /* the same three */, GEMM_PLAIN = 2 * GEMM_SM120, GEMM_PLAIN_MANY,
	GEMM_N_KERNEL
};

static int gemm_is_sm120(const struct dsv4_host *host)
{
	return host->gpu->sm == 120;
}

static int gemm_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[GEMM_N_KERNEL] = {
		"act", "few", "many", "act_sm120", "few_sm120", "many_sm120", "plain", "plain_many",
	};

	if (host->gpu)
		host->log(host, LOG_INFO, gemm_is_sm120(host) ? "FP8 weights go into sm_120a's tensor cores as they are"
				: "FP8 weights are decoded to bf16 for the tensor cores");
	return cuda_kernels_open(host, "cuda_gemm_fp8_", name, GEMM_N_KERNEL, ret_state);
}

static int gemm_ok(const struct dsv4_linear *a)
{
	const struct dsv4_weight *w = a->w;

	return a->size >= sizeof *a && a->n_tok >= 0 && a->n_group >= 1 && w && w->size >= sizeof *w &&
	       w->fmt == DSV4_W_FP8 && (w->sfmt == DSV4_S_E8M0 || w->sfmt == DSV4_S_F32) && w->data && w->scale &&
	       w->rows % a->n_group == 0;
}

static int gemm_plain(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	const struct linear_args args = { .w = *a->w, .n_tok = a->n_tok, .n_group = a->n_group, .x = a->x,
					  .ldx = a->ldx, .y = a->y, .ldy = a->ldy };
	int many = a->n_tok > 1;

	return cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = many ? GEMM_PLAIN_MANY : GEMM_PLAIN,
		.x = cuda_kernels_tiles(a->n_tok, many ? GEMM_PLAIN_TOKENS : 1),
		.y = cuda_kernels_tiles(a->w->rows / a->n_group, GEMM_PLAIN_ROWS << many), .z = a->n_group,
		.threads = 256,
	}, &args, sizeof args);
}

static int gemm_rounded(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	int64_t n_block = cuda_kernels_tiles(a->w->cols, GEMM_BLOCK), n = (int64_t)a->n_tok * a->n_group * n_block;
	int first = gemm_is_sm120(host) ? GEMM_SM120 : 0;
	void *q = host->scratch(x, (size_t)n * GEMM_BLOCK * (first ? sizeof(uint8_t) : sizeof(uint16_t)));
	float *scale = host->scratch(x, (size_t)n * sizeof *scale);
	const struct gemm_act_args act = { .cols = a->w->cols, .x = a->x, .ldx = a->ldx, .q = q, .scale = scale };
	const struct gemm_args args = { .w = *a->w, .n_tok = a->n_tok, .n_group = a->n_group, .q = q, .scale = scale,
					.y = a->y, .ldy = a->ldy };
	int few = a->n_tok <= GEMM_FEW_MOST, rc;

	if (!q || !scale)
		return -ENOMEM;
	rc = cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = first + GEMM_ACT, .x = a->n_tok, .y = cuda_kernels_tiles(n_block, GEMM_WARPS), .z = a->n_group,
		.threads = GEMM_WARPS * 32 }, &act, sizeof act);
	if (rc)
		return rc;
	return cuda_kernels_launch(x, host, &(const struct cuda_kernels_grid){
		.kernel = first + (few ? GEMM_FEW : GEMM_MANY),
		.x = cuda_kernels_tiles(a->n_tok, few ? GEMM_FEW_TOKENS : GEMM_MANY_TOKENS),
		.y = cuda_kernels_tiles(a->w->rows / a->n_group, few ? GEMM_FEW_ROWS : GEMM_MANY_ROWS), .z = a->n_group,
		.threads = GEMM_WARPS * 32 }, &args, sizeof args);
}

static int gemm_linear(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	if (!gemm_ok(a))
		return -EINVAL;
	if (a->n_tok == 0)
		return 0;
	return a->act == DSV4_ACT_FP8 ? gemm_rounded(x, host, a) : gemm_plain(x, host, a);
}

#define GEMM_OPS(OP) OP(linear, BOTH, FP8, ORDER, "fp32-gpu-mma", gemm_linear)
DSV4_PLUGIN("cuda-gemm-fp8", "1.0", "", "sm_80", GEMM_OPS, gemm_open, NULL, cuda_kernels_close)
