/* SPDX-License-Identifier: MIT
 * forward_moe.c - the mixture of experts of one layer (doc/format.md 3.7).
 * Threads: as forward.h. Locks: none. */
#include "engine/model/forward_priv.h"

static int forward_choose_experts(struct forward *f, const struct weights_layer *w, float scaling)
{
	const struct model_config *d = f->m->config;
	struct dsv4_moe_route a = {
		.n_tok = f->n_tok,
		.dim = d->hidden_size,
		.n_expert = d->n_experts,
		.k = d->experts_per_tok,
		.scaling = scaling,
		.gate = &w->gate,
		.bias = w->gate_bias,
		.table = w->tid2eid,
		.token = f->token,
		.x = f->x,
		.ids = f->expert,
		.weight = f->gate,
	};
	int rc = forward_moe_route(f, (enum dsv4_wfmt)w->gate.fmt, FORWARD_PLAIN, &a);

	if (rc == 0 && f->tap && f->tap->experts)
		rc = forward_look(f);
	if (rc == 0 && f->tap && f->tap->experts)
		f->tap->experts(f->tap->arg, f->layer, f->n_tok, a.k, a.ids, a.weight);
	return rc;
}

int forward_experts(struct forward *f, const struct weights_layer *w)
{
	const struct model_config *d = f->m->config;
	bool output = numerics_scale_output(f->num);
	struct dsv4_moe_experts a = {
		.n_tok = f->n_tok,
		.dim = d->hidden_size,
		.inter = d->moe_inter,
		.n_expert = d->n_experts,
		.k = d->experts_per_tok,
		.n_shared = d->n_shared_experts,
		.limit = d->swiglu_limit,
		.out_scale = output ? d->routed_scaling : 1.0f,
		.expert = w->expert,
		.shared = w->shared,
		.x = f->x,
		.ids = f->expert,
		.weight = f->gate,
		.y = f->y,
		.packed = w->packed,
	};
	int rc = forward_choose_experts(f, w, output ? 1.0f : d->routed_scaling);

	if (rc < 0)
		return rc;
	forward_fetch_experts(f, w);
	rc = forward_moe_experts(f, (enum dsv4_wfmt)w->expert[0].w1.fmt, FORWARD_PLAIN, &a);
	return rc < 0 ? rc : forward_join_experts(f);
}
