/* SPDX-License-Identifier: MIT
 * avx2.h - the ops of this plugin, one file per family.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX2_H
#define AVX2_H

#include "plugins/dsv4_plugin.h"

#define OP(op, family, args, text) args##_f avx2_##op;
#include "plugins/ops.def"
#undef OP

#endif
