/* SPDX-License-Identifier: MIT
 * figures.h - how far two kernel sets are apart, as JSON: for shadow and compare.
 * Threads: any. Locks: none. */
#ifndef DAEMON_FIGURES_H
#define DAEMON_FIGURES_H

#include "engine/engine.h"

#include <jansson.h>

/* io.dsv4.Kernels.OpFigures: one per op, phase and output that was run twice, with its layers inside. */
json_t *figures_ops(const struct beside_row *row, int n);
/* The ops that were met and never run twice: "rope", or "attn.decode" where it is so in one phase. */
json_t *figures_same(const struct beside_row *row, int n);
/* A number, or null where it is none or infinite. */
json_t *figures_real(double v);
/* null where a side has a value that is no finite number, and the other has not the same. */
json_t *figures_cosine(const struct op_diff *d);
/* "head" for -1. */
json_t *figures_layer(int layer);

#endif
