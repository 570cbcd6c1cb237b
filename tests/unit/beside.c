/* SPDX-License-Identifier: MIT
 * beside.c - a kernel set run beside ref on every call of a forward pass.
 * Threads: the test's. Locks: none. */
#include "tests/unit/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BESIDE_MAX_ARGS 256
#define BESIDE_MAX_TOK 4096

static const struct kset_slot *beside_slot(const struct beside *b, const struct kset *ks, enum dsv4_op op,
	const void *args)
{
	const struct dsv4_linear *linear = args;
	const struct dsv4_moe_route *route = args;
	const struct dsv4_moe_experts *experts = args;

	return kset_slot(ks, op, b->phase,
		(enum dsv4_wfmt)(op == DSV4_OP_linear ? linear->w->fmt
			: op == DSV4_OP_moe_route ? route->gate->fmt
			: op == DSV4_OP_moe_experts ? experts->expert->w1.fmt : DSV4_W_F32));
}

static void beside_count(struct beside_op *o, const struct op_diff *call)
{
	double relative = op_diff_relative(call), cosine = op_diff_cosine(call);

	o->worst = relative > o->worst ? relative : o->worst;
	o->cosine = o->n_call == 0 || cosine < o->cosine ? cosine : o->cosine;
	o->n_call++;
	op_diff_merge(&o->all, call);
}

static int beside_call(enum dsv4_op op, struct dsv4_exec *x, const struct dsv4_host *host, const void *args)
{
	struct beside *b = host->state;
	const struct kset_slot *ref = beside_slot(b, b->ref, op, args), *other = beside_slot(b, b->other, op, args);
	_Alignas(16) char copy[BESIDE_MAX_ARGS];
	static int32_t visible[BESIDE_MAX_TOK];
	struct op_out out[OP_IO_MAX_OUT];
	struct op_diff d = { 0 };
	void *mine[OP_IO_MAX_OUT];
	int n, rc;

	assert_true(op_args_size(op) <= sizeof copy);
	assert_true(op_rows(op, args) <= BESIDE_MAX_TOK || op != DSV4_OP_index_score);
	memcpy(copy, args, op_args_size(op));
	n = op_outputs(op, args, visible, out);
	for (int i = 0; i < n; i++) {
		size_t bytes = (size_t)(out[i].n_row * out[i].ld) * sizeof(float);

		mine[i] = calloc(1, bytes ? bytes : 1);
		assert_non_null(mine[i]);
		if (out[i].in_place)
			memcpy(mine[i], out[i].data,
				(size_t)((out[i].n_row - 1) * out[i].ld + out[i].width) * sizeof(float));
		op_redirect(op, copy, i, mine[i]);
	}
	rc = op_call(op, other->fn, x, &other->provider->host, copy);
	if (rc == 0)
		rc = op_call(op, ref->fn, x, &ref->provider->host, args);
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			op_diff_add(&d, &out[i], mine[i], 0);
		free(mine[i]);
	}
	beside_count(&b->op[op], &d);
	return rc;
}

#define OP(op, family, args, text) \
	static int beside_##op(struct dsv4_exec *x, const struct dsv4_host *host, const struct args *a) \
	{ \
		return beside_call(DSV4_OP_##op, x, host, a); \
	}
#include "plugins/ops.def"
#undef OP

static const struct dsv4_op_entry beside_ops[DSV4_N_OP] = {
#define OP(name, family, args, text) \
	[DSV4_OP_##name] = { .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##name, .phases = 3, \
		.wfmts = ~0u, .numerics = DSV4_EXACT, .tag = "fp32", .fn = (dsv4_any_f *)beside_##name },
#include "plugins/ops.def"
#undef OP
};

static const struct dsv4_plugin beside_plugin = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof beside_plugin,
	.abi_major = DSV4_ABI_MAJOR, .abi_minor = DSV4_ABI_MINOR,
	.n_op = DSV4_N_OP, .signature = DSV4_BUILD_SIGNATURE,
	.name = "beside", .version = "1.0", .cpu = "", .gpu = "", .op = beside_ops,
};

void beside_init(struct beside *b, const struct kset *ref, const struct kset *other, enum dsv4_phase phase)
{
	*b = (struct beside){ .ref = ref, .other = other, .phase = phase };
	provider_init(&b->provider, &beside_plugin, NULL);
	b->provider.host.state = b;
}

void beside_fini(struct beside *b)
{
	assert_int_equal(atomic_load(&b->provider.users), 0);
}

struct kset *beside_set(struct beside *b)
{
	struct kset_overlay ov[DSV4_N_FAMILY];
	struct buf why = { 0 };
	struct kset *ks;

	for (int i = 0; i < DSV4_N_FAMILY; i++)
		ov[i] = (struct kset_overlay){ (enum dsv4_family)i, -1, &b->provider, 0 };
	if (kset_build(ov, DSV4_N_FAMILY, &ks, &why) < 0)
		fail_msg("%s", buf_str(&why));
	buf_fini(&why);
	return ks;
}

void beside_print(const struct beside *b)
{
	for (int i = 0; i < DSV4_N_OP; i++) {
		const struct beside_op *o = &b->op[i];

		if (o->n_call && o->all.n_bits)
			print_message("%-12s calls %-4ld relative %.2e  worst call %.2e  cosine %.8f (lowest %.8f)  "
				      "sets %.4f\n", op_name((enum dsv4_op)i), o->n_call,
				op_diff_relative(&o->all), o->worst, op_diff_cosine(&o->all), o->cosine,
				op_diff_jaccard(&o->all));
	}
}
