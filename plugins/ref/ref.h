/* SPDX-License-Identifier: MIT
 * ref.h - the built-in reference provider: every op in portable C, written to be read.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef REF_H
#define REF_H

#include "plugins/dsv4_plugin.h"

/* Always complete: every op, phase and weight format. */
extern const struct dsv4_plugin ref_plugin;

#define OP(op, family, args, text) args##_f ref_##op;
#include "plugins/ops.def"
#undef OP

#endif
