/* SPDX-License-Identifier: MIT
 * forward_ops.c - the only place where the engine calls kernels: looks up the slot, runs it, names a failure.
 * Threads: as forward.h. Locks: none. */
#include "engine/base/rc.h"
#include "engine/model/forward_priv.h"

#include <errno.h>

static int forward_failed(struct forward *f, enum dsv4_op op, const struct kset_slot *slot, int rc)
{
	return buf_why(f->why, rc == -ENOMEM ? rc : RC_KERNEL, "%s of %s failed in layer %d, %s: %s",
		kset_op_name(op), slot->provider->plugin->name, f->layer, kset_phase_name(f->phase), rc_text(rc));
}

#define OP(op, family, args, text) \
	int forward_##op(struct forward *f, enum dsv4_wfmt wf, struct args *a) \
	{ \
		const struct kset_slot *slot = kset_slot(f->kset, DSV4_OP_##op, f->phase, wf); \
		int rc; \
\
		a->size = sizeof *a; \
		pool_scratch_reset(f->pool); \
		rc = ((args##_f *)slot->fn)(pool_exec(f->pool), &slot->provider->host, a); \
		return rc == 0 ? 0 : forward_failed(f, DSV4_OP_##op, slot, rc); \
	}
#include "plugins/ops.def"
#undef OP

int forward_matrix(struct forward *f, const struct dsv4_weight *w, enum dsv4_act act, const float *x,
	float *y)
{
	struct dsv4_linear a = {
		.n_tok = f->n_tok,
		.n_group = 1,
		.act = act,
		.w = w,
		.x = x,
		.ldx = w->cols,
		.y = y,
		.ldy = w->rows,
	};

	return forward_linear(f, (enum dsv4_wfmt)w->fmt, &a);
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

	return forward_rms_norm(f, DSV4_W_F32, &a);
}
