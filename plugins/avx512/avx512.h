/* SPDX-License-Identifier: MIT
 * avx512.h - the ops of this plugin, one file per family.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX512_H
#define AVX512_H

#include "plugins/dsv4_plugin.h"

#define OP(op, family, args, text) args##_f avx512_##op;
#include "plugins/ops.def"
#undef OP

/* Has this CPU AVX512_BF16 and AVX512_VBMI, which functions of their own use? 0 before open(). */
int avx512_has_bf16(const struct dsv4_host *host);

#endif
