/* SPDX-License-Identifier: MIT
 * forward_ops.c - an op by its slot, and the name of a failure. A step of the CPU's that nobody looks on at calls the
 * kernel here, any other one in forward_call() of forward_device.c; the engine calls kernels nowhere else.
 * Threads: as forward.h. Locks: none. */
#include "engine/base/rc.h"
#include "engine/model/forward_priv.h"

#include <errno.h>

static int forward_failed(struct forward *f, enum dsv4_op op, const struct kset_slot *slot, int rc)
{
	if (f->told || rc == RC_CANCELLED || rc == RC_DEVICE)
		return rc; /* another GPU's, which has words for it, or nobody's */
	return buf_why(f->why, rc == -ENOMEM ? rc : RC_KERNEL, "%s of %s failed in layer %d, %s: %s",
		op_name(op), slot->provider->plugin->name, f->layer, op_phase_name(f->phase), rc_text(rc));
}

void forward_set_numerics(enum dsv4_op op, enum forward_role role, const struct numerics *n, void *args)
{
	switch (op) {
	case DSV4_OP_linear:
		((struct dsv4_linear *)args)->act = role == FORWARD_ACT ? numerics_act(n) : DSV4_ACT_NONE;
		break;
	case DSV4_OP_rope:
		((struct dsv4_rope *)args)->kv = role == FORWARD_KV ? numerics_kv_round(n) : DSV4_ROUND_NONE;
		((struct dsv4_rope *)args)->index = role == FORWARD_INDEX ? numerics_index_round(n) : DSV4_ROUND_NONE;
		break;
	case DSV4_OP_compress:
		((struct dsv4_compress *)args)->kv_round = role == FORWARD_KV ? numerics_kv_round(n) : DSV4_ROUND_NONE;
		((struct dsv4_compress *)args)->index_round =
			role == FORWARD_INDEX ? numerics_index_round(n) : DSV4_ROUND_NONE;
		break;
	case DSV4_OP_hc_pre: ((struct dsv4_hc_pre *)args)->prec = numerics_mhc(n); break;
	case DSV4_OP_hc_post: ((struct dsv4_hc_post *)args)->prec = numerics_mhc(n); break;
	case DSV4_OP_hc_head: ((struct dsv4_hc_head *)args)->prec = numerics_mhc(n); break;
	case DSV4_OP_attn: ((struct dsv4_attn *)args)->prec = numerics_attn(n); break;
	case DSV4_OP_moe_experts: ((struct dsv4_moe_experts *)args)->act = numerics_act(n); break;
	case DSV4_OP_index_topk: ((struct dsv4_index_topk *)args)->k = n->index_topk; break;
	case DSV4_OP_rms_norm:
	case DSV4_OP_index_score:
	case DSV4_OP_moe_route:
	case DSV4_OP_sum:
	case DSV4_N_OP:
		break;
	}
}

#define OP(op_, family, args_, text) \
	int forward_##op_(struct forward *f, enum dsv4_wfmt wf, enum forward_role role, struct args_ *a) \
	{ \
		const struct kset_slot *slot = kset_slot(f->kset, DSV4_OP_##op_, f->phase, wf); \
		int rc; \
\
		a->size = sizeof *a; \
		forward_set_numerics(DSV4_OP_##op_, role, f->num, a); \
		running_op(f->running, slot, f->generation, DSV4_OP_##op_, f->phase, f->layer); \
		if (__builtin_expect(f->detour, 0)) { \
			rc = forward_watched(f, &(struct forward_op){ f, DSV4_OP_##op_, f->phase, wf, role, f->layer, \
								       slot, a, f->rank, f->m->n_rank }); \
		} else { \
			pool_scratch_reset(f->pool); \
			rc = ((args_##_f *)slot->fn)(pool_exec(f->pool), provider_host(slot->provider, f->rank), a); \
		} \
		return rc == 0 ? 0 : forward_failed(f, DSV4_OP_##op_, slot, rc); \
	}
#include "plugins/ops.def"
#undef OP

int forward_matrix(struct forward *f, const struct dsv4_weight *w, enum forward_role role, const float *x,
	float *y)
{
	struct dsv4_linear a = {
		.n_tok = f->n_tok,
		.n_group = 1,
		.w = w,
		.x = x,
		.ldx = w->cols,
		.y = y,
		.ldy = w->rows,
	};

	return forward_linear(f, (enum dsv4_wfmt)w->fmt, role, &a);
}

int forward_norm(struct forward *f, float *x, int64_t n_row, int dim, const float *weight)
{
	struct dsv4_rms_norm a = {
		.dim = dim,
		.n_row = n_row,
		.eps = f->m->config->norm_eps,
		.weight = weight,
		.x = x,
		.ldx = dim,
		.y = x,
		.ldy = dim,
	};

	return forward_rms_norm(f, DSV4_W_F32, FORWARD_PLAIN, &a);
}
