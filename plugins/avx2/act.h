/* SPDX-License-Identifier: MIT
 * act.h - activations as the products read them: rounded where that is asked for, in blocks of 128 columns, in the
 * order in which weights come out of their bytes.
 * Threads: engine calls, pool runs slices. Locks: none. */
#ifndef AVX2_ACT_H
#define AVX2_ACT_H

#include "plugins/dsv4_plugin.h"

#define AVX2_ACT_COLS 128 /* columns of a block: those that share a scale when rounded */

/* What a block is. Columns past the last are zero. */
enum avx2_form {
	AVX2_FORM_PLAIN,      /* floats */
	AVX2_FORM_FP8,        /* floats times 2^118; of 32 columns, first those that are 0 mod 4, then 1, 2, 3 mod 4 */
	AVX2_FORM_FP8_E4M3,   /* the same, rounded */
	AVX2_FORM_DIGITS,     /* struct avx2_digits; an even number of blocks */
	AVX2_N_FORM
};

/* 128 e4m3 values times 2^9, which are integers of 18 bits, as three digits in base 128 from -64 to 63, lowest first:
 * digit[d][0] of even columns, digit[d][1] of odd ones. `start`: -12 times the sum of each 32
 * of them, `start16` of 16. */
struct avx2_digits {
	int8_t digit[3][2][64] __attribute__((aligned(64)));
	int32_t start[4], start16[8];
};

/* Rows of n_group * n_block blocks each. */
struct avx2_act {
	enum avx2_form form;
	int32_t n_group;
	int64_t n, cols, n_block; /* rows; columns and blocks of a group */
	size_t block_size;        /* bytes */
	char *x;                  /* [n][stride] */
	int64_t stride;           /* bytes from row to row */
	float *scale;             /* [n][n_group * n_block]; 1 where nothing is rounded, but for large FP8 ones */
};

/* How a weight wants its activations. */
enum avx2_form avx2_act_form(uint32_t act, const struct dsv4_weight *w);
/* Scratch memory for n rows of n_group * cols, to be put there. -ENOMEM. */
int avx2_act_take(struct dsv4_exec *x, const struct dsv4_host *host, enum avx2_form form, int64_t n, int32_t n_group,
		  int64_t cols, struct avx2_act *ret_a);
/* The m <= 128 values at src become block `block` of a row, which has all its groups' blocks one after the other. */
void avx2_act_put(const struct avx2_act *a, int64_t row, int64_t block, const float *src, int64_t m);
/* Takes memory and puts all of src [n][ldx] there. -ENOMEM. */
int avx2_act_make(struct dsv4_exec *x, const struct dsv4_host *host, enum avx2_form form, const float *src, int64_t ldx,
		  int64_t n, int32_t n_group, int64_t cols, struct avx2_act *ret_a);

#endif
