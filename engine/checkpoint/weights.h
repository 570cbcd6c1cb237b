/* SPDX-License-Identifier: MIT
 * weights.h - a checkpoint's tensors bound to the places where the forward pass reads them.
 * Threads: one opens and closes, any read in between. Locks: none. */
#ifndef ENGINE_WEIGHTS_H
#define ENGINE_WEIGHTS_H

#include "engine/base/buf.h"
#include "engine/checkpoint/model_config.h"
#include "plugins/dsv4_plugin.h"

#include <stdint.h>

/* Matrices point into the checkpoint's mapping and may be unaligned. Vectors are f32 and 4-byte aligned:
 * they point into the mapping where the file holds f32 on such an address, else into memory owned here. */

/* Pools tokens into rows of `dim` (head_dim or index_dim); width is 2 dim for ratio 4, else dim. */
struct weights_compressor {
	struct dsv4_weight wkv, wgate;      /* [width][hidden] */
	const float *ape;                   /* [ratio][width] */
	const float *norm;                  /* [dim] */
};

struct weights_indexer {
	struct dsv4_weight wq_b;            /* [index_heads * index_dim][q_lora_rank] */
	struct dsv4_weight weights_proj;    /* [index_heads][hidden] */
	struct weights_compressor compressor;
};

struct weights_layer {
	int ratio;                          /* 0, 4 or 128 */
	struct dsv4_hc_weights hc_attn, hc_ffn;
	const float *attn_norm, *ffn_norm;  /* [hidden] */
	const float *q_norm, *kv_norm;      /* [q_lora_rank], [head_dim] */
	const float *sink;                  /* [n_heads] */
	struct dsv4_weight wq_a;            /* [q_lora_rank][hidden] */
	struct dsv4_weight wq_b;            /* [n_heads * head_dim][q_lora_rank] */
	struct dsv4_weight wkv;             /* [head_dim][hidden] */
	struct dsv4_weight wo_a; /* [o_groups * o_lora_rank][n_heads / o_groups * head_dim], grouped */
	struct dsv4_weight wo_b;            /* [hidden][o_groups * o_lora_rank] */
	struct weights_compressor compressor; /* ratio 4 and 128 */
	struct weights_indexer indexer;     /* ratio 4 */
	struct dsv4_weight gate;            /* [n_experts][hidden] */
	const float *gate_bias;             /* [n_experts], learned routing, else NULL */
	const int64_t *tid2eid; /* [vocab][experts_per_tok], hash routing, else NULL; may be unaligned;
				 * every id is below n_experts */
	struct dsv4_expert *expert;         /* [n_experts] */
	struct dsv4_expert *shared;         /* [n_shared_experts] */
	struct dsv4_packed *packed;         /* [n_experts], written and freed by model/repack.c alone; or NULL */
};

/* The draft block of V4-Flash (doc/format.md 2.6, 5.1); embedding and head are the main model's. */
struct weights_mtp {
	struct weights_layer layer;         /* ratio 0, learned routing */
	struct dsv4_weight e_proj, h_proj;  /* [hidden][hidden] */
	const float *enorm, *hnorm, *norm;  /* [hidden] */
	struct dsv4_hc_weights hc_head;
};

struct checkpoint;

struct model_weights {
	struct model_config config;         /* n_mtp: blocks named mtp.N in the checkpoint, of either form */
	struct dsv4_weight embed, head;     /* [vocab][hidden] */
	const float *norm;                  /* [hidden] */
	struct dsv4_hc_weights hc_head;
	struct weights_layer *layer;        /* [n_layers] */
	struct weights_mtp *mtp; /* NULL without one; DSpark stages are checked, counted and not bound */
	/* Below: ownership, for weights.c only. */
	struct checkpoint *checkpoint;
	void **owned;
	int n_owned, cap_owned;
};

/* Opens and checks a checkpoint directory, maps it and binds every tensor. Reads headers, the small vectors
 * and the hash tables; touches no other weight byte. RC_MODEL, RC_UNSUPPORTED, -ENOMEM, -errno; why names
 * file, tensor, expected and found. */
int weights_open(const char *dir, struct model_weights **ret_w, struct buf *why);
void weights_close(struct model_weights **w);
/* Hints about a matrix and its scales, as checkpoint_fetch() and checkpoint_forget(); about one
 * that is absent, nothing. */
void weights_fetch(const struct model_weights *m, const struct dsv4_weight *w);
void weights_forget(const struct model_weights *m, const struct dsv4_weight *w);
void weights_fetch_expert(const struct model_weights *m, const struct dsv4_expert *e);

#endif
