/* SPDX-License-Identifier: MIT
 * ref.c - the descriptor of the built-in reference provider.
 * Threads: any (constants only). Locks: none. */
#include "plugins/ref/ref.h"

static const struct dsv4_op_entry ref_ops[DSV4_N_OP] = {
#define OP(name, family, args, text) \
	[DSV4_OP_##name] = { \
		.size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##name, \
		.phases = 1 << DSV4_PREFILL | 1 << DSV4_DECODE, .wfmts = ~0u, \
		.numerics = DSV4_EXACT, .tag = "fp32", .fn = (dsv4_any_f *)ref_##name, \
	},
#include "plugins/ops.def"
#undef OP
};

const struct dsv4_plugin ref_plugin = {
	.magic = DSV4_PLUGIN_MAGIC,
	.size = sizeof ref_plugin,
	.abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR,
	.n_op = DSV4_N_OP,
	.signature = DSV4_BUILD_SIGNATURE,
	.name = "ref",
	.version = "1.0",
	.cpu = "",
	.gpu = "",
	.op = ref_ops,
};
