/* SPDX-License-Identifier: MIT
 * op_name.c - what ops, their families, phases, weight formats and numerics are called, everywhere that people read.
 * Threads: any. Locks: none. */
#include "plugins/op/op_name.h"
#include "engine/base/must.h"

static const char *const op_families[DSV4_N_FAMILY] = {
	[DSV4_GEMM] = "gemm",
	[DSV4_NORM] = "norm",
	[DSV4_MHC] = "mhc",
	[DSV4_COMPRESS] = "compress",
	[DSV4_INDEXER] = "indexer",
	[DSV4_ATTENTION] = "attention",
	[DSV4_MOE] = "moe",
};
static const char *const op_phases[DSV4_N_PHASE] = { [DSV4_PREFILL] = "prefill", [DSV4_DECODE] = "decode" };
static const char *const op_wfmts[DSV4_N_WFMT] = {
	[DSV4_W_F32] = "f32",
	[DSV4_W_BF16] = "bf16",
	[DSV4_W_FP8] = "fp8",
	[DSV4_W_FP4] = "fp4",
	[DSV4_W_NVFP4] = "nvfp4",
};
static const struct {
	const char *name;
	enum dsv4_family family;
} op_ops[DSV4_N_OP] = {
#define OP(op, family, args, text) { #op, DSV4_##family },
#include "plugins/ops.def"
#undef OP
};

const char *op_name(enum dsv4_op op)
{
	must(op < DSV4_N_OP);
	return op_ops[op].name;
}

enum dsv4_family op_family(enum dsv4_op op)
{
	must(op < DSV4_N_OP);
	return op_ops[op].family;
}

const char *op_family_name(enum dsv4_family f)
{
	must(f < DSV4_N_FAMILY);
	return op_families[f];
}

const char *op_phase_name(enum dsv4_phase ph)
{
	must(ph < DSV4_N_PHASE);
	return op_phases[ph];
}

const char *op_wfmt_name(enum dsv4_wfmt wf)
{
	must(wf < DSV4_N_WFMT);
	return op_wfmts[wf];
}

const char *op_numerics_name(enum dsv4_numerics n)
{
	static const char *const names[] = { [DSV4_EXACT] = "exact", [DSV4_ORDER] = "order", [DSV4_LOSSY] = "lossy" };

	must((unsigned)n < sizeof names / sizeof *names);
	return names[n];
}
