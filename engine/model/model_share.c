/* SPDX-License-Identifier: MIT
 * model_share.c - which part of a model each of several GPUs has.
 * Threads: any. Locks: none. */
#include "engine/model/model_share.h"
#include "engine/checkpoint/inventory.h"

/* Of the head: a GPU's kernels like whole tiles, and scales of FP8 need whole blocks. */
#define MODEL_HEAD_ROWS INVENTORY_FP8_BLOCK

int64_t model_share_of(int64_t n, int rank, int n_rank, int64_t *ret_first)
{
	*ret_first = n * rank / n_rank;
	return n * (rank + 1) / n_rank - *ret_first;
}

bool model_can_cut_heads(const struct model_config *c, int n_rank, bool blocks)
{
	int64_t heads = c->n_heads / n_rank, groups = c->o_groups / n_rank;

	if (c->n_heads % n_rank || c->o_groups % n_rank)
		return false;
	return !blocks ||
		(heads * c->head_dim % INVENTORY_FP8_BLOCK == 0 && groups * c->o_lora_rank % INVENTORY_FP8_BLOCK == 0);
}

int64_t model_head_share(const struct model_config *c, int rank, int n_rank, int64_t *ret_first)
{
	int64_t tiles = (c->vocab_size + MODEL_HEAD_ROWS - 1) / MODEL_HEAD_ROWS,
		n = model_share_of(tiles, rank, n_rank, ret_first);
	int64_t end = (*ret_first + n) * MODEL_HEAD_ROWS;

	*ret_first *= MODEL_HEAD_ROWS;
	return (end < c->vocab_size ? end : c->vocab_size) - *ret_first;
}
