/* SPDX-License-Identifier: MIT
 * avx512.c - the descriptor: ops for x86-64 CPUs with AVX-512, sixteen lanes and fused multiply-add.
 * Threads: engine calls; the state does not change after open(). Locks: none.
 *
 * ORDER, tag "fp32-fma": a sum has sixteen lanes where ref's has eight, no product is rounded on its own, and exp is a
 * polynomial within 1 unit in the last place (attention, compressor and SiLU). The scale of an NVFP4 block is
 * multiplied to its values, not to their sum. Where the CPU has bf16 dot products, FP4 (fp4.h) and FP8 weights
 * (dot_fp8.h) meet rounded activations in those: exact products again, in yet another order. Ops that only move or
 * choose have ref's bits and say EXACT.
 * Measured against ref on the tiny model's own activations, op by op: relative error up to 1.5e-7 (attn), every expert
 * and row chosen alike; the logits of the whole model differ by 1.5e-7 (relative). */
#include "plugins/avx512/avx512.h"
#include "plugins/x86/x86.h"

#include <cpuid.h>
#include <errno.h>

/* What is found out once: asking the processor leaves a virtual machine, which takes microseconds. */
struct avx512_state {
	int bf16, vnni;
};

static int avx512_open(const struct dsv4_host *host, void **ret_state)
{
	struct avx512_state *s = host->alloc(host, sizeof *s);
	unsigned int a, b, c, d, vbmi = 0;

	if (!s)
		return -ENOMEM;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		vbmi = c >> 1 & 1;
		s->vnni = c >> 11 & 1;
	}
	if (vbmi && __get_cpuid_count(7, 1, &a, &b, &c, &d))
		s->bf16 = a >> 5 & 1;
	*ret_state = s;
	return 0;
}

static void avx512_close(const struct dsv4_host *host)
{
	host->release(host, host->state);
}

int avx512_has_bf16(const struct dsv4_host *host)
{
	const struct avx512_state *s = host->state;

	return s && s->bf16;
}

int x86_has_vnni(const struct dsv4_host *host)
{
	const struct avx512_state *s = host->state;

	return s && s->vnni;
}

#define AVX512_OPS(OP) \
	OP(linear,      BOTH, ANY, ORDER, "fp32-fma", avx512_linear) \
	OP(rms_norm,    BOTH, ANY, ORDER, "fp32-fma", x86_rms_norm) \
	OP(rope,        BOTH, ANY, EXACT, "fp32",     x86_rope) \
	OP(hc_pre,      BOTH, ANY, ORDER, "fp32-fma", x86_hc_pre) \
	OP(hc_post,     BOTH, ANY, ORDER, "fp32-fma", x86_hc_post) \
	OP(hc_head,     BOTH, ANY, ORDER, "fp32-fma", x86_hc_head) \
	OP(compress,    BOTH, ANY, ORDER, "fp32-fma", x86_compress) \
	OP(index_score, BOTH, ANY, ORDER, "fp32-fma", x86_index_score) \
	OP(index_topk,  BOTH, ANY, EXACT, "fp32",     x86_index_topk) \
	OP(attn,        BOTH, ANY, ORDER, "fp32-fma", x86_attn) \
	OP(moe_route,   BOTH, ANY, ORDER, "fp32-fma", avx512_moe_route) \
	OP(moe_experts, BOTH, ANY, ORDER, "fp32-fma", avx512_moe_experts, PACKED) \
	OP(sum,         BOTH, ANY, EXACT, "fp32",     x86_sum)

DSV4_PLUGIN("avx512", "1.0", "avx512f avx512bw avx512dq avx512vl fma", "", AVX512_OPS, avx512_open, NULL,
	    avx512_close)
