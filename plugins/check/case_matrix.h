/* SPDX-License-Identifier: MIT
 * case_matrix.h - what the matrices of cases hold: sizes, values, and those that no checkpoint should have.
 * Threads: any. Locks: none. */
#ifndef CHECK_CASE_MATRIX_H
#define CHECK_CASE_MATRIX_H

#include "plugins/check/case.h"

/* The scales of a format; FP8 has two kinds. */
enum dsv4_sfmt case_matrix_sfmt(enum dsv4_wfmt fmt, bool f32_scale);
/* One more matrix with its struct; NULL and c->rc when memory is short. */
struct dsv4_weight *case_matrix(struct check_case *c, enum dsv4_wfmt fmt, bool f32_scale, int64_t rows, int64_t cols);
/* W[r][k] in double. */
double case_matrix_at(const struct dsv4_weight *w, int64_t r, int64_t k);

/* Makes every scale the least above zero that its format has; E8M0's is a subnormal float. */
void case_matrix_small(const struct dsv4_weight *w);
/* Makes one weight in the middle NaN, or where codes have no NaN, one scale. */
void case_matrix_nan(const struct dsv4_weight *w);
/* FP8 with E8M0 scales: in the first block of rows one scale is tiny, in the second one is huge, of zeroes, and in the
 * last one is NaN. For matrices of at least three blocks of rows. */
void case_matrix_blocks(const struct dsv4_weight *w);

#endif
