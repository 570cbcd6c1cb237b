/* SPDX-License-Identifier: MIT
 * fp4.h - products of FP4 matrices with activations rounded to FP8, sixteen rows at a time, in bf16 dot products.
 * Threads: any, each on outputs of its own. Locks: none.
 *
 * For CPUs with AVX512_BF16 (avx512_has_bf16()). Weights come as the checkpoint has them or repacked (dsv4_rows16.h),
 * with the same bits. */
#ifndef AVX512_FP4_H
#define AVX512_FP4_H

#include "plugins/dsv4_rows16.h"

/* Activations, rounded to e4m3 with one scale per 128 columns. A scale is a power of two, so the product of value and
 * scale is exact in bf16; pairs hold that. A block whose scale is too large has its plain e4m3 values there, and the
 * scale apart. */
struct avx512_fp4_act {
	int64_t n, cols, n_record; /* rows; their columns, and in blocks of 128 */
	int64_t ld;
	uint32_t *pair;            /* [n][ld] columns 8 v + s and 8 v + 4 + s of a block as two bf16, at 16 s + v; 0
				    * past the last column */
	float *scale;              /* [n][n_record] what is not in the pairs yet: 1, or a large scale */
	uint8_t *wild;             /* [n] is any scale not 1? */
};

/* Memory for n rows, none of them rounded yet. -ENOMEM. */
int avx512_fp4_act_take(struct dsv4_exec *x, const struct dsv4_host *host, int64_t n, int64_t cols,
			struct avx512_fp4_act *ret_a);
/* Rounds x (n <= 128 values) to block `block` of row `row`. */
void avx512_fp4_act_block(const struct avx512_fp4_act *a, int64_t row, int64_t block, const float *x, int64_t n);
/* The whole row. */
void avx512_fp4_act_row(const struct avx512_fp4_act *a, int64_t row, const float *x);
/* What block `block` of row `row` holds, in the order of columns, without the scale: 128 values. */
void avx512_fp4_act_values(const struct avx512_fp4_act *a, int64_t row, int64_t block, float *out);

struct avx512_fp4_matrix {
	const struct dsv4_weight *w;
	const void *packed;        /* its repacked copy, or NULL */
};

/* Activation rows that share decoded weights: each has four vectors of sums, and the weights want the rest of 32. */
#define AVX512_FP4_TILE 6

/* Where a panel begins. */
const void *avx512_fp4_at(const struct avx512_fp4_matrix *m, int64_t panel);
/* out[i][r] = row 16 * panel + r of m times row from[i] of a (NULL: row i), for i < n, n > 0. Past m's last row:
 * undefined. `next` is the panel that the caller reads next, which is fetched meanwhile; it need not be there. */
void avx512_fp4_panel(const struct avx512_fp4_matrix *m, int64_t panel, const struct avx512_fp4_act *a,
		      const int32_t *from, int64_t n, const void *next, float (*out)[DSV4_ROWS16]);

#endif
