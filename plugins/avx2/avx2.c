/* SPDX-License-Identifier: MIT
 * avx2.c - the descriptor: ops for x86-64 CPUs with AVX2, in ref's own bits.
 * Threads: any (constants only). Locks: none.
 *
 * ref sums eight lanes and adds them as a tree; that is one AVX2 register. Products and sums stay two
 * instructions: a fused multiply-add rounds once where ref rounds twice. exp and log1p are libm's, one value
 * at a time, since no vector version gives libm's bits. */
#include "plugins/avx2/avx2.h"

#define AVX2_OPS(OP) \
	OP(linear,      BOTH, ANY, EXACT, "fp32", avx2_linear) \
	OP(rms_norm,    BOTH, ANY, EXACT, "fp32", avx2_rms_norm) \
	OP(rope,        BOTH, ANY, EXACT, "fp32", avx2_rope) \
	OP(hc_pre,      BOTH, ANY, EXACT, "fp32", avx2_hc_pre) \
	OP(hc_post,     BOTH, ANY, EXACT, "fp32", avx2_hc_post) \
	OP(hc_head,     BOTH, ANY, EXACT, "fp32", avx2_hc_head) \
	OP(compress,    BOTH, ANY, EXACT, "fp32", avx2_compress) \
	OP(index_score, BOTH, ANY, EXACT, "fp32", avx2_index_score) \
	OP(index_topk,  BOTH, ANY, EXACT, "fp32", avx2_index_topk) \
	OP(attn,        BOTH, ANY, EXACT, "fp32", avx2_attn) \
	OP(moe_route,   BOTH, ANY, EXACT, "fp32", avx2_moe_route) \
	OP(moe_experts, BOTH, ANY, EXACT, "fp32", avx2_moe_experts)

DSV4_PLUGIN("avx2", "1.0", "avx2 f16c", "", AVX2_OPS, NULL, NULL, NULL)
