/* SPDX-License-Identifier: MIT
 * cuda_base.h - the C half of cuda-base: its kernels by number.
 * Threads: the engine's calls. Locks: none. */
#ifndef CUDA_BASE_H
#define CUDA_BASE_H

#include "plugins/cuda/moe_run.h"

/* What cuda/ launches comes first. */
#define CUDA_BASE_KERNELS(K) \
	LINEAR_LIST(K) MOE_LIST(K) \
	K(rms_norm) K(rope) K(mhc_mix) K(mhc_read) K(mhc_post) K(compress) K(index_score) K(index_topk) K(attn) \
	K(moe_f32) K(moe_f32_many) K(moe_bf16) K(moe_bf16_many) K(moe_fp8) K(moe_fp8_many) \
	K(moe_fp4) K(moe_fp4_many) K(moe_nvfp4) K(moe_nvfp4_many) K(moe_route) K(sum)
enum cuda_base_kernel {
#define KERNEL(name) CUDA_BASE_##name,
	CUDA_BASE_KERNELS(KERNEL)
#undef KERNEL
	CUDA_BASE_N_KERNEL
};

#define OP(op, family, args, text) args##_f cuda_base_##op;
#include "plugins/ops.def"
#undef OP

/* Can rows of n_kv and n_index values be rounded so (rope, compress)? */
int cuda_base_round_ok(int64_t n_kv, uint32_t kv, int64_t n_index, uint32_t index);

#endif
