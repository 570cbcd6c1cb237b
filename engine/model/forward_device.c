/* SPDX-License-Identifier: MIT
 * forward_device.c - ops on a GPU by whoever the set names, and weights where the device has them.
 * Threads: as forward.h. Locks: none. */
#include "engine/base/must.h"
#include "engine/model/forward_priv.h"
#include "plugins/op/op_io.h"

#include <string.h>

/* An op's arguments as its GPU reads them, and the weights that they point to. */
struct forward_there {
	union {
#define OP(op, family, args, text) struct args op;
#include "plugins/ops.def"
#undef OP
	} args;
	struct dsv4_weight weight;
};

/* ---- weights ---- */

static const void *forward_there(const struct forward *f, const void *p)
{
	const void *there = device_address(f->device, p);

	must(!p || there); /* model_place() has kept all that ops are given */
	return there;
}

static const struct dsv4_weight *forward_weight(const struct forward *f, struct forward_there *t,
						const struct dsv4_weight *w)
{
	t->weight = *w;
	t->weight.data = forward_there(f, w->data);
	t->weight.scale = forward_there(f, w->scale);
	return &t->weight;
}

static void forward_hc(const struct forward *f, struct dsv4_hc_weights *w)
{
	w->fn = forward_there(f, w->fn);
	w->base = forward_there(f, w->base);
	w->scale = forward_there(f, w->scale);
}

static void forward_expert_tables(const struct forward *f, struct dsv4_moe_experts *a)
{
	const struct model_experts *e = &f->m->experts[f->layer];

	must(e->expert);
	a->expert = e->expert;
	a->shared = e->shared;
	a->expert_table = f->slots ? expert_slots_table(f->slots, f->layer) : e->table;
	a->packed = NULL;
}

static void forward_translate(const struct forward *f, enum dsv4_op op, const void *args, struct forward_there *t)
{
	memcpy(&t->args, args, op_args_size(op));
	switch (op) {
	case DSV4_OP_linear: t->args.linear.w = forward_weight(f, t, t->args.linear.w); break;
	case DSV4_OP_rms_norm: t->args.rms_norm.weight = forward_there(f, t->args.rms_norm.weight); break;
	case DSV4_OP_hc_pre: forward_hc(f, &t->args.hc_pre.w); break;
	case DSV4_OP_hc_head: forward_hc(f, &t->args.hc_head.w); break;
	case DSV4_OP_compress:
		t->args.compress.ape = forward_there(f, t->args.compress.ape);
		t->args.compress.norm = forward_there(f, t->args.compress.norm);
		break;
	case DSV4_OP_attn: t->args.attn.sink = forward_there(f, t->args.attn.sink); break;
	case DSV4_OP_moe_route:
		t->args.moe_route.gate = forward_weight(f, t, t->args.moe_route.gate);
		t->args.moe_route.bias = forward_there(f, t->args.moe_route.bias);
		t->args.moe_route.table = forward_there(f, t->args.moe_route.table);
		break;
	case DSV4_OP_moe_experts: forward_expert_tables(f, &t->args.moe_experts); break;
	case DSV4_OP_rope:
	case DSV4_OP_hc_post:
	case DSV4_OP_index_score:
	case DSV4_OP_index_topk:
	case DSV4_OP_sum:
	case DSV4_N_OP:
		break;
	}
}

/* ---- ops ---- */

static int forward_call_gpu(struct forward *f, enum dsv4_op op, const struct kset_slot *slot, const void *args)
{
	struct forward_there t;

	queue_next_op(f->queue);
	forward_translate(f, op, args, &t);
	if (op == DSV4_OP_moe_experts && f->slots && f->phase == DSV4_DECODE)
		expert_slots_note(f->slots, f->queue, f->layer, t.args.moe_experts.ids,
				  t.args.moe_experts.n_tok * t.args.moe_experts.k);
	return op_call(op, slot->fn, queue_exec(f->queue), provider_host(slot->provider, f->rank), &t.args);
}

int forward_call(struct forward *f, enum dsv4_op op, const struct kset_slot *slot, const void *args)
{
	int rc;

	if (slot->provider->host.gpu)
		return forward_call_gpu(f, op, slot, args);
	rc = forward_look(f);
	if (rc)
		return rc;
	pool_scratch_reset(f->pool);
	return op_call(op, slot->fn, pool_exec(f->pool), provider_host(slot->provider, f->rank), args);
}
