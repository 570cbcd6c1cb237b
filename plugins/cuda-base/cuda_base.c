/* SPDX-License-Identifier: MIT
 * cuda_base.c - cuda-base: every op for any GPU of sm_80 or later, in fp32, written to be read.
 * Threads: the engine's calls. Locks: none.
 *
 * The kernels are compiled without contraction: what is fused says so, and a result has the same bits whichever kernel
 * computes it. EXACT are the ops without exp() whose sums have ref's order. */
#include "plugins/cuda-base/cuda_base.h"

static int cuda_base_open(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[] = {
#define KERNEL(name) #name,
		CUDA_BASE_KERNELS(KERNEL)
#undef KERNEL
	};

	return cuda_kernels_open(host, "cuda_base_", name, CUDA_BASE_N_KERNEL, ret_state);
}

#define CUDA_BASE_OPS(OP) \
	OP(linear, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_linear) \
	OP(rms_norm, BOTH, ANY, EXACT, "fp32", cuda_base_rms_norm) \
	OP(rope, BOTH, ANY, EXACT, "fp32", cuda_base_rope) \
	OP(hc_pre, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_hc_pre) \
	OP(hc_post, BOTH, ANY, EXACT, "fp32", cuda_base_hc_post) \
	OP(hc_head, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_hc_head) \
	OP(compress, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_compress) \
	OP(index_score, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_index_score) \
	OP(index_topk, BOTH, ANY, EXACT, "fp32", cuda_base_index_topk) \
	OP(attn, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_attn) \
	OP(moe_route, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_moe_route) \
	OP(moe_experts, BOTH, ANY, ORDER, "fp32-gpu", cuda_base_moe_experts) \
	OP(sum, BOTH, ANY, EXACT, "fp32", cuda_base_sum)
DSV4_PLUGIN("cuda-base", "1.0", "", "sm_80", CUDA_BASE_OPS, cuda_base_open, NULL, cuda_kernels_close)
