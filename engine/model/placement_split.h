/* SPDX-License-Identifier: MIT
 * placement_split.h - how a GPU's memory is shared by weights, slots for experts by use, and sequences' rows: one
 * rule, for what places a model and for what plans it.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PLACEMENT_SPLIT_H
#define ENGINE_PLACEMENT_SPLIT_H

#include "plugins/dsv4_plugin.h"

#include <stddef.h>
#include <stdint.h>

/* Of so many bytes, those that weights and slots leave: for the driver's context, kernels, the buffers of a step. */
static inline uint64_t placement_reserve(uint64_t memory)
{
	return memory / 16;
}

/* Bytes of a matrix and its scales, as they are copied; of their part of a slot; and where in it the scales begin. */
uint64_t placement_matrix(const struct dsv4_weight *w);
uint64_t placement_slot(const struct dsv4_weight *w);
uint64_t placement_slot_scales(const struct dsv4_weight *w);

/* What a model asks of one GPU, in bytes. Experts are the routed ones that are the GPU's. */
struct placement_need {
	uint64_t dense;          /* all weights but the experts */
	uint64_t sequence;       /* what a sequence has before its first token (sequence_layout_bytes()) */
	uint64_t experts;        /* all experts */
	uint64_t row;            /* one expert of every layer, each the largest */
	uint64_t slot;           /* a slot for the largest expert of the first layer */
	int64_t per_layer;       /* experts of one layer, the most of any */
};

struct placement_split {
	int64_t resident;        /* experts of every layer that lie on the GPU, the first by number; per_layer: all */
	int64_t slots;           /* for those of the others that are used */
};

/* Of `free` bytes, a sixteenth of `total` is the reserve. If all experts fit beside it and one sequence, all are
 * resident. Else of what dense weights, the reserve and a sequence leave a quarter is for slots, a quarter for
 * sequences' rows, and half for residents, equally many of each layer. Residents are hit as often as they are many,
 * slots more often where some experts are used more than others; but what is resident needs no copy in the host's
 * memory. -ENOMEM: the dense weights and the reserve do not fit. */
int placement_split(uint64_t total, uint64_t free, const struct placement_need *n, struct placement_split *ret_s);

#endif
