/* SPDX-License-Identifier: MIT
 * model.h - a checkpoint made ready to run: weights, the shape of sequences, rotary frequencies.
 * Threads: one opens and frees, any read in between. Locks: none. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/model/rope_table.h"
#include "engine/model/sequence.h"
#include "engine/checkpoint/weights.h"

/* The routed and shared experts of a layer as a GPU addresses them; NULLs on the CPU and for a draft block that is not. */
struct model_experts {
	struct dsv4_expert *expert, *shared;   /* [n_experts], [n_shared_experts], to describe calls */
	struct dsv4_expert *table;             /* [n_experts] for kernels */
};

struct model {
	struct model_weights *weights;
	const struct model_config *config;     /* the weights' */
	struct sequence_layout layout;         /* its device is the model's */
	struct model_experts *experts;         /* [n_layers + 1]; NULL on the CPU */
	bool experts_on_host;                  /* the GPU reads the routed ones through the bus */
	struct rope_table rope_window;         /* layers without compression, and MTP */
	struct rope_table rope_compress;       /* layers with it */
};

/* As weights_open; the files stay mapped until model_free. */
int model_open(const char *dir, struct model **ret_m, struct buf *why);
void model_free(struct model **m);

/* Once, before anything runs: its weights are copied to the device, which outlives it, and its sequences lie there. On
 * the CPU nothing is copied. -ENOMEM: even without the routed experts it does not fit; RC_DEVICE. */
int model_place(struct model *m, struct device *d, struct buf *why);
/* For model_free(). */
void model_unplace(struct model *m);

#endif
