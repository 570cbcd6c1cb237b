/* SPDX-License-Identifier: MIT
 * op_io.c - what an op reads in place and writes: where, how many, and how to point it elsewhere.
 * Threads: any. Locks: none. */
#include "plugins/op/op_io.h"
#include "engine/base/must.h"
#include "plugins/ref/vec.h"

#include <string.h>

/* Where an op's argument struct keeps its pointers to outputs, and what kind of output each is. */
struct op_io_field {
	const char *name;
	size_t at;
	bool is_int, is_set, in_place;
};

#define FIELD(op, field) .name = #field, .at = offsetof(struct dsv4_##op, field)
static const struct op_io_field op_io_fields[DSV4_N_OP][OP_IO_MAX_OUT] = {
	[DSV4_OP_linear] = { { FIELD(linear, y) } },
	[DSV4_OP_rms_norm] = { { FIELD(rms_norm, y) } },
	[DSV4_OP_rope] = { { FIELD(rope, x), .in_place = true } },
	[DSV4_OP_hc_pre] = { { FIELD(hc_pre, y) }, { FIELD(hc_pre, post) }, { FIELD(hc_pre, comb) } },
	[DSV4_OP_hc_post] = { { FIELD(hc_post, streams), .in_place = true } },
	[DSV4_OP_hc_head] = { { FIELD(hc_head, y) } },
	[DSV4_OP_compress] = { { FIELD(compress, out) } },
	[DSV4_OP_index_score] = { { FIELD(index_score, score) } },
	[DSV4_OP_index_topk] = { { FIELD(index_topk, rows), .is_int = true, .is_set = true },
				 { FIELD(index_topk, count), .is_int = true } },
	[DSV4_OP_attn] = { { FIELD(attn, out) } },
	[DSV4_OP_moe_route] = { { FIELD(moe_route, ids), .is_int = true, .is_set = true },
				{ FIELD(moe_route, weight) } },
	[DSV4_OP_moe_experts] = { { FIELD(moe_experts, y) } },
	[DSV4_OP_sum] = { { FIELD(sum, y) } },
};
#undef FIELD

/* Shapes, one function per op: what stands in the argument struct, into out[] whose pointers are set. */

static void op_io_shape(struct op_out *out, int64_t n_row, int64_t width, int64_t ld)
{
	out->n_row = n_row;
	out->width = width;
	out->ld = ld;
}

static void op_io_linear(const struct dsv4_linear *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_tok, a->w->rows, a->ldy);
}

static void op_io_rms_norm(const struct dsv4_rms_norm *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_row, a->dim, a->ldy);
	out->in_place = a->y == a->x;
}

static void op_io_rope(const struct dsv4_rope *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_tok, (int64_t)a->n_head * a->dim, a->ldx);
}

static void op_io_hc_pre(const struct dsv4_hc_pre *a, int32_t *visible, struct op_out *out)
{
	int64_t hc = a->hc;

	(void)visible;
	op_io_shape(&out[0], a->n_tok, a->dim, a->dim);
	op_io_shape(&out[1], a->n_tok, hc, hc);
	op_io_shape(&out[2], a->n_tok, hc * hc, hc * hc);
}

static void op_io_hc_post(const struct dsv4_hc_post *a, int32_t *visible, struct op_out *out)
{
	int64_t width = (int64_t)a->hc * a->dim;

	(void)visible;
	op_io_shape(out, a->n_tok, width, width);
}

static void op_io_hc_head(const struct dsv4_hc_head *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_tok, a->dim, a->dim);
}

static void op_io_compress(const struct dsv4_compress *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_out, a->dim, a->dim);
}

static void op_io_index_score(const struct dsv4_index_score *a, int32_t *visible, struct op_out *out)
{
	must(visible || a->n_tok == 0);
	op_io_shape(out, a->n_tok, a->lds, a->lds);
	out->valid = visible;
	for (int64_t t = 0; t < a->n_tok; t++) {
		const struct dsv4_seq *s = ref_seq(a->seq, a->n_seq, t);
		int64_t n = s ? ref_visible(&s->key, s->ratio, s->pos0 + t - s->tok0) : 0;

		visible[t] = a->k > 0 && n <= a->k ? 0 : (int32_t)ref_min(n, a->lds);
	}
}

