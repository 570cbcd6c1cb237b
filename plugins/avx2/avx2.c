/* SPDX-License-Identifier: MIT
 * avx2.c - the descriptor: ops for x86-64 CPUs with AVX2, in ref's own bits.
 * Threads: any (constants only). Locks: none.
 *
 * ref sums eight lanes and adds them as a tree; that is one AVX2 register. Products and sums stay two
 * instructions: a fused multiply-add rounds once where ref rounds twice. exp and log1p are libm's, one value
 * at a time, since no vector version gives libm's bits. */
#include "plugins/avx2/avx2.h"

#define AVX2_OPS(OP) \
	OP(linear, BOTH, ANY, EXACT, "fp32", avx2_linear)

DSV4_PLUGIN("avx2", "1.0", "avx2", "", AVX2_OPS, NULL, NULL, NULL)
