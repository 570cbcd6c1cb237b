/* SPDX-License-Identifier: MIT
 * forward_rows.c - which token a row of an op's output belongs to.
 * Threads: as forward.h. Locks: none. */
#include "engine/base/must.h"
#include "engine/model/forward_priv.h"
#include "plugins/op/op_io.h"

/* The head sees the last n_logits tokens of each part, one after the other. */
static const struct forward_part *forward_wanted_part(const struct forward *f, int64_t row, int64_t *ret_pos)
{
	for (const struct forward_part *p = f->part; p < f->part + f->n_part; p++) {
		if (row < p->n_logits) {
			*ret_pos = p->pos0 + p->n - p->n_logits + row;
			return p;
		}
		row -= p->n_logits;
	}
	return NULL;
}

static const struct forward_part *forward_token_part(const struct forward *f, int64_t tok, int64_t *ret_pos)
{
	for (const struct forward_part *p = f->part; p < f->part + f->n_part; p++)
		if (tok >= p->tok0 && tok < p->tok0 + p->n) {
			*ret_pos = p->pos0 + tok - p->tok0;
			return p;
		}
	return NULL;
}

/* A pooled row is its group's last token's. */
static const struct forward_part *forward_pooled_part(const struct forward *f, const struct dsv4_compress *a,
	int64_t row, int64_t *ret_pos)
{
	const struct forward_part *p = &f->part[f->at_part];

	*ret_pos = (p->pos0 / a->ratio + row + 1) * a->ratio - 1;
	return p;
}

const char *forward_op_token(const struct forward_op *o, int64_t row, int64_t *ret_pos)
{
	const struct forward *f = o->forward;
	int64_t per_token = op_rows(o->op, o->args) / (o->layer < 0 ? f->n_want : f->n_tok);
	const struct forward_part *p;

	if (o->layer < 0)
		p = forward_wanted_part(f, row, ret_pos);
	else if (o->op == DSV4_OP_compress)
		p = forward_pooled_part(f, o->args, row, ret_pos);
	else if (o->op == DSV4_OP_index_score || o->op == DSV4_OP_index_topk)
		p = forward_token_part(f, f->at_tok0 + row, ret_pos);
	else /* queries are normed head by head */
		p = forward_token_part(f, row / per_token, ret_pos);
	must(p);
	return f->name ? f->name[p - f->part] : "";
}
