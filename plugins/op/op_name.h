/* SPDX-License-Identifier: MIT
 * op_name.h - what ops, their families, phases, weight formats and numerics are called, everywhere that people read.
 * Threads: any. Locks: none. */
#ifndef OP_NAME_H
#define OP_NAME_H

#include "plugins/dsv4_plugin.h"

/* All for values within their enum; the text is static. */
const char *op_name(enum dsv4_op op);
enum dsv4_family op_family(enum dsv4_op op);
const char *op_family_name(enum dsv4_family f);
const char *op_phase_name(enum dsv4_phase ph);
const char *op_wfmt_name(enum dsv4_wfmt wf);
const char *op_numerics_name(enum dsv4_numerics n);

#endif
