/* SPDX-License-Identifier: MIT
 * x86.h - the ops that avx2 and avx512 share as source: each plugin compiles them with its own flags, over vec.h.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef X86_H
#define X86_H

#include "plugins/dsv4_plugin.h"

dsv4_rms_norm_f x86_rms_norm;
dsv4_rope_f x86_rope;
dsv4_hc_pre_f x86_hc_pre;
dsv4_hc_post_f x86_hc_post;
dsv4_hc_head_f x86_hc_head;
dsv4_compress_f x86_compress;
dsv4_index_score_f x86_index_score;
dsv4_index_topk_f x86_index_topk;
dsv4_attn_f x86_attn;
dsv4_sum_f x86_sum;

/* Of each plugin: does the CPU have VEC_VNNI? */
int x86_has_vnni(const struct dsv4_host *host);

#endif
