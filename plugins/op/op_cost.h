/* SPDX-License-Identifier: MIT
 * op_cost.h - what a call of an op must read at least and compute, worked out from its arguments: speeds are shown
 * against it. Threads: any. Locks: none. */
#ifndef OP_COST_H
#define OP_COST_H

#include "plugins/dsv4_plugin.h"

#include <stddef.h>

struct op_cost {
	double weights;  /* bytes of matrices and vectors of the model, each once, of experts the chosen ones */
	double rows;     /* bytes of KV rows and index keys, each once */
	double inputs;   /* bytes of activations, scores and other inputs */
	double flops;    /* a multiply-add is two */
};

void op_cost(enum dsv4_op op, const void *args, struct op_cost *ret_c);
double op_cost_bytes(const struct op_cost *c);
/* Bytes of a matrix's data, and of its scales. */
size_t op_cost_data(enum dsv4_wfmt fmt, int64_t rows, int64_t cols);
size_t op_cost_scale(enum dsv4_sfmt sfmt, enum dsv4_wfmt fmt, int64_t rows, int64_t cols);
double op_cost_weight(const struct dsv4_weight *w);

#endif
