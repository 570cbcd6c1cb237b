/* SPDX-License-Identifier: MIT
 * engine_repack.c - whether and when copies of FP4 experts are made (model/repack.h).
 * Threads: any. Locks: none. */
#include "engine/checkpoint/checkpoint.h"
#include "engine/engine_priv.h"

uint64_t engine_repack_plan(const struct engine *e, enum engine_repack mode)
{
	uint64_t bytes = mode == ENGINE_REPACK_NO || device_is_gpu(e->device) ? 0 : repack_bytes(e->model);

	if (mode == ENGINE_REPACK_AUTO && e->model->weights->checkpoint->bytes > 3 * (uint64_t)engine_memory_share(4))
		return 0;
	return bytes;
}

int engine_repack_open(struct engine *e, const struct engine_options *o, struct buf *why)
{
	const struct repack_options r = {
		.model = e->model,
		.busy = &e->busy,
		.spare = engine_memory_share(16),
		.lock = o->mlock,
	};

	if (e->repack_bytes == 0)
		return 0;
	e->repack_auto = o->repack == ENGINE_REPACK_AUTO;
	return repack_start(&r, &e->repack, why);
}

/* With `auto` while the set's kernel reads copies. */
void engine_repack_set(struct engine *e, const struct kset *ks)
{
	const struct kset_slot *s = kset_slot(ks, DSV4_OP_moe_experts, DSV4_DECODE, DSV4_W_FP4);

	if (e->repack)
		repack_want(e->repack, !e->repack_auto || (s->entry->reads & DSV4_READS_PACKED));
}
