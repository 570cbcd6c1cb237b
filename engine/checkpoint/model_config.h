/* SPDX-License-Identifier: MIT
 * model_config.h - config.json of a checkpoint, checked (doc/format.md 1).
 * Threads: any, read-only after loading. Locks: none. */
#ifndef ENGINE_MODEL_CONFIG_H
#define ENGINE_MODEL_CONFIG_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_MAX_LAYERS 256
#define MODEL_MAX_MTP 8

struct model_config {
	int vocab_size, hidden_size, n_layers, n_mtp; /* n_mtp: from tensor names, set by the checkpoint */
	int n_heads, head_dim, rope_dim, q_lora_rank, o_lora_rank, o_groups;
	int n_experts, n_shared_experts, experts_per_tok, moe_inter, n_hash_layers;
	int index_heads, index_dim, index_topk, window;
	int hc_mult, hc_sinkhorn_iters;
	float hc_eps, norm_eps, routed_scaling, swiglu_limit;
	double rope_theta, compress_rope_theta;
	double yarn_factor, yarn_beta_fast, yarn_beta_slow;
	int yarn_original_context, max_context;
	int compress_ratio[MODEL_MAX_LAYERS + MODEL_MAX_MTP]; /* 0, 4 or 128 by layer, MTP after the last */
	int bos_id, eos_id;
	int dspark_targets, dspark_markov_rank;           /* shapes of DSpark's own tensors; 0 without */
	/* generation_config.json, see generation_config.h */
	bool do_sample;
	float temperature, top_p;
};

/* Parses config.json text; RC_UNSUPPORTED by model type, or by a field or value that this engine does not
 * compute (model_config.def has the rule), RC_MODEL for malformed ones, with the field, expected and found.
 */
int model_config_parse(const char *json, size_t len, struct model_config *ret_c, struct buf *why);

#endif