static void op_io_index_topk(const struct dsv4_index_topk *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(&out[0], a->n_tok, ref_min(a->k, a->ldr), a->ldr);
	out[0].valid = a->count;
	op_io_shape(&out[1], a->n_tok, 1, 1);
}

static void op_io_attn(const struct dsv4_attn *a, int32_t *visible, struct op_out *out)
{
	int64_t width = (int64_t)a->n_head * a->dim;

	(void)visible;
	op_io_shape(out, a->n_tok, width, width);
}

static void op_io_moe_route(const struct dsv4_moe_route *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(&out[0], a->n_tok, a->k, a->k);
	op_io_shape(&out[1], a->n_tok, a->k, a->k);
}

static void op_io_moe_experts(const struct dsv4_moe_experts *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_tok, a->dim, a->dim);
}

static void op_io_sum(const struct dsv4_sum *a, int32_t *visible, struct op_out *out)
{
	(void)visible;
	op_io_shape(out, a->n_row, a->dim, a->ldy);
}

size_t op_args_size(enum dsv4_op op)
{
	static const size_t size[DSV4_N_OP] = {
#define OP(op, family, args, text) [DSV4_OP_##op] = sizeof(struct args),
#include "plugins/ops.def"
#undef OP
	};

	must(op < DSV4_N_OP);
	return size[op];
}

/* Fills what the table knows; returns how many outputs there are. */
static int op_io_point(enum dsv4_op op, const void *args, struct op_out *out)
{
	int n = 0;

	for (; n < OP_IO_MAX_OUT && op_io_fields[op][n].name; n++) {
		const struct op_io_field *f = &op_io_fields[op][n];

		out[n] = (struct op_out){ .name = f->name, .is_int = f->is_int, .is_set = f->is_set,
					  .in_place = f->in_place };
		memcpy(&out[n].data, (const char *)args + f->at, sizeof out[n].data);
	}
	return n;
}

int op_outputs(enum dsv4_op op, const void *args, int32_t *visible, struct op_out out[OP_IO_MAX_OUT])
{
	int n;

	must(op < DSV4_N_OP);
	n = op_io_point(op, args, out);
	switch (op) {
#define OP(op, family, args_, text) case DSV4_OP_##op: op_io_##op(args, visible, out); break;
#include "plugins/ops.def"
#undef OP
	case DSV4_N_OP:
		break;
	}
	return n;
}

int64_t op_rows(enum dsv4_op op, const void *args)
{
	struct { uint32_t size; int32_t n_tok; } head; /* as all but two argument structs begin */

	if (op == DSV4_OP_rms_norm)
		return ((const struct dsv4_rms_norm *)args)->n_row;
	if (op == DSV4_OP_sum)
		return ((const struct dsv4_sum *)args)->n_row;
	memcpy(&head, args, sizeof head);
	return head.n_tok;
}
#define SECOND(op, field) \
	_Static_assert(offsetof(struct dsv4_##op, field) == sizeof(uint32_t), #op " begins with another field")
SECOND(linear, n_tok);
SECOND(rope, n_tok);
SECOND(hc_pre, n_tok);
SECOND(hc_post, n_tok);
SECOND(hc_head, n_tok);
SECOND(compress, n_out);
SECOND(index_score, n_tok);
SECOND(index_topk, n_tok);
SECOND(attn, n_tok);
SECOND(moe_route, n_tok);
SECOND(moe_experts, n_tok);

void op_redirect(enum dsv4_op op, void *args, int which, void *data)
{
	struct dsv4_rms_norm *norm = op == DSV4_OP_rms_norm ? args : NULL;

	must(op < DSV4_N_OP && which >= 0 && which < OP_IO_MAX_OUT && op_io_fields[op][which].name);
	if (norm && norm->y == norm->x)
		norm->x = data;
	memcpy((char *)args + op_io_fields[op][which].at, &data, sizeof data);
}

int op_call(enum dsv4_op op, dsv4_any_f *fn, struct dsv4_exec *x, const struct dsv4_host *host, const void *args)
{
	switch (op) {
#define OP(op, family, args_, text) case DSV4_OP_##op: return ((args_##_f *)fn)(x, host, args);
#include "plugins/ops.def"
#undef OP
	case DSV4_N_OP:
		break;
	}
	must(op < DSV4_N_OP);
	return 0;
}
