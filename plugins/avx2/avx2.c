/* SPDX-License-Identifier: MIT
 * avx2.c - the descriptor: ops for x86-64 CPUs with AVX2; and what of the CPU they look at.
 * Threads: control opens and closes, any reads. Locks: none.
 *
 * Where weights are, the order of sums is that of panel.h. The other ops have ref's own bits: ref sums eight lanes and
 * adds them as a tree; that is one AVX2 register. There products and sums stay two instructions: a fused multiply-add
 * rounds once where ref rounds twice. exp and log1p are libm's, one value at a time, since no vector version gives
 * libm's bits. */
#include "plugins/avx2/avx2.h"
#include "plugins/x86/x86.h"

#include <cpuid.h>
#include <errno.h>

/* What is found out once: asking the processor leaves a virtual machine, which takes microseconds. */
struct avx2_state {
	int vnni;
};

static int avx2_open(const struct dsv4_host *host, void **ret_state)
{
	struct avx2_state *s = host->alloc(host, sizeof *s);
	unsigned a, b, c, d;

	if (!s)
		return -ENOMEM;
	s->vnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
#ifdef AVX2_WITHOUT_VNNI /* so that kcheck.sh reaches both ways on one CPU */
	s->vnni = 0;
#endif
	*ret_state = s;
	return 0;
}

static void avx2_close(const struct dsv4_host *host)
{
	host->release(host, host->state);
}

int x86_has_vnni(const struct dsv4_host *host)
{
	const struct avx2_state *s = host->state;

	return s && s->vnni;
}

#define AVX2_OPS(OP) \
	OP(linear,      BOTH, ANY, ORDER, "fp32-panel", avx2_linear) \
	OP(rms_norm,    BOTH, ANY, EXACT, "fp32", x86_rms_norm) \
	OP(rope,        BOTH, ANY, EXACT, "fp32", x86_rope) \
	OP(hc_pre,      BOTH, ANY, EXACT, "fp32", x86_hc_pre) \
	OP(hc_post,     BOTH, ANY, EXACT, "fp32", x86_hc_post) \
	OP(hc_head,     BOTH, ANY, EXACT, "fp32", x86_hc_head) \
	OP(compress,    BOTH, ANY, EXACT, "fp32", x86_compress) \
	OP(index_score, BOTH, ANY, EXACT, "fp32", x86_index_score) \
	OP(index_topk,  BOTH, ANY, EXACT, "fp32", x86_index_topk) \
	OP(attn,        BOTH, ANY, EXACT, "fp32", x86_attn) \
	OP(moe_route,   BOTH, ANY, ORDER, "fp32-panel", avx2_moe_route) \
	OP(moe_experts, BOTH, ANY, ORDER, "fp32-panel", avx2_moe_experts, PACKED) \
	OP(sum,         BOTH, ANY, EXACT, "fp32", x86_sum)

DSV4_PLUGIN("avx2", "1.0", "avx2 fma f16c", "", AVX2_OPS, avx2_open, NULL, avx2_close)
