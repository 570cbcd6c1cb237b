/* SPDX-License-Identifier: MIT
 * model.h - a checkpoint made ready to run: weights, the shape of sequences, rotary frequencies.
 * Threads: one opens and frees, any read in between. Locks: none. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/model/rope_table.h"
#include "engine/model/sequence.h"
#include "engine/checkpoint/weights.h"

#include <stdbool.h>
#include <stddef.h>

/* The routed and shared experts of a layer as a GPU addresses them; NULLs on the CPU and for a draft block that the
 * model does not have. */
struct model_experts {
	struct dsv4_expert *expert, *shared;   /* [n_experts], [n_shared_experts], to describe calls */
	struct dsv4_expert *table;             /* [n_experts] for kernels */
	bool *outside;                         /* [n_experts] which lie with the host; NULL: none */
};

struct ranks;

struct model {
	struct model_weights *weights;
	const struct model_config *config;     /* the weights' */
	struct sequence_layout layout;         /* its device is the model's */
	struct model_experts *experts;         /* [n_layers + 1]; NULL on the CPU */
	int expert_slots;                      /* room is left for so many of those that lie outside; 0: none does */
	size_t expert_slot_bytes;              /* each */
	struct rope_table rope_window;         /* layers without compression, and MTP */
	struct rope_table rope_compress;       /* layers with it */
	/* On several GPUs: what each of them has of it, a model of its own that the forward pass of that GPU runs. */
	struct ranks *ranks;                   /* NULL: on one */
	struct model **shard;                  /* [n_rank]; NULL in a shard itself */
	const struct model *whole;             /* of a shard */
	int rank, n_rank;                      /* n_rank 0: on one */
	bool heads_cut;                        /* a shard has heads and their groups of the output; else all of them */
	/* Told while weights are copied, of each, on the thread that copies; NULL: nobody. A shard's is the whole's. */
	void (*progress)(void *arg, const char *stage);
	void *progress_arg;
	int64_t lm_head_row;                   /* the first of its rows of the head that gives logits */
};

/* As weights_open; the files stay mapped until model_free. */
int model_open(const char *dir, struct model **ret_m, struct buf *why);
void model_free(struct model **m);

/* Once, before anything runs: its weights are copied to the device, which outlives it, and its sequences lie there.
 * Routed experts that have no room there (placement_split.h) are copied to pinned memory of the host. On the CPU
 * nothing is copied. -ENOMEM: even without the routed experts it does not fit, or memory ended in the midst;
 * RC_DEVICE. */
int model_place(struct model *m, struct device *d, struct buf *why);
/* The same on several GPUs, which outlive it. Each gets its heads of the attention with their groups of the output
 * projection, where they can be cut, its routed experts, the shared ones of every n-th layer and its rows of the head,
 * and all else whole, copied to all at the same time. Of one GPU it is model_place(). */
int model_place_ranks(struct model *m, struct ranks *r, struct buf *why);
/* For model_free(). */
void model_unplace(struct model *m);
void model_unplace_ranks(struct model *m);

#endif
