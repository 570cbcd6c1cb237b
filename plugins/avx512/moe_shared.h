/* SPDX-License-Identifier: MIT
 * moe_shared.h - the shared experts, of any format, in steps that other experts' loops do along with their own.
 * Threads: engine calls take and rounded, pool runs the rest, each on outputs of its own. Locks: none.
 *
 * In order, each step done everywhere before the next begins: x for every token; up for every block; h for every hidden
 * row; down for all columns. */
#ifndef AVX512_MOE_SHARED_H
#define AVX512_MOE_SHARED_H

#include "plugins/avx512/dot_fp8.h"
#include "plugins/avx512/moe.h"

struct avx512_moe_shared {
	const struct avx512_moe *m;
	const struct dsv4_expert **expert; /* [n_expert] those that are here */
	int32_t n_expert;
	int64_t n;                       /* hidden rows: n_tok of each of them */
	struct avx512_act x, x_rounded;  /* the tokens, for weights of either kind */
	struct avx512_act h, h_rounded;  /* the hidden rows, each rounded in place or not at all */
	struct avx512_dot_act x_dot, h_dot;
	float *q, *q_scale;              /* [n_tok][dim], [n_tok][scales] */
	float *g, *u, *h_scale;          /* [n][inter] twice, [n][scales] */
	int32_t *row;                    /* [n] 0, 1, 2... */
	float *y;                        /* [n_tok][dim] */
};

/* Memory for a call of whose shared experts some are here. -ENOMEM, or -EINVAL for weights that are none. */
int avx512_moe_shared_take(const struct avx512_moe *m, struct avx512_moe_shared *ret_s);
void avx512_moe_shared_x(const struct avx512_moe_shared *s, int64_t t);
/* All tokens are. */
void avx512_moe_shared_rounded(struct avx512_moe_shared *s);
/* Columns [c0, c1) of the hidden rows of number e of them. */
void avx512_moe_shared_up(const struct avx512_moe_shared *s, int32_t e, int64_t c0, int64_t c1);
void avx512_moe_shared_h(const struct avx512_moe_shared *s, int64_t row);
/* Columns [c0, c1) of y, of all tokens and all experts. */
void avx512_moe_shared_down(const struct avx512_moe_shared *s, int64_t c0, int64_t c1);

#endif
