/* SPDX-License-Identifier: MIT
 * avx512.c - the descriptor: ops for x86-64 CPUs with AVX-512, sixteen lanes and fused multiply-add.
 * Threads: any (constants only). Locks: none.
 *
 * ORDER, tag "fp32-fma": a sum has sixteen lanes where ref's has eight, no product is rounded on its own, and exp is a
 * polynomial within 1 unit in the last place (attention, compressor and SiLU). The scale of an NVFP4 block is
 * multiplied to its values, not to their sum. Ops that only move or choose have ref's bits and say EXACT.
 * Measured against ref on the tiny model's own activations, op by op: relative error up to 1.5e-7 (attn), every expert
 * and row chosen alike; the logits of the whole model differ by 1.5e-7 (relative). */
#include "plugins/avx512/avx512.h"

#define AVX512_OPS(OP) \
	OP(linear,      BOTH, ANY, ORDER, "fp32-fma", avx512_linear) \
	OP(rms_norm,    BOTH, ANY, ORDER, "fp32-fma", avx512_rms_norm) \
	OP(rope,        BOTH, ANY, EXACT, "fp32",     avx512_rope) \
	OP(hc_pre,      BOTH, ANY, ORDER, "fp32-fma", avx512_hc_pre) \
	OP(hc_post,     BOTH, ANY, ORDER, "fp32-fma", avx512_hc_post) \
	OP(hc_head,     BOTH, ANY, ORDER, "fp32-fma", avx512_hc_head) \
	OP(compress,    BOTH, ANY, ORDER, "fp32-fma", avx512_compress) \
	OP(index_score, BOTH, ANY, ORDER, "fp32-fma", avx512_index_score) \
	OP(index_topk,  BOTH, ANY, EXACT, "fp32",     avx512_index_topk) \
	OP(attn,        BOTH, ANY, ORDER, "fp32-fma", avx512_attn) \
	OP(moe_route,   BOTH, ANY, ORDER, "fp32-fma", avx512_moe_route) \
	OP(moe_experts, BOTH, ANY, ORDER, "fp32-fma", avx512_moe_experts)

DSV4_PLUGIN("avx512", "1.0", "avx512f avx512bw avx512dq avx512vl fma", "", AVX512_OPS, NULL, NULL, NULL)
