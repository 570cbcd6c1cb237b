/* SPDX-License-Identifier: MIT
 * model.h - a checkpoint made ready to run: weights, the shape of sequences, rotary frequencies.
 * Threads: one opens and frees, any read in between. Locks: none. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/model/rope_table.h"
#include "engine/model/sequence.h"
#include "engine/checkpoint/weights.h"

struct model {
	struct model_weights *weights;
	const struct model_config *config;     /* the weights' */
	struct sequence_layout layout;
	struct rope_table rope_window;         /* layers without compression, and MTP */
	struct rope_table rope_compress;       /* layers with it */
};

/* As weights_open; the files stay mapped until model_free. */
int model_open(const char *dir, struct model **ret_m, struct buf *why);
void model_free(struct model **m);

#endif
